"""The page: a title, the tabs, and how they look."""

import inspect
import threading

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
    ),
    "css": """
        .gradio-container .main { max-width: 1760px; margin: 0 auto; padding-top: 0.75rem; }
        #title .prose { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1.25rem; }
        #title h1, #title p { margin: 0; }
        #stage .html-container { padding: 0; }
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
        .talk { font-size: 200%; }
        .talk .gradio-container .main { max-width: none; padding: 0 12px; }
        .talk :is(#title, .tab-wrapper, #examples, #mode, #model, #wait, footer) { display: none; }
        .talk #race { flex-direction: column; gap: 10px; }
        .talk #race > * { flex: none; width: 100%; }
        .talk #controls {
            display: grid; grid-template-columns: 5fr 3fr 4fr; align-items: center; gap: 16px;
        }
        .talk #controls > * { width: auto; min-width: 0; }
        .talk #controls > .form:has(#mode) { display: none; }
        .talk #controls :is(textarea, button, span, input) { font-size: 24px; line-height: 1.2; }
        .talk #controls textarea { max-height: 76px; }
        .talk #controls :is(#prompt label > span, .info-text) { display: none; }
        .talk :is(#learn-page, #batch-page) :is(p, li, td, th, code, button, .at) {
            font-size: 26px; line-height: 1.4;
        }
        .talk :is(#learn-page, #batch-page) h3 { font-size: 34px; }
        .talk :is(#learn-page, #batch-page) :is(h4, #choice *) { font-size: 26px; }
        .talk :is(#learn-page, #batch-page) .numbers :is(td, th) { font-size: 22px; }
        .talk #batch-page :is(label, .form) :is(span, input) { font-size: 24px; }
        .talk .intro p { display: none; }
        .talk #batch-tables { flex-direction: column; }
        .talk :is(.js-plotly-plot, #js-plotly-tester) text { font-size: 20px !important; }
        @media (max-width: 640px) {
            #controls { display: contents; }
            #controls > .form:has(#mode), #examples { order: 2; }
        }
    """,
}

TITLE = """
# MARS Demo

One model, read two ways at once: **one token per forward**, or **as many as it is sure of**.
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
