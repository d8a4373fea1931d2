"""The callback around the steps of a training: turns, pace, metrics, the clock and the end."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import Tensor
from transformers import Trainer, TrainerCallback

from mars_demo.core.scheduler import SCHEDULER
from mars_demo.training.clock import Clock
from mars_demo.training.metrics import FILE, LOSSES, Metrics, append, copied, truncate

CLOCK = "clock"  # in saved states
SKIPPED = 10  # most steps in a row that are not finite, where the host learns of them too late


class Steps(TrainerCallback):
    """The callback of a `MarsTrainer` that takes turns, sets the pace and reads the metrics of each step.

    A step takes one turn of the scheduler, so that other visitors' runs in this process go on between two
    steps. On a GPU its metrics are read a step later, when they are ready, except before a state is saved.
    `watchers` are called with the metrics of every step.
    """

    def __init__(self, trainer: Trainer, pace: Callable[[], float], clock: Clock | None):
        self.trainer, self.pace, self.clock = trainer, pace, clock
        self.watchers: list[Callable[[Metrics], None]] = []
        self.stopped = self.is_over = False
        self._skipped = 0  # steps in a row that were not finite
        self.grad_norm: Tensor | None = None
        self._turn = contextlib.ExitStack()
        self._pending: deque[Callable[[], None]] = deque()  # each logs a step
        self._sums: dict[str, Tensor] = {}
        self._tokens: Tensor | None = None
        self._file = Path(trainer.args.output_dir) / FILE

    def __enter__(self) -> None:
        self.stopped = self.is_over = False
        self._pending.clear()

    def __exit__(self, *_) -> None:
        self._turn.close()

    def begin(self, tokens: Tensor) -> None:
        """Start the sums of a step over `tokens` clean tokens."""
        self._sums, self._tokens = {}, tokens

    def add(self, losses: dict[str, Tensor]) -> None:
        """Add the losses of a batch."""
        for name, loss in losses.items():
            self._sums[name] = self._sums.get(name, 0) + loss.detach()

    # --------------------------------------------------------------------------- events of the Trainer

    def on_train_begin(self, args, state, control, **_) -> None:
        self._started = time.monotonic()
        if state.is_world_process_zero:
            truncate(self._file, state.global_step)
        if self.clock:
            if CLOCK in state.stateful_callbacks:
                self.clock.resume(state.stateful_callbacks[CLOCK])
            self.clock.agreed = self.clock.elapsed if args.world_size > 1 else None

    def on_step_begin(self, args, state, control, **_) -> None:
        self._turn.enter_context(SCHEDULER.turn())

    def on_pre_optimizer_step(self, args, state, control, optimizer, **_) -> None:
        if args.device.type == "cpu":  # elsewhere the host would wait
            self._check(state.global_step + 1, float(self._sums["loss"]), float(self.grad_norm))
        factor = self.pace()
        for group in optimizer.param_groups:
            group["lr"] *= factor
        self._rate = optimizer.param_groups[0]["lr"]

    def on_step_end(self, args, state, control, **_) -> None:
        self._turn.close()
        if self.clock:
            self.clock.start()
        self._pending.append(self._reader(state.global_step, control.should_log))
        control.should_log = False  # what the Trainer would log is in the metrics
        ends = control.should_training_stop or control.should_save or self.stopped
        self._finish(0 if ends or args.device.type == "cpu" else 1)
        if self.clock and self.clock.share == 1:
            self._finish(0)
            control.should_training_stop = True
        self.is_over = control.should_training_stop
        if self.is_over:
            control.should_save = False  # the checkpoint follows
        elif self.stopped:
            control.should_training_stop, control.should_save = True, args.save_strategy != "no"

    def _reader(self, step: int, logs: bool) -> Callable[[], None]:
        """Return a function that waits for the sums of a step over all processes, and logs them."""
        reduce = self.trainer.accelerator.reduce
        values = {name: reduce(value, "mean") for name, value in self._sums.items()}
        values |= {"grad_norm": self.grad_norm, "tokens": self._tokens}
        if self.clock:
            values["clock"] = reduce(self.grad_norm.new_tensor(self.clock.elapsed), "mean")
        seconds = time.monotonic() - self._started
        return partial(self._log, copied(values), step, self._rate, seconds, logs)

    def _finish(self, keep: int) -> None:
        """Log the pending steps but for the last `keep`."""
        while len(self._pending) > keep:
            self._pending.popleft()()

    def _log(
        self, read: Callable[[], dict[str, Tensor]], step: int, rate: float, seconds: float, logs: bool
    ) -> None:
        """Log the metrics of a step."""
        values = read()
        self._check(step, float(values["loss"]), float(values["grad_norm"]))
        trainer, state = self.trainer, self.trainer.state
        if self.clock:
            elapsed = state.stateful_callbacks[CLOCK] = float(values["clock"])
            if self.clock.agreed is not None:
                self.clock.agreed = elapsed
        state.num_input_tokens_seen += int(values["tokens"])
        metrics = Metrics(
            step=step,
            steps=None if self.clock else state.max_steps,
            learning_rate=rate,
            tokens=state.num_input_tokens_seen,
            seconds=seconds,
            slots=[(nats / n, right / n) for n, nats, right in values["slots"].tolist() if n],
            **{name: float(values[name]) for name in ("loss", "grad_norm", *LOSSES) if name in values},
        )
        if state.is_world_process_zero:
            append(self._file, metrics)
        if logs:
            now, state.global_step = state.global_step, step  # trackers read the step there
            trainer.log(metrics.scalars())
            state.global_step = now
        for watcher in self.watchers:
            watcher(metrics)

    def _check(self, step: int, loss: float, grad_norm: float) -> None:
        """End the training if a loss or gradient is not finite, which would spoil the weights.

        Where this is known too late, the optimizer has skipped the step, so a few may be.
        """
        broken = [
            name for name, value in (("loss", loss), ("gradient", grad_norm)) if not math.isfinite(value)
        ]
        self._skipped = self._skipped + 1 if broken else 0
        if self._skipped > (0 if self.trainer.args.device.type == "cpu" else SKIPPED):
            raise ValueError(
                f"The {broken[0]} is not finite at step {step}; a lower learning rate than "
                f"{self.trainer.args.learning_rate:g} may help."
            )
