"""Speculative decoding with a MARS model as the target (section 4.6)."""

from collections.abc import Sequence

from mars_demo.core import layout as layouts
from mars_demo.core.acceptance import Acceptance, accepted, several
from mars_demo.decoding.answer import Answer, Strategy
from mars_demo.decoding.reading import Forward, Reader, compute, count_verified, marked
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.engine import Engine

# A low threshold, because drafts are verified anyway.
DRAFTING = Acceptance(tau=0.5)


class Drafter:
    """A draft model, which decodes several tokens per forward if it was trained for MARS."""

    def __init__(self, checkpoint: Checkpoint, sampling: Sampling | None):
        self.checkpoint, self.sampling = checkpoint, sampling
        self.engine = Engine(checkpoint.decoder)
        self.forwards = 0

    def draft(self, text: Sequence[int], count: int) -> list[int]:
        """Return its next `count` tokens after `text`."""
        new, drafted = list(text[self.engine.reuse(text) :]), []
        while len(drafted) < count:
            slots = min(self.checkpoint.largest_window, count - len(drafted))
            layout = layouts.window(new, slots - 1, self.checkpoint.mask_id, self.engine.length)
            forward = Forward(layout, first=len(new) - 1)
            readings, _ = compute(self.engine, forward, Reader(DRAFTING, self.sampling))
            accepted_count = accepted([reading.score for reading in readings], DRAFTING.threshold())
            self.engine.commit(len(new))
            self.forwards += 1
            new = [reading.token for reading in readings[:accepted_count]]
            drafted += new
        return drafted


def strategy(answer: Answer, request: Request) -> Strategy:
    """Verify a second model's drafts, then continue with masks (section 4.6).

    A forward over `[tokens, d1 … dK | g0 | … | gK]` verifies the drafts, as in `lossless`. The predictions
    of the mask group after the last verified draft are accepted while their score is at least τ. At τ = 1,
    or with an AR model as the target, there are no mask groups, and the tokens are those of `ar`.
    """
    rule, mask_id = request.acceptance, answer.checkpoint.mask_id
    drafter, drafts = Drafter(request.draft, request.sampling), request.window - 1
    while not answer.stop:
        new, threshold = answer.begin(), rule.threshold()
        before = drafter.forwards
        guesses = drafter.draft(answer.text_ids, min(drafts, answer.room - 1))
        masks = min(drafts, answer.room - 1) if mask_id is not None and several(threshold) else 0
        layout = layouts.verification(new, guesses, masks, mask_id, answer.cached)
        readings = yield Forward(layout, first=len(new) - 1)
        own = readings[: len(guesses) + 1]
        verified = count_verified(guesses, own)
        group = len(own) + verified * masks
        beyond = marked(readings[group : group + masks], "mask")
        slots = [*marked(own[:verified], "draft"), own[verified], *beyond]
        yield answer.step(
            slots,
            verified + accepted([slot.score for slot in slots[verified:]], threshold),
            keep=len(new) + verified,
            positions=layout.ids.shape[1],
            tau=threshold,
            drafts=len(guesses),
            verified=verified,
            groups=len(own) if masks else 0,
            draft_forwards=drafter.forwards - before,
        )
