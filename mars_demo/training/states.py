"""Files of a training run in progress: states to resume from, and a line of metrics per step."""

import os
import shutil
from pathlib import Path

from accelerate import Accelerator

from mars_demo.export.save import flush

UNFINISHED = "unfinished-state"  # the folder of a state that is being written


class Progress:
    """The progress of a run, saved in a state beside weights and optimizers."""

    def __init__(self):
        self.step = self.tokens = 0

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step, "tokens": self.tokens}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.step, self.tokens = state["step"], state["tokens"]


class States:
    """The saved states of a run, in folders `state-STEP`.

    An interrupted write loses only the state being written.
    """

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
        if self.accelerator.is_main_process:
            shutil.rmtree(unfinished, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            self.accelerator.save_state(str(unfinished))
        except Exception:
            shutil.rmtree(unfinished, ignore_errors=True)  # it may have filled the disk
            raise
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            older = [path for path in self._all() if path.name != f"state-{step}"]
            if not (self.output / f"state-{step}").exists():
                flush(unfinished)
                os.replace(unfinished, self.output / f"state-{step}")
                flush(self.output, deep=False)
            for path in older:
                self._remove(path)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _remove(self, state: Path) -> None:
        """Remove a state atomically: rename it to a name that nothing reads, then delete it."""
        unfinished = self.output / UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        os.replace(state, unfinished)
        shutil.rmtree(unfinished)

    def exist(self) -> bool:
        return bool(self._all())

    def clear(self) -> None:
        if not self.accelerator.is_main_process:
            return
        for path in self._all():
            self._remove(path)
        shutil.rmtree(self.output / UNFINISHED, ignore_errors=True)


class Log:
    """The metrics file of a run, truncated to the step it resumes from.

    A line is on the disk before the state of its step.
    """

    def __init__(self, path: Path, step: int, writes: bool):
        self.path, self.writes = path, writes
        if writes:
            kept = path.read_bytes().splitlines(keepends=True)[:step] if path.exists() else []
            unfinished = path.with_name(f"unfinished-{path.name}")
            unfinished.write_bytes(b"".join(kept))
            os.replace(unfinished, path)

    def add(self, line: str) -> None:
        if self.writes:
            with self.path.open("a") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())

    @staticmethod
    def steps(path: Path) -> int:
        """Return the number of steps in the file of an earlier run."""
        return path.read_bytes().count(b"\n") if path.exists() else 0
