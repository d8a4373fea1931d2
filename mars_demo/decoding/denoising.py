"""The layout of block diffusion: a block with bidirectional attention."""

from collections.abc import Sequence

import torch

from mars_demo.core.layout import NO_GROUP, Layout, Role


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
