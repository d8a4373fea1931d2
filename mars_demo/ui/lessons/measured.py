"""What was measured about the cost of forwards and about cache blocks, beside a chapter."""

import json
import math

from pandas import DataFrame

from mars_demo.ui.lessons.parts import CACHE_BLOCKS, shown
from mars_demo.ui.lessons.tables import PAPER, sourced
from mars_demo.views import recordings

BATCH = 8  # of the measured cache blocks that are shown
AR = "AR, continuous"  # a batch of ours that speeds are relative to


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
        "measured": shown(value=cache_blocks()),
    }


def scheduled(size: float) -> str:
    """Return the schedules with a block of that size.

    Raises:
        ValueError: if it is not one that the slider has.
    """
    least, most = CACHE_BLOCKS
    if not least <= size <= most:
        raise ValueError(f"A cache block has {least} to {most} positions here, not {size}.")
    return recordings.batched(int(size))


def cache_blocks() -> str:
    """Return how fast batches were by the size of a cache block, in the paper and here."""
    from mars_demo.evaluation import results

    def here(ending: str) -> str | None:
        found = next((times for method, times in seconds.items() if method.endswith(f", {ending}")), None)
        return found and results.ranged(results.ratios(found, seconds[AR]), unit="×")

    ours, seconds, source = results.read("batches.json"), {}, "the paper's Table 5"
    if ours:
        seconds = {row["method"]: row["seconds"] for row in ours["rows"] if row["size"] == BATCH}
        source += f" · `{ours['command']}`, {ours['machine']}"
    theirs = [
        row
        for row in PAPER["table5_batch_wall_clock"]
        if row["batch_size"] == BATCH and row["method"].startswith("MARS")
    ]
    rows = [
        {
            "B_cache": row["cache_block"] or "no cache",
            "the paper": f"{row['speedup']:.2f}×",
            "here": here(f"block cache {row['cache_block']}" if row["cache_block"] else "no cache"),
        }
        for row in sorted(theirs, key=lambda row: row["cache_block"] or math.inf)
    ]
    return sourced(f"How many times as fast as AR, in batches of {BATCH}", (DataFrame(rows), source))
