"""The layout of block diffusion: a block that sees itself from both sides."""

from collections.abc import Sequence

import torch

from mars_demo.decoding.layout import NO_GROUP, Layout, Role


def denoising(
    clean: Sequence[int], block: Sequence[int], past: int, causal_until: int, mask_id: int
) -> Layout:
    """`[clean ; block]`: one step of block diffusion after `past` cached positions.

    The `block` is the one being filled, masks among its ids; every position in it sees all others and
    whatever comes before. `clean` is what the cache does not hold yet: up to `causal_until` tokens of a
    prompt, which see each other causally, then a finished block, whose tokens all see each other.
    """
    known, total = len(clean), len(clean) + len(block)
    visible = torch.ones(total, total, dtype=torch.bool).tril()
    visible[causal_until:known, causal_until:known] = True
    visible[known:, :] = True
    ids = torch.tensor([[*clean, *block]])
    roles = torch.where(ids == mask_id, Role.MASK, Role.NEW)
    roles[:, :known] = Role.NEW if past else Role.PROMPT
    groups = torch.full_like(ids, NO_GROUP)
    groups[:, known:] = 0
    return Layout(
        ids=ids,
        positions=torch.arange(past, past + total)[None],
        visible=torch.cat([torch.ones(total, past, dtype=torch.bool), visible], dim=1)[None],
        roles=roles,
        groups=groups,
    )
