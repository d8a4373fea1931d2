"""The answers of a sweep as they are finished, a JSON line each: an interrupted sweep resumes."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mars_demo.decoding import costs
from mars_demo.evaluation.frontier import Outcome, Setting


def folder() -> Path | None:
    """Return where sweeps are kept, beside the costs of forwards; None for nowhere."""
    beside = costs.folder()
    return beside and beside.with_name("sweeps")


class Journal:
    """A file for one sweep: each line has an outcome, its setting, and what the setting had taken by then.

    sweep: all that outcomes depend on apart from the setting; the file's name is its digest. Lines that are
    not whole, since a process was killed while it wrote, are dropped.

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
        """Return the finished outcomes by number of the prompt."""
        return self._outcomes.setdefault(setting, {})

    def seconds(self, setting: Setting) -> float:
        """Return what the outcomes took together."""
        return self._seconds.get(setting, 0.0)

    def add(self, setting: Setting, outcome: Outcome, seconds: float) -> None:
        """Keep one more outcome; `seconds` is what all of the setting have taken by now."""
        self._keep(setting, outcome, seconds)
        if self.path:
            record = {"setting": asdict(setting), "seconds": seconds, "outcome": asdict(outcome)}
            with self.path.open("ab", buffering=0) as file:  # one write: only the last line can be torn
                file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")

    def _keep(self, setting: Setting, outcome: Outcome, seconds: float) -> None:
        self.outcomes(setting)[outcome.number] = replace(outcome, ids=tuple(outcome.ids))
        self._seconds[setting] = max(seconds, self.seconds(setting))

    def _read(self, lines: Iterable[bytes]) -> int:
        """Take over all lines up to the first that is not whole; return how many bytes these are."""
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
