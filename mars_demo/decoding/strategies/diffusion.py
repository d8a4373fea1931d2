"""Block diffusion, the paper's baseline (BD3-LM)."""

import itertools
from collections.abc import Sequence

import torch

from mars_demo.core.acceptance import admits
from mars_demo.core.layout import NO_GROUP, Layout, Role
from mars_demo.decoding.answer import Answer, Strategy
from mars_demo.decoding.reading import Forward, Reading, marked
from mars_demo.decoding.request import Request


def strategy(answer: Answer, request: Request) -> Strategy:
    """Fill one block of masks after the other, most confident slots first (the paper's baseline).

    Every forward fills the masks whose score is at least τ, and always the most confident one. A pass
    lists the block from the first token that is not accepted yet, and accepts the tokens before the first
    gap. A finished block enters the cache with the first forward of the next block, with bidirectional
    attention inside the block, as in training.
    """
    rule, mask_id = request.acceptance, answer.checkpoint.mask_id
    while not answer.stop:
        block: list[Reading | None] = [None] * min(request.window, answer.room)
        read_so_far = 0
        while read_so_far < len(block) and not answer.stop:
            new, threshold = answer.begin(), rule.threshold()
            pending = new[: len(new) - read_so_far]
            causal_until = 0 if answer.passes else len(pending)
            ids = [mask_id if reading is None else reading.token for reading in block]
            layout = denoising(pending, ids, answer.cached, causal_until, mask_id)
            readings = marked((yield Forward(layout, first=len(pending))), "mask")
            masked = [i for i, reading in enumerate(block) if reading is None]
            most_confident = max(masked, key=lambda i: readings[i].score)
            for i in masked:
                if i == most_confident or admits(readings[i].score, threshold):
                    block[i] = readings[i]
            filled = itertools.takewhile(lambda reading: reading is not None, block)
            outcome = answer.step(
                [filled_slot or reading for filled_slot, reading in zip(block, readings)][read_so_far:],
                sum(1 for _ in filled) - read_so_far,
                keep=len(pending),
                positions=layout.ids.shape[1],
                tau=threshold,
            )
            yield outcome
            read_so_far += outcome.step.accepted


def denoising(
    clean: Sequence[int], block: Sequence[int], past: int, causal_until: int, mask_id: int
) -> Layout:
    """Return `[clean ; block]`, the layout of one denoising step after `past` cached positions.

    block: the block to fill, with masks among its ids; its positions attend to each other and to everything
        before.
    clean: the tokens that are not cached yet: `causal_until` prompt tokens with causal attention, then a
        finished block with bidirectional attention.
    """
    start, total = len(clean), len(clean) + len(block)
    visible = torch.ones(total, total, dtype=torch.bool).tril()
    visible[causal_until:start, causal_until:start] = True
    visible[start:, :] = True
    ids = torch.tensor([[*clean, *block]])
    roles = torch.where(ids == mask_id, Role.MASK, Role.NEW)
    roles[:, :start] = Role.NEW if past else Role.PROMPT
    groups = torch.full_like(ids, NO_GROUP)
    groups[:, start:] = 0
    return Layout(
        ids=ids,
        positions=torch.arange(past, past + total)[None],
        visible=torch.cat([torch.ones(total, past, dtype=torch.bool), visible], dim=1)[None],
        roles=roles,
        groups=groups,
    )
