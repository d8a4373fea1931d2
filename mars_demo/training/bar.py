"""A progress bar of a training."""

from __future__ import annotations

from pathlib import Path

from tqdm import tqdm

from mars_demo.training.metrics import Metrics
from mars_demo.training.trainer import MarsTrainer


def train(trainer: MarsTrainer, **choices: bool) -> bool:
    """Run a training with a progress bar and its losses; return whether it ended.

    choices: those of `MarsTrainer.run`.
    """
    bar, clock = None, trainer.clock

    def show(metrics: Metrics) -> None:
        nonlocal bar
        title = Path(trainer.args.output_dir).name
        total, unit = (round(clock.total), "s") if clock else (metrics.steps, "step")
        bar = bar or tqdm(total=total, desc=title, unit=unit, mininterval=1)
        bar.update((round(clock.elapsed) if clock else metrics.step) - bar.n)
        bar.set_postfix({name: f"{loss:.3f}" for name, loss in metrics.losses.items()}, refresh=False)

    trainer.steps.watchers.append(show)
    try:
        return trainer.run(**choices)
    finally:
        trainer.steps.watchers.remove(show)
        if bar:
            bar.close()
