"""The Learn tab: the paper in short chapters, each with an interactive figure."""

import gradio as gr

from mars_demo.show import recordings
from mars_demo.show.scripts import call
from mars_demo.ui.controls import LIVE, QUIET
from mars_demo.ui.lessons import CHAPTERS, figures, number_of, pages, tables
from mars_demo.ui.lessons.parts import NAMES, Parts
from mars_demo.ui.tabs import Page

TITLE = "Learn"
CHOSEN = ("words", "stage", "grid", "plot")  # the parts that a choice of run, picture or chart changes


# --------------------------------------------------------------------------------- event handlers


def turn(before: int | None, by: int, request: gr.Request):
    """Return a chapter's number, its text and questions, the state of the buttons, and its figure.

    At first, when `before` is None, the URL names the chapter.
    """
    at = number_of(request.query_params.get("chapter")) if before is None else before + by
    at = min(max(at, 0), len(CHAPTERS) - 1)
    chapter = CHAPTERS[at]
    heading = f"### {at + 1} of {len(CHAPTERS)}: {chapter['title']}"
    return (
        at if at != before else gr.skip(),  # the visitor may have chosen another one meanwhile
        f"{heading}\n\n{chapter['text']}\n\n{pages.folded_questions(chapter)}",
        gr.Button(interactive=at > 0),
        gr.Button(interactive=at < len(CHAPTERS) - 1),
        *(gr.update(**update) for update in figures.lesson_figure(chapter).values()),
    )


def choose_chapter(at: int, index: int):
    """Show one of the runs, pictures or charts that a chapter offers."""
    updates = dict.fromkeys(CHOSEN, {"visible": False}) | figures.chosen(CHAPTERS[at]["element"], index)
    return [gr.update(**update) for update in updates.values()]


def divide(at: int, positions: float, tokens: float) -> str:
    """Return the speed-ups of the open chapter's costs of forwards."""
    return tables.divided(CHAPTERS[at]["element"], int(positions), tokens)


def compare(number: int):
    """Show the chosen table and its charts."""
    return [gr.update(**update) for update in tables.compared(number).values()]


# ------------------------------------------------------------------------------------- the page


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events."""
    titles = [(f"{at}. {chapter['title']}", at - 1) for at, chapter in enumerate(CHAPTERS, start=1)]
    with gr.Row(elem_id="learn-page"):
        with gr.Column(scale=2, min_width=220, elem_id="contents"):
            number = gr.Radio(titles, label="Chapters", elem_id="chapters", container=False)
            with gr.Row():
                back = gr.Button("Back", elem_id="back", min_width=60)
                forth = gr.Button("Next", variant="primary", elem_id="next", min_width=60)
            gr.HTML(pages.for_teachers(pages.URL), apply_default_css=False)
        with gr.Column(scale=3, min_width=300):
            heading = gr.Markdown(elem_id="chapter")
        with gr.Column(scale=5, min_width=420, elem_id="lesson-figure"):
            parts = Parts()

    remember = call("openChapter", [chapter["id"] for chapter in CHAPTERS])
    turned = [number, heading, back, forth, *parts[NAMES]]
    for press, by in ((tab.select, 0), (number.input, 0), (forth.click, 1), (back.click, -1)):
        press(turn, [number, gr.State(by)], turned, **LIVE).then(None, heading, None, js=remember, **QUIET)
    parts.choice.input(compare, parts.choice, parts[tables.COMPARED], **LIVE)
    parts.which.input(choose_chapter, [number, parts.which], parts[CHOSEN], **LIVE)
    # One event of both, so that an earlier answer cannot arrive after a later one.
    sliders = [parts.positions, parts.tokens]
    gr.on([slider.input for slider in sliders], divide, [number, *sliders], parts.table, **LIVE)
    parts.cache_block.input(recordings.batched, parts.cache_block, parts.schedule, **LIVE)
