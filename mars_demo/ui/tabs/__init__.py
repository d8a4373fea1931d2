"""The tabs: modules with a `TITLE` and a function `build(page, tab)` that fills the tab.

A new tab is a module here and an entry in the list of `ui/page.py`.
"""

import gradio as gr

from mars_demo.ui import branches, models
from mars_demo.ui.components.frontier import Frontier
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.controls import model_list
from mars_demo.ui.standalone.replay import replay_page

SERVED = (branches.prediction, replay_page)  # to the script of a stage that races


class Page:
    """The page that tabs are built into, and the components that they share.

    blocks: the page, whose `load` event fires when a visitor arrives.
    tabs: the container of all tabs, used to open one.
    stage: the stage of the Race tab.
    model: the model list of the Race tab.
    frontier: the chart of the Frontier tab; the Race tab reacts to the points chosen in it.
    """

    def __init__(self, blocks: gr.Blocks, tabs: gr.Tabs):
        self.blocks, self.tabs = blocks, tabs
        self.stage = Stage(entries=models.recorded(), served=SERVED, render=False)
        self.model = model_list("model", render=False)
        self.frontier = Frontier(render=False)
