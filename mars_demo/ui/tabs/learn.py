"""The Learn tab: the paper in short chapters, each with an interactive figure."""

import gradio as gr

from mars_demo.ui import models
from mars_demo.ui.controls import LIVE, QUIET, Knobs, in_turns, set_tau
from mars_demo.ui.lessons import comparing, recorded, tables
from mars_demo.ui.lessons.chapters import CHAPTERS, number_of
from mars_demo.ui.lessons.kinds import figure
from mars_demo.ui.lessons.parts import NAMES, Parts
from mars_demo.ui.scripts import script
from mars_demo.ui.tabs import Page, race

TITLE = "Learn"
SLOW = 40  # ms of pause after each forward of the chapter's race
CHOSEN = ("words", "stage", "grid", "plot")  # the parts that a choice of run, picture or chart changes


# --------------------------------------------------------------------------------- event handlers


def turn(at: int | None, by: int, request: gr.Request):
    """Return a chapter's number, its text, the state of the buttons, and its figure.

    At first, when `at` is None, the URL names the chapter.
    """
    at = number_of(request.query_params.get("chapter")) if at is None else at + by
    at = min(max(at, 0), len(CHAPTERS) - 1)
    chapter = CHAPTERS[at]
    return (
        at,
        f"### {at + 1} of {len(CHAPTERS)}: {chapter['title']}\n\n{chapter['text']}",
        gr.Button(interactive=at > 0),
        gr.Button(interactive=at < len(CHAPTERS) - 1),
        *(gr.update(**update) for update in figure(chapter).values()),
    )


def choose(at: int, index: int):
    """Show one of the runs, pictures or charts that a chapter offers."""
    element = CHAPTERS[at]["element"]
    if element["kind"] != "choice" or not 0 <= index < len(element["options"]):
        raise ValueError("This chapter has no such choice.")
    updates = dict.fromkeys(CHOSEN, {"visible": False}) | recorded.chosen(element, index)
    return [gr.update(**update) for update in updates.values()]


def look(at: int, forward: int) -> str:
    """Return the lens of another forward of the open chapter."""
    element = CHAPTERS[at]["element"]
    if element["kind"] != "lens":
        raise ValueError("This chapter has no such choice.")
    return recorded.look_inside(element, forward)


def divide(at: int, positions: float, tokens: float) -> str:
    """Return the speed-ups of the open chapter's costs of forwards."""
    element = CHAPTERS[at]["element"]
    if element["kind"] != "costs":
        raise ValueError("This chapter has no such choice.")
    return tables.divided(element, int(positions), tokens)


def compare(number: int):
    """Show the chosen table and its charts."""
    return [gr.update(**update) for update in tables.compared(number).values()]


def compete(tau: float, knobs: Knobs, request: gr.Request):
    """Race the prompt of the chapter on the window, in slow motion, with the τ of its own slider."""
    prompt = next(example["prompt"] for example in race.PROMPTS if example["id"] == "bus")
    context = ("", race.History(), True, knobs, request)
    yield from race.compete(prompt, models.TINY, ["mars"], race.CRITERION, *context)


# ------------------------------------------------------------------------------------- the page


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events."""
    number = gr.State(None)
    with gr.Row(elem_id="learn-page"):
        with gr.Column(scale=4, min_width=320):
            heading = gr.Markdown(elem_id="chapter")
            with gr.Row():
                back = gr.Button("Back", elem_id="back", min_width=80)
                forth = gr.Button("Next", variant="primary", elem_id="next", min_width=80)
        with gr.Column(scale=6, min_width=420):
            parts = Parts()

    remember = script("tabs/learn_address.js", [chapter["id"] for chapter in CHAPTERS])
    turned = [number, heading, back, forth, *parts[NAMES]]
    for press, by in ((tab.select, 0), (forth.click, 1), (back.click, -1)):
        press(turn, [number, gr.State(by)], turned, **QUIET).then(None, heading, None, js=remember, **QUIET)
    tab.select(None, None, None, js=script("tabs/learn_keys.js"))
    parts.choice.input(compare, parts.choice, parts[tables.COMPARED], **LIVE)
    parts.which.input(choose, [number, parts.which], parts[CHOSEN], **LIVE)
    parts.forward.input(look, [number, parts.forward], parts.lens, **LIVE)
    for slider in (parts.positions, parts.tokens):
        slider.input(divide, [number, parts.positions, parts.tokens], parts.table, **LIVE)
    parts.cache_block.input(tables.scheduled, parts.cache_block, parts.schedule, **LIVE)
    _run(parts)


def _run(parts: Parts) -> None:
    """Connect the buttons that run models: the race of one chapter, and the answers of another."""
    buttons, tau = parts.buttons, parts.tau
    buttons.on(
        [buttons.run.click],
        compete,
        [tau],
        parts.stage,
        [tau, gr.State(SLOW)],
        before=(race.wait_for, gr.State(models.TINY)),
        show_progress="hidden",
        **in_turns(),
    )
    tau.input(set_tau, [buttons.knobs, tau], None, **LIVE)
    parts.asking_buttons.on(
        [parts.asking_buttons.run.click],
        comparing.compare,
        [parts.prompt],
        parts.answers,
        before=(race.wait_for, gr.State(models.BASE)),
        show_progress="hidden",
        **in_turns(),
    )
