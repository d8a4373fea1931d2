"""The engine: forwards of layouts against a KV cache, without texts or thresholds."""

import itertools
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from mars_demo.core.layout import Layout
from mars_demo.models.runtime.decoder import Decoder


class TextCache:
    """The keys and values of a text on one decoder, and the text's token ids.

    It may outlive its engine, so that a later text on the same decoder can reuse the common prefix. It does
    not keep the model in memory.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.keys = None  # in the decoder's own format
        self._decoder = None

    def belong_to(self, decoder: Decoder) -> None:
        """Attach the cache to a decoder; empty it if another one filled it."""
        if self._decoder is None or self._decoder() is not decoder:
            self.ids, self.keys, self._decoder = [], decoder.new_text(), weakref.ref(decoder)

    def shared(self, ids: Sequence[int]) -> int:
        """Return the length of the common prefix of this text and `ids`."""
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(self.ids, ids)))


class Engine:
    """A text on one decoder: it computes layouts and commits positions to the KV cache.

    cache: the cache of an earlier text, to reuse the common prefix; see `reuse`.
    """

    def __init__(self, decoder: Decoder, cache: TextCache | None = None):
        self.decoder = decoder
        self.cache = TextCache() if cache is None else cache
        self.cache.belong_to(decoder)
        self._ids: list[int] = []  # the ids of the last forward

    @property
    def length(self) -> int:
        """Return the number of committed positions."""
        return len(self.cache.ids)

    def reuse(self, text: Sequence[int]) -> int:
        """Truncate the cache to the prefix that it shares with a text; return the length of the prefix.

        The prefix excludes the text's last token, which must be computed to predict the next one.
        """
        del self.cache.ids[self.cache.shared(text[:-1]) :]
        self.decoder.keep(self.cache.keys, self.length)
        return self.length

    @torch.inference_mode()
    def forward(self, layout: Layout, first: int = 0) -> Tensor:
        """Return float32 logits [n - first, vocabulary] of the layout's positions from `first` on.

        The layout has one sequence, with `length` cached positions as its past. All its n positions stay
        in the cache until `commit`. The host does not wait for a GPU.
        """
        self._ids = layout.ids[0].tolist()
        return self.decoder.forward(self.cache.keys, layout, first)

    def commit(self, count: int) -> None:
        """Keep the first `count` positions of the last forward and drop the others from the cache."""
        self.cache.ids += self._ids[:count]
        self.decoder.keep(self.cache.keys, self.length)
