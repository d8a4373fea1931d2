"""Output of commands: notices on standard error, answers in a terminal, and checks of output files."""

import re
import sys
from pathlib import Path

# Control characters, which a terminal would execute: a model could be prompted to write them, and the
# errors and facts of a checkpoint repeat its files.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def notice(text: str) -> None:
    print(printable(text), file=sys.stderr)


def printable(text: str) -> str:
    """Return a text without control characters, except newlines and tabs."""
    return _CONTROL.sub("", text)


def figures_of(run) -> str:
    """Return the figures of a run in one line, including the forwards of a draft model."""
    sources = [f"{count} {source}" for source, count in run.sources.most_common()]
    tokens = f"{run.tokens} tokens" + (f" ({', '.join(sources)})" if run.sources.keys() - {"model"} else "")
    drafting = sum(step.draft_forwards or 0 for step in run.passes)
    forwards = f"{run.forwards} forward{'s' * (run.forwards != 1)}" + (
        f", {drafting} of the draft model" if drafting else ""
    )
    return (
        f"{tokens} in {forwards}, {run.tokens_per_forward:.2f} per forward, {run.seconds:.2f} s, "
        f"stop: {run.stop}"
    )


def check_writable(path: Path) -> None:
    """Check, before any work is done, that a file can be written at `path`.

    Raises:
        ValueError: if it cannot.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"Cannot write {path}. Choose a file in an existing folder.")
