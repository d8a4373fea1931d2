"""What was measured about the cost of forwards and about cache blocks, beside a chapter."""

import json

from mars_demo.ui.lessons.parts import CACHE_BLOCKS, shown
from mars_demo.ui.lessons.tables import compared, sourced
from mars_demo.views import recordings

BATCHES = 5  # the paper's table with the speeds of cache blocks


def costs(element: dict) -> dict[str, dict]:
    """Return curves of c(k) with sliders, and the speeds of methods that were timed."""
    from mars_demo.views import measured_costs  # imports torch, which the page is there before

    curves = measured_costs.curves(element["curves"])
    value = json.dumps({"curves": curves, "start": element["start"]}, ensure_ascii=False)
    return {"costs": shown(value=value), "measured": shown(value=speeds(element["speeds"]))}


def speeds(timed: list[dict]) -> str:
    """Return tables of timed methods, each with its source."""
    from mars_demo.views import measured_costs

    found = [measured_costs.speeds(one["file"], one["methods"], one["base"]) for one in timed]
    return "\n\n".join(sourced(one["title"], speed) for one, speed in zip(timed, found))


def schedule(element: dict) -> dict[str, dict]:
    """Return recorded runs as a batch, with the block cache and with the cursor cache."""
    return {"schedule": shown(value=recordings.batched())}


def cache_block(element: dict) -> dict[str, dict]:
    """Return the same with a slider for the size of a block, and what was measured of it."""
    size = element["cache_block"]
    return {
        "cache_block": shown(value=size),
        "schedule": shown(value=recordings.batched(size)),
    } | compared(BATCHES)


def scheduled(size: float) -> str:
    """Return the schedules with a block of that size.

    Raises:
        ValueError: if it is not one that the slider has.
    """
    least, most = CACHE_BLOCKS
    if not least <= size <= most:
        raise ValueError(f"A cache block has {least} to {most} positions here, not {size}.")
    return recordings.batched(int(size))
