"""What commands write: notices on standard error, answers in a terminal, and files that can be written."""

from __future__ import annotations

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
    """What a run took, in a line."""
    return f"{tokens_of(run)} in {forwards_of(run)}, {run.seconds:.2f} s, stop: {run.stop}"


def tokens_of(run) -> str:
    """How many tokens a run accepted and, where they are not all the model's own, where they came from."""
    sources = [f"{count} {source}" for source, count in run.sources.most_common()]
    return f"{run.tokens} tokens" + (f" ({', '.join(sources)})" if len(sources) > 1 else "")


def forwards_of(run) -> str:
    """How many forwards a run took and how many tokens each accepted. The forwards of a second model that
    drafts are counted too, because tokens per forward of the target leave them out."""
    if run.settings.mode != "speculative":
        return f"{run.forwards} forwards, {run.tokens_per_forward:.2f} per forward"
    drafted = sum(step.draft_forwards for step in run.passes)
    either = run.tokens / (run.forwards + drafted)
    return (
        f"{run.forwards} forwards of the target and {drafted} of the draft, "
        f"{run.tokens_per_forward:.2f} per forward of the target, {either:.2f} per forward of either"
    )


def check_writable(path: Path) -> None:
    """Check, before any work is done, that a file can be written there.

    Raises:
        ValueError: if it cannot.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written. Name a file in an existing folder.")
