"""Curves of a training: losses, what each slot guesses, and how fast and right the answers become."""

from pathlib import Path

import gradio as gr

_HERE = Path(__file__).parent


class Curves(gr.HTML):
    """Draws metrics while they come; updated in place, never remounted.

    The value is JSON lines that only grow: the settings (`steps`, `block_size`), then a line per step as
    `training.Metrics` writes it, and in between lines with `probe`, the step after which the held-out
    prompts were answered, their `accuracy` and `tokens_per_forward`.
    """

    def __init__(self, value: str = "", *, elem_id: str = "curves", render: bool = True):
        super().__init__(
            value,
            html_template=(_HERE / "curves.html").read_text("utf-8"),
            js_on_load=(_HERE / "curves.js").read_text("utf-8"),
            head=f"<style>{(_HERE / 'curves.css').read_text('utf-8')}</style>",
            apply_default_css=False,
            elem_id=elem_id,
            render=render,
        )
