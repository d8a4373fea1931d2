"""Components of our own, made of HTML, CSS and JavaScript modules."""

import json
from typing import Any

import gradio as gr

from mars_demo.ui.components import bundle
from mars_demo.ui.components.files import SCRIPT_URL

GIVEN = "{ element, props, watch, trigger, server }"  # what Gradio gives to a component's script


class Drawing(gr.HTML):
    """A `gr.HTML` made of a folder beside this file: `NAME/NAME.html`, `.css` and `.js`.

    The template is fixed and never sees a text: Gradio would read it as HTML and as JavaScript. The value
    is data, which the scripts draw. `constants` are for them too, and stand in the line that starts them:
    Gradio forgets the properties of a component that was hidden. A class with events of its own lists them
    in `EVENTS`. `settings` are those of `gr.HTML`.
    """

    EVENTS: list = []

    def __init__(self, drawing: str, value: str = "", *, constants: Any = None, **settings: Any):
        self.drawing = drawing
        super().__init__(
            value,
            html_template=(bundle.FOLDER / drawing / f"{drawing}.html").read_text("utf-8"),
            js_on_load=f'marsDemo.start("{drawing}", {GIVEN}, {json.dumps(constants)});',
            head=f'<script src="{SCRIPT_URL}"></script>',
            apply_default_css=False,
            **{"elem_id": drawing.replace("_", "-"), **settings},
        )

    def __getattr__(self, name: str):
        """Know no other events: `gr.HTML` takes every word in quotes in the script for one."""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def postprocess(self, value: str | None) -> str | None:
        return value  # data, never HTML: what gr.HTML warns about is drawn as text
