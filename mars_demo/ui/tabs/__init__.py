"""The tabs: modules with a `TITLE` and a function `build(page, tab)` that fills the tab.

A new tab is a module here and an entry in the list of `ui/page.py`.
"""

import gradio as gr

from mars_demo.static.standalone.replay import replay_page
from mars_demo.ui import predictions
from mars_demo.ui.race_settings import first, opening, recorded_runs
from mars_demo.ui.stage import Stage

SERVED = (predictions.prediction, replay_page)  # to the script of a stage that races


class Page:
    """The page that tabs are built into, and the components that they share.

    blocks: the page, whose `load` event fires when a visitor arrives.
    tabs: the container of all tabs, used to open one.
    stage: the stage of the Race tab.
    text, model: the prompt and the model list of the Race tab.
    requested: a state whose change starts a race.
    shown, point, prompt: the sweep of the Frontier tab, and the chosen point and prompt.
    race_prompt: its button that races them.
    """

    def __init__(self, blocks: gr.Blocks, tabs: gr.Tabs):
        self.blocks, self.tabs = blocks, tabs
        opens = opening({}) is not None
        self.stage = Stage(entries=recorded_runs(), served=SERVED, opens=opens, render=False)
        self.text = gr.Textbox(
            first()[0], label="Prompt", lines=3, max_lines=8, elem_id="prompt", render=False
        )
        self.model = gr.Dropdown([], label="Model", elem_id="model", render=False)
        self.requested, self.shown = gr.State(render=False), gr.State(render=False)
        self.point = gr.Dropdown(
            [], label="Point (a row of the table)", elem_id="frontier-point", render=False
        )
        self.prompt = gr.Dropdown(
            [], label="Prompt (a row of the answers)", elem_id="frontier-prompt", render=False
        )
        self.race_prompt = gr.Button("Race this prompt", elem_id="frontier-race-prompt", render=False)
