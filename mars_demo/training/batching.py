"""Groups of conversations that share a batch: of about one length, or packed into a constant shape."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torch.utils.data import IterableDataset, get_worker_info
from transformers import PreTrainedTokenizerBase

from mars_demo.training.corpus import Conversation, Pools, encode

Rows = list[list[Conversation]]  # the conversations of each row of a batch


@dataclass(frozen=True)
class OneLength:
    """Batches of one conversation per row, at most `tokens` clean positions with padding.

    Each pool is sorted by length before it is split, which keeps padding low, and the batches of a pool
    come in random order. One batch may therefore come from one source: with mixed data, accumulate several
    per step.
    """

    tokens: int
    length = None  # that of the longest row

    def fits(self, conversation: Conversation) -> bool:
        return True

    def rows(self, pools: Iterable[list[Conversation]], rng: random.Random) -> Iterator[Rows]:
        for pool in pools:
            groups: list[list[Conversation]] = [[]]
            for conversation in sorted(pool, key=lambda one: (len(one.ids), rng.random())):
                if groups[-1] and (len(groups[-1]) + 1) * len(conversation.ids) > self.tokens:
                    groups.append([])
                groups[-1].append(conversation)
            rng.shuffle(groups)
            yield from ([[one] for one in group] for group in groups)


@dataclass(frozen=True)
class Packed:
    """Batches of a constant shape: conversations one after another in `count` rows of `length` positions.

    count: one row for FlexAttention, which skips what a conversation does not see. Attention with a dense
        mask costs the square of a row, so it takes several short ones.
    reference: whether a reference computes the clean streams that it wrote, in half as many positions.
    """

    count: int
    length: int
    objective: str
    reference: bool

    def fits(self, conversation: Conversation) -> bool:
        """Return whether a conversation fits into an empty row."""
        return all(size <= free for size, free in zip(self._sizes(conversation), self._row))

    def rows(self, pools: Iterable[list[Conversation]], rng: random.Random) -> Iterator[Rows]:
        """Yield batches; a conversation goes into the first row with room for it."""
        rows, free = [[] for _ in range(self.count)], [self._row] * self.count
        for conversation in itertools.chain.from_iterable(pools):
            both, taught = self._sizes(conversation)
            has_room = (i for i, (room, others) in enumerate(free) if both <= room and taught <= others)
            if (index := next(has_room, None)) is None:
                yield rows
                rows, free, index = [[] for _ in range(self.count)], [self._row] * self.count, 0
            rows[index].append(conversation)
            free[index] = free[index][0] - both, free[index][1] - taught
        if any(rows):
            yield rows

    @property
    def _row(self) -> tuple[int, int]:
        """The positions of an empty row, and those that the reference computes of it."""
        return self.length, self.length // 2

    def _sizes(self, conversation: Conversation) -> tuple[int, int]:
        """Return the positions of both streams, and those that the reference computes."""
        clean = len(conversation.ids)
        noisy = 0 if self.objective == "ar" else sum(conversation.response)
        return clean + noisy, clean if self.reference and conversation.own is not False else 0


class Batches(IterableDataset):
    """Batches as `Rows`; each data-loader worker of each process makes its own share of the pools.

    max_length: longer conversations are left out.
    """

    def __init__(
        self,
        pools: Callable[[], Pools],
        tokenizer: PreTrainedTokenizerBase,
        grouping: OneLength | Packed,
        max_length: int,
        seed: int,
        share: tuple[int, int] = (0, 1),
    ):
        self.pools, self.tokenizer, self.grouping = pools, tokenizer, grouping
        self.max_length, self.seed, self.share = max_length, seed, share

    def __iter__(self) -> Iterator[Rows]:
        """Return the batches of this worker.

        Raises:
            ValueError: if no conversation of the first pool fits.
        """
        number, count = worker_share(*self.share)
        pools = itertools.islice(self.pools(), number, None, count)
        return self.grouping.rows(self._encoded(pools), random.Random(f"{self.seed}-{number}"))

    def _encoded(self, pools: Pools) -> Iterator[list[Conversation]]:
        """Yield the conversations of each pool that fit; the last pool of an epoch may have none."""
        for index, make in enumerate(pools):
            encoded = [encode(self.tokenizer, messages) for messages in make()]
            fitting = [
                one
                for one in encoded
                if len(one.ids) <= self.max_length and any(one.response) and self.grouping.fits(one)
            ]
            if fitting:
                yield fitting
            elif index == 0:
                raise ValueError(f"No conversation in the data fits into {self.max_length} tokens.")


def worker_share(process: int, processes: int) -> tuple[int, int]:
    """Return the number of this data-loader worker among those of all processes, and their number."""
    info = get_worker_info()
    workers = info.num_workers if info else 1
    return process * workers + (info.id if info else 0), processes * workers
