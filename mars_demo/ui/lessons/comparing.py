"""The same prompt answered before and after the training for MARS, while a visitor looks on."""

import json
from collections.abc import Iterator
from contextlib import closing

import gradio as gr

from mars_demo.decoding.request import Request
from mars_demo.ui import api, models
from mars_demo.ui.controls import Knobs, or_warn
from mars_demo.ui.gpu import on_gpu, seconds
from mars_demo.ui.lessons.parts import shown
from mars_demo.ui.racing import growing, record, within_limits

LANES = {  # a model and a mode each
    "before": (models.BASE, "ar"),
    "ar": (models.TINY, "ar"),
    "lossless": (models.TINY, "lossless"),
}
TITLES = {
    "before": f"{models.BASE}, before the training for MARS, one token at a time",
    "ar": f"{models.TINY}, after the training, one token at a time",
    "lossless": f"{models.TINY}, lossless",
}
HEADING = json.dumps({"lanes": list(TITLES.items()), "compared": "ar"}) + "\n"


def answers(wanted: dict) -> dict[str, dict]:
    """Prompts to choose from, and the places of their answers."""
    prompts = wanted["prompts"]
    return {
        "asking": shown(),
        "prompt": shown(choices=prompts, value=prompts[0]),
        "answers": shown(value=HEADING),
    }


def compare(prompt: str, knobs: Knobs) -> Iterator:
    """All answers, as the growing value of the figure; it stays as it was where they cannot be had."""
    yield from or_warn(within_limits(_answered(prompt, knobs), knobs), gr.skip())


@on_gpu(lambda prompt, knobs: seconds(len(LANES) * api.MAX_NEW_TOKENS))
def _answered(prompt: str, knobs: Knobs) -> Iterator[str]:
    request = {"max_new_tokens": api.MAX_NEW_TOKENS}
    runs = {
        lane: models.decode(models.load(model), prompt, Request(mode, **request))
        for lane, (model, mode) in LANES.items()
    }
    with closing(record(runs, lambda: knobs.stopped)) as lines:
        for text in growing(lines):
            yield HEADING + text
