"""The stage: one component that draws the record of a race, while it grows and afterwards."""

from pathlib import Path

import gradio as gr

from mars_demo import recordings

_HERE = Path(__file__).parent
# In the order they need each other; Gradio runs them as one function.
_SCRIPTS = ("page", "record", "lane", "closeup", "card", "picture", "stage")


def _read(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


class Stage(gr.HTML):
    """Lanes of tokens coloured by the forward that accepted them, with replay and a window per forward.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.
    The template is fixed and never sees a text: Gradio would read it as HTML and as JavaScript.

    Args:
        shelf: with recorded runs, downloads, the visit's past runs and the page's address, which only one
            stage of a page can have.

    Events: `again`, with the `prompt` and `tau` of a run that the visitor wants to see again.
    """

    def __init__(self, value: str = "", *, shelf: bool = True, elem_id: str = "stage", render: bool = True):
        super().__init__(
            value,
            html_template=_read("stage.html"),
            js_on_load="\n".join(_read(f"{script}.js") for script in _SCRIPTS),
            head=f"<style>{_read('stage.css')}</style>",
            apply_default_css=False,
            elem_id=elem_id,
            render=render,  # for Gradio's own updates
            server_functions=[recordings.recording],
            shelf=shelf,
            recordings=recordings.index() if shelf else [],
        )

    def postprocess(self, value: str | None) -> str | None:
        return value  # a record, never HTML: what gr.HTML warns about is drawn as text
