"""Runs layouts against a KV cache. Knows no text and no threshold."""

import itertools
import weakref
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from mars_demo.decoding.layout import Layout
from mars_demo.models.logits import logits_of


def run(
    model: PreTrainedModel,
    layout: Layout,
    cache: Cache | None = None,
    mask: object | None = None,
    **settings: bool,
) -> BaseModelOutputWithPast:
    """Return what the layers make of a layout, after what the cache holds.

    mask: who sees whom in the form of another attention implementation; None for the layout's booleans.
    """
    layout = layout.to(model.device)
    return model.base_model(
        input_ids=layout.ids,
        position_ids=layout.positions,
        attention_mask=layout.visible[:, None] if mask is None else mask,
        past_key_values=cache,
        use_cache=cache is not None,
        **settings,
    )


def hidden_states(
    model: PreTrainedModel, layout: Layout, cache: Cache | None = None, mask: object | None = None
) -> Tensor:
    """[rows, n, width] what the last layer makes of a layout; as `run`."""
    return run(model, layout, cache, mask).last_hidden_state


class KeysAndValues(DynamicCache):
    """The keys and values of a text in a transformers model. It is made without the config, so that every
    layer keeps every position and any forward can be rolled back."""

    def forward(
        self,
        model: PreTrainedModel,
        layout: Layout,
        first: int,
        then: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Return logits from position `first` on, or what `then` makes of them; all positions are kept."""
        hidden = hidden_states(model, layout, self)
        logits = logits_of(model, hidden[0, first:])
        return logits if then is None else then(logits)

    def rewind(self, length: int) -> None:
        """Keep the first `length` positions."""
        for layer in self.layers:  # each by its own length: an interrupted forward leaves unequal ones
            layer.crop(length - layer.get_seq_length())


class TextCache:
    """The keys and values of a text on one model, and the text's token ids.

    It may outlive its engine: what a later text on the same model shares with this one from the start need
    not be computed again. It does not keep the model in memory.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.keys = KeysAndValues()
        self._model = None

    def belong_to(self, model: PreTrainedModel) -> None:
        """Drop what another model has computed."""
        if self._model is None or self._model() is not model:
            self.ids, self._model = [], weakref.ref(model)
            # What stands in for a transformers model keeps keys and values in a form of its own.
            self.keys = model.new_text() if hasattr(model, "new_text") else KeysAndValues()

    def shared(self, ids: Sequence[int]) -> int:
        """Return how many ids a text has in common with this one, from the start."""
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(self.ids, ids)))

    def rewind(self, length: int) -> None:
        """Keep the first `length` positions."""
        del self.ids[length:]
        self.keys.rewind(length)


class Engine:
    """One text on one model: forward a layout, then commit the part of it that stays in the KV cache.

    model: of transformers, or a packed or captured one in its place.
    cache: of an earlier text, to continue from what both share; see `reuse`.
    """

    def __init__(self, model: PreTrainedModel, cache: TextCache | None = None):
        self.model = model
        self.cache = TextCache() if cache is None else cache
        self.cache.belong_to(model)
        self._ids: list[int] = []  # of the last forward

    @property
    def length(self) -> int:
        """Committed positions."""
        return len(self.cache.ids)

    def reuse(self, text: Sequence[int]) -> int:
        """Keep only what the cache and a text share; how many positions that is.

        The last token of the text is never among them: it has to be computed to predict the next one.
        """
        self.cache.rewind(self.cache.shared(text[:-1]))
        return self.length

    @torch.inference_mode()
    def forward(
        self, layout: Layout, first: int = 0, then: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Return logits [n - first, vocabulary] in float32 of the layout's positions from `first` on.

        The layout has one row and counts `length` cached positions as its past. All its n positions are in
        the cache afterwards, until `commit`.

        then: what to make of the logits. Its result is returned in their place; a captured model has it in
            its graphs, so it should be the same function every time and not wait for the device.
        """
        self._ids = layout.ids[0].tolist()
        return self.cache.keys.forward(self.model, layout, first, then)

    def commit(self, count: int) -> None:
        """Keep the first `count` positions of the last forward and drop the others from the cache."""
        self.cache.ids += self._ids[:count]
        self.cache.rewind(self.length)
        if hasattr(self.model, "capture_due"):  # after the forward's time was taken
            self.model.capture_due()
