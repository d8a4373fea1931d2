"""The first forwards of the default model, before the first visitor comes."""

import contextlib

from mars_demo.core.layout import window
from mars_demo.core.scheduler import SCHEDULER
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategy import Forward, compute
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.captured import CapturedModel
from mars_demo.models.runtime.engine import Engine
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.racing import decode

WARM_TOKENS = 8


def warm_up() -> None:
    """Load the models, and run the first one in the page's modes before the first visitor comes."""
    with SCHEDULER.running():
        with contextlib.suppress(ValueError):  # the page shows the error
            checkpoint = MODELS.load()
            for mode in {"ar", "mars"}.intersection(checkpoint.modes):
                decode(checkpoint, "Hello", Request(mode, max_new_tokens=WARM_TOKENS)).finish()
                if isinstance(checkpoint.decoder, CapturedModel):
                    _run_shapes(checkpoint, Request(mode).fitted(checkpoint))
        MODELS.load_all()


def _run_shapes(checkpoint: Checkpoint, request: Request) -> None:
    """Run the forward after each number of accepted tokens twice, so that a GPU captures its CUDA graph."""
    engine, masks = Engine(checkpoint.decoder), request.window - 1

    def run(new: int, masks: int, keep: int) -> None:
        layout = window([0] * new, masks, checkpoint.mask_id, engine.length)
        compute(engine, Forward(layout, first=new - 1), request.acceptance)
        engine.commit(keep)

    run(1, 0, keep=1)
    for count in [*range(1, request.window + 1)] * 2:
        run(count, masks, keep=0)
