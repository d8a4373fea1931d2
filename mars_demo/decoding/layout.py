"""The input of one forward: token ids, positions, and who sees whom.

A `Layout` is the whole input of a forward besides the weights and the cache. Because the same object goes
to the model and to the code that draws it, the mask that is drawn is the mask that ran.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor


class Role(IntEnum):
    """What a position is. Whatever lies in the cache is no position of a layout."""

    PADDING = -1
    PROMPT = 0  # read for the first time, with nothing before it
    NEW = 1  # accepted, or of a prompt that continues a cached text; not yet in the cache
    DRAFT = 2  # to be verified
    MASK = 3
    CLEAN = 4  # of the two streams of training
    NOISY = 5


NO_GROUP = -1


@dataclass(frozen=True)
class Layout:
    """Inputs of one forward over `n` new positions after `past` cached ones.

    ids: [rows, n] token ids.
    positions: [rows, n] position ids, counted from the start of the text.
    visible: [rows, n, past + n] bool; `visible[r, q, k]` says whether new position q sees column k,
        where columns 0 … past-1 are the cached tokens and the rest are the new positions themselves.
    roles: [rows, n] the `Role` of each position.
    groups: [rows, n] int; of a mask the number of drafts that its group sees, of a noisy position the
        number of its block from 0, of all others `NO_GROUP`.
    """

    ids: Tensor
    positions: Tensor
    visible: Tensor
    roles: Tensor
    groups: Tensor

    def to(self, device: torch.device | str) -> Layout:
        """Return a copy on `device`; fields no model reads stay where they are."""
        # A GPU's host does not wait: the copies are in the queue before the forward that reads them.
        settings = {"device": device, "non_blocking": torch.device(device).type == "cuda"}
        return replace(
            self,
            ids=self.ids.to(**settings),
            positions=self.positions.to(**settings),
            visible=self.visible.to(**settings),
        )

    def after(self, first: Layout) -> Layout:
        """Return one forward over the positions of `first` and, after them, of this one, which sees them
        all.

        Both have one row; this one counts those of `first` as cached.
        """
        count = self.ids.shape[1]
        unseen = torch.zeros(1, first.ids.shape[1], count, dtype=torch.bool)
        joined = {
            name: torch.cat([getattr(first, name), getattr(self, name)], dim=1)
            for name in ("ids", "positions", "roles", "groups")
        }
        visible = torch.cat([torch.cat([first.visible, unseen], dim=2), self.visible], dim=1)
        return Layout(visible=visible, **joined)


def causal(tokens: Sequence[int], past: int = 0, drafts: Sequence[int] = ()) -> Layout:
    """`[tokens, drafts]` after `past` cached ones, each seeing itself and everything before it."""
    return verification(tokens, drafts, 0, None, past)


def window(tokens: Sequence[int], masks: int, mask_id: int | None, past: int = 0) -> Layout:
    """`[tokens, MASK × masks]`: the sliding window of MARS (section 3.3), causal like any other text.

    The last token predicts slot 1, the i-th mask slot i + 1.
    """
    return verification(tokens, (), masks, mask_id, past)


def verification(
    tokens: Sequence[int],
    drafts: Sequence[int],
    masks: int,
    mask_id: int | None,
    past: int = 0,
    linear: bool = False,
) -> Layout:
    """`[tokens, d1 … dK | g0 | … | gK]`: drafts to verify, and masks that go on after each prefix of them.

    Group gj holds `masks` masks that see the cache, `tokens`, d1 … dj and, causally, their own group;
    their positions go on from dj. In the linear layout only gK exists: cheaper, but it drafts nothing
    unless every draft holds.
    """
    # A window's few shapes come at every forward, those of prompts once.
    shape = _groups if len(tokens) <= 64 else _groups.__wrapped__
    offsets, inside, roles, groups = shape(len(tokens), len(drafts), masks, linear, not past)
    count, real = len(offsets), len(tokens) + len(drafts)
    return Layout(
        ids=torch.tensor([[*tokens, *drafts, *[mask_id] * (count - real)]]),
        positions=past + offsets[None],
        visible=torch.cat([torch.ones(count, past, dtype=torch.bool), inside], dim=1)[None],
        roles=roles[None],
        groups=groups[None],
    )


@functools.lru_cache(maxsize=1024)
def _groups(
    tokens: int, drafts: int, masks: int, linear: bool, prompt: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return offsets [n] of the new positions, who sees whom [n, n], roles and groups, [n]."""
    real = tokens + drafts
    ends = [real] if linear else range(tokens, real + 1)  # how many real tokens each group sees
    count = real + len(ends) * masks
    offsets = torch.arange(count)
    inside = torch.zeros(count, count, dtype=torch.bool)
    roles, groups = torch.full((count,), Role.MASK), torch.full((count,), NO_GROUP)
    roles[:tokens] = Role.PROMPT if prompt else Role.NEW
    roles[tokens:real] = Role.DRAFT
    inside[:real, :real] = torch.ones(real, real, dtype=torch.bool).tril()
    for group, end in enumerate(ends):
        rows = slice(real + group * masks, real + (group + 1) * masks)
        inside[rows, :end] = True
        inside[rows, rows] = torch.ones(masks, masks, dtype=torch.bool).tril()
        offsets[rows] = torch.arange(end, end + masks)
        groups[rows] = end - tokens
    return offsets, inside, roles, groups
