"""The first forwards of the default model, before the first visitor comes."""

import contextlib

from mars_demo.core.scheduler import SCHEDULER
from mars_demo.decoding.request import Request
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.racing import decode_for_visitor

WARM_TOKENS = 8


def warm_up() -> None:
    """Load the models, and run the first one in the page's modes before the first visitor comes."""
    with SCHEDULER.running():
        with contextlib.suppress(ValueError):  # the page shows the error
            checkpoint = MODELS.load()
            for mode in {"ar", "mars"}.intersection(checkpoint.modes):
                decode_for_visitor(checkpoint, "Hello", Request(mode, max_new_tokens=WARM_TOKENS)).finish()
        MODELS.load_all()
