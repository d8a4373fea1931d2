"""The modes: the ways to decode, one entry each.

Whatever lists, validates, starts or draws a mode reads this table: the command line, `Checkpoint.modes`,
requests, batches, evaluation and the page. A new mode is a file in `decoding/strategies` and an entry here.
"""

from collections.abc import Callable
from dataclasses import dataclass

BASELINE = "ar"  # the mode that the others are compared with
CACHES = ("cursor", "block", "none")  # of batches
GUESSED_WINDOW = 64  # the largest window where drafts need no training of the model that verifies them
LONGEST_COPY = 16  # tokens of earlier text that `lossless` drafts at most


def trained_window(block_size: int | None) -> int:
    """B masks give B + 1 slots, no masks give one."""
    return 1 if block_size is None else block_size + 1


@dataclass(frozen=True)
class Mode:
    """A way to decode."""

    name: str
    title: str  # on a page
    explained: str  # what it does, in a few words
    objectives: tuple[str, ...]  # what a checkpoint must have been trained for to run it
    strategy: str  # the module of `decoding.strategies` whose function `strategy` decodes in this mode
    uses_tau: bool = False
    # From a checkpoint's block size (None for an AR model) the most slots a forward may have.
    largest_window: Callable[[int | None], int] = trained_window
    default_window: int | None = None  # slots where a request names none; None for the largest window
    caches: tuple[str, ...] = CACHES  # that it can use in batches
    needs_draft: bool = False  # whether a second checkpoint must draft
    # Whether what stays in its cache has seen only what comes before it, so that later texts can reuse it.
    causal: bool = True
    paced: bool = False  # whether it can choose the slots of each forward by what forwards cost
    # What a slot after the accepted ones is: `unread`, thrown away; `draft`, for the next forward to
    # verify; `filled`, kept in its place although a gap comes before it.
    beyond: str = "unread"


# For each objective the best mode comes first: it is the default of its checkpoints.
MODES = {
    mode.name: mode
    for mode in (
        Mode(
            "mars",
            "MARS",
            "accept slot 1, then while score ≥ τ",
            objectives=("mars",),
            strategy="window",
            uses_tau=True,
            paced=True,
        ),
        Mode(
            "lossless",
            "MARS, lossless",
            "verify its own drafts",
            objectives=("mars",),
            strategy="lossless",
            paced=True,
            beyond="draft",
        ),
        Mode(
            "ar",
            "One token per forward",
            "AR",
            objectives=("ar", "mars"),
            strategy="window",
            largest_window=lambda block_size: 1,
        ),
        Mode(
            "jacobi",
            "Jacobi",
            "verify guesses, no training needed",
            objectives=("ar", "mars"),
            strategy="jacobi",
            largest_window=lambda block_size: GUESSED_WINDOW,
            default_window=9,
            beyond="draft",
        ),
        Mode(
            "block-diffusion",
            "Block diffusion",
            "fill a block in the order of confidence",
            objectives=("block-diffusion",),
            strategy="diffusion",
            uses_tau=True,
            largest_window=lambda block_size: block_size,
            # A finished block sees itself from both sides: it cannot be computed again in a tail.
            caches=("cursor",),
            causal=False,
            beyond="filled",
        ),
        Mode(
            "speculative",
            "Speculative",
            "verify the drafts of a second, smaller model",
            objectives=("ar", "mars"),
            strategy="speculative",
            uses_tau=True,
            largest_window=lambda block_size: GUESSED_WINDOW,
            default_window=5,
            needs_draft=True,
        ),
    )
}


# Those that a visitor can race with one model: against one token per forward, where the model has that.
RACED = tuple(mode for mode in MODES.values() if mode.name != "ar" and not mode.needs_draft)


def modes_of(objective: str) -> tuple[str, ...]:
    """The modes that a checkpoint trained for `objective` can run, its default first."""
    return tuple(mode.name for mode in MODES.values() if objective in mode.objectives)


def objectives() -> tuple[str, ...]:
    """Whatever a checkpoint can have been trained for."""
    return tuple(dict.fromkeys(name for mode in MODES.values() for name in mode.objectives))
