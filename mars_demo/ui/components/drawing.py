"""Components of our own: HTML, CSS and JavaScript modules that lie beside their Python class."""

from pathlib import Path
from typing import Any

import gradio as gr

from mars_demo.ui.components.bundle import bundle

_HERE = Path(__file__).parent


class Drawing(gr.HTML):
    """A `gr.HTML` made of a folder of this package: `NAME/NAME.html`, `.css` and `.js`.

    The template is fixed and never sees a text: Gradio would read it as HTML and as JavaScript. The value
    is data, which the scripts draw. `constants` are for them too, and stand in the script itself: Gradio
    forgets the properties of a component that was hidden.
    """

    def __init__(self, name: str, value: str = "", constants: Any = None, **settings: Any):
        folder = _HERE / name
        super().__init__(
            value,
            html_template=(folder / f"{name}.html").read_text("utf-8"),
            js_on_load=bundle(folder / f"{name}.js", constants),
            head=f"<style>{(folder / f'{name}.css').read_text('utf-8')}</style>",
            apply_default_css=False,
            **settings,
        )

    def postprocess(self, value: str | None) -> str | None:
        return value  # data, never HTML: what gr.HTML warns about is drawn as text
