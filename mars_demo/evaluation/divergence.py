"""Where two answers to one prompt part: the first token that differs, and what both runs knew there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class Side:
    """One run at the token where the answers part.

    number: of the pass that accepted the token, from 1; `slot` is its place in that pass, from 1 too.
    tau: as it was in that pass; None in modes without one. criterion: what the score is.
    candidates: the most probable (text, probability) pairs of the slot, best first.
    source: one of `trace.SOURCES`; None in old records.
    """

    mode: str
    criterion: str
    tau: float | None
    number: int
    slot: int
    token: int
    text: str
    score: float
    candidates: tuple[tuple[str, float], ...]
    source: str | None


@dataclass(frozen=True)
class Divergence:
    """index: of the first token that differs, from 0. before: the text that both share.

    A side is None where that answer has no further token: it was cut there, and the other goes on.
    """

    index: int
    before: str
    one: Side | None
    other: Side | None

    def record(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first index where two lists of tokens differ, or where the shorter one ends; None if equal."""
    shared = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return None if shared == len(one) == len(other) else shared


def between(one: Run, other: Run) -> Divergence | None:
    """Where two finished runs on the same prompt part; None if their tokens are equal.

    Raises:
        ValueError: if they answer different prompts.
    """
    if one.settings.conversation != other.settings.conversation:
        raise ValueError("The two runs answer different prompts, so their answers cannot be compared.")
    index = first_difference(one.token_ids, other.token_ids)
    if index is None:
        return None
    texts = [text for _, text in one.settings.given]
    texts += [slot.text for step in one.passes for slot in step.slots[: step.accepted]]
    return Divergence(index, "".join(texts[:index]), _side(one, index), _side(other, index))


def of_prompt(checkpoint: Checkpoint, prompt: str, one: Request, other: Request) -> Divergence | None:
    """Where the answers of one checkpoint to a prompt part, decoded in two ways; None if they are equal.

    Raises:
        ValueError: if the checkpoint cannot do what is requested, or the prompt does not fit.
    """
    runs = [decode(checkpoint, prompt, request) for request in (one, other)]
    return between(*(run.finish() for run in runs))


def _side(run: Run, index: int) -> Side | None:
    index -= len(run.settings.given)
    if index < 0:
        return None
    for step in run.passes:
        if index < step.accepted:
            slot = step.slots[index]
            return Side(
                mode=run.settings.mode,
                criterion=run.settings.criterion,
                tau=step.tau,
                number=step.number,
                slot=index + 1,
                token=slot.id,
                text=slot.text,
                score=slot.score,
                candidates=slot.top,
                source=slot.source,
            )
        index -= step.accepted
    return None
