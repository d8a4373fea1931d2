"""Tables and charts of the paper and of this project, and what was measured, beside a chapter."""

import json

from pandas import DataFrame

from mars_demo.assets import read_json
from mars_demo.markdown import table
from mars_demo.ui.lessons.parts import shown
from mars_demo.views import recordings

PAPER = read_json("paper_tables.json")
COMPARED = ("plot", "our_plot", "paper_table", "our_table")  # what a choice of table changes
BATCHES = 5  # the paper's table with the speeds of cache blocks
MOST_MASKS = 16  # of a block
NOT_MEASURED = "This table has not been measured here yet."


def rows(element: dict) -> dict[str, dict]:
    """Return a chapter's own table."""
    source = f"\n\nSource: {element['source']}." if "source" in element else ""
    return {"table": shown(value=table(DataFrame(element["rows"], columns=element["columns"])) + source)}


def chart(element: dict) -> dict[str, dict]:
    """Return what the loss on the clean stream changes, by block size: the quality in the paper's Table 3,
    or the share of AR-like signal."""
    from mars_demo.views import plots

    if element["figure"] == "quality":
        return {"plot": shown(value=plots.paper_sft_loss(PAPER["table3_sft_loss"]))}
    return {"plot": shown(value=plots.ar_share(range(1, MOST_MASKS + 1), element.get("block_size", 4)))}


def comparison(element: dict) -> dict[str, dict]:
    """Return the paper's tables to choose from, and what is shown of the first."""
    from mars_demo.evaluation import paper_tables

    choices = [(chosen.title, number) for number, chosen in paper_tables.TABLES.items()]
    first = choices[0][1]
    return {"choice": shown(choices=choices, value=first)} | compared(first)


def compared(number: int) -> dict[str, dict]:
    """Return a table of the paper and this project's, and the charts of the one that sweeps τ."""
    from mars_demo.evaluation import paper_tables
    from mars_demo.views import plots

    theirs = sourced("The paper", paper_tables.paper(number))
    ours = sourced("Here", paper_tables.here(number))
    if number in paper_tables.OF_BENCHMARKS and (six := paper_tables.benchmarks()):
        ours += "\n\n" + sourced("Here, on the paper's benchmarks", six)
    charts = [None, None]
    if number == paper_tables.SWEEP:
        charts[0] = plots.frontier(paper_tables.paper_curves(), f"the paper, Table {number}")
        if curves := paper_tables.our_curves():
            charts[1] = plots.frontier(curves, "here, mars-tiny")
    values = zip(COMPARED, [*charts, theirs, ours])
    return {name: {"visible": value is not None, "value": value} for name, value in values}


def sourced(title: str, found: tuple[DataFrame, str] | None) -> str:
    """Return a titled table in Markdown with its source; a sentence for one that was not measured."""
    shown_table = f"{table(found[0])}\n\nSource: {found[1]}." if found else NOT_MEASURED
    return f"#### {title}\n\n{shown_table}"


# ------------------------------------------------------------ costs of forwards, and cache blocks


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
    least, most = recordings.CACHE_BLOCKS
    if not least <= size <= most:
        raise ValueError(f"A cache block has {least} to {most} positions here, not {size}.")
    return recordings.batched(int(size))
