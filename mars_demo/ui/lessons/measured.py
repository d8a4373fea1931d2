"""What was measured about the cost of forwards and about cache blocks, beside a chapter."""

import json

from pandas import DataFrame

from mars_demo.markdown import table
from mars_demo.ui.lessons.parts import CACHE_BLOCKS, shown
from mars_demo.ui.lessons.tables import NOT_MEASURED, PAPER
from mars_demo.views import recordings

BATCH = 8  # of the measured cache blocks that are shown
AR = "AR, continuous"  # a batch of ours that speeds are relative to


def costs(wanted: dict) -> dict[str, dict]:
    """Curves of c(k) with sliders, and the speeds of methods that were timed."""
    from mars_demo.views import measured_costs  # imports torch, which the page is there before

    curves = measured_costs.curves(wanted["curves"])
    value = json.dumps({"curves": curves, "start": wanted["start"]}, ensure_ascii=False)
    return {"costs": shown(value=value), "measured": shown(value=speeds(wanted["speeds"]))}


def speeds(wanted: list[dict]) -> str:
    """Tables of timed methods, each with its source."""
    from mars_demo.views import measured_costs

    texts = []
    for one in wanted:
        found = measured_costs.speeds(one["file"], one["methods"], one["base"])
        shown_table = f"{table(found[0])}\n\nSource: {found[1]}." if found else NOT_MEASURED
        texts.append(f"#### {one['title']}\n\n{shown_table}")
    return "\n\n".join(texts)


def schedule(wanted: dict) -> dict[str, dict]:
    """Recorded runs as a batch, with the block cache and with the cursor cache."""
    return {"schedule": shown(value=recordings.batched())}


def cache_block(wanted: dict) -> dict[str, dict]:
    """The same with a slider for the size of a block, and what was measured of it."""
    size = wanted["cache_block"]
    return {
        "cache_block": shown(value=size),
        "schedule": shown(value=recordings.batched(size)),
        "measured": shown(value=cache_blocks()),
    }


def scheduled(size: float) -> str:
    """The schedules with a block of that size.

    Raises:
        ValueError: if it is not one that the slider has.
    """
    least, most = CACHE_BLOCKS
    if not least <= size <= most:
        raise ValueError(f"A cache block has {least} to {most} positions here, not {size}.")
    return recordings.batched(int(size))


def cache_blocks() -> str:
    """How fast batches were by the size of a cache block: in the paper, and here."""
    from mars_demo.evaluation import results

    paper = {row["cache_block"]: row for row in _paper_blocks("MARS + block cache")}
    none = _paper_blocks("MARS (no cache)")[0]
    ours = results.read("batches.json")
    rows = [
        {
            "B_cache": "no cache" if block is None else f"{block}",
            "the paper": f"{row['speedup']:.2f}×",
            "here": _ours(ours, block) if ours else None,
        }
        for block, row in [*paper.items(), (None, none)]
    ]
    source = (
        f"the paper's Table 5 · `{ours['command']}`, {ours['machine']}" if ours else "the paper's Table 5"
    )
    title = f"#### How many times as fast as AR, in batches of {BATCH}"
    return f"{title}\n\n{table(DataFrame(rows))}\n\nSource: {source}."


def _paper_blocks(method: str) -> list[dict]:
    rows = PAPER["table5_batch_wall_clock"]
    return [row for row in rows if row["method"] == method and row["batch_size"] == BATCH]


def _ours(measured: dict, block: int | None) -> str | None:
    from mars_demo.evaluation import results

    seconds = {row["method"]: row["seconds"] for row in measured["rows"] if row["size"] == BATCH}
    ending = "no cache" if block is None else f"block cache {block}"
    found = next((times for method, times in seconds.items() if method.endswith(f", {ending}")), None)
    return found and results.ranged(results.ratios(found, seconds[AR]), unit="×")
