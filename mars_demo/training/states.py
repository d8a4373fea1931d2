"""What a training run writes while it runs: states to resume from, and a line of metrics per step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from accelerate import Accelerator

UNFINISHED = "unfinished-state"  # the folder of a state while it is written


class Progress:
    """How far a run is: what a saved state holds besides weights and optimizers."""

    def __init__(self):
        self.step = self.tokens = 0

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step, "tokens": self.tokens}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.step, self.tokens = state["step"], state["tokens"]


class States:
    """The saved states of a run, folders `state-STEP`. An interruption while one is written loses only that
    one."""

    def __init__(self, accelerator: Accelerator, output: Path):
        self.accelerator, self.output = accelerator, output
        output.mkdir(parents=True, exist_ok=True)

    def _all(self) -> list[Path]:
        return sorted(self.output.glob("state-*"), key=lambda path: int(path.name.removeprefix("state-")))

    def load(self) -> None:
        if states := self._all():
            self.accelerator.load_state(str(states[-1]))

    def save(self, step: int) -> None:
        unfinished = self.output / UNFINISHED
        self.accelerator.save_state(str(unfinished))
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            older = [path for path in self._all() if path.name != f"state-{step}"]
            if not (self.output / f"state-{step}").exists():
                os.replace(unfinished, self.output / f"state-{step}")
            for path in [*older, unfinished]:
                shutil.rmtree(path, ignore_errors=True)

    def clear(self) -> None:
        for path in [*self._all(), *self.output.glob(UNFINISHED)]:
            shutil.rmtree(path)


class Log:
    """The metrics file of a run, cut to the step it resumes from."""

    def __init__(self, path: Path, step: int, writes: bool):
        self.path, self.writes = path, writes
        if writes:
            kept = path.read_text().splitlines()[:step] if path.exists() else []
            path.write_text("".join(f"{line}\n" for line in kept))

    def add(self, line: str) -> None:
        if self.writes:
            with self.path.open("a") as file:
                file.write(line + "\n")
