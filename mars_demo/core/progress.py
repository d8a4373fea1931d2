"""Progress bars on standard error."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


def progress(items: Iterable[Item], total: int, title: str, unit: str) -> Iterator[Item]:
    """Yield `items` and show a progress bar."""
    bar = None  # created with the first item, so that earlier errors are printed without a bar
    try:
        for item in items:
            bar = bar or tqdm(total=total, desc=title, unit=unit, mininterval=1)
            bar.update()
            yield item
    finally:
        if bar:
            bar.close()
