"""Self-speculative decoding: masks or n-grams make drafts, which the same model verifies."""

from dataclasses import replace

from mars_demo import layout as layouts
from mars_demo.decoding.answer import Answer
from mars_demo.decoding.pace import DraftPace
from mars_demo.decoding.prompt_lookup import PromptLookup
from mars_demo.decoding.reading import marked
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategy import Forward, Outcome, Strategy, count_verified


def strategy(answer: Answer, prompt_ids: list[int], request: Request, past: int = 0) -> Strategy:
    """Verify the window's predictions, or n-gram drafts, in the next forward.

    The answer equals that of `ar`. A forward over `[token, d1 … dK | g0 | … | gK]` (see
    `layout.verification`) compares each draft with the model's own choice at its position. If n drafts are
    accepted, the model's next token is accepted too, and the next drafts are read from group gn, whose
    prefix is exactly the accepted text, unless `PromptLookup` finds better ones. A pass records accepted
    slots and, after them, the drafts for the next pass. With known costs, the answer's `DraftPace` decides
    the number of drafts, the number of masks, and the layout of each forward.
    """
    mask_id = answer.checkpoint.mask_id
    pace = DraftPace(request.costs, request.window, request.linear)
    answer.begin()
    lookup = PromptLookup(prompt_ids, request.ngram_tokens)
    masks = pace.plan([], answer.room - 1).masks
    new = prompt_ids[past:]
    layout = layouts.window(new, masks, mask_id, past)
    readings = yield Forward(layout, first=len(new) - 1)
    draft, past = lookup.next_draft(readings[:1], marked(readings[1:], "mask")), len(prompt_ids)
    plan = pace.plan(draft, answer.room - 2)
    draft = draft[: plan.drafts]
    step = answer.step(
        [readings[0], *draft], 1, positions=layout.ids.shape[1], drafts=0, verified=0, groups=1
    )
    yield Outcome(step, keep=len(new))
    while not answer.stop:
        answer.begin()
        layout = layouts.verification(
            answer.ids[-1:], [d.token for d in draft], plan.masks, mask_id, past, plan.linear
        )
        readings = yield Forward(layout)
        checked, masks, linear = len(draft), plan.masks, plan.linear
        own = readings[: checked + 1]
        verified = count_verified([d.token for d in draft], own)
        pace.saw(checked, verified)
        accepted = [replace(slot, source=d.source) for slot, d in zip(own[:verified], draft)]
        accepted.append(own[verified])
        if linear and verified < checked:
            draft = []
        else:
            group = checked + 1 + (0 if linear else verified * masks)
            draft = marked(readings[group : group + masks], "mask")
        draft = lookup.next_draft(accepted, draft, checked)
        plan = pace.plan(draft, answer.room - len(accepted) - 1)
        draft = draft[: plan.drafts]
        step = answer.step(
            [*accepted, *draft],
            verified + 1,
            positions=layout.ids.shape[1],
            drafts=checked,
            verified=verified,
            groups=(1 if linear else checked + 1) if masks else 0,
        )
        yield Outcome(step, keep=1 + verified)
        past += 1 + verified
