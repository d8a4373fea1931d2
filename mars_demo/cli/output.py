"""What commands write: notices on standard error, answers in a terminal, and files that can be written."""

import re
import sys
from pathlib import Path

# What a terminal obeys instead of showing it; a model may have been made to write it.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def notice(text: str) -> None:
    print(text, file=sys.stderr)


def printable(text: str) -> str:
    """A text without control characters, but for newlines and tabs."""
    return _CONTROL.sub("", text)


def figures_of(run) -> str:
    """Return what a run took, in a line; also the forwards of a model that drafts, which tokens per forward
    of the target leave out."""
    sources = [f"{count} {source}" for source, count in run.sources.most_common()]
    tokens = f"{run.tokens} tokens" + (f" ({', '.join(sources)})" if len(sources) > 1 else "")
    forwards = f"{run.forwards} forwards, {run.tokens_per_forward:.2f} per forward"
    if run.settings.mode == "speculative":
        drafted = sum(step.draft_forwards for step in run.passes)
        either = run.tokens / (run.forwards + drafted)
        forwards = (
            f"{run.forwards} forwards of the target and {drafted} of the draft, "
            f"{run.tokens_per_forward:.2f} per forward of the target, {either:.2f} per forward of either"
        )
    return f"{tokens} in {forwards}, {run.seconds:.2f} s, stop: {run.stop}"


def check_writable(path: Path) -> None:
    """Check, before any work is done, that a file can be written there.

    Raises:
        ValueError: if it cannot.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written. Name a file in an existing folder.")
