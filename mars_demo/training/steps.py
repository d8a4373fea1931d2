"""What happens around the steps of a training: turns, pace, metrics, the clock and the end."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState

from mars_demo.scheduler import SCHEDULER
from mars_demo.training.config import MarsConfig
from mars_demo.training.metrics import TERMS, Metrics, MetricsFile, Readings, logged

if TYPE_CHECKING:
    from mars_demo.training.trainer import MarsTrainer


class Steps(TrainerCallback):
    """The callback of a `MarsTrainer` that takes turns, sets the pace and reads the metrics of each step.

    A step takes one turn of the scheduler, so that other visitors' runs in this process go on between two
    steps. On a GPU its metrics are read a step later, when they are ready, except before a state is saved.
    `watchers` are called with the metrics of every step.
    """

    def __init__(self, trainer: MarsTrainer, pace: Callable[[], float]):
        self.trainer, self.pace = trainer, pace
        self.watchers: list[Callable[[Metrics], None]] = []
        self.stopped = self.is_over = False
        self.taken = 0  # steps of this process
        self.grad_norm: Tensor | None = None
        self._turn = contextlib.ExitStack()
        self._late: Readings | None = None
        self._sums: dict[str, Tensor] = {}
        self._tokens: Tensor | None = None
        self._file: MetricsFile | None = None

    def __enter__(self) -> None:
        self.stopped = self.is_over = False
        self._late, self._sums = None, {}

    def __exit__(self, *_) -> None:
        self._turn.close()

    @staticmethod
    def is_finished(output: Path) -> bool:
        """Return whether a run has saved its checkpoint in `output`."""
        return logged(output) > 0 and (output / "config.json").exists()

    def begin(self, tokens: Tensor) -> None:
        """Start the sums of a step over `tokens` clean tokens."""
        self._sums, self._tokens = {}, tokens

    def add(self, losses: dict[str, Tensor]) -> None:
        """Add the losses of a batch."""
        for name, loss in losses.items():
            self._sums[name] = self._sums.get(name, 0) + loss.detach()

    # --------------------------------------------------------------------------- events of the Trainer

    def on_train_begin(self, args: MarsConfig, state: TrainerState, control: TrainerControl, **_) -> None:
        self._started = time.monotonic()
        output = Path(args.output_dir)
        if state.is_world_process_zero:
            output.mkdir(parents=True, exist_ok=True)
            self._file = MetricsFile(output / "metrics.jsonl", state.global_step)
        if self.trainer.clock:
            logged_times = (entry["clock"] for entry in reversed(state.log_history) if "clock" in entry)
            self.trainer.clock.resume(next(logged_times, 0.0))

    def on_step_begin(self, args: MarsConfig, state: TrainerState, control: TrainerControl, **_) -> None:
        self._turn.enter_context(SCHEDULER.turn())

    def on_pre_optimizer_step(
        self, args: MarsConfig, state: TrainerState, control: TrainerControl, optimizer, **_
    ) -> None:
        if args.device.type == "cpu":  # elsewhere the host would wait
            self._check(state.global_step + 1, float(self._sums["loss"]), float(self.grad_norm))
        factor = self.pace()
        for group in optimizer.param_groups:
            group["lr"] *= factor
        self._rate = optimizer.param_groups[0]["lr"]

    def on_step_end(self, args: MarsConfig, state: TrainerState, control: TrainerControl, **_) -> None:
        self._turn.close()
        self.taken += 1
        reduced = {name: self.trainer.accelerator.reduce(loss, "mean") for name, loss in self._sums.items()}
        reduced |= {"grad_norm": self.grad_norm, "tokens": self._tokens}
        facts = {"step": state.global_step, "learning_rate": self._rate}
        facts |= {"seconds": time.monotonic() - self._started, "logs": control.should_log}
        readings = Readings(reduced, facts)
        control.should_log = False  # what the Trainer would log is in the metrics
        if clock := self.trainer.clock:
            clock.start()
            control.should_training_stop |= clock.share == 1
        self.is_over = control.should_training_stop
        waits = args.device.type == "cpu" or control.should_save or self.is_over or self.stopped
        self._finish(self._late)
        self._late = None if waits else readings
        if waits:
            self._finish(readings)
        if self.stopped and not self.is_over:
            control.should_training_stop = True
            control.should_save = args.save_strategy != "no"
        elif self.is_over:
            control.should_save = False  # the checkpoint follows

    def _finish(self, readings: Readings | None) -> None:
        """Log the metrics of a step."""
        if readings is None:
            return
        trainer, values, facts = self.trainer, readings.read(), readings.known
        self._check(facts["step"], float(values["loss"]), float(values["grad_norm"]))
        state = trainer.state
        state.num_input_tokens_seen += int(values["tokens"])
        metrics = Metrics(
            step=facts["step"],
            steps=None if trainer.clock else state.max_steps,
            loss=float(values["loss"]),
            learning_rate=facts["learning_rate"],
            grad_norm=float(values["grad_norm"]),
            tokens=state.num_input_tokens_seen,
            seconds=facts["seconds"],
            slots=[(nats / n, right / n) for n, nats, right in values["slots"].tolist() if n],
            **{name: float(values[name]) for name in TERMS if name in values},
        )
        if self._file:
            self._file.add(metrics)
        if facts["logs"]:
            now, state.global_step = state.global_step, metrics.step  # trackers read the step there
            elapsed = {"clock": trainer.clock.elapsed} if trainer.clock else {}
            trainer.log(metrics.scalars() | elapsed)
            state.global_step = now
        for watcher in self.watchers:
            watcher(metrics)

    def _check(self, step: int, loss: float, grad_norm: float) -> None:
        for name, value in (("loss", loss), ("gradient", grad_norm)):
            if not math.isfinite(value):  # keep the weights and saved states finite
                raise ValueError(
                    f"The {name} is not finite at step {step}; a lower learning rate than "
                    f"{self.trainer.args.learning_rate:g} may help."
                )


def stepwise(trainer: MarsTrainer) -> Iterator[Metrics]:
    """Train in another thread, which waits after each step until the next metrics are requested.

    Closing the iterator stops the training. Errors of the training are raised here.
    """
    ready, wanted = queue.SimpleQueue(), threading.Semaphore(0)

    def hand_over(metrics: Metrics) -> None:
        ready.put(metrics)
        wanted.acquire()

    def work() -> None:
        try:
            trainer.train()
            ready.put(None)
        except BaseException as error:  # raised in the thread that reads
            ready.put(error)

    trainer.steps.watchers.append(hand_over)
    thread = threading.Thread(target=work, name="training", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            wanted.release()
    finally:
        trainer.stop()
        wanted.release()
        thread.join()
        trainer.steps.watchers.remove(hand_over)
