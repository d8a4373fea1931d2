"""Self-speculative decoding: masks or n-grams make drafts, which the same model verifies."""

from collections.abc import Sequence
from dataclasses import replace

from mars_demo.core import layout as layouts
from mars_demo.decoding.answer import Answer, Strategy
from mars_demo.decoding.pace import Pace
from mars_demo.decoding.prompt_lookup import PromptLookup
from mars_demo.decoding.reading import Forward, Reading, count_verified, marked
from mars_demo.decoding.request import Request


def strategy(answer: Answer, request: Request) -> Strategy:
    """Verify the window's predictions, or n-gram drafts, in the next forward.

    The answer equals that of `ar`. A forward over `[token, d1 … dK | g0 | … | gK]` (see
    `layout.verification`) compares each draft with the model's own choice at its position. If n drafts are
    accepted, the model's next token is accepted too, and the next drafts are read from group gn, whose
    prefix is exactly the accepted text, unless `PromptLookup` finds better ones. A pass records accepted
    slots and, after them, the drafts for the next pass. The answer's `Pace` decides the number of masks per
    group.
    """
    mask_id = answer.checkpoint.mask_id
    pace, lookup = Pace(answer.checkpoint, request), PromptLookup(request.ngram_tokens)
    draft: Sequence[Reading] = []
    while not answer.stop:
        new, guesses, masks = answer.begin(), [d.token for d in draft], min(pace.masks, answer.room - 1)
        # 1. One forward verifies the drafts of the last pass and computes masks for the next ones.
        layout = layouts.verification(new, guesses, masks, mask_id, answer.cached, request.linear)
        readings = yield Forward(layout, first=len(new) - 1)
        # 2. Accept the drafts that equal the model's own choices, and its own choice after them.
        checked = len(draft)
        own = readings[: checked + 1]
        verified = count_verified(guesses, own)
        predicted = draft and draft[0].source != "copy"
        pace.saw(*((verified, checked) if predicted else (0, 0)))
        accepted = [replace(slot, source=d.source) for slot, d in zip(own[:verified], draft)]
        accepted.append(own[verified])
        # 3. Read the next drafts from the masks after exactly the accepted text; a linear layout has none
        #    after a rejected draft.
        if request.linear and verified < checked:
            draft = []
        else:
            group = checked + 1 + (0 if request.linear else verified * masks)
            draft = marked(readings[group : group + masks], "mask")
        draft = lookup.next_draft(answer.text_ids, accepted, draft, checked)
        draft = answer.admitted(accepted, draft)[: max(0, answer.room - len(accepted) - 1)]
        # 4. Keep the new tokens and the verified drafts in the cache.
        outcome = answer.step(
            [*accepted, *draft],
            verified + 1,
            keep=len(new) + verified,
            positions=layout.ids.shape[1],
            drafts=checked,
            verified=verified,
            groups=(1 if request.linear else checked + 1) if masks else 0,
        )
        yield outcome
        draft = outcome.rest  # after the tokens that a grammar forces
