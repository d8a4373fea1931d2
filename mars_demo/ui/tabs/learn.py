"""The Learn tab: the paper in short chapters, each with an interactive figure."""

import json
from contextlib import closing

import gradio as gr
from pandas import DataFrame

from mars_demo.assets import ASSETS, read_json
from mars_demo.decoding.trace import read_runs
from mars_demo.markdown import table
from mars_demo.ui import models
from mars_demo.ui.components.grid import Grid
from mars_demo.ui.components.schedule import Schedules
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.controls import LIVE, QUIET, Knobs, on_run, run_and_stop, set_tau, tau_slider
from mars_demo.ui.scripts import script
from mars_demo.ui.tabs import Page, race
from mars_demo.views import recordings

TITLE = "Learn"
LESSONS = sorted((ASSETS / "lessons").glob("*.json"), key=lambda path: int(path.name.split("-")[0]))
CHAPTERS = [json.loads(path.read_text("utf-8")) for path in LESSONS]
PAPER = read_json("paper_tables.json")
SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."
COMPARED = ("plot", "our_plot", "paper_table", "our_table")  # what a choice of table changes
PARTS = ("stage", "grid", "choice", *COMPARED, "table", "fill", "schedule", "live")  # beside the chapters
NOT_MEASURED = "This table has not been measured here yet."
SLOW = 40  # ms that the chapter's race rests after each forward


def number_of(asked: str | None) -> int:
    """The chapter that an address names, by its id or its number; the first one if it names none."""
    ids = [chapter["id"] for chapter in CHAPTERS]
    if asked in ids:
        return ids.index(asked)
    return min(max(int(asked) - 1, 0), len(CHAPTERS) - 1) if asked and asked.isdigit() else 0


def element(chapter: dict) -> dict:
    """What stands beside a chapter: the updates of the components that can, all others hidden."""
    wanted = chapter["element"]
    kind = wanted["kind"]
    updates = {name: {"visible": False} for name in PARTS}
    if kind == "stage":
        updates["stage"] = {"visible": True, "value": _recorded(wanted["run"], wanted["modes"])}
    elif kind == "race":
        updates["stage"] = {"visible": True, "value": _recorded(wanted["prompt"], ["ar", "mars"])}
        updates["live"] = {"visible": True}
    elif kind == "grid":
        updates["grid"] = {"visible": True, "value": _picture(wanted["picture"], wanted["block_size"])}
    elif kind == "gaps":
        updates["table"] = {"visible": True, "value": gaps(1)}
        updates["fill"] = {"visible": True, "value": "Next gap"}
    elif kind == "neighbours":
        updates["table"] = {"visible": True, "value": neighbours(wanted)}
    elif kind == "figure":
        from mars_demo.views import plots

        updates["plot"] = {"visible": True, "value": plots.paper_sft_loss(PAPER["table3_sft_loss"])}
    elif kind == "comparison":
        updates |= _comparison()
    elif kind == "schedule":
        updates["schedule"] = {"visible": True, "value": recordings.batched()}
    return updates


def neighbours(wanted: dict) -> str:
    """A chapter's own table."""
    return table(DataFrame(wanted["rows"], columns=wanted["columns"]))


def gaps(filled: int) -> str:
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


def _comparison() -> dict[str, dict]:
    """The paper's tables to choose from, and what is shown of the first."""
    from mars_demo.evaluation import paper_tables

    choices = [(chosen.title, number) for number, chosen in paper_tables.TABLES.items()]
    first = choices[0][1]
    return {"choice": {"visible": True, "choices": choices, "value": first}} | _compared(first)


def _compared(number: int) -> dict[str, dict]:
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


def _recorded(id: str, modes: list[str]) -> str:
    text = recordings.recording(id).split("\n", 1)[1]
    runs = [run for run in read_runs(text.splitlines()) if run.settings.mode in modes]
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def _picture(kind: str, block_size: int) -> str:
    from mars_demo.views.mask_picture import KINDS, Sentence

    checkpoint = models.load(models.TINY)
    ids = checkpoint.tokenizer(SENTENCE, add_special_tokens=False)["input_ids"]
    sizes = {"prompt": len(ids) // 2, "new": 2, "block_size": block_size}
    return KINDS[kind].draw(Sentence(ids, checkpoint.mask_id, checkpoint.token_name, **sizes)).line()


# ------------------------------------------------------------------------------ what events call


def turn(at: int | None, by: int, request: gr.Request):
    """A chapter's number, its text, what may be pressed and what stands beside it. The first time, `at` is
    None, it is the one that the page's address names."""
    at = number_of(request.query_params.get("chapter")) if at is None else at + by
    at = min(max(at, 0), len(CHAPTERS) - 1)
    chapter = CHAPTERS[at]
    return (
        at,
        1,
        f"### {at + 1} of {len(CHAPTERS)}: {chapter['title']}\n\n{chapter['text']}",
        gr.Button(interactive=at > 0),
        gr.Button(interactive=at < len(CHAPTERS) - 1),
        *(gr.update(**update) for update in element(chapter).values()),
    )


def fill_next(filled: int):
    """One row more of the table of gaps; after the last it begins again."""
    rows = len(PAPER["table1_gaps"])
    filled = filled % rows + 1
    return filled, gaps(filled), "Again" if filled == rows else "Next gap"


def compare(number: int):
    """The table that was chosen, and what stands beside it."""
    return [gr.update(**update) for update in _compared(number).values()]


def compete(tau: float, knobs: Knobs):
    """The race of the chapter on the window, in slow motion; it obeys the chapter's own slider."""
    prompt = next(example["prompt"] for example in race.PROMPTS if example["id"] == "bus")
    asked = (prompt, models.TINY, ["mars"], race.CRITERION, "", race.History(), knobs)
    with closing(race.compete(*asked)) as shown:
        yield from shown


# ------------------------------------------------------------------------------------- the page


class Figures:
    """What may stand beside a chapter, an attribute for each of `PARTS`."""

    def __init__(self):
        with gr.Group(visible=False) as self.live:
            self.tau = tau_slider("lesson-tau")
            self.buttons = run_and_stop("lesson-")
        self.stage = Stage(shelf=False, elem_id="lesson-stage", empty="The recorded run is being loaded.")
        self.grid = Grid(elem_id="lesson-grid")
        self.choice = gr.Dropdown([], label="The paper's tables", filterable=False, elem_id="choice")
        self.plot = gr.Plot(show_label=False)
        self.our_plot = gr.Plot(show_label=False)
        self.paper_table = gr.Markdown(elem_id="paper-table", elem_classes="numbers")
        self.our_table = gr.Markdown(elem_id="our-table", elem_classes="numbers")
        self.table = gr.Markdown(elem_id="lesson-table")
        self.fill = gr.Button("Next gap", elem_id="fill")
        self.schedule = Schedules()

    def __getitem__(self, names: tuple[str, ...]) -> list:
        return [getattr(self, name) for name in names]


def build(page: Page, tab: gr.Tab) -> None:
    """The tab's components and events."""
    number, filled = gr.State(None), gr.State(1)
    with gr.Row(elem_id="learn-page"):
        with gr.Column(scale=4, min_width=320):
            heading = gr.Markdown(elem_id="chapter")
            with gr.Row():
                back = gr.Button("Back", elem_id="back", min_width=80)
                forth = gr.Button("Next", variant="primary", elem_id="next", min_width=80)
        with gr.Column(scale=6, min_width=420):
            figures = Figures()

    remember = script("tabs/learn_address.js", [chapter["id"] for chapter in CHAPTERS])
    turned = [number, filled, heading, back, forth, *figures[PARTS]]
    for press, by in ((tab.select, 0), (forth.click, 1), (back.click, -1)):
        press(turn, [number, gr.State(by)], turned, **QUIET).then(None, heading, None, js=remember, **QUIET)
    tab.select(None, None, None, js=script("tabs/learn_keys.js"))
    figures.fill.click(fill_next, filled, [filled, figures.table, figures.fill], **QUIET)
    figures.choice.input(compare, figures.choice, figures[COMPARED], **QUIET)
    _race(figures)


def _race(figures: Figures) -> None:
    knobs, tau = gr.State(Knobs()), figures.tau
    on_run(
        [figures.buttons[0].click],
        figures.buttons,
        compete,
        [tau],
        figures.stage,
        knobs,
        [tau, gr.State(SLOW)],
        show_progress="hidden",
    )
    tau.input(set_tau, [knobs, tau], None, **LIVE)
