"""The stage: one component that draws the record of a race while it grows."""

from pathlib import Path

import gradio as gr

_HERE = Path(__file__).parent
_HTML, _CSS, _JS = ((_HERE / f"stage.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))


class Stage(gr.HTML):
    """Two lanes of tokens, coloured by the forward that accepted them.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.
    The template is fixed and never sees a text: Gradio would read it as HTML and as JavaScript.
    """

    def __init__(self, value: str = "", *, render: bool = True):  # render: for Gradio's own updates
        super().__init__(
            value,
            html_template=_HTML,
            js_on_load=_JS,
            head=f"<style>{_CSS}</style>",
            apply_default_css=False,
            elem_id="stage",
            render=render,
        )

    def postprocess(self, value: str | None) -> str | None:
        return value  # a record, never HTML: what gr.HTML warns about is drawn as text
