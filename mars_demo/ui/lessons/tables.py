"""Tables and charts of the paper and of this project beside a chapter."""

from pandas import DataFrame

from mars_demo.assets import read_json
from mars_demo.markdown import table
from mars_demo.ui.lessons.parts import shown

PAPER = read_json("paper_tables.json")
COMPARED = ("plot", "our_plot", "paper_table", "our_table")  # what a choice of table changes
MOST_MASKS = 16  # of a block
NOT_MEASURED = "This table has not been measured here yet."


def gaps(wanted: dict) -> dict[str, dict]:
    """The paper's Table 1, to be filled in row by row."""
    return {"table": shown(value=filled_gaps(1)), "fill": shown(value="Next gap")}


def filled_gaps(filled: int) -> str:
    """The paper's Table 1, its first `filled` rows."""
    frame = DataFrame(
        [
            {
                "gap": row["gap"],
                "AR": row["AR"],
                "MARS": row["MARS"],
                "block diffusion": row["block_diffusion"],
                "closed by MARS": "yes" if row["closed_by_mars"] else "no",
            }
            for row in PAPER["table1_gaps"]
        ]
    )
    frame.loc[filled:] = ""
    frame.loc[filled:, "gap"] = "…"
    return f"{table(frame)}\n\nSource: the paper's Table 1."


def fill_next(filled: int):
    """One row more of the table of gaps; after the last it begins again."""
    rows = len(PAPER["table1_gaps"])
    filled = filled % rows + 1
    return filled, filled_gaps(filled), "Again" if filled == rows else "Next gap"


def neighbours(wanted: dict) -> dict[str, dict]:
    """A chapter's own table."""
    return {"table": shown(value=table(DataFrame(wanted["rows"], columns=wanted["columns"])))}


def chart(wanted: dict) -> dict[str, dict]:
    """What the loss on the clean stream changes, by block size: the quality in the paper's Table 3, or the
    share of AR-like signal."""
    from mars_demo.views import plots

    if wanted["figure"] == "quality":
        return {"plot": shown(value=plots.paper_sft_loss(PAPER["table3_sft_loss"]))}
    return {"plot": shown(value=plots.ar_share(range(1, MOST_MASKS + 1), wanted.get("block_size", 4)))}


def comparison(wanted: dict) -> dict[str, dict]:
    """The paper's tables to choose from, and what is shown of the first."""
    from mars_demo.evaluation import paper_tables

    choices = [(chosen.title, number) for number, chosen in paper_tables.TABLES.items()]
    first = choices[0][1]
    return {"choice": shown(choices=choices, value=first)} | compared(first)


def compared(number: int) -> dict[str, dict]:
    """A table of the paper and this project's, and the charts of the one that sweeps τ."""
    from mars_demo.evaluation import paper_tables

    charts = _charts() if number == paper_tables.SWEEP else [None, None]
    ours = _sourced("Here", paper_tables.here(number))
    if number in paper_tables.OF_BENCHMARKS and (six := paper_tables.benchmarks()):
        ours += "\n\n" + _sourced("Here, on the paper's benchmarks", six)
    tables = [_sourced("The paper", paper_tables.paper(number)), ours]
    return {
        name: {"visible": value is not None, "value": value}
        for name, value in zip(COMPARED, charts + tables)
    }


def _charts() -> list:
    from mars_demo.evaluation import paper_tables
    from mars_demo.views import plots

    theirs = plots.frontier(paper_tables.paper_curves(), f"the paper, Table {paper_tables.SWEEP}")
    ours = paper_tables.our_curves()
    return [theirs, plots.frontier(ours, "here, mars-tiny") if ours else None]


def _sourced(title: str, found) -> str:
    """A `paper_tables.Table` as Markdown, with where it comes from."""
    if found is None:
        return f"#### {title}\n\n{NOT_MEASURED}"
    return f"#### {title}\n\n{table(found.frame)}\n\nSource: {found.source}."
