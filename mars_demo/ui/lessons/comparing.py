"""The comparison figure: live answers to a prompt from before and after the training for MARS."""

import json
from collections.abc import Iterator

from mars_demo.decoding.request import Request
from mars_demo.ui import models, racing
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.lessons.parts import shown
from mars_demo.ui.racing import MAX_NEW_TOKENS, streamed

LANES = {  # the title, model and mode of each
    "before": (f"{models.BASE}, before the training for MARS, one token at a time", models.BASE, "ar"),
    "ar": (f"{models.TINY}, after the training, one token at a time", models.TINY, "ar"),
    "lossless": (f"{models.TINY}, lossless", models.TINY, "lossless"),
}
_TITLES = [(lane, title) for lane, (title, *_) in LANES.items()]
HEADING = json.dumps({"lanes": _TITLES, "compared": "ar"}) + "\n"


def answers(element: dict) -> dict[str, dict]:
    """Show the prompts to choose from and the empty lanes of their answers."""
    prompts = element["prompts"]
    return {
        "asking": shown(),
        "prompt": shown(choices=prompts, value=prompts[0]),
        "answers": shown(value=HEADING),
    }


def compare(prompt: str, knobs: Knobs) -> Iterator:
    """Yield all answers as the growing value of the figure, which stays unchanged without a model."""
    yield from racing.shown(_answered(prompt, knobs), knobs)


@on_gpu(lambda prompt, knobs: seconds(len(LANES) * MAX_NEW_TOKENS))
def _answered(prompt: str, knobs: Knobs) -> Iterator[str]:
    runs = {
        lane: models.decode(models.load(model), prompt, Request(mode, max_new_tokens=MAX_NEW_TOKENS))
        for lane, (_, model, mode) in LANES.items()
    }
    for text in streamed(runs, knobs):
        yield HEADING + text
