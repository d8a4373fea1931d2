"""The input of one forward: token ids, positions and the attention mask.

A `Layout` is the whole input of a forward besides the weights and the cache. The same object goes to the
model and to the code that draws it, so the mask on the page is the mask that ran.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import torch
from torch import Tensor


class Role(IntEnum):
    """The kind of a new position. Cached positions have no role."""

    PADDING = -1
    PROMPT = 0  # a prompt token with no cached text before it
    NEW = 1  # an accepted token, or a prompt token after a cached text; not yet in the cache
    DRAFT = 2  # a token to verify
    MASK = 3
    CLEAN = 4  # a token of the clean stream in training
    NOISY = 5  # a token of the noisy stream in training


NO_GROUP = -1


@dataclass(frozen=True)
class Layout:
    """The inputs of one forward over `n` new positions after `past` cached ones.

    ids: [batch, n] token ids.
    positions: [batch, n] position ids, counted from the start of the text.
    visible: [batch, n, past + n] bool; `visible[b, q, k]` is True if new position q attends to column k.
        Columns 0 … past-1 are the cached tokens, the others the new positions.
    roles: [batch, n] the `Role` of each position.
    groups: [batch, n] int; for a mask the number of drafts that its group sees, for a noisy position the
        index of its block, `NO_GROUP` for all others.
    """

    ids: Tensor
    positions: Tensor
    visible: Tensor
    roles: Tensor
    groups: Tensor

    def to(self, device: torch.device | str) -> Layout:
        """Return a copy on `device`; fields that no model reads stay where they are."""
        # The host does not wait for a GPU: the copies are queued before the forward that reads them.
        settings = {"device": device, "non_blocking": torch.device(device).type == "cuda"}
        return replace(
            self,
            ids=self.ids.to(**settings),
            positions=self.positions.to(**settings),
            visible=self.visible.to(**settings),
        )

    def near(self, window: int) -> Layout:
        """Return the layout for layers with a sliding window: a position sees at most `window`."""
        past = self.visible.shape[2] - self.ids.shape[1]
        cached = torch.arange(past, device=self.ids.device).expand(len(self.ids), -1)
        columns = torch.cat([cached, self.positions], dim=1)
        return replace(
            self, visible=self.visible & (self.positions[:, :, None] - columns[:, None] < window)
        )


def together(layouts: Sequence[Layout]) -> Layout:
    """Return layouts of one sequence each as a batch, padded to the longest.

    Padding attends to a last column of its own, because attention to nothing is NaN.
    """
    rows = len(layouts)
    count, padding = map(max, zip(*(layout.visible.shape[1:] for layout in layouts)))
    batch = Layout(
        ids=torch.zeros(rows, count, dtype=torch.long),
        positions=torch.zeros(rows, count, dtype=torch.long),
        visible=torch.zeros(rows, count, padding + 1, dtype=torch.bool),
        roles=torch.full((rows, count), Role.PADDING),
        groups=torch.full((rows, count), NO_GROUP),
    )
    for row, layout in enumerate(layouts):
        own, seen = layout.visible.shape[1:]
        for name in ("ids", "positions", "roles", "groups"):
            getattr(batch, name)[row, :own] = getattr(layout, name)[0]
        batch.visible[row, :own, :seen] = layout.visible[0]
        batch.visible[row, own:, padding] = True
    return batch


def causal(tokens: Sequence[int], past: int = 0, drafts: Sequence[int] = ()) -> Layout:
    """Return `[tokens, drafts]` after `past` cached positions, with a causal mask."""
    return verification(tokens, drafts, 0, None, past)


def window(tokens: Sequence[int], masks: int, mask_id: int | None, past: int = 0) -> Layout:
    """Return `[tokens, MASK × masks]`, the sliding window of MARS (section 3.3), with a causal mask.

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
    """Return `[tokens, d1 … dK | g0 | … | gK]`: drafts to verify, and masks after each prefix of them.

    Group gj has `masks` masks that see the cache, `tokens`, d1 … dj and, causally, their own group; their
    positions continue from dj. The linear layout has only gK: it is cheaper, but drafts nothing unless
    every draft is accepted.
    """
    # The few shapes of windows recur at every forward; most shapes of prompts occur once.
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
    """Return offsets [n], attention mask [n, n], roles [n] and groups [n] of the new positions."""
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
        members = slice(real + group * masks, real + (group + 1) * masks)
        inside[members, :end] = True
        inside[members, members] = torch.ones(masks, masks, dtype=torch.bool).tril()
        offsets[members] = torch.arange(end, end + masks)
        groups[members] = end - tokens
    return offsets, inside, roles, groups
