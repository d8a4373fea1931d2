"""The lessons as HTML: folded questions, a page for each chapter, and one page to print."""

import html
from functools import cache
from typing import Any

import gradio as gr
from markdown_it import MarkdownIt
from pandas import DataFrame
from plotly.graph_objects import Figure
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from mars_demo.core.assets import read_json
from mars_demo.core.links import LICENCE
from mars_demo.core.markdown import table
from mars_demo.static import standalone
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.lessons import CHAPTERS, figures, number_of
from mars_demo.ui.lessons.parts import Parts

TITLE = "MARS Demo: all lessons"
URL = "gradio_api/lessons"  # in the app, relative to the page and below Gradio's prefix
PATH = read_json("lessons", "path.json")  # minutes by chapter
INTERACTIVE = "In the app this figure is interactive."
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def folded_questions(chapter: dict) -> str:
    """Return a chapter's questions as HTML, with folded answers."""
    return "".join(
        f"<details><summary>{html.escape(one['question'])}</summary><p>{html.escape(one['answer'])}</p></details>\n"
        for one in chapter["questions"]
    )


def for_teachers(url: str = "") -> str:
    """Return the path of 45 minutes and the licence as folded HTML.

    url: that of the page with all lessons, unless it is this page.
    """
    steps = "".join(
        f"<li>{number_of(id) + 1}. {html.escape(CHAPTERS[number_of(id)]['title'])}, {minutes} min</li>"
        for id, minutes in PATH.items()
    )
    link = f'<p><a href="{url}" target="_blank">All lessons on one page, to print</a></p>'
    return (
        f'<details class="teachers"><summary>For teachers</summary>{link if url else ""}'
        f"<p>A path of {sum(PATH.values())} minutes:</p><ul>{steps}</ul>"
        f'<p>Texts and figures: <a href="{LICENCE}">Apache 2.0</a>. Copy and change them, '
        "with this licence and a note of your changes.</p></details>\n"
    )


@cache
def all_lessons() -> str:
    """Return all lessons as one HTML file with a print style."""
    body = f"<header>\n<h1>{TITLE}</h1>\n</header>\n<main>\n{for_teachers()}"
    drawings: list[standalone.Figure] = []
    for number, (chapter, (lesson, own)) in enumerate(zip(CHAPTERS, lessons()), start=1):
        body += f"<h2>{number}. {html.escape(chapter['title'])}</h2>\n{lesson}"
        drawings += own
    return standalone.document(TITLE, f"{body}</main>\n", drawings)


def lessons() -> list[tuple[str, list[standalone.Figure]]]:
    """Return each chapter with its figure as HTML, without parts that need a server, and its components."""
    with gr.Blocks():
        parts = Parts()
    return [_lesson(chapter, parts) for chapter in CHAPTERS]


def _lesson(chapter: dict, parts: Parts) -> tuple[str, list[standalone.Figure]]:
    element = chapter["element"]
    # Where the app offers a choice of figures, the page shows all of them.
    each = figures.alternatives(element)
    chosen = {"which", "choice"}.union(*each)
    figure = figures.lesson_figure(chapter)
    first = {"predict": figure.pop("predict")}
    once = {name: update for name, update in figure.items() if not (each and name in chosen)}
    beside = [
        (getattr(parts, name), update.get("value"))
        for updates in [first, *each, once]
        for name, update in updates.items()
        if update["visible"]
    ]
    drawings = [part.figure for part, value in beside if isinstance(part, Drawing) and value]
    drawn = [_drawn(part, value) for part, value in beside]
    shown = "".join(filter(None, drawn))
    if not all(drawn):
        shown += f"<p>{INTERACTIVE}</p>\n"
    style = ' class="beside"' if drawings else ""  # tables take the whole width
    text = chapter["text"]
    for sentence, instead in chapter.get("static", {}).items():  # of controls that the app alone has
        text = text.replace(sentence, instead)
    text = f"<article>\n{html_of(text)}{folded_questions(chapter)}</article>\n"
    return f"<div{style}>\n{text}<section>\n{shown}</section>\n</div>\n", drawings


def _drawn(part: gr.blocks.Block, value: Any) -> str | None:
    """Return a part of a chapter's figure as HTML; None for a part that needs the app."""
    if isinstance(part, Drawing):
        return standalone.figure(part.figure, value) if value else None
    if isinstance(part, gr.Markdown):
        return html_of(value)
    return html_of(_plotted(value)) if isinstance(part, gr.Plot) else None


def _plotted(plot: Figure) -> str:
    """Return the points of a plot as a table: a row per x-value, a column per line."""
    across, up = plot.layout.xaxis.title.text, plot.layout.yaxis.title.text
    lines = {line.name: dict(zip(line.x, line.y)) for line in plot.data}
    places = sorted({x for points in lines.values() for x in points})
    rows = [{across: x} | {name: points.get(x) for name, points in lines.items()} for x in places]
    return f"{up}:\n\n{table(DataFrame(rows).round(3))}"


def html_of(text: str) -> str:
    """Return Markdown as HTML, without the style attributes of cells, which the page's policy forbids."""
    tokens = MARKDOWN.parse(text)
    for token in tokens:
        token.attrs.pop("style", None)
    return MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})


def _send(_: Request) -> HTMLResponse:
    return HTMLResponse(all_lessons())


ROUTE = Route(f"/{URL}", _send)
