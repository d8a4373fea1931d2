"""Components of our own: HTML, CSS and JavaScript modules that lie beside their Python class."""

import re
from functools import cache
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
        self.drawing = name
        self.style = (folder / f"{name}.css").read_text("utf-8")
        super().__init__(
            value,
            html_template=(folder / f"{name}.html").read_text("utf-8"),
            js_on_load=bundle(folder / f"{name}.js", constants),
            head=f"<style>{self.style}</style>",
            apply_default_css=False,
            **settings,
        )

    def __getattr__(self, name: str):
        """As `gr.HTML`, which searches the script for listeners of that name, a hundred times for every new
        visitor: only if it has the name in quotes."""
        if name not in _quoted(self.__dict__.get("js_on_load") or ""):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        return super().__getattr__(name)

    def postprocess(self, value: str | None) -> str | None:
        return value  # data, never HTML: what gr.HTML warns about is drawn as text


@cache
def _quoted(script: str) -> frozenset[str]:
    return frozenset(re.findall(r"""(?<=['"`])\w+(?=['"`])""", script))
