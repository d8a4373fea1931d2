"""The page: a title, the tabs, and how they look."""

import threading

import gradio as gr

from mars_demo.ui import mask, models, race, train

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


def build() -> gr.Blocks:
    """The whole app, ready to launch with `LOOK`; the best model begins to load beside it."""
    with gr.Blocks(title="MARS Demo", analytics_enabled=False, fill_width=True) as demo:
        gr.Markdown(TITLE, elem_id="title")
        with gr.Tabs() as tabs:
            with gr.Tab("Race", id="race"):
                stage, race_model = race.tab(demo)
            with gr.Tab("Mask", id="mask") as page:
                mask.tab(tabs, page, stage)
            with gr.Tab("Train", id="train"):
                train.tab(tabs, race_model)
    threading.Thread(target=models.warm_up, daemon=True).start()
    return demo
