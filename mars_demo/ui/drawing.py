"""The base class of the custom components."""

from typing import Any

import gradio as gr

from mars_demo.show.components import Figure
from mars_demo.show.scripts import SCRIPT_URL

GIVEN = "element, props, watch, trigger, server"  # the arguments of a component's script in Gradio


class Drawing(gr.HTML):
    """A `gr.HTML` that draws a `Figure`.

    The scripts bring its HTML and draw its value, which Gradio would read as HTML and as JavaScript. Their
    `constants` are part of the line that starts them, since Gradio forgets the properties of a hidden
    component. Subclasses list their own events in `EVENTS`. `settings` are those of `gr.HTML`.
    """

    EVENTS: list = []

    def __init__(self, drawing: str, value: str = "", *, constants: Any = None, **settings: Any):
        self.figure = figure = Figure(drawing, constants)
        super().__init__(
            value,
            html_template="",  # the scripts fill the element
            js_on_load=f"marsDemo.{drawing}({{ {GIVEN}, constants: {figure.constants_json} }});",
            head=f'<script src="{SCRIPT_URL}"></script>',
            apply_default_css=False,
            **{"elem_id": drawing.replace("_", "-"), **settings},
        )

    def __getattr__(self, name: str):
        """Reject unknown events: `gr.HTML` takes every quoted word of the script for one."""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def postprocess(self, value: str | None) -> str | None:
        return value  # data, never HTML: the scripts draw it as text, so gr.HTML's warning does not apply
