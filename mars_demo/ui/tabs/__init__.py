"""The tabs: modules with a `TITLE` and a function `build(page, tab)` that fills the tab.

A new one is a module here and an entry in the list of `ui/page.py`.
"""

import gradio as gr

from mars_demo.ui import models
from mars_demo.ui.components.frontier import Frontier
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.components.tour import Tour
from mars_demo.ui.controls import model_list


class Page:
    """What tabs are built into, and what they share.

    blocks: the page, whose `load` event comes when a visitor does.
    tabs: all of them, to open one.
    stage: the race's, shown by the Race tab.
    model: the race's choice of models, shown there too.
    frontier: shown by the Frontier tab; the Race tab takes the points that are chosen in it.
    tour: shown above the tabs; the Race tab runs its races.
    """

    def __init__(self, blocks: gr.Blocks, tabs: gr.Tabs, tour: Tour):
        self.blocks, self.tabs, self.tour = blocks, tabs, tour
        self.stage = Stage(entries=models.recorded(), render=False)
        self.model = model_list("model", render=False)
        self.frontier = Frontier(render=False)
