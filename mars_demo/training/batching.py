"""The batches of a training: conversations of about one length, or packed into a constant shape."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch.utils.data import IterableDataset, get_worker_info
from transformers import PreTrainedTokenizerBase

from mars_demo.models.chat import pad_id
from mars_demo.training import two_streams
from mars_demo.training.batch import TrainingBatch, batch_of
from mars_demo.training.config import MarsConfig
from mars_demo.training.corpus import Pool, Pools, TokenizedConversation, encode
from mars_demo.training.two_streams import TwoStreams

Rows = list[list[TokenizedConversation]]  # the conversations of each row of a batch


@dataclass(frozen=True)
class OneLength:
    """Batches of one conversation per row, at most `tokens` clean positions with padding.

    Each pool is sorted by length before it is split, which keeps padding low, and the batches of a pool
    come in random order. One batch may therefore come from one source: with mixed data, accumulate several
    per step.
    """

    tokens: int
    length = None  # that of the longest row

    def fits(self, conversation: TokenizedConversation) -> bool:
        return True

    def rows(self, pools: Iterable[list[TokenizedConversation]], rng: random.Random) -> Iterator[Rows]:
        for pool in pools:
            groups: list[list[TokenizedConversation]] = [[]]
            for conversation in sorted(pool, key=lambda text: (len(text.ids), rng.random())):
                if groups[-1] and (len(groups[-1]) + 1) * len(conversation.ids) > self.tokens:
                    groups.append([])
                groups[-1].append(conversation)
            rng.shuffle(groups)
            yield from ([[conversation] for conversation in group] for group in groups)


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

    def fits(self, conversation: TokenizedConversation) -> bool:
        """Return whether a conversation fits into an empty row."""
        return all(size <= free for size, free in zip(self._sizes(conversation), self._row))

    def rows(self, pools: Iterable[list[TokenizedConversation]], rng: random.Random) -> Iterator[Rows]:
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

    def _sizes(self, conversation: TokenizedConversation) -> tuple[int, int]:
        """Return the positions of both streams, and those that the reference computes."""
        clean = len(conversation.ids)
        noisy = 0 if self.objective == "ar" else sum(conversation.response)
        return clean + noisy, clean if self.reference and conversation.own is not False else 0


class Batches(IterableDataset):
    """The batches of a training; each data-loader worker of each process makes its own share of the pools.

    share: this process, and the number of processes.
    """

    def __init__(
        self,
        pools: Pools,
        tokenizer: PreTrainedTokenizerBase,
        config: MarsConfig,
        grouping: OneLength | Packed,
        share: tuple[int, int] = (0, 1),
    ):
        self.pools, self.tokenizer, self.config = pools, tokenizer, config
        self.grouping, self.share = grouping, share

    def __iter__(self) -> Iterator[TrainingBatch]:
        """Return the batches of this worker; block phases differ between workers.

        Raises:
            ValueError: if no conversation of the first pool fits.
        """
        rng = random.Random(f"{self.config.seed}-{self._worker()[0]}-blocks")
        return (self.batch(rows, rng) for rows in self.rows())

    def rows(self) -> Iterator[Rows]:
        """Return the conversations of each batch of this worker."""
        number, count = self._worker()
        pools = self._encoded(self.pools(number, count))
        return self.grouping.rows(pools, random.Random(f"{self.config.seed}-{number}"))

    def batch(self, rows: Rows, rng: random.Random) -> TrainingBatch:
        """Return the batch of conversations that share rows."""
        streams = [[self._streams(conversation, rng) for conversation in row] for row in rows]
        return batch_of(streams, pad_id(self.tokenizer), self.grouping.length, bool(self.config.reference))

    def _worker(self) -> tuple[int, int]:
        """Return the number of this worker among those of all processes, and their number."""
        (process, processes), info = self.share, get_worker_info()
        workers = info.num_workers if info else 1
        return process * workers + (info.id if info else 0), processes * workers

    def _encoded(self, pools: Iterator[Pool]) -> Iterator[list[TokenizedConversation]]:
        """Yield the conversations of each pool that fit; the last pool of an epoch may have none.

        Those that the chat template rejects are skipped, the first ones with a warning.
        """
        longest, is_told = self.config.max_length, False
        for index, pool in enumerate(pools):
            encoded, broken = [], []
            for messages in pool:
                try:
                    encoded += encode(self.tokenizer, messages)
                except ValueError as error:
                    broken.append(error)
            fitting = [
                text
                for text in encoded
                if len(text.ids) <= longest and any(text.response) and self.grouping.fits(text)
            ]
            if not fitting and index == 0:
                too_long = ValueError(f"No conversation in the data fits into {longest} tokens.")
                raise too_long if encoded else broken[0]
            if broken and not is_told:
                is_told = True
                rejected = f"Skipped {len(broken)} of {len(pool)} conversations; {broken[0]}"
                warnings.warn(rejected, stacklevel=2)
            if fitting:
                yield fitting

    def _streams(self, conversation: TokenizedConversation, rng: random.Random) -> TwoStreams:
        config, mask_id = self.config, self.tokenizer.mask_token_id
        if config.objective == "ar":
            return two_streams.ar(conversation)
        if config.objective == "block-diffusion":
            return two_streams.diffusion(conversation, config.block_size, mask_id, rng)
        blocks = (config.block_size, mask_id, rng, config.fixed_blocks, config.slot_decay)
        return two_streams.mars(conversation, *blocks)
