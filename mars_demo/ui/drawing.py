"""Components of our own: an HTML, a CSS and JavaScript files that lie beside their Python class."""

from pathlib import Path
from typing import Any

import gradio as gr

_HERE = Path(__file__).parent


class Drawing(gr.HTML):
    """A `gr.HTML` made of the files in a folder of this package.

    The template is fixed and never sees a text: Gradio would read it as HTML and as JavaScript. The value
    is data, which the scripts draw; they run as one function, behind `page.js`, in the order given.
    """

    def __init__(self, folder: str, scripts: tuple[str, ...], value: str = "", **settings: Any):
        def read(name: str) -> str:
            return (_HERE / name).read_text("utf-8")

        super().__init__(
            value,
            html_template=read(f"{folder}/{folder}.html"),
            js_on_load="\n".join([read("page.js"), *(read(f"{folder}/{script}.js") for script in scripts)]),
            head=f"<style>{read(f'{folder}/{folder}.css')}</style>",
            apply_default_css=False,
            **settings,
        )

    def postprocess(self, value: str | None) -> str | None:
        return value  # data, never HTML: what gr.HTML warns about is drawn as text
