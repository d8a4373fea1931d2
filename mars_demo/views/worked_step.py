"""Worked example of decoding steps: accepted slots, and the start of the next window.

The reader sets the scores; `decoding.acceptance` accepts slots, as in every mode with a threshold.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from mars_demo.decoding import fields
from mars_demo.decoding.acceptance import accepted, admits, several

SLOTS, WINDOWS = 4, 2
ACCEPTED, REJECTED, DROPPED, IGNORED = "accepted", "rejected", "dropped", "ignored"
Scores = Annotated[list[fields.Share], Field(min_length=SLOTS, max_length=SLOTS)]


def worked(tau: float, scores: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return consecutive windows worked out from their scores.

    A window has its `first` position in the text, from 1, the number of `accepted` slots, its `slots` with
    place, score and state, and a sentence about them. A slot is `accepted`; `rejected`, the first below τ;
    `dropped`, after that one with a score of at least τ; or `ignored`.
    """
    windows, first = [], 1
    for window in scores:
        count = accepted(window, tau)
        states = [_state(slot, score, count, tau) for slot, score in enumerate(window)]
        slots = [
            {"place": first + slot, "score": score, "state": state}
            for slot, (score, state) in enumerate(zip(window, states))
        ]
        words = _in_words(states, first + count, tau)
        windows.append({"first": first, "accepted": count, "slots": slots, "words": words})
        first += count
    return {"tau": tau, "windows": windows, "words": _sum(len(windows), first - 1)}


class Settings(BaseModel):
    """The input from the browser: τ and the scores of all windows."""

    model_config = fields.STRICT
    tau: fields.Share
    scores: Annotated[list[Scores], Field(min_length=WINDOWS, max_length=WINDOWS)]


def asked(settings: Any) -> dict[str, Any]:
    """Return `worked` for input from the browser: {tau, scores}.

    Raises:
        ValueError: if the input is invalid.
    """
    checked = fields.checked(Settings, settings)
    return worked(checked.tau, checked.scores)


def _state(slot: int, score: float, count: int, tau: float) -> str:
    if slot < count:
        return ACCEPTED
    if slot == count and several(tau):
        return REJECTED
    return DROPPED if admits(score, tau) else IGNORED


def _in_words(states: Sequence[str], following: int, tau: float) -> str:
    taken, dropped = states.count(ACCEPTED), [n for n, state in enumerate(states, 1) if state == DROPPED]
    begins = f"The next window begins at place {following}."
    if not several(tau):
        return f"At τ = 1 only slot 1 is accepted; nothing is compared. {begins}"
    words = "Slot 1 is accepted without a comparison"
    if taken > 1:
        words += f", {_slots(range(2, taken + 1))} because {_each(taken - 1)} at least τ"
    if taken < len(states):
        words += f". Slot {taken + 1} is the first below τ and ends the acceptance"
    if dropped:
        words += (
            f". {_slots(dropped).capitalize()} would reach τ, but {'is' if len(dropped) == 1 else 'are'} "
            f"thrown away: guessed before place {following} was known"
        )
    return f"{words}. {begins}"


def _slots(numbers: Sequence[int]) -> str:
    *some, last = map(str, numbers)
    return f"slots {', '.join(some)} and {last}" if some else f"slot {last}"


def _each(count: int) -> str:
    return "its score is" if count == 1 else "their scores are"


def _sum(forwards: int, tokens: int) -> str:
    each = f"{tokens / forwards:g} token{'s' * (tokens > forwards)} per forward"
    return f"{forwards} forwards gave {tokens} tokens: {each}. One token at a time takes {tokens} forwards."
