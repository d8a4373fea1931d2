"""The frontier: one component that draws quality against speed, and lists the answers behind each point."""

from mars_demo.assets import read_json
from mars_demo.modes import MODES
from mars_demo.ui.components.drawing import Drawing


class Frontier(Drawing):
    """A line of points per criterion, a point per τ; modes without a τ are single points.

    The value is JSON lines, which only grow while something is measured: a heading with the name of the
    `results`, a line per point, and a closing line with the whole as files. `ui/tabs/frontier.py` makes
    them.

    Events:
        chosen: the visitor chose a point, with its `model`, `mode`, `tau` and `criterion`; these two are
            null where the mode has none.
        opened: the visitor chose one of the answers behind it, also with its `prompt`.
        raced: the Race tab is to be opened.
    """

    EVENTS = ["chosen", "opened", "raced"]

    def __init__(self, value: str = "", *, render: bool = True):
        constants = {
            "modes": {mode.name: mode.title for mode in MODES.values()},
            "paper": paper_lines(),
        }
        super().__init__("frontier", value, constants=constants, render=render)


def paper_lines() -> list[dict]:
    """Return a line per model of the paper from τ = 1 to τ = 0.95, each scale named at its last one."""
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
