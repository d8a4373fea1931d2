"""The block mask of FlexAttention for packed sequences: the blocks of queries and keys to compute.

It is built from the spans that each position sees, never from a mask of all positions times all positions.
"""

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

SIZE = 128  # queries and keys of a block, as the fused kernels expect


def block_mask(spans: Tensor) -> BlockMask:
    """Return the block mask of n packed positions from their [n, 2, 2] `spans` (`Positions.in_one_row`)."""
    begin, end = spans.unbind(-1)
    touched = _covered(begin // SIZE, torch.where(end > begin, -(-end // SIZE), 0)) > 0
    whole = _covered(-(-begin // SIZE), end // SIZE) == SIZE  # seen by every query, so not masked within
    first, first_end, second, second_end = (bound.contiguous() for bound in spans.flatten(1).unbind(1))

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        in_first = (first[query] <= key) & (key < first_end[query])
        return in_first | (second[query] <= key) & (key < second_end[query])

    return BlockMask.from_kv_blocks(
        *_listed(touched & ~whole),
        *_listed(whole),
        BLOCK_SIZE=SIZE,
        mask_mod=sees,
        seq_lengths=(len(spans), len(spans)),
    )


def _covered(first: Tensor, last: Tensor) -> Tensor:
    """Return [blocks, blocks] counts of the queries of a block with a span over a block of keys."""
    queries = len(first)
    blocks = -(-queries // SIZE)
    of_query = (torch.arange(queries, device=first.device) // SIZE)[:, None].expand_as(first)
    changes = torch.zeros(blocks, blocks + 1, dtype=torch.int32, device=first.device)
    one = torch.ones((), dtype=torch.int32, device=first.device)
    changes.index_put_((of_query, first), one, accumulate=True)
    changes.index_put_((of_query, last.maximum(first)), -one, accumulate=True)
    return changes.cumsum(1, dtype=torch.int32)[:, :-1]


def _listed(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the blocks of keys that each block of queries sees, as FlexAttention takes them.

    They are [1, 1, blocks] counts and [1, 1, blocks, blocks] indices, the seen blocks first.
    """
    indices = chosen.int().argsort(dim=1, descending=True, stable=True)
    return chosen.sum(1, dtype=torch.int32)[None, None], indices.int()[None, None]
