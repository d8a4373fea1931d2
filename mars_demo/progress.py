"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tqdm import tqdm

if TYPE_CHECKING:
    from mars_demo.training.metrics import Metrics
    from mars_demo.training.trainer import MarsTrainer

Item = TypeVar("Item")


def progress(
    items: Iterable[Item],
    total: int,
    title: str,
    unit: str,
    reached: Callable[[Item], int] | None = None,
    note: Callable[[Item], dict[str, str]] | None = None,
) -> Iterator[Item]:
    """Yield `items` and show a progress bar.

    reached: returns the progress after an item; None counts 1 per item.
    note: returns the figures that the bar shows for an item.
    """
    bar = None  # created with the first item, so that earlier errors are printed without a bar
    try:
        for item in items:
            bar = bar or tqdm(total=total, desc=title, unit=unit, mininterval=1)
            bar.update(1 if reached is None else reached(item) - bar.n)
            if note:
                bar.set_postfix(note(item), refresh=False)
            yield item
    finally:
        if bar:
            bar.close()


def train(trainer: MarsTrainer, resume: bool = False) -> bool:
    """Run a training with a progress bar and its losses; return whether it ended."""
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
        return trainer.run(resume)
    finally:
        trainer.steps.watchers.remove(show)
        if bar:
            bar.close()
