"""A race as its visitor sees it: when it was asked for, when its tokens came, and what they are."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.visitors.page import Trouble


@dataclass(frozen=True)
class Wish:
    """What a visitor asks for.

    modes: those raced against one token per forward. moves: τ to move to, each once so many lines of the
    record have come.
    """

    prompt: str
    modes: tuple[str, ...]
    tau: float
    moves: tuple[tuple[int, float], ...] = ()


@dataclass
class Lane:
    """One run of a race: its settings, and the τ and accepted ids of each forward that has come."""

    settings: dict[str, Any]
    taus: list[float | None] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    stop: str | None = None
    first: float = 0.0  # moments of `time.monotonic` at which its first and its last tokens came
    last: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(map(len, self.ids))


class Race:
    """What comes of a wish. Times are moments of `time.monotonic`, None for what has not happened."""

    def __init__(self, wish: Wish):
        self.wish = wish
        self.pressed = time.monotonic()
        self.first: float | None = None
        self.ended: float | None = None
        self.left = False  # by its visitor, before its end
        self.trouble: str | None = None
        self.lanes: dict[str, Lane] = {}
        self.lines = 0
        self._read = 0  # characters

    def watch(self, message: dict[str, Any]) -> None:
        """A message of the queue; it may hold the record as far as it has grown.

        Raises:
            Trouble: if the record did something else than grow, or is none.
        """
        text = message.get("values", {}).get("stage")
        if isinstance(text, str):
            self.grow(text)

    def grow(self, text: str) -> None:
        """Read the lines that are new.

        Raises:
            Trouble: as `watch`.
        """
        if len(text) < self._read:
            raise Trouble("The record has become shorter.")
        end = text.rfind("\n") + 1
        now, added = time.monotonic(), text[self._read : end]
        self._read = max(self._read, end)
        for line in added.splitlines():
            self.lines += 1
            try:
                self._add(json.loads(line), now)
            except (ValueError, KeyError, TypeError) as error:
                raise Trouble(f"This is no line of a record: {line[:80]!r} ({error!r})") from error

    def _add(self, record: dict[str, Any], now: float) -> None:
        name = record.pop("lane")
        if "run" in record:
            if name in self.lanes:
                raise ValueError("a second run in its lane")
            self.lanes[name] = Lane(record)
            return
        lane = self.lanes[name]
        if record.get("done"):
            lane.stop = record["stop"]
            return
        lane.taus.append(record["tau"])
        lane.ids.append([slot["id"] for slot in record["slots"][: record["accepted"]]])
        lane.first, lane.last = lane.first or now, now
        self.first = self.first or now

    def end(self) -> None:
        """The server says that it is over."""
        self.ended = time.monotonic()
        if not self.trouble and not (self.lanes and all(lane.stop for lane in self.lanes.values())):
            self.trouble = "It ended without its answers."

    @property
    def tokens(self) -> int:
        return sum(lane.tokens for lane in self.lanes.values())

    @property
    def is_waiting(self) -> bool:
        """For its first token."""
        return self.first is None and self.ended is None and not self.left and self.trouble is None

    @property
    def finished(self) -> bool:
        return self.ended is not None and self.trouble is None
