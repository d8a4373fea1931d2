"""The frontier component: accuracy against speed, with the answers of each point."""

from mars_demo.assets import read_json
from mars_demo.modes import MODES
from mars_demo.ui.components.drawing import Drawing


class Frontier(Drawing):
    """A chart with a line per criterion and a point per τ; a mode without τ is a single point.

    The value is JSON lines, to which a measurement appends: a heading with the name of the `results`, a
    line per point, and a closing line with the download files. `ui/tabs/frontier.py` writes them.

    Events:
        chosen: the visitor chose a point, with its `model`, `mode`, `tau` and `criterion`; the last two are
            null if the mode has none.
        opened: the visitor chose an answer of the point; its data also has the `prompt`.
        raced: the visitor wants to open the Race tab.
    """

    EVENTS = ["chosen", "opened", "raced"]

    def __init__(self, value: str = "", *, render: bool = True):
        constants = {
            "modes": {mode.name: mode.title for mode in MODES.values()},
            "paper": paper_lines(),
        }
        super().__init__("frontier", value, constants=constants, render=render)


def paper_lines() -> list[dict]:
    """Return a line from τ = 1 to τ = 0.95 per model of the paper; only the last of a scale has a name."""
    tables = read_json("paper_tables.json")
    before = {
        (row["scale"], row["block_size"]): row["Avg"]
        for row in tables["table3_sft_loss"]
        if row["sft_loss"]
    }
    last = {row["scale"]: row["block_size"] for row in tables["table4_multi_token"]}
    lines = []
    for row in tables["table4_multi_token"]:
        scale, block_size = row["scale"], row["block_size"]
        ends = (1, before[scale, block_size]), (row["tokens_per_forward"]["Avg"], row["accuracy"]["Avg"])
        points = [{"tokens_per_forward": across, "accuracy": up / 100} for across, up in ends]
        lines.append({"name": scale if last[scale] == block_size else "", "points": points})
    return lines
