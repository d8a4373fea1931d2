"""The data collator of MARS training: it makes the two streams of a batch's conversations."""

from __future__ import annotations

import random

from transformers import PreTrainedTokenizerBase

from mars_demo.models.chat import pad_id
from mars_demo.training import two_streams
from mars_demo.training.batch import Batch, batch_of
from mars_demo.training.batching import Rows, worker_share
from mars_demo.training.config import MarsConfig
from mars_demo.training.corpus import Conversation
from mars_demo.training.two_streams import TwoStreams


class MarsCollator:
    """A data collator from the conversations of each row to a `Batch`.

    length: the positions of a row; None for the longest one.
    share: this process, and the number of processes; block phases differ between them.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        config: MarsConfig,
        length: int | None = None,
        share: tuple[int, int] = (0, 1),
    ):
        self.tokenizer, self.config, self.length, self.share = tokenizer, config, length, share
        self._rng: random.Random | None = None  # seeded in its worker

    def __call__(self, rows: Rows) -> Batch:
        if self._rng is None:
            self._rng = random.Random(f"{self.config.seed}-{worker_share(*self.share)[0]}-blocks")
        streams = [[self.streams(one) for one in row] for row in rows]
        return batch_of(streams, pad_id(self.tokenizer), self.length, bool(self.config.reference))

    def streams(self, conversation: Conversation) -> TwoStreams:
        """Return the two streams of a conversation for the objective of the config."""
        config, mask_id = self.config, self.tokenizer.mask_token_id
        if config.objective == "ar":
            return two_streams.ar(conversation)
        if config.objective == "block-diffusion":
            return two_streams.diffusion(conversation, config.block_size, mask_id, self._rng)
        blocks = (config.block_size, mask_id, self._rng, config.fixed_blocks, config.slot_decay)
        return two_streams.mars(conversation, *blocks)
