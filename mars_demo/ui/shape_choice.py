"""The choice of the shape of an answer: any text, JSON with some fields, or another grammar."""

import json

import gradio as gr

from mars_demo.core.fields import validated
from mars_demo.core.grammar import KINDS, Grammar
from mars_demo.decoding.matcher import check
from mars_demo.ui.controls import IN_BROWSER, LIVE
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.generation import COMPACT, DEFAULTS, NONE, Generation

SHAPES = {
    "Any text": NONE,
    "JSON": "json",
    "JSON without spaces": COMPACT,
    "One of several texts": "choice",
    "A pattern": "regex",
    "A grammar": "lark",
}
TITLE = "Shape of the answer"


class ShapeFields(Drawing):
    """The field list of a JSON answer, and the sentence about an invalid grammar.

    Event `written`: its script has written the `grammar` of the value.
    """

    EVENTS = ["written"]


class ShapeChoice:
    """The controls of the shape and of its grammar; a tab's `prefix` begins their ids."""

    def __init__(self, prefix: str = ""):
        with gr.Accordion(TITLE, open=False, elem_id=f"{prefix}shaped") as self.opened:
            self.shape = gr.Dropdown(
                list(SHAPES.items()),
                value=DEFAULTS["shape"],
                label=TITLE,
                show_label=False,
                container=False,
                elem_id=f"{prefix}answer-shape",
            )
            self.fields = ShapeFields("shape", elem_id=f"{prefix}shape", elem_classes="shape-fields")
            self.grammar = gr.Textbox(
                DEFAULTS["grammar"],
                lines=2,
                max_lines=7,
                visible=False,
                elem_id=f"{prefix}grammar",
                elem_classes="grammar",
            )

    def connect(self) -> None:
        """Connect the events."""
        given, shown = [self.shape, self.grammar], [self.fields, self.grammar, self.opened]
        gr.on([control.change for control in given], show_shape, given, shown, **LIVE)
        read = "(value) => JSON.parse(value).grammar"
        self.fields.written(None, self.fields, self.grammar, js=read, **IN_BROWSER)


def shaped(shape: str, grammar: str) -> Grammar | None:
    """Return the grammar of a shape; None of any text. A `ValueError` says what is wrong with it."""
    if given := validated(Generation, {"shape": shape, "grammar": grammar}).shaped:
        check(given)
    return given


def show_shape(shape: str, grammar: str):
    """Show the controls of a shape, and what is wrong with its grammar."""
    problem = ""
    try:
        shaped(shape, grammar)
    except ValueError as error:
        problem = str(error)
    value = json.dumps({"shape": shape, "grammar": grammar, "problem": problem})
    if shape == NONE:
        return value, gr.Textbox(visible=False), gr.skip()
    label = KINDS.get(shape, KINDS["json"])
    return value, gr.Textbox(visible=True, label=label[0].upper() + label[1:]), gr.Accordion(open=True)
