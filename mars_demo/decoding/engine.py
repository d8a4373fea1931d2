"""The engine: forwards of layouts against a KV cache, without texts or thresholds."""

import itertools
import weakref
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from mars_demo.layout import Layout
from mars_demo.models.runtime.logits import logits_of


def run(
    model: PreTrainedModel,
    layout: Layout,
    cache: Cache | None = None,
    mask: object | None = None,
    **settings: bool,
) -> BaseModelOutputWithPast:
    """Return the outputs of the layers for a layout after the cached positions.

    mask: the attention mask in another implementation's format; None for the layout's booleans.
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
    """Return the last hidden states [batch, n, width] of a layout; arguments as in `run`."""
    return run(model, layout, cache, mask).last_hidden_state


class KeysAndValues(DynamicCache):
    """The keys and values of a text in a transformers model.

    It is built without the config, so that every layer keeps every position and every forward can be rolled
    back.
    """

    def forward(
        self,
        model: PreTrainedModel,
        layout: Layout,
        first: int,
        then: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Return the logits from position `first` on, or the result of `then`; keep all positions."""
        count, width = layout.visible.shape[1:]
        is_prompt = count == width
        hidden = hidden_states(model, layout.padded(model.device) if is_prompt else layout, self)
        self.rewind(width)
        logits = logits_of(model, hidden[0, first:count])
        return logits if then is None else then(logits)

    def rewind(self, length: int) -> None:
        """Keep the first `length` positions."""
        for layer in self.layers:  # an interrupted forward leaves layers of different lengths
            layer.crop(length - layer.get_seq_length())


class TextCache:
    """The keys and values of a text on one model, and the text's token ids.

    It may outlive its engine, so that a later text on the same model can reuse the common prefix. It does
    not keep the model in memory.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.keys = KeysAndValues()
        self._model = None

    def belong_to(self, model: PreTrainedModel) -> None:
        """Attach the cache to a model; empty it if another model filled it."""
        if self._model is None or self._model() is not model:
            self.ids, self._model = [], weakref.ref(model)
            # Quantized and captured models have their own formats of keys and values.
            self.keys = model.new_text() if hasattr(model, "new_text") else KeysAndValues()

    def shared(self, ids: Sequence[int]) -> int:
        """Return the length of the common prefix of this text and `ids`."""
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(self.ids, ids)))

    def rewind(self, length: int) -> None:
        """Keep the first `length` positions."""
        del self.ids[length:]
        self.keys.rewind(length)


class Engine:
    """A decoder of one text on one model, which runs layouts and commits positions to the KV cache.

    model: a transformers model, or a quantized or captured one.
    cache: the cache of an earlier text, to reuse the common prefix; see `reuse`.
    """

    def __init__(self, model: PreTrainedModel, cache: TextCache | None = None):
        self.model = model
        self.cache = TextCache() if cache is None else cache
        self.cache.belong_to(model)
        self._ids: list[int] = []  # the ids of the last forward

    @property
    def length(self) -> int:
        """Return the number of committed positions."""
        return len(self.cache.ids)

    def reuse(self, text: Sequence[int]) -> int:
        """Truncate the cache to the prefix that it shares with a text; return the length of the prefix.

        The prefix excludes the text's last token, which must be computed to predict the next one.
        """
        self.cache.rewind(self.cache.shared(text[:-1]))
        return self.length

    def bring(self) -> None:
        """Put the text where the next forward reads it, before its clock starts."""
        if hasattr(self.model, "bring"):
            self.model.bring(self.cache.keys)

    @torch.inference_mode()
    def forward(
        self, layout: Layout, first: int = 0, then: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Return float32 logits [n - first, vocabulary] of the layout's positions from `first` on.

        The layout has one sequence, with `length` cached positions as its past. All its n positions stay
        in the cache until `commit`.

        then: a function of the logits whose result is returned instead. A captured model records it in its
            graphs, so it should be the same function every time and must not wait for the device.
        """
        self._ids = layout.ids[0].tolist()
        return self.cache.keys.forward(self.model, layout, first, then)

    def commit(self, count: int) -> None:
        """Keep the first `count` positions of the last forward and drop the others from the cache."""
        self.cache.ids += self._ids[:count]
        self.cache.rewind(self.length)
        if hasattr(self.model, "capture_due"):  # outside the measured time of the forward
            self.model.capture_due()
