"""The page: a title, the tabs, and how they look."""

import inspect
import threading
from pathlib import Path

import gradio as gr

from mars_demo.ui import batch, learn, mask, models, race, train

_SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")

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
    "css": """
        .gradio-container .main { max-width: 1760px; margin: 0 auto; padding-top: 0.75rem; }
        #title .prose { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1.25rem; }
        #title h1, #title p { margin: 0; }
        #stage .html-container { padding: 0; }
        body:not(.dark) [role=tab][aria-selected=true] { color: var(--primary-600); }
        :is(#lesson-table, .numbers) table { display: block; overflow-x: auto; border: none; }
        :is(#lesson-table, .numbers) :is(th, td) {
            word-break: normal; overflow-wrap: normal; padding: 0.4rem 0.6rem;
            border-color: var(--border-color-primary);
        }
        .numbers table { padding: 0; }
        .numbers :is(th, td) { white-space: nowrap; text-align: right; font-variant-numeric: tabular-nums; }
        .numbers :is(th, td):first-child {
            position: sticky; left: -1px; min-width: min(15em, 38vw); white-space: normal; text-align: left;
            background: var(--body-background-fill);
        }
        html:not(.talk) #talk-row { display: none; }
        /* A talk: Gradio's own type grows with the page's. */
        .talk { font-size: 200%; }
        html.talk, html.talk body.dark {
            --text-xxs: 18px; --text-xs: 20px; --text-sm: 22px; --text-md: 24px; --text-lg: 26px;
            --text-xl: 34px; --text-xxl: 40px;
        }
        .talk .gradio-container .main { position: relative; max-width: none; padding: 0 12px; }
        .talk :is(#title, #examples, #mode, #model, #wait, footer) { display: none; }
        .talk .tabs { gap: 8px; }
        .talk .tab-wrapper { height: 44px; padding: 0; counter-reset: tab; }
        .talk .tab-container { height: 44px; }
        .talk .tab-wrapper button { padding: 0 16px; font-size: 22px; }
        .talk [role=tab]::before { counter-increment: tab; content: counter(tab); margin-right: 10px; }
        .talk #talk-row { position: absolute; z-index: 5; top: 0; right: 12px; width: auto; }
        .talk #talk-row button { height: 44px; padding: 0 0 0 24px; font-size: 22px; }
        .talk [role=tab]::before, #talk-row kbd {
            padding: 0 7px; border: 1px solid var(--border-color-primary); border-radius: 6px;
            color: var(--body-text-color); font: 18px var(--font-mono);
        }
        #talk-row kbd { margin-right: 10px; }
        #talk-row .html-container { padding: 0; }
        .talk:not(:has([data-tab-id=race][aria-selected=true])) #talk-row [data-key=n] { display: none; }
        .talk #race { flex-direction: column; gap: 10px; }
        .talk #race > * { flex: none; width: 100%; }
        .talk #controls {
            display: grid; grid-template-columns: 5fr 3fr 4fr; align-items: center; gap: 16px;
        }
        .talk #controls > * { width: auto; min-width: 0; }
        .talk #controls > .form:has(#mode) { display: none; }
        .talk #controls textarea { max-height: 76px; }
        .talk #controls :is(#prompt label > span, .info-text) { display: none; }
        .talk input[data-testid=number-input] { width: 5em; height: auto; }
        .talk .tab-like-container { height: auto; }
        .talk .intro p { display: none; }
        .talk #batch-tables { flex-direction: column; }
        .talk #batch-tables .block:not(.numbers) { overflow: visible !important; }
        .talk :is(.js-plotly-plot, #js-plotly-tester) text { font-size: 20px !important; }
        #card .prose { max-height: 60vh; overflow-y: auto; overflow-wrap: anywhere; }
        #card :is(h1, h2) { margin: 0.8rem 0 0.3rem; font-size: 1rem; }
        .talk #card { display: none; }
        @media (max-width: 640px) {
            #controls { display: contents; }
            #card { order: 2; }
            #controls > .form:has(#mode), #examples { order: 2; }
        }
    """,
    "head": f"<script>{(Path(__file__).parent / 'talk.js').read_text('utf-8')}</script>",
}

TITLE = """
# MARS Demo

One model, read two ways at once: **one token per forward**, or **as many as it is sure of**.
"""


# Its buttons press the keys that they name.
TALK_ROW = """
<button type="button" data-key="n"><kbd>N</kbd>next recording</button>
<button type="button" data-key="Escape"><kbd>Esc</kbd>leave talk view</button>
"""

TABS = ("race", "mask", "train", "batch", "learn")
REMEMBER_TAB = """() => {
  const name = document.querySelector("[role=tab][aria-selected=true]")?.textContent.trim().toLowerCase();
  const query = new URLSearchParams(location.search);
  if (!name || name === "race") query.delete("tab");
  else query.set("tab", name);
  if (name !== "learn") query.delete("chapter");
  history.replaceState(history.state, "", `?${query}`);
}"""


class App(gr.Blocks):
    """Blocks that says what is missing from a request over HTTP, where Gradio would only log it."""

    def validate_inputs(self, block_fn, inputs):
        wanted = list(inspect.signature(block_fn.fn).parameters) if block_fn.fn else []
        if len(inputs) < len(block_fn.inputs):
            needed = f"{len(block_fn.inputs)} values are needed ({', '.join(wanted)})"
            raise gr.Error(f"{needed}, not {len(inputs)}.", print_exception=False)


def open_tab(request: gr.Request):
    """The tab that the page's address names."""
    asked = request.query_params.get("tab")
    return gr.Tabs(selected=asked) if asked in TABS else gr.skip()


def build() -> gr.Blocks:
    """The whole app, ready to launch with `LOOK`; the best model begins to load beside it."""
    with App(title="MARS Demo", analytics_enabled=False, fill_width=True) as demo:
        gr.Markdown(TITLE, elem_id="title")
        gr.HTML(TALK_ROW, elem_id="talk-row", apply_default_css=False)
        with gr.Tabs() as tabs:
            with gr.Tab("Race", id="race"):
                stage, race_model = race.tab(demo)
            with gr.Tab("Mask", id="mask") as page:
                mask.tab(tabs, page, stage)
            with gr.Tab("Train", id="train") as page:
                train.tab(tabs, page, race_model)
            with gr.Tab("Batch", id="batch") as page:
                batch.tab(page)
            with gr.Tab("Learn", id="learn") as page:
                learn.tab(page)
        demo.load(open_tab, None, tabs, queue=False, show_progress="hidden", api_visibility="private")
        tabs.select(None, None, None, js=REMEMBER_TAB, api_visibility="private")
    threading.Thread(target=models.warm_up, daemon=True).start()
    return demo
