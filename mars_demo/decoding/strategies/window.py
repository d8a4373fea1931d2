"""The sliding window of MARS (section 3.3); AR is its case of one slot."""

from mars_demo.core import layout as layouts
from mars_demo.core.acceptance import accepted, several
from mars_demo.decoding.answer import Answer, Strategy
from mars_demo.decoding.pace import Pace
from mars_demo.decoding.reading import Forward, marked
from mars_demo.decoding.request import Request


def strategy(answer: Answer, request: Request) -> Strategy:
    """Compute the newly accepted tokens and window - 1 masks in each forward.

    Masks never stay in the cache. The last real token predicts slot 1, which is always accepted. At τ = 1
    no other slot can be accepted, so there are no masks, and a forward costs as much as in `ar`. The
    answer's `Pace` decides the number of masks of each forward.
    """
    rule, pace = request.acceptance, Pace(answer.checkpoint, request)
    while not answer.stop:
        new, threshold = answer.begin(), rule.threshold()
        # Do not compute slots that cannot be accepted.
        most = min(request.window, answer.room) - 1 if several(threshold) else 0
        masks = min(pace.masks, most)
        layout = layouts.window(new, masks, answer.checkpoint.mask_id, answer.cached)
        # Pause until the caller sends the readings of this forward.
        readings = yield Forward(layout, first=len(new) - 1)
        scores = [reading.score for reading in readings]
        count = accepted(scores, threshold)
        pace.saw(count - 1, masks)
        slots = [readings[0], *marked(readings[1:], "mask")]
        # Keep the new tokens in the cache, not the masks; accepted slots are new in the next forward.
        yield answer.step(slots, count, len(new), positions=layout.ids.shape[1], tau=threshold)
