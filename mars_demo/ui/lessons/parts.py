"""The components beside a chapter, shared by all kinds of figures: the page has each of them once."""

import gradio as gr

from mars_demo.show import recordings
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.stage import Stage

MOST_POSITIONS = 17  # of a forward, as measured


class Parts:
    """The components beside a chapter, an attribute for each of `NAMES`, in their order on the page."""

    def __init__(self):
        self.predict = Drawing("predict")
        self.which = gr.Radio([], type="index", elem_id="which")
        self.words = gr.Markdown(elem_id="which-words")
        self.stage = Stage(elem_id="lesson-stage", empty="The recorded run is being loaded.")
        self.grid = Drawing("grid", elem_id="lesson-grid")
        self.worked_step = Drawing("worked_step")
        self.positions = gr.Slider(
            1, MOST_POSITIONS, 1, step=1, label="Positions per forward", elem_id="lesson-positions"
        )
        self.tokens = gr.Slider(1, 9, 1, step=0.1, label="Tokens per forward", elem_id="lesson-tokens")
        least, most = recordings.CACHE_BLOCKS
        self.cache_block = gr.Slider(
            least, most, step=4, label="Positions per cache block (B_cache)", elem_id="cache-block"
        )
        self.schedule = Drawing("schedule")
        self.choice = gr.Dropdown([], label="The paper's tables", filterable=False, elem_id="choice")
        self.plot = gr.Plot(show_label=False)
        self.table = gr.Markdown(elem_id="lesson-table")
        self.numbers = gr.Markdown(elem_id="lesson-numbers", elem_classes="numbers")

    def __getitem__(self, names: tuple[str, ...]) -> list:
        return [getattr(self, name) for name in names]


NAMES = (
    "predict", "which", "words", "stage", "grid", "worked_step", "positions", "tokens", "cache_block",
    "schedule", "choice", "plot", "table", "numbers",
)  # fmt: skip
HIDDEN = {name: {"visible": False} for name in NAMES}


def shown(**more) -> dict:
    """Return the update of a visible part."""
    return {"visible": True} | more
