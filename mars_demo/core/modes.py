"""The table of decoding modes.

The command line, `Checkpoint.modes`, requests, batches, evaluation and the page all read this table. A new
mode is a file in `decoding/strategies` and an entry here.
"""

from collections.abc import Callable
from dataclasses import dataclass

BASELINE = "ar"  # the mode that the others are compared with
CACHES = ("ragged", "block", "none")  # the kinds of KV cache of a batch
GUESSED_WINDOW = 64  # the largest window of modes whose verifying model needs no training on masks
LONGEST_NGRAM_DRAFT = 16  # the most tokens of an n-gram draft in `lossless`


def trained_window(block_size: int | None) -> int:
    """Return the slots of the trained window: B + 1 for B masks per block, 1 without masks."""
    return 1 if block_size is None else block_size + 1


@dataclass(frozen=True)
class Mode:
    """A decoding mode."""

    name: str
    title: str  # its name on the page
    explained: str  # a short description
    objectives: tuple[str, ...]  # training objectives of the checkpoints that can run it
    strategy: str  # the module of `decoding.strategies` whose function `strategy` decodes in this mode
    uses_tau: bool = False
    # The most slots of a forward, given a checkpoint's block size (None for an AR model).
    largest_window: Callable[[int | None], int] = trained_window
    default_window: int | None = None  # slots of a forward by default; None for the largest window
    caches: tuple[str, ...] = CACHES  # the caches that it can use in batches
    needs_draft: bool = False  # whether a second checkpoint must draft
    # Whether its cached tokens attend only to tokens before them, so that later texts can reuse the cache.
    causal: bool = True
    paced: bool = False  # whether it can choose the slots of each forward by the measured costs
    # The use of a slot after the accepted ones: `unread`, dropped; `draft`, verified by the next forward;
    # `filled`, kept at its position after a gap.
    beyond: str = "unread"


# A new mode is an entry here and a module in `decoding/strategies/`. The first mode of each objective is
# the default of its checkpoints.
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
            "verify guesses, without training",
            objectives=("ar", "mars"),
            strategy="jacobi",
            largest_window=lambda block_size: GUESSED_WINDOW,
            default_window=9,
            beyond="draft",
        ),
        Mode(
            "block-diffusion",
            "Block diffusion",
            "fill a block, most confident slots first",
            objectives=("block-diffusion",),
            strategy="diffusion",
            uses_tau=True,
            largest_window=lambda block_size: block_size,
            # The tokens of a finished block attend to each other in both directions, so a cache that
            # recomputes a causal tail cannot hold it.
            caches=("ragged",),
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


# The modes that a visitor can race with one model, against `ar` if the model can run it.
RACED = tuple(mode for mode in MODES.values() if mode.name != "ar" and not mode.needs_draft)
OPENING = ("mars", "lossless")  # those of them that a race opens with
# Beside every control of τ in a race.
TAU_HINT = "Where positions are cheap, lossless is better: verifying costs positions, not forwards."


def modes_of(objective: str) -> tuple[str, ...]:
    """Return the modes that a checkpoint trained for `objective` can run, its default first."""
    return tuple(mode.name for mode in MODES.values() if objective in mode.objectives)


def objectives() -> tuple[str, ...]:
    """Return all training objectives."""
    return tuple(dict.fromkeys(name for mode in MODES.values() for name in mode.objectives))
