"""The journal of a sweep: a JSON line per finished answer, from which an interrupted sweep resumes."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mars_demo.core.cache_folder import cache_folder
from mars_demo.evaluation.frontier import Outcome, Setting


def folder() -> Path | None:
    """Return the folder of sweeps; None if nothing is kept."""
    return cache_folder("sweeps")


class Journal:
    """The file of one sweep: each line has an outcome, its setting, and the setting's seconds so far.

    sweep: everything that outcomes depend on except the setting; the file's name is its digest. Incomplete
    lines, from an interrupted write, are dropped.

    Raises:
        OSError: if the file cannot be read or written.
    """

    def __init__(self, folder: Path | None, sweep: dict[str, Any]):
        self._outcomes: dict[Setting, dict[int, Outcome]] = {}
        self._seconds: dict[Setting, float] = {}
        digest = hashlib.sha256(json.dumps(sweep, sort_keys=True).encode()).hexdigest()[:32]
        self.path = folder and folder / f"{digest}.jsonl"
        if self.path:
            folder.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            os.truncate(self.path, self._read(self.path.read_bytes().splitlines(keepends=True)))

    def outcomes(self, setting: Setting) -> dict[int, Outcome]:
        """Return the finished outcomes by prompt number."""
        return self._outcomes.setdefault(setting, {})

    def seconds(self, setting: Setting) -> float:
        """Return the seconds of all outcomes of a setting."""
        return self._seconds.get(setting, 0.0)

    def add(self, setting: Setting, outcome: Outcome, seconds: float) -> None:
        """Add an outcome; `seconds` is the time of all outcomes of the setting so far."""
        self._keep(setting, outcome, seconds)
        if self.path:
            record = {"setting": asdict(setting), "seconds": seconds, "outcome": asdict(outcome)}
            with self.path.open("ab", buffering=0) as file:  # one write: a crash breaks only the last line
                file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    def _keep(self, setting: Setting, outcome: Outcome, seconds: float) -> None:
        self.outcomes(setting)[outcome.number] = replace(outcome, ids=tuple(outcome.ids))
        self._seconds[setting] = max(seconds, self.seconds(setting))

    def _read(self, lines: Iterable[bytes]) -> int:
        """Read all lines up to the first incomplete one; return their length in bytes."""
        length = 0
        for line in lines:
            try:
                record = json.loads(line if line.endswith(b"\n") else b"")
                setting, outcome = Setting(**record["setting"]), Outcome(**record["outcome"])
                self._keep(setting, outcome, float(record["seconds"]))
            except (KeyError, TypeError, ValueError):
                break
            length += len(line)
        return length
