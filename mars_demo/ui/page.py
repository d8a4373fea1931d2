"""The page: a title, the tabs, and how they look."""

import inspect
import threading
from importlib.util import find_spec
from pathlib import Path

import gradio as gr
from gradio.utils import get_space
from starlette.middleware import Middleware

from mars_demo.limits import LIMITS
from mars_demo.ui import gpu, guard, models, visitors
from mars_demo.ui.components import files
from mars_demo.ui.components.tour import Tour
from mars_demo.ui.controls import QUIET
from mars_demo.ui.once import Once
from mars_demo.ui.scripts import script
from mars_demo.ui.storage import storage
from mars_demo.ui.tabs import Page, batch, frontier, learn, mask, race, train

# In their order on the page. In the address a tab is called by its title in lower case.
TABS = {tab.TITLE.lower(): tab for tab in (race, mask, train, frontier, batch, learn)}

_HERE = Path(__file__).parent
_SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")

POLLING = 0.01  # seconds between two looks at Gradio's queue; its own millisecond is much for two cores
HANDLERS = 40  # threads for all that is answered at once, beside those of races

LOOK = {
    "theme": gr.themes.Base(
        primary_hue="blue",
        neutral_hue="slate",
        text_size="md",
        font=_SANS,
        font_mono=_MONO,
    ).set(  # a step darker than usual: text on them and of them reaches a contrast of 4.5
        body_text_color_subdued="*neutral_500",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_hover_dark="*primary_700",
    ),
    "css": (_HERE / "page.css").read_text("utf-8"),
    "head": (
        f'<link rel="stylesheet" href="{files.STYLE_URL}">'
        f"<script>{(_HERE / 'talk.js').read_text('utf-8')}</script>"
    ),
    "mcp_server": find_spec("mcp") is not None,  # `generate` as a tool for other models
}

TITLE = """
# MARS Demo

A language model writes one token per forward pass. Here it races itself: **one token per forward** against
**as many as it is sure of**.
"""


# Its buttons press the keys that they name.
TALK_ROW = """
<button type="button" data-key="n"><kbd>N</kbd>next recording</button>
<button type="button" data-key="Escape"><kbd>Esc</kbd>leave talk view</button>
"""


class App(gr.Blocks):
    """Blocks that answers whatever comes over HTTP with a value or a sentence: see `guard`."""

    def launch(self, *settings, routes=(), **more):
        """Launch as Gradio does, with the page's `LOOK`; `routes` are served beside the page."""
        guard.be_quiet()
        return super().launch(
            *settings,
            app_kwargs={
                "middleware": [Middleware(guard.Guard), Middleware(Once)],
                "routes": [files.ROUTE, *routes],
            },
            max_threads=HANDLERS + LIMITS.races,  # a race has one while it waits for its turn
            state_session_capacity=visitors.SESSIONS,  # whoever calls under ever new names fills no memory
            _frontend=False,  # else a machine too busy to send the page within three seconds ends the start
            **{**LOOK, **more},
        )

    async def process_api(self, block_fn, *values, **more):
        """Run a function of the page, or go on with it."""
        fn = self.fns[block_fn] if isinstance(block_fn, int) else block_fn
        try:
            return await super().process_api(fn, *values, **more)
        except Exception as error:
            raise guard.told(error, str(fn.name)) from None

    def validate_inputs(self, block_fn, inputs):
        wanted = list(inspect.signature(block_fn.fn).parameters) if block_fn.fn else []
        if len(inputs) < len(block_fn.inputs):
            needed = f"{len(block_fn.inputs)} values are needed ({', '.join(wanted)})"
            raise gr.Error(f"{needed}, not {len(inputs)}.", print_exception=False)

    def get_api_info(self, *settings, **more):
        """What Gradio says of the API, with examples that run as they are: it puts "..." for what can be
        left out, and for a prompt."""
        info = super().get_api_info(*settings, **more)
        for parameter in info["named_endpoints"].get("/generate", {}).get("parameters", []):
            if parameter["parameter_has_default"]:
                parameter["example_input"] = parameter["parameter_default"]
            elif parameter["parameter_name"] == "prompt":
                parameter["example_input"] = race.first()[0]
        return info


def open_tab(request: gr.Request):
    """The tab that the page's address names."""
    asked = request.query_params.get("tab")
    return gr.Tabs(selected=asked) if asked in TABS else gr.skip()


def build() -> gr.Blocks:
    """The whole app, ready to launch; the best model begins to load beside it."""

    def leave(request: gr.Request) -> None:
        """A visitor has left. Gradio would keep what it knows of them for an hour more."""
        visitors.leave(request.session_hash)
        demo.state_holder.session_data.pop(request.session_hash, None)

    storage()  # before Gradio looks where its files go
    kept = (60, 60 * LIMITS.kept)  # seconds between looks for Gradio's files that are too old
    with App(title="MARS Demo", analytics_enabled=False, fill_width=True, delete_cache=kept) as demo:
        gr.Markdown(TITLE, elem_id="title")
        gr.HTML(TALK_ROW, elem_id="talk-row", apply_default_css=False)
        tour = Tour(visible=models.is_served(models.TINY))  # its races are that model's
        with gr.Tabs() as tabs:
            page = Page(demo, tabs, tour)
            for name, module in TABS.items():
                with gr.Tab(module.TITLE, id=name) as tab:
                    module.build(page, tab)
        demo.load(open_tab, None, tabs, **QUIET)
        tabs.select(
            None, None, None, js=script("remember_tab.js", next(iter(TABS))), api_visibility="private"
        )
        if get_space():
            gr.DuplicateButton(elem_id="duplicate")
        demo.unload(leave)
    # Its own limit comes after that of `controls.refuse_crowd`.
    demo.queue(max_size=LIMITS.waiting + HANDLERS)
    demo._queue.sleep_when_free = POLLING
    demo._queue.send_message = guard.to_who_is_there(demo._queue.send_message)
    if gpu.LENT:
        models.load_all()  # in this thread and before the launch: that is when ZeroGPU looks for weights
    else:
        threading.Thread(target=models.warm_up, daemon=True).start()
    return demo
