"""The kinds of figures beside chapters.

A chapter names a kind. Its function takes the chapter's `element` and returns updates of `Parts`; all other
parts are hidden. To add a kind, add its components to `parts.py` and a function to `KINDS`.
"""

import json
from collections.abc import Callable

from mars_demo.core.trace import Run, read_text
from mars_demo.evaluation import paper_tables, trainings
from mars_demo.show import recordings
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.lessons import tables
from mars_demo.ui.lessons.parts import HIDDEN, shown
from mars_demo.ui.mask_settings import MaskSettings
from mars_demo.ui.masks import of_pass


def lesson_figure(chapter: dict) -> dict[str, dict]:
    """Return an update for each of the `Parts`."""
    question = {"predict": shown(value=json.dumps(chapter["predict"]))} if "predict" in chapter else {}
    return HIDDEN | question | KINDS[chapter["element"]["kind"]](chapter["element"])


def worked_step(element: dict) -> dict[str, dict]:
    """Show windows with sliders for τ and the scores, which begin with the chapter's values."""
    value = {name: element[name] for name in ("tau", "scores")}
    return {"worked_step": shown(value=json.dumps(value))}


# ------------------------------------------------------------------------ recorded runs and trainings


def lesson_stage(element: dict) -> dict[str, dict]:
    """Show a recorded run with some of its modes."""
    return {"stage": shown(value=_lines(runs(element["run"], element["modes"])))}


def training(element: dict) -> dict[str, dict]:
    """Show the answer that was recorded after a step of a training."""
    lines = map(json.loads, trainings.training_recording(element["training"]).splitlines())
    record = next(line["record"] for line in lines if line.get("answer") == element["step"])
    return {"stage": shown(value="".join(f"{json.dumps(line)}\n" for line in record))}


def forward(element: dict) -> dict[str, dict]:
    """Show the mask of one forward of a recorded run."""
    [run] = runs(element["run"], [element["mode"]])
    mask = of_pass(run, element["forward"], MODELS.load(run.settings.model))
    return {"grid": shown(value=mask.line())}


def runs(id: str, modes: list[str]) -> list[Run]:
    """Return a recorded run in these modes."""
    return [run for run in read_text(recordings.recording(id)) if run.settings.mode in modes]


def _lines(runs: list[Run]) -> str:
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def lesson_grid(element: dict) -> dict[str, dict]:
    """Show a kind of mask for the example sentence. new: of a window, its new tokens, else the drafts."""
    kind, new, block_size = element["picture"], element.get("new", 2), element["block_size"]
    settings = MaskSettings(kind=kind, new=new, block_size=block_size)
    return {"grid": shown(value=settings.mask().line())}


# ------------------------------------------------------------------------------------ a choice of these


def choice(element: dict) -> dict[str, dict]:
    """Show a choice of runs, pictures or charts, the first of them, and their table and speeds, if any."""
    titles = [option["title"] for option in element["options"]]
    which = shown(choices=titles, value=titles[0], label=element["label"])
    timed = {"numbers": shown(value=tables.speeds(element["speeds"]))} if "speeds" in element else {}
    tabled = tables.rows(element) if "rows" in element else {}
    return {"which": which} | timed | tabled | chosen(element, 0)


def chosen(element: dict, index: int) -> dict[str, dict]:
    """Show one of the options, with its text."""
    option = element["options"][index]
    draw = next(draw for key, draw in OPTIONS.items() if key in option)
    return {"words": shown(value=option["words"])} | draw(option)


def alternatives(element: dict) -> list[dict[str, dict]]:
    """Return all figures that an element offers a choice of."""
    if element["kind"] == "comparison":
        return [tables.compared(number) for number in paper_tables.TITLES]
    return [chosen(element, index) for index, _ in enumerate(element.get("options", ()))]


KINDS: dict[str, Callable[[dict], dict[str, dict]]] = {
    "stage": lesson_stage,
    "grid": lesson_grid,
    "choice": choice,
    "worked-step": worked_step,
    "costs": tables.costs,
    "table": tables.rows,
    "comparison": tables.comparison,
    "cache-block": tables.cache_block,
}
# Kinds of options, by the first of these keys that they have.
OPTIONS = {
    "training": training,
    "forward": forward,
    "run": lesson_stage,
    "picture": lesson_grid,
    "figure": tables.chart,
    "calibration": tables.calibration,
}
