"""Attention on a processor that leaves out what a layout masks, and its padding.

torch's fused kernel for processors computes every key for every query, masked or not. Here the real
positions of a batch stand in one row without padding, a few queries are computed at a time, and only
against keys that one of them sees: of the two streams that is a part of the text so far and a few masks.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from mars_demo.training.two_streams import Packed, seen

NAME = "seen_parts"  # of the implementation, for transformers
QUERIES = 64  # computed at a time: of more, some mask what others see; of fewer, calls cost more

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True)
class Part:
    """Queries that are computed together, the ranges of keys that any of them sees, and who sees whom.

    bias: [1, 1, queries, keys], 0 or -inf; None if every query sees every key.
    """

    queries: slice
    keys: list[slice]
    bias: Tensor | None


@dataclass(eq=False)
class Parts:
    """What a batch's attention computes. Inside a model it is known by its number: compiled layers take
    nothing but tensors."""

    parts: list[Part]
    number: int = field(default_factory=itertools.count().__next__)

    def __post_init__(self) -> None:
        _KNOWN[self.number] = self

    @property
    def mask(self) -> Tensor:
        """[1, 1, 1, 1] what a model of transformers takes for a mask and hands to its layers as it is."""
        return torch.full((1, 1, 1, 1), self.number)


_KNOWN: weakref.WeakValueDictionary[int, Parts] = weakref.WeakValueDictionary()


def parts_of(packed: Packed) -> Parts:
    """What the attention of some texts computes."""
    begins = itertools.accumulate(packed.lengths, initial=0)
    cut = [_cut(packed.spans, begin, length) for begin, length in zip(begins, packed.lengths)]
    return Parts(list(itertools.chain(*cut)))


def _cut(spans: Tensor, begin: int, length: int) -> list[Part]:
    """The parts of one text, of `length` positions from `begin` on."""
    parts = []
    for first in range(0, length, QUERIES):
        rows = seen(spans[begin + first : begin + min(first + QUERIES, length)] - begin, length)
        keys = rows.any(0)
        edges = torch.nn.functional.pad(keys.int(), (1, 1)).diff().nonzero().flatten().tolist()
        bias = torch.zeros(rows.shape).masked_fill_(~rows, -torch.inf)[None, None, :, keys]
        parts.append(
            Part(
                slice(begin + first, begin + first + len(rows)),
                [slice(begin + a, begin + b) for a, b in zip(edges[::2], edges[1::2])],
                bias if bias.any() else None,
            )
        )
    return parts


@torch.library.custom_op("mars_demo::attention", mutates_args=())
def attention(q: Tensor, k: Tensor, v: Tensor, number: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """[1, n, heads, size] attention of [1, heads, n, size] queries to keys and values, which may have fewer
    heads, and [1, heads, n] the logarithm of each query's summed exponentials."""
    found = q.new_empty(q.shape[0], q.shape[2], q.shape[1], q.shape[3]).transpose(1, 2)
    precise = torch.promote_types(q.dtype, torch.float32)
    sums = q.new_empty(q.shape[:3], dtype=precise)
    for part in _KNOWN[number.item()].parts:
        chosen = (_chosen(one, part.keys) for one in (k, v))
        found[:, :, part.queries], sums[:, :, part.queries] = _forward(
            q[:, :, part.queries], *chosen, attn_mask=_bias(part, q.dtype), scale=scale
        )
    return found.transpose(1, 2), sums


@attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, number: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    found = q.new_empty(q.shape[0], q.shape[2], q.shape[1], q.shape[3])
    return found, q.new_empty(q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32))


@torch.library.custom_op("mars_demo::attention_backward", mutates_args=())
def attention_backward(
    gradient: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    found: Tensor,
    sums: Tensor,
    number: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values, from that of `attention`'s first result."""
    gradient, found = gradient.transpose(1, 2), found.transpose(1, 2)
    heads, size = k.shape[1], q.shape[1] // k.shape[1]
    of_q = q.new_empty(q.shape)
    of_k, of_v = (one.new_zeros(one.shape, dtype=sums.dtype) for one in (k, v))
    for part in _KNOWN[number.item()].parts:
        at = (slice(None), slice(None), part.queries)
        # The kernel's backward pass wants a head of keys for every head of queries.
        chosen = [_chosen(one, part.keys).repeat_interleave(size, 1) for one in (k, v)]
        of_q[at], *others = _backward(
            gradient[at],
            q[at],
            *chosen,
            found[at],
            sums[at],
            0.0,
            False,
            attn_mask=_bias(part, q.dtype),
            scale=scale,
        )
        for total, one in zip((of_k, of_v), others):
            one = one.unflatten(1, (heads, size)).sum(2, dtype=sums.dtype)
            for where, piece in zip(part.keys, one.split([s.stop - s.start for s in part.keys], 2)):
                total[:, :, where] += piece
    return of_q, of_k.to(k.dtype), of_v.to(v.dtype)


@attention_backward.register_fake
def _(gradient, q, k, v, found, sums, number, scale):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx, inputs, output) -> None:
    q, k, v, number, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output, number)


def _differentiate(ctx, gradient: Tensor, _) -> tuple[Tensor | None, ...]:
    q, k, v, found, sums, number = ctx.saved_tensors
    return *attention_backward(gradient, q, k, v, found, sums, number, ctx.scale), None, None


attention.register_autograd(_differentiate, setup_context=_keep)


def _bias(part: Part, dtype: torch.dtype) -> Tensor | None:
    """As the kernel takes it: in float32, but for queries in float64."""
    return part.bias if part.bias is None or dtype != torch.float64 else part.bias.double()


def _chosen(values: Tensor, ranges: list[slice]) -> Tensor:
    """The positions of some ranges, of [1, heads, n, size]."""
    if len(ranges) == 1:
        return values[:, :, ranges[0]]
    return torch.cat([values[:, :, one] for one in ranges], dim=2)


def _attend(
    module: nn.Module,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scaling: float | None = None,
    **other,
) -> tuple[Tensor, None]:
    """As transformers calls it. Whatever has another mask than one of `Parts` is computed as by "sdpa"."""
    if mask is None or mask.dtype != torch.long:
        return sdpa_attention_forward(module, q, k, v, mask, scaling=scaling, **other)
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    # Rotated queries and keys are in float32 even where products are not.
    return attention(q.to(v.dtype), k.to(v.dtype), v, mask, scale)[0], None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)


def suits(model: PreTrainedModel) -> bool:
    """Whether a model's attention can be computed so: on a processor, and as transformers' "sdpa" would
    compute it, with no dropout of its own."""
    dropped = [value for name, value in model.config.to_dict().items() if "drop" in name and "att" in name]
    on_sdpa = model.config._attn_implementation in ("sdpa", NAME)
    return model.device.type == "cpu" and on_sdpa and not any(dropped)
