"""Does each stream hold its own answer? It is compared with what its prompt and settings give alone.

Alone means in this process, with the same model, and with the τ that each forward of the stream says it
had. Where two choices are almost equally likely, the last bits of a product decide, and these differ when a
cache, which an earlier race left, makes the prompt's forward shorter. A stream that parts from its answer
at such a place is counted as a tie and compared no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from benchmarks.visitors.race import Lane, Race
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Pass
from mars_demo.models.checkpoint import Checkpoint

BASELINE = "ar"
CLOSE = {torch.float32: 0.001}  # how close two choices of a tie are, in probability
CLOSE_ELSE = 0.03  # with fewer bits


@dataclass
class Found:
    """How many streams were compared, how many ended in ties, and the complaints about the others."""

    streams: int = 0
    ties: int = 0
    complaints: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.streams += other.streams
        self.ties += other.ties
        self.complaints += other.complaints


def check(race: Race, checkpoint: Checkpoint) -> Found:
    """Whether every lane answers the race's prompt, as it does alone; a race that was left, as far as it
    came."""
    found = Found()
    wanted = {BASELINE, *race.wish.modes}
    if race.lanes and set(race.lanes) != wanted:
        found.complaints.append(f"{sorted(race.lanes)} raced, not {sorted(wanted)}.")
    for name, lane in race.lanes.items():
        found.streams += 1
        if complaint := foreign(lane, name, race.wish.prompt):
            found.complaints.append(complaint)
            continue
        said = [id for ids in lane.ids for id in ids]
        alone = answered_alone(lane, checkpoint)
        own = [slot.id for step in alone for slot in step.slots[: step.accepted]]
        if said == own or (lane.stop in (None, "stopped") and _begin_alike(said, own)):
            continue
        if is_tie(lane, alone, CLOSE.get(checkpoint.model.dtype, CLOSE_ELSE)):
            found.ties += 1
        else:
            found.complaints.append(f"{name} of {race.wish.prompt!r}: {_shown(said, own, checkpoint)}")
    return found


def foreign(lane: Lane, name: str, prompt: str) -> str | None:
    """What the settings of a stream have that is not its visitor's."""
    asked = {"prompt": prompt, "mode": name}
    for key, value in asked.items():
        if lane.settings[key] != value:
            return f"The {key} is {lane.settings[key]!r}, not {value!r}."
    if lane.settings.get("messages"):
        return f"A conversation was continued: {lane.settings['messages']!r}."
    return None


def answered_alone(lane: Lane, checkpoint: Checkpoint) -> list[Pass]:
    """As many forwards as the stream has, each with the τ that it had there."""
    tau = 1.0

    def now() -> float:
        return tau

    request = Request(
        lane.settings["mode"],
        now,
        lane.settings["criterion"],
        max_new_tokens=lane.settings["max_new_tokens"],
    )
    run = decode(checkpoint, lane.settings["prompt"], request)
    for had in lane.taus:
        tau = tau if had is None else had
        if next(run, None) is None:
            break
    run.close()
    return run.passes


def is_tie(lane: Lane, alone: Sequence[Pass], close: float) -> bool:
    """Whether the first forward that differs does so between two choices that are `close`."""
    for tau, ids, step in zip(lane.taus, lane.ids, alone):
        own = [slot.id for slot in step.slots[: step.accepted]]
        if ids == own:
            continue
        for id, slot in zip(ids, step.slots):
            if id != slot.id:
                best = [probability for _, probability in slot.top[:2]]
                return len(best) == 2 and best[0] - best[1] < close
        border = step.slots[min(len(ids), len(own)) :][:1]  # what one of both accepted
        return any(tau is not None and abs(slot.score - tau) < close for slot in border)
    return False


def _begin_alike(one: list[int], other: list[int]) -> bool:
    """Whether the shorter of two is how the longer begins."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _shown(said: list[int], own: list[int], checkpoint: Checkpoint) -> str:
    return f"{checkpoint.tokenizer.decode(said)!r} instead of {checkpoint.tokenizer.decode(own)!r}"
