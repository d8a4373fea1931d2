"""The gallery: the recorded runs and the lessons as a folder of pages that need no server."""

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

import gradio as gr
import yaml
from markdown_it import MarkdownIt
from pandas import DataFrame

from mars_demo.decoding.trace import read_runs
from mars_demo.evaluation import paper_tables
from mars_demo.export.space import check_new
from mars_demo.markdown import table
from mars_demo.modes import BASELINE, MODES
from mars_demo.ui import standalone
from mars_demo.ui.components.drawing import Drawing
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.lessons import recorded, tables
from mars_demo.ui.lessons.chapters import CHAPTERS
from mars_demo.ui.lessons.kinds import figure
from mars_demo.ui.lessons.parts import Parts
from mars_demo.views import recordings

TITLE = "MARS Demo: recorded runs and lessons"
WHAT = """
A language model usually computes one token per forward pass. MARS (Mask AutoRegreSsion,
[arXiv 2604.07023](https://arxiv.org/abs/2604.07023)) fine-tunes it so that one forward predicts several
next tokens, which are accepted from the left while each one's score is at least a threshold τ.

These pages replay recorded runs of small models, forward by forward, and explain the method in short
lessons. They need no server and load nothing from elsewhere. In the app, the same models answer live.
"""
RACED = "In the app this race also runs live, and τ can be moved while the model writes."
FILLED = "In the app this table is filled in row by row."
CHOSEN = "These are all tables; in the app one is chosen at a time, and Table 8 is drawn as well."
INTERACTIVE = "In the app this figure is interactive."
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def write(output: Path) -> None:
    """Write the gallery's folder, which is also a static Space.

    Raises:
        ValueError: if there is something in the folder already.
    """
    check_new(output)
    with gr.Blocks():
        stage, parts = Stage(shelf=False, alone=True), Parts()
    lessons = [Lesson(chapter, parts) for chapter in CHAPTERS]
    runs = recordings.index()
    pages = {"index.html": _index(runs, CHAPTERS), "README.md": _readme()}
    for number, entry in enumerate(runs):
        main = standalone.figure(stage, recordings.recording(entry["id"]))
        body = f"{_head(entry['title'])}<main>\n{main}</main>\n{_beside('runs', runs, number)}"
        pages[f"runs/{entry['id']}.html"] = standalone.document(entry["title"], body, [stage], "../shared")
    for number, lesson in enumerate(lessons):
        body = f"{_head(lesson.title)}{lesson.main()}{_beside('lessons', CHAPTERS, number)}"
        pages[f"lessons/{lesson.id}.html"] = standalone.document(
            lesson.title, body, lesson.drawings, "../shared"
        )
    shared = standalone.files([stage, *(drawing for lesson in lessons for drawing in lesson.drawings)])
    pages |= {f"shared/{name}": text for name, text in shared.items()}
    for name, text in pages.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Lesson:
    """A chapter and what stands beside it in the Learn tab, as far as that needs no server.

    Args:
        chapter: of `CHAPTERS`.
        parts: the components that may stand beside a chapter.
    """

    def __init__(self, chapter: dict, parts: Parts):
        self.id, self.title, self.text = chapter["id"], chapter["title"], chapter["text"]
        wanted = chapter["element"]
        self.kind = wanted["kind"]
        # Where one of several is chosen in the app, all are shown here.
        options = range(len(wanted["options"])) if self.kind == "choice" else []
        shown = [recorded.chosen(wanted, index) for index in options] or [figure(chapter)]
        self.parts = [
            (getattr(parts, name), update.get("value"))
            for updates in shown
            for name, update in updates.items()
            if update["visible"]
        ]

    @property
    def drawings(self) -> list[Drawing]:
        return [part for part, value in self.parts if isinstance(part, Drawing) and value]

    def main(self) -> str:
        """Its text and its figure, as HTML."""
        beside = ' class="beside"' if self.drawings else ""  # tables take the whole width
        return (
            f"<main{beside}>\n<article>\n{_html(self.text)}</article>\n"
            f"<section>\n{''.join(self._figure())}</section>\n</main>\n"
        )

    def _figure(self) -> Iterator[str]:
        if self.kind == "gaps":
            yield _html(f"{tables.filled_gaps(len(tables.PAPER['table1_gaps']))}\n\n{FILLED}")
            return
        if self.kind == "comparison":
            yield _html("\n\n".join([CHOSEN, *map(_compared, paper_tables.TABLES)]))
            return
        drawn = [_drawn(part, value) for part, value in self.parts]
        yield from filter(None, drawn)
        if not all(drawn) or any(map(standalone.asks_server, self.drawings)):
            yield f"<p>{RACED if self.kind == 'race' else INTERACTIVE}</p>\n"


def _drawn(part: gr.blocks.Block, value) -> str | None:
    """A part beside a chapter as HTML; None for one that does nothing without the app."""
    if isinstance(part, Drawing):
        return standalone.figure(part, value) if value else None
    if isinstance(part, gr.Markdown):
        return _html(value)
    return _html(_plotted(value)) if isinstance(part, gr.Plot) else None


def _plotted(figure) -> str:
    """The points of a plot as a table: a row for each place on the x-axis, a column for each line."""
    across, up = figure.layout.xaxis.title.text, figure.layout.yaxis.title.text
    lines = {line.name: dict(zip(line.x, line.y)) for line in figure.data}
    places = sorted({x for points in lines.values() for x in points})
    rows = [{across: x} | {name: points.get(x) for name, points in lines.items()} for x in places]
    return f"{up}:\n\n{table(DataFrame(rows))}"


def _compared(number: int) -> str:
    """A table of the paper and this project's, as Markdown."""
    *_, theirs, ours = (update["value"] for update in tables.compared(number).values())
    return "\n\n".join([f"## {paper_tables.TABLES[number].title}", *filter(None, [theirs, ours])])


def _html(text: str) -> str:
    """Markdown as HTML, without the style attributes of its cells, which the policy of the page forbids."""
    tokens = MARKDOWN.parse(text)
    for token in tokens:
        token.attrs.pop("style", None)
    return MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})


# ------------------------------------------------------------------------------- around what is shown


def _head(title: str) -> str:
    return (
        f'<header>\n<nav><a href="../index.html">All runs and lessons</a></nav>\n'
        f"<h1>{html.escape(title)}</h1>\n</header>\n"
    )


def _beside(folder: str, entries: Sequence[dict], number: int) -> str:
    """Links to the pages before and after the one of `entries[number]`."""
    links = []
    for name, at in (("Previous", number - 1), ("Next", number + 1)):
        if 0 <= at < len(entries):
            links.append(f"{name}: {_link(entries[at])}")
    return f"<footer>\n<nav>{' · '.join(links)}</nav>\n</footer>\n"


def _link(entry: dict, folder: str = "") -> str:
    """To the page of a recorded run or a chapter."""
    return f'<a href="{folder}{entry["id"]}.html">{html.escape(entry["title"])}</a>'


def _index(runs: Sequence[dict], chapters: Sequence[dict]) -> str:
    listed = "".join(
        f"<li>{_link(entry, 'runs/')}\n"
        f'<p>{html.escape(entry["note"])}</p>\n<p class="quiet">{html.escape(_figures(entry))}</p></li>\n'
        for entry in runs
    )
    lessons = "".join(f"<li>{_link(chapter, 'lessons/')}</li>\n" for chapter in chapters)
    body = (
        f"<header>\n<h1>{html.escape(TITLE)}</h1>\n{_html(WHAT)}</header>\n<main>\n"
        f'<h2>Recorded runs</h2>\n<ul class="runs">\n{listed}</ul>\n'
        f'<h2>Lessons</h2>\n<ol class="lessons">\n{lessons}</ol>\n</main>\n'
    )
    return standalone.document(TITLE, body, shared="shared")


def _figures(entry: dict) -> str:
    """The model of a recorded run, and its tokens per forward where that is not always one."""
    runs = read_runs(recordings.recording(entry["id"]).split("\n"))
    sides = [
        f"{run.tokens_per_forward:.2f} ({MODES[run.settings.mode].title})"
        for run in runs
        if run.settings.mode != BASELINE
    ]
    return f"{entry['model']} · tokens per forward: {', '.join(sides)}"


def _readme() -> str:
    front = {key: standalone.CARD[key] for key in ("emoji", "colorFrom", "colorTo")}
    front = {"title": "MARS Demo, recorded", **front, "sdk": "static", "app_file": "index.html"}
    front["short_description"] = "Recorded runs, replayed forward by forward"
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n# {TITLE}\n{WHAT}"
