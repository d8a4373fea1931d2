"""The gallery: recorded runs and lessons as a folder of static pages."""

import html
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from markdown_it import MarkdownIt
from pandas import DataFrame
from plotly.graph_objects import Figure

from mars_demo.core.markdown import table
from mars_demo.show import recordings
from mars_demo.show.components.stage import stage
from mars_demo.static import live, standalone
from mars_demo.static.space import check_new, fields, write_card
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.lessons import CHAPTERS, figures
from mars_demo.ui.lessons.parts import Parts

TITLE = "MARS Demo: recorded runs and lessons"
WHAT = Path(__file__).with_suffix(".md").read_text("utf-8")
LIVE = """## Live

[Write your own prompt](live/index.html): the model answers in your browser."""
INTERACTIVE = "In the app this figure is interactive."
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def write_pages(output: Path, live_files: Path | None = None, repository: str | None = None) -> None:
    """Write the gallery's folder, which is also a static Space.

    live_files: the folder of `live.collect`, which is moved there and gets its page; None for no live page.
    repository: the OWNER/NAME of the Space, if it has one already.

    Raises:
        ValueError: if the folder is not empty.
    """
    check_new(output)
    with gr.Blocks():
        parts = Parts()
    run_figure = stage(alone=True)
    runs, drawings = recordings.index(), [run_figure]
    pages = {"index.html": _index(runs, live_files is not None)}
    for number, entry in enumerate(runs):
        main = f"<main>\n{standalone.figure(run_figure, recordings.recording(entry['id']))}</main>\n"
        pages[f"runs/{entry['id']}.html"] = _page(runs, number, main, [run_figure])
    for number, chapter in enumerate(CHAPTERS):
        main, own = _lesson(chapter, parts)
        drawings += own
        pages[f"lessons/{chapter['id']}.html"] = _page(CHAPTERS, number, main, own)
    pages |= {f"shared/{name}": text for name, text in standalone.files(drawings).items()}
    if live_files:
        pages |= live.pages(live_files, run_figure)
        shutil.copytree(live_files, output / "live")
    for name, text in pages.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_card(output, _card(), f"# {TITLE}\n\n{WHAT}", repository)


# ------------------------------------------------------------------------------------ a lesson's page


def _lesson(chapter: dict, parts: Parts) -> tuple[str, list[standalone.Figure]]:
    """Return a chapter with its figure as HTML, without parts that need a server, and its components."""
    element = chapter["element"]
    # Where the app offers a choice of figures, the page shows all of them.
    each = figures.alternatives(element)
    chosen = {"which", "choice"}.union(*each)
    figure = figures.lesson_figure(chapter)
    once = {name: update for name, update in figure.items() if not (each and name in chosen)}
    beside = [
        (getattr(parts, name), update.get("value"))
        for updates in [*each, once]
        for name, update in updates.items()
        if update["visible"]
    ]
    drawings = [part.figure for part, value in beside if isinstance(part, Drawing) and value]
    drawn = [_drawn(part, value) for part, value in beside]
    shown = "".join(filter(None, drawn))
    if not all(drawn):
        shown += f"<p>{INTERACTIVE}</p>\n"
    style = ' class="beside"' if drawings else ""  # tables take the whole width
    text = f"<article>\n{_html(chapter['text'])}</article>\n"
    return f"<main{style}>\n{text}<section>\n{shown}</section>\n</main>\n", drawings


def _drawn(part: gr.blocks.Block, value: Any) -> str | None:
    """Return a part of a chapter's figure as HTML; None for a part that needs the app."""
    if isinstance(part, Drawing):
        return standalone.figure(part.figure, value) if value else None
    if isinstance(part, gr.Markdown):
        return _html(value)
    return _html(_plotted(value)) if isinstance(part, gr.Plot) else None


def _plotted(plot: Figure) -> str:
    """Return the points of a plot as a table: a row per x-value, a column per line."""
    across, up = plot.layout.xaxis.title.text, plot.layout.yaxis.title.text
    lines = {line.name: dict(zip(line.x, line.y)) for line in plot.data}
    places = sorted({x for points in lines.values() for x in points})
    rows = [{across: x} | {name: points.get(x) for name, points in lines.items()} for x in places]
    return f"{up}:\n\n{table(DataFrame(rows))}"


def _html(text: str) -> str:
    """Return Markdown as HTML, without the style attributes of cells, which the page's policy forbids."""
    tokens = MARKDOWN.parse(text)
    for token in tokens:
        token.attrs.pop("style", None)
    return MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})


# ------------------------------------------------------------------------------- around what is shown


def _page(entries: Sequence[dict], number: int, main: str, drawings: Sequence[standalone.Figure]) -> str:
    """Return the page of `entries[number]`, with links to the previous and the next page."""
    title = entries[number]["title"]
    links = [
        f"{name}: {_link(entries[at])}"
        for name, at in (("Previous", number - 1), ("Next", number + 1))
        if 0 <= at < len(entries)
    ]
    body = (
        f"<header>\n<h1>{html.escape(title)}</h1>\n"
        f'<nav><a href="../index.html">All runs and lessons</a></nav>\n</header>\n{main}'
        f"<footer>\n<nav>{' · '.join(links)}</nav>\n</footer>\n"
    )
    return standalone.document(title, body, drawings, "../shared")


def _link(entry: dict) -> str:
    return f'<a href="{entry["id"]}.html">{html.escape(entry["title"])}</a>'


def _index(runs: Sequence[dict], has_live: bool) -> str:
    listed = [
        f"- [{run['title']}](runs/{run['id']}.html)\n\n  {run['note']}\n\n  {run['model']}" for run in runs
    ]
    lessons = [f"1. [{chapter['title']}](lessons/{chapter['id']}.html)" for chapter in CHAPTERS]
    parts = [WHAT, LIVE if has_live else "", "## Recorded runs", *listed, "## Lessons", "\n".join(lessons)]
    main = _html("\n\n".join(parts))
    body = f"<header>\n<h1>{TITLE}</h1>\n</header>\n<main>\n{main}</main>\n"
    return standalone.document(TITLE, body, shared="shared")


def _card() -> dict[str, Any]:
    app = fields()
    return {
        "title": "MARS Demo, recorded",
        **{key: app[key] for key in ("emoji", "colorFrom", "colorTo", "license", "models")},
        "tags": [tag for tag in app["tags"] if tag != "mcp-server"],
        "sdk": "static",
        "app_file": "index.html",
        "short_description": "Recorded runs, replayed forward by forward",
        # Browsers share memory between threads only on pages with these headers.
        "custom_headers": {
            "cross-origin-embedder-policy": "require-corp",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "cross-origin",
        },
    }
