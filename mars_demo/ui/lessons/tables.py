"""Figures with tables, charts and measurements of the paper and of this project."""

import numpy as np
from pandas import DataFrame

from mars_demo.core.assets import read_json
from mars_demo.core.markdown import table
from mars_demo.evaluation import paper_tables
from mars_demo.evaluation.calibration import calibrations
from mars_demo.show import recordings
from mars_demo.ui import plots
from mars_demo.ui.lessons.parts import shown

PAPER = read_json("paper_tables.json")
COMPARED = ("numbers", "plot")  # the parts that a choice of table changes
MOST_MASKS = 16  # of a block


def rows(element: dict) -> dict[str, dict]:
    """Show a chapter's own table."""
    source = f"\n\nSource: {element['source']}." if "source" in element else ""
    return {"table": shown(value=table(DataFrame(element["rows"], columns=element["columns"])) + source)}


def chart(element: dict) -> dict[str, dict]:
    """Show the effect of the SFT loss by block size.

    It is the quality in the paper's Table 3, or the share of AR-like training signal (section 3.2).
    """
    if element["figure"] == "quality":
        return {"plot": shown(value=plots.paper_sft_loss(PAPER["table3_sft_loss"]))}
    return {"plot": shown(value=plots.ar_share(range(1, MOST_MASKS + 1)))}


def calibration(element: dict) -> dict[str, dict]:
    """Show how many slots of a model have AR's token by score, with the sentence of the default τ."""
    measured = calibrations(element["calibration"])["probability"]
    words = f"{element['words']} {measured.sentence}"
    return {"plot": shown(value=plots.plot_calibration(measured)), "words": shown(value=words)}


def comparison(element: dict) -> dict[str, dict]:
    """Show a choice of the paper's tables, and the first of them."""
    choices = [(title, number) for number, title in paper_tables.TITLES.items()]
    _, first = choices[0]
    return {"choice": shown(choices=choices, value=first)} | compared(first)


def compared(number: int) -> dict[str, dict]:
    """Show a table of the paper and the same table measured here, with a chart if it sweeps τ."""
    plot = {"visible": False}
    if number == paper_tables.SWEEP:
        plot = shown(value=plots.plot_curves(paper_tables.curves()))
    theirs = sourced(paper_tables.TITLES[number], paper_tables.paper(number))
    ours = sourced("Here", paper_tables.here(number))
    return {"numbers": shown(value=f"{theirs}\n\n{ours}"), "plot": plot}


def sourced(title: str, measurements: tuple[DataFrame, str]) -> str:
    """Return a titled Markdown table with its source."""
    frame, source = measurements
    return f"#### {title}\n\n{table(frame)}\n\nSource: {source}."


# ------------------------------------------------------------ costs of forwards, and cache blocks


def costs(element: dict) -> dict[str, dict]:
    """Show curves of c(k), what they make of tokens per forward, and the measured speeds of methods.

    The sliders begin with the first method.
    """
    entries = element["speeds"]
    first = paper_tables.OURS["speeds"][entries[0]["file"]]["rows"][entries[0]["methods"][0]]
    positions = round(float(first["positions per forward"]))
    tokens = round(float(first["tokens per forward"]), 1)
    measured = {entry["title"]: paper_tables.OURS["speeds"][entry["file"]]["costs"] for entry in entries}
    return {
        "positions": shown(value=positions),
        "tokens": shown(value=tokens),
        "plot": shown(
            value=plots.plot_costs({title: costs["forwards"] for title, costs in measured.items()})
        ),
        "table": shown(value=divided(element, positions, tokens)),
        "numbers": shown(value=speeds(entries)),
    }


def speed_up(measured: dict, positions: float, tokens: float) -> tuple[float, str]:
    """Return the speed-up with these positions and tokens per forward, and its calculation in c(1).

    measured: the mean `tokens` of AR's answers, and the `costs` of their prompts and of forwards, which are
        linear between the measured ones.
    """
    costs, answer = measured["costs"], measured["tokens"]
    sizes, ms = zip(*costs["forwards"])
    prompt, cost = costs["prompt"][1] / ms[0], float(np.interp(positions, sizes, ms)) / ms[0]
    ar, later = answer - 1, max(answer / tokens, 1) - 1
    value = (prompt + ar) / (prompt + later * cost)
    sums = f"({prompt:.1f} + {ar:.1f}) ÷ ({prompt:.1f} + {later:.1f} · {cost:.2f})"
    return value, f"{sums} = {value:.2f}×"


def divided(element: dict, positions: float, tokens: float) -> str:
    """Return a table of the speed-up by each model's costs of forwards, for its mean prompt and answer."""
    rows = []
    for entry in element["speeds"]:
        measured = paper_tables.OURS["speeds"][entry["file"]]
        prompt, answer = measured["costs"]["prompt"][0], measured["tokens"]
        rows.append(
            {
                "measured costs": entry["title"],
                "prompt, answer": f"{prompt}, {answer:.0f} tokens",
                "speed-up": speed_up(measured, positions, tokens)[1],
            }
        )
    return table(DataFrame(rows))


def speeds(entries: list[dict]) -> str:
    """Return tables of the measured speeds of some methods, each with its source."""
    tables = []
    for entry in entries:
        measured = paper_tables.OURS["speeds"][entry["file"]]
        rows = [{"method": name} | measured["rows"][name] for name in entry["methods"]]
        tables.append(sourced(entry["title"], (DataFrame(rows), measured["source"])))
    return "\n\n".join(tables)


def cache_block(element: dict) -> dict[str, dict]:
    """Show recorded runs as a batch, with a slider for the block size.

    One schedule has the block cache, the other one the per-sequence cache.
    """
    size = element["cache_block"]
    return {"cache_block": shown(value=size), "schedule": shown(value=recordings.batched(size))}
