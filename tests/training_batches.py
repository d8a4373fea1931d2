"""Conversations of random tokens, and training batches of them."""

import random
from collections.abc import Callable, Sequence

from mars_demo.training import two_streams
from mars_demo.training.batch import TrainingBatch, batch_of
from mars_demo.training.corpus import TokenizedConversation
from mars_demo.training.two_streams import TwoStreams

PAD, MASK = 0, 2


def conversation(prompt: int, answer: int, seed: int = 0, own: bool | None = None) -> TokenizedConversation:
    rng = random.Random(seed)
    ids = [rng.randrange(10, 300) for _ in range(prompt + answer)]
    return TokenizedConversation(ids, [False] * prompt + [True] * answer, own)


def mars(
    one: TokenizedConversation, block_size: int = 4, rng: random.Random | None = None, **settings
) -> TwoStreams:
    """Return the streams of MARS; without `rng`, block phases follow from the conversation."""
    return two_streams.mars(one, block_size, MASK, rng or random.Random(sum(one.ids)), **settings)


def diffusion(
    one: TokenizedConversation, block_size: int = 4, rng: random.Random | None = None
) -> TwoStreams:
    """Return the streams of block diffusion; without `rng`, masks follow from the conversation."""
    return two_streams.diffusion(one, block_size, MASK, rng or random.Random(sum(one.ids)))


def one_per_row(
    make: Callable[..., TwoStreams],
    conversations: Sequence[TokenizedConversation],
    reference: bool = False,
    **settings,
) -> TrainingBatch:
    """Return a batch with one conversation per row."""
    return batch_of([[make(one, **settings)] for one in conversations], PAD, reference=reference)
