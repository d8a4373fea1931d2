"""Lossless self-verification: the window's own predictions become drafts."""

from __future__ import annotations

from mars_demo.decoding import layout as layouts
from mars_demo.decoding.answer import Answer
from mars_demo.decoding.pace import DraftPace
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategy import Forward, Outcome, Strategy, count_verified


def strategy(answer: Answer, prompt_ids: list[int], request: Request, past: int = 0) -> Strategy:
    """The window's predictions become drafts that the next forward verifies: the tokens of greedy decoding.

    A forward over `[token, d1 … dK | g0 | … | gK]` (see `layout.verification`) compares each draft with the
    model's own choice before it. If a drafts hold, they and the model's next token are accepted, and the
    next drafts are read from group ga, whose prefix is exactly what was accepted. A pass records the
    accepted slots and, after them, the drafts for the next pass. Where costs are known, the answer's
    `DraftPace` decides how many of the drafts are sent, how many masks there are, and which layout it is.
    """
    mask_id, drafts = answer.checkpoint.mask_id, request.window - 1
    pace = DraftPace(request.costs, request.window, request.linear)
    answer.begin()
    masks = pace.plan([], min(drafts, answer.room - 1)).masks
    new = prompt_ids[past:]
    layout = layouts.window(new, masks, mask_id, past)
    readings = yield Forward(layout, first=len(new) - 1)
    step = answer.step(readings, 1, positions=layout.ids.shape[1], drafts=0, verified=0, groups=1)
    yield Outcome(step, keep=len(new))
    draft, past = readings[1:], len(prompt_ids)
    while not answer.stop:
        answer.begin()
        draft = draft[: answer.room - 1]
        plan = pace.plan([d.score for d in draft], min(drafts, answer.room - 1))
        draft, masks = draft[: plan.drafts], plan.masks
        layout = layouts.verification(
            answer.ids[-1:], [d.token for d in draft], masks, mask_id, past, plan.linear
        )
        readings = yield Forward(layout)
        checked = len(draft)
        own = readings[: checked + 1]
        verified = count_verified([d.token for d in draft], own)
        pace.saw(checked, verified)
        if plan.linear and verified < checked:
            draft = []
        else:
            group = checked + 1 + (0 if plan.linear else verified * masks)
            draft = readings[group : group + masks]
        step = answer.step(
            [*own[: verified + 1], *draft],
            verified + 1,
            positions=layout.ids.shape[1],
            drafts=checked,
            verified=verified,
            groups=1 if plan.linear else checked + 1,
        )
        yield Outcome(step, keep=1 + verified)
        past += 1 + verified
