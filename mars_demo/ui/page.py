"""The page: its title, its tabs and its look."""

import inspect
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.utils import get_space
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from mars_demo.core import background
from mars_demo.core.hosts import trusted_hosts
from mars_demo.core.limits import LIMITS
from mars_demo.core.modes import BASELINE
from mars_demo.show import about, scripts
from mars_demo.ui.controls import IN_BROWSER, MAY_WARN, QUIET
from mars_demo.ui.hosting import archive, errors, gpu, guard
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.hosting.response_cache import ResponseCache
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.lessons import CHAPTERS, pages
from mars_demo.ui.race_settings import MODES, first, recorded_runs
from mars_demo.ui.tabs import Page, frontier, learn, mask, race, train
from mars_demo.ui.warm_up import warm_up

# In their order on the page. A URL names a tab by its title in lower case.
TABS = {tab.TITLE.lower(): tab for tab in (race, mask, train, frontier, learn)}

_HERE = Path(__file__).parent
_SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")

RETRY = 10  # seconds between two checks for models that are not loaded on ZeroGPU
POLLING = 0.01  # seconds between two checks of Gradio's queue; its default, 1 ms, loads two cores
SESSIONS = 4000  # visitors whose data is kept; beyond that, that of the least recent one is dropped
HANDLERS = 40  # threads for handlers outside of the queue, besides those of races

LOOK = {
    "theme": gr.themes.Base(
        primary_hue="blue", neutral_hue="slate", text_size="md", font=_SANS, font_mono=_MONO
    ).set(  # a step darker than the default, for a text contrast of at least 4.5
        body_text_color_subdued="*neutral_500",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_hover_dark="*primary_700",
    ),
    "css": (_HERE / "page.css").read_text("utf-8"),
    "head": '<link rel="icon" type="image/svg+xml" href="favicon.ico">'
    f'<link rel="stylesheet" href="{scripts.STYLE_URL}">'
    f'<link rel="preload" as="script" href="{scripts.SCRIPT_URL}">'
    f"<script>{scripts.built('page')}</script>",
    "favicon_path": about.ICON,
    "mcp_server": find_spec("mcp") is not None,  # `generate` as a tool for other models
}

TITLE = """
# MARS Demo

A model races itself: **one token per forward**, or **as many as it is confident of**.
"""


# Each button presses the key that it names.
TALK_ROW = """
<button type="button" data-key="n"><kbd>N</kbd>next recording</button>
<button type="button" data-key="Escape"><kbd>Esc</kbd>leave talk view</button>
"""


KEYS = {
    ("Ctrl+Enter", "Shift+Enter"): "run the prompt (on a Mac also ⌘+Enter)",
    ("1 – 5",): "open a tab",
    ("N",): "next recorded run",
    ("Space",): "play or pause the replay",
    ("←", "→"): "one forward, one token of an answer, or one chapter back or on",
    ("Home", "End"): "to the start or the end of the replay",
    ("Enter",): "pin the token in focus",
    ("Esc",): "unpin; leave the talk view",
    ("?",): "this list",
}


def list_keys() -> str:
    """Return the list of the page's keys, which opens on request."""
    rows = (
        f"<dt>{' '.join(f'<kbd>{key}</kbd>' for key in keys)}</dt><dd>{action}</dd>"
        for keys, action in KEYS.items()
    )
    return f"<details><summary>Keys</summary><dl>{''.join(rows)}</dl></details>"


class App(gr.Blocks):
    """Blocks whose HTTP answers are values or error messages, never tracebacks; see `errors`."""

    names: dict[str, list[str]] = {}  # those that a link can have, by the key of the URL

    def launch(self, *, server_name: str | None = None, share: bool = False, **more):
        """Launch as Gradio does, with the page's `LOOK`."""
        errors.be_quiet()
        look = {**LOOK, **more}
        names = json.dumps(self.names).replace("<", "\\u003c")
        look["head"] += f"<script>marsDemo.forgetUnknown({names})</script>"
        listening = server_name or os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")
        hosts = ["*"] if share else trusted_hosts(listening)
        return super().launch(
            server_name=server_name,
            share=share,
            app_kwargs={
                "middleware": [
                    Middleware(TrustedHostMiddleware, allowed_hosts=hosts),
                    Middleware(guard.Guard),
                    Middleware(ResponseCache),
                ],
                "routes": [scripts.ROUTE, archive.ROUTE, pages.ROUTE],
            },
            max_threads=HANDLERS + LIMITS.races,  # a race keeps its thread while it waits for its turn
            run_history=False,  # prompts and answers would stay in the browser after the visit
            state_session_capacity=SESSIONS,  # limits a client that opens ever new sessions
            _frontend=False,  # else the start fails if the machine is too busy to send the page within 3 s
            **look,
        )

    def queue(self, *settings, **more):
        """Queue calls as Gradio does; poll less often, and drop messages to visitors who have left."""
        super().queue(*settings, **more)
        self._queue.sleep_when_free = POLLING
        self._queue.send_message = _to_present_visitors(self._queue.send_message)
        return self

    def block_thread(self) -> None:
        """Block the main thread until the server ends.

        On ZeroGPU it loads models that were missing at launch, which only its torch modes can.
        """
        try:
            while gpu.LENT and self.is_running:
                MODELS.load_all()
                time.sleep(RETRY)
        except KeyboardInterrupt:
            self.close()
        super().block_thread()

    async def process_api(self, block_fn, *values, **more):
        """Run or continue a function of the page; turn its exceptions into error messages."""
        fn = self.fns[block_fn] if isinstance(block_fn, int) else block_fn
        try:
            return await super().process_api(fn, *values, **more)
        except Exception as error:
            raise errors.public_error(error, str(fn.name)) from None

    def validate_inputs(self, block_fn, inputs):
        """Reject a call with too few inputs."""
        parameters = list(inspect.signature(block_fn.fn).parameters) if block_fn.fn else []
        if len(inputs) < len(block_fn.inputs):
            needed = f"{len(block_fn.inputs)} values are needed ({', '.join(parameters)})"
            raise gr.Error(f"{needed}, not {len(inputs)}.", print_exception=False)

    def get_api_info(self, *settings, **more):
        """Return Gradio's description of the API with runnable examples.

        Gradio's own have "..." for optional parameters and for the prompt.
        """
        info = super().get_api_info(*settings, **more)
        endpoints = info["named_endpoints"].values()
        for parameter in (given for endpoint in endpoints for given in endpoint["parameters"]):
            if parameter["parameter_has_default"]:
                parameter["example_input"] = parameter["parameter_default"]
            elif parameter["parameter_name"] == "prompt":
                parameter["example_input"] = first()[0]
        return info


def _to_present_visitors(send: Callable[..., None]) -> Callable[..., None]:
    """Wrap the sender of Gradio's queue: drop messages to visitors who have just left."""

    def sending(event: Any, message: Any) -> None:
        with suppress(KeyError):
            send(event, message)

    return sending


def link_names() -> dict[str, list[str]]:
    """Return the names that a link can have, by the key of the URL."""
    chapters = [chapter["id"] for chapter in CHAPTERS]
    return {
        "tab": [*TABS],
        "run": [entry["id"] for entry in recorded_runs()],
        "model": MODELS.names(),
        "mode": [BASELINE, *MODES.values()],
        "chapter": [*chapters, *(f"{number}" for number, _ in enumerate(chapters, start=1))],
    }


def warn_unknown(keys: str) -> None:
    """Warn that a link's values of these keys were ignored; the values are not repeated."""
    if named := [key for key in keys.split(",") if key in link_names()]:
        gr.Warning(f"The link names an unknown {' and '.join(named)}, which this page ignores.")


def open_tab(request: gr.Request):
    """Open the tab that the URL names."""
    name = request.query_params.get("tab")
    return gr.Tabs(selected=name) if name in TABS else gr.skip()


def build() -> gr.Blocks:
    """Return the app, ready to launch; begin to load its models in the background."""

    def leave(request: gr.Request) -> None:
        """Stop the runs of a visitor who has left; delete their data, which Gradio would keep longer."""
        if session := demo.state_holder.session_data.pop(request.session_hash, None):
            for value in [*session.state_data.values()]:
                if isinstance(value, Knobs):
                    value.leave()
            session.state_data.clear()  # Gradio still refers to it elsewhere
        MODELS.delete_of(request.session_hash)

    with App(title="MARS Demo", analytics_enabled=False, fill_width=True) as demo:
        gr.Markdown(TITLE, elem_id="title")
        gr.HTML(TALK_ROW, elem_id="talk-row", apply_default_css=False)
        with gr.Tabs() as tabs:
            page = Page(demo, tabs)
            for name, module in TABS.items():
                with gr.Tab(module.TITLE, id=name) as tab:
                    module.build(page, tab)
        demo.names = link_names()
        unknown = gr.Textbox(visible="hidden", container=False)
        demo.load(None, None, unknown, js="() => marsDemo.unknown.join()", **IN_BROWSER)
        unknown.change(warn_unknown, unknown, None, trigger_mode="always_last", **MAY_WARN)
        demo.load(open_tab, None, tabs, **QUIET)
        gr.HTML(list_keys(), elem_id="keys", apply_default_css=False)
        space = get_space()
        gr.HTML(about.footer(space and f"https://huggingface.co/spaces/{space}/tree/main"), elem_id="about")
        demo.unload(leave)
    # A higher limit than that of `controls.load`, which must come first.
    demo.queue(max_size=LIMITS.waiting + HANDLERS, api_open=False)
    if gpu.LENT:
        MODELS.load_all()  # in this thread and before the launch: ZeroGPU collects the weights then
    else:
        background.start(warm_up)
    return demo
