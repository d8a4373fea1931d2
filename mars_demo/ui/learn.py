"""The Learn tab: the paper in short chapters, each beside something that lives."""

import json
from contextlib import closing
from pathlib import Path

import gradio as gr

from mars_demo import recordings
from mars_demo.markdown import table
from mars_demo.trace import read_runs
from mars_demo.ui import models, race
from mars_demo.ui.grid import Grid
from mars_demo.ui.schedule import Schedules
from mars_demo.ui.stage import Stage

ASSETS = Path(__file__).parents[2] / "assets"
LESSONS = sorted((ASSETS / "lessons").glob("*.json"), key=lambda path: int(path.name.split("-")[0]))
CHAPTERS = [json.loads(path.read_text("utf-8")) for path in LESSONS]
PAPER = json.loads((ASSETS / "paper_tables.json").read_text("utf-8"))
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
        updates["table"] = {"visible": True, "value": table(wanted["columns"], wanted["rows"])}
    elif kind == "figure":
        from mars_demo import figures

        updates["plot"] = {"visible": True, "value": figures.paper_sft_loss(PAPER["table3_sft_loss"])}
    elif kind == "comparison":
        updates |= _comparison()
    elif kind == "schedule":
        updates["schedule"] = {"visible": True, "value": recordings.batched()}
    return updates


def gaps(filled: int) -> str:
    """The paper's Table 1, its first `filled` rows."""
    rows = [
        [
            row["gap"],
            row["AR"],
            row["MARS"],
            row["block_diffusion"],
            "yes" if row["closed_by_mars"] else "no",
        ]
        for row in PAPER["table1_gaps"]
    ]
    blank = [["…", "", "", "", ""]] * (len(rows) - filled)
    columns = ["gap", "AR", "MARS", "block diffusion", "closed by MARS"]
    return f"{table(columns, rows[:filled] + blank)}\n\nSource: the paper's Table 1."


def _comparison() -> dict[str, dict]:
    """The paper's tables to choose from, and what is shown of the first."""
    from mars_demo import comparison

    choices = [(chosen.title, number) for number, chosen in comparison.TABLES.items()]
    first = choices[0][1]
    return {"choice": {"visible": True, "choices": choices, "value": first}} | _compared(first)


def _compared(number: int) -> dict[str, dict]:
    """A table of the paper and this project's, and the charts of the one that sweeps τ."""
    from mars_demo import comparison

    charts = _charts() if number == comparison.SWEEP else [None, None]
    tables = [_sourced("The paper", comparison.paper(number)), _sourced("Here", comparison.here(number))]
    return {
        name: {"visible": value is not None, "value": value}
        for name, value in zip(COMPARED, charts + tables)
    }


def _charts() -> list:
    from mars_demo import comparison, figures

    theirs = figures.frontier(comparison.paper_curves(), f"the paper, Table {comparison.SWEEP}")
    ours = comparison.our_curves()
    return [theirs, figures.frontier(ours, "here, mars-tiny") if ours else None]


def _sourced(title: str, found) -> str:
    """A `comparison.Table` as Markdown, with where it comes from."""
    if found is None:
        return f"#### {title}\n\n{NOT_MEASURED}"
    return f"#### {title}\n\n{table(found.columns, found.rows)}\n\nSource: {found.source}."


def _recorded(id: str, modes: list[str]) -> str:
    text = recordings.recording(id).split("\n", 1)[1]
    runs = [run for run in read_runs(text.splitlines()) if run.settings.mode in modes]
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def _picture(kind: str, block_size: int) -> str:
    from mars_demo import pictures

    checkpoint = models.load(models.TINY)
    tokenizer = checkpoint.tokenizer
    ids = tokenizer(SENTENCE, add_special_tokens=False)["input_ids"]

    def name(token: int) -> str:
        return tokenizer.decode([token])

    if kind == "window":
        picture = pictures.inference(kind, ids, len(ids) - 2, block_size, 0, checkpoint.mask_id, name)
    else:
        picture = pictures.training(kind, ids, len(ids) // 2, block_size, None, checkpoint.mask_id, name)
    return picture.line()


# ------------------------------------------------------------------------------------- the page

# The chapter stands in the address; the arrow keys turn pages while nothing else has their focus.
REMEMBER = """(heading) => {
  const number = Number(heading.match(/\\d+/)[0]) - 1;
  const query = new URLSearchParams(location.search);
  query.set("tab", "learn");
  query.set("chapter", IDS[number]);
  history.replaceState(history.state, "", `?${query}`);
}""".replace("IDS", json.dumps([chapter["id"] for chapter in CHAPTERS]))
KEYS = """() => {
  if (window.lessonKeys) return;
  window.lessonKeys = true;
  document.addEventListener("keydown", (event) => {
    const own = "input, textarea, select, table, [role=tab], [role=application], [role=slider], .stage *";
    if (event.target.matches(own) || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = document.querySelector({ ArrowRight: "#next", ArrowLeft: "#back" }[event.key]);
    if (button?.offsetParent) button.click();
  });
}"""


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
    """One row more of the table of gaps; behind the last it begins again."""
    rows = len(PAPER["table1_gaps"])
    filled = filled % rows + 1
    return filled, gaps(filled), "Again" if filled == rows else "Next gap"


def compare(number: int):
    """The table that was chosen, and what stands beside it."""
    return [gr.update(**update) for update in _compared(number).values()]


def compete(tau: float, knobs: race.Knobs):
    """The race of the chapter on the window, in slow motion; it obeys the chapter's own slider."""
    prompt = next(example["prompt"] for example in race.PROMPTS if example["id"] == "bus")
    with closing(race.compete(prompt, models.TINY, ["mars"], knobs)) as shown:
        yield from shown


def tab(page: gr.Tab) -> None:
    """The tab's components and events."""
    number, filled, knobs = gr.State(None), gr.State(1), gr.State(race.Knobs())
    with gr.Row(elem_id="learn-page"):
        with gr.Column(scale=4, min_width=320):
            heading = gr.Markdown(elem_id="chapter")
            with gr.Row():
                back = gr.Button("Back", elem_id="back", min_width=80)
                forth = gr.Button("Next", variant="primary", elem_id="next", min_width=80)
        with gr.Column(scale=6, min_width=420):
            with gr.Group(visible=False) as live:
                tau = gr.Slider(0, 1, race.TAU, step=0.01, label="Threshold τ", elem_id="lesson-tau")
                with gr.Row():
                    run = gr.Button("Run", variant="primary", elem_id="lesson-run")
                    halt = gr.Button("Stop", interactive=False, elem_id="lesson-stop")
            parts = {
                "stage": Stage(
                    shelf=False, elem_id="lesson-stage", empty="The recorded run is being loaded."
                ),
                "grid": Grid(elem_id="lesson-grid"),
                "choice": gr.Dropdown([], label="The paper's tables", filterable=False, elem_id="choice"),
                "plot": gr.Plot(show_label=False),
                "our_plot": gr.Plot(show_label=False),
                "paper_table": gr.Markdown(elem_id="paper-table", elem_classes="numbers"),
                "our_table": gr.Markdown(elem_id="our-table", elem_classes="numbers"),
                "table": gr.Markdown(elem_id="lesson-table"),
                "fill": gr.Button("Next gap", elem_id="fill"),
                "schedule": Schedules(),
                "live": live,
            }

    quiet = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    turned = [number, filled, heading, back, forth, *(parts[name] for name in PARTS)]
    for press, by in ((page.select, 0), (forth.click, 1), (back.click, -1)):
        press(turn, [number, gr.State(by)], turned, **quiet).then(None, heading, None, js=REMEMBER, **quiet)
    page.select(None, None, None, js=KEYS)
    parts["fill"].click(fill_next, filled, [filled, parts["table"], parts["fill"]], **quiet)
    parts["choice"].input(compare, parts["choice"], [parts[name] for name in COMPARED], **quiet)
    run.click(race.ready, [knobs, tau, gr.State(SLOW)], [run, halt], **quiet).then(
        compete,
        [tau, knobs],
        parts["stage"],
        concurrency_id="model",
        concurrency_limit=1,
        show_progress="hidden",
        api_visibility="private",
    ).then(race.rest, None, [run, halt], **quiet)
    halt.click(race.stop, knobs, None, **quiet)
    tau.input(race.set_tau, [knobs, tau], None, trigger_mode="always_last", **quiet)
