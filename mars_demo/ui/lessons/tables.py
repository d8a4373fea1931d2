"""Tables and charts of the paper and of this project beside a chapter."""

from pandas import DataFrame

from mars_demo.assets import read_json
from mars_demo.markdown import table
from mars_demo.ui.lessons.parts import shown

PAPER = read_json("paper_tables.json")
COMPARED = ("plot", "our_plot", "paper_table", "our_table")  # what a choice of table changes
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
