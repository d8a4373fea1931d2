"""A bar on standard error while something is worked through."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


def progress(
    items: Iterable[Item],
    total: int,
    title: str,
    unit: str,
    reached: Callable[[Item], int] | None = None,
    note: Callable[[Item], dict[str, str]] | None = None,
) -> Iterator[Item]:
    """Yield `items` while a bar shows how far they are.

    reached: how much is done once an item is there; each counts 1 if None. note: what the bar says of it.
    """
    bar = None  # drawn from the first item on: before it, there may be a complaint to make
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


def training_bar(steps: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    """The same for the `training.loop.Metrics` of a training run, with its losses."""
    return progress(
        steps,
        total,
        title,
        "step",
        reached=lambda metrics: metrics.step,
        note=lambda metrics: {name: f"{loss:.3f}" for name, loss in metrics.losses.items()},
    )
