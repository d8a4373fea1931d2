"""The answers of a sweep as they are finished, a JSON line each: a cut sweep goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mars_demo.decoding import cost_store
from mars_demo.evaluation.frontier import Outcome, Setting


def folder() -> Path | None:
    """Where sweeps are kept, beside the costs of `cost_store`; None for nowhere."""
    costs = cost_store.folder()
    return costs and costs.with_name("sweeps")


class Journal:
    """A file for one sweep. The first line says what is swept, each other line has an outcome, its setting,
    and the seconds that the setting had taken by then.

    The file's name comes from its first line, so sweeps of something else have other files. What is not a
    whole line, since a process was killed while it wrote, is cut off.

    Raises:
        OSError: if the file cannot be read or written.
    """

    def __init__(self, folder: Path | None, header: dict[str, Any]):
        self._outcomes: dict[Setting, dict[int, Outcome]] = {}
        self._seconds: dict[Setting, float] = {}
        self.path = folder and folder / f"{_digest(header)}.jsonl"
        if self.path is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)
        first, *lines = self.path.read_bytes().splitlines(keepends=True) or [b""]
        known = _parsed(first) == header
        os.truncate(self.path, len(first) + self._read(lines) if known else 0)
        if not known:
            self._append(header)

    def outcomes(self, setting: Setting) -> dict[int, Outcome]:
        """The finished ones by number of the prompt."""
        return self._outcomes.setdefault(setting, {})

    def seconds(self, setting: Setting) -> float:
        """What they took."""
        return self._seconds.get(setting, 0.0)

    def add(self, setting: Setting, outcome: Outcome, seconds: float) -> None:
        """Keep one more outcome; `seconds` is what all of the setting have taken by now."""
        self.outcomes(setting)[outcome.number] = outcome
        self._seconds[setting] = seconds
        if self.path is not None:
            self._append({"setting": asdict(setting), "seconds": seconds, "outcome": asdict(outcome)})

    def _append(self, record: dict[str, Any]) -> None:
        """In one write, so that a line is either there or is the torn last one."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)

    def _read(self, lines: list[bytes]) -> int:
        """Take over all lines up to the first that is not whole; how many bytes these are."""
        length = 0
        for line in lines:
            record = _parsed(line)
            try:
                setting, outcome = Setting(**record["setting"]), Outcome(**record["outcome"])
                seconds = float(record["seconds"])
            except (KeyError, TypeError, ValueError):
                break
            ids = tuple(outcome.ids)
            self.outcomes(setting)[outcome.number] = Outcome(**asdict(outcome) | {"ids": ids})
            self._seconds[setting] = max(seconds, self.seconds(setting))
            length += len(line)
        return length


def _digest(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:32]


def _parsed(line: bytes) -> Any:
    """None for what is not a whole line of JSON."""
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
