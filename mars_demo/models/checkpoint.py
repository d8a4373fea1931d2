"""Loaded models with the settings that decoding needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars_demo.core.modes import modes_of, trained_window
from mars_demo.models.runtime.decoder import Decoder, TransformersDecoder
from mars_demo.models.runtime.quantized import QuantizedModel


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model with the settings that decoding needs.

    If a quantized model decodes, `model` is on torch's device `meta` without weight values; `dense` loads
    them.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    mask_id: int | None
    block_size: int | None  # masks per block in training; None for an ordinary AR model
    objective: str  # its last training objective: ar, mars or block-diffusion
    context: int  # context length in positions
    end_ids: frozenset[int]  # all tokens that end an answer
    source: Path | None = None  # the folder or GGUF file that it was loaded from, if any
    quantized: QuantizedModel | None = None
    costs: list[tuple[int, float]] | None = None  # [positions, milliseconds] of measured forwards
    _load: Callable[[], PreTrainedModel] | None = field(default=None, repr=False, compare=False)
    _names: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    def token_name(self, token: int) -> str:
        """Return the text of a single token, or the name of a special token, from a cache."""
        if token not in self._names:
            self._names[token] = self.tokenizer.decode([token])
        return self._names[token]

    @cached_property
    def decoder(self) -> Decoder:
        """Return the decoder of single texts, always the same one, to which KV caches belong."""
        return self.quantized or TransformersDecoder(self.model)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.quantized else self.model.device

    @property
    def precision(self) -> str:
        """Return the precision of the weights in use, such as float32, bfloat16 or int8."""
        return "int8" if self.quantized else str(self.model.dtype).removeprefix("torch.")

    @cached_property
    def dense(self) -> Checkpoint:
        """Return the checkpoint with dequantized weights, for batches; load them on first use."""
        return replace(self, model=self._load(), quantized=None, costs=None) if self.quantized else self

    @property
    def largest_window(self) -> int:
        return trained_window(self.block_size)

    @property
    def has_template(self) -> bool:
        """Return whether there is a chat template; without one, a prompt is continued as raw text."""
        return bool(self.tokenizer.chat_template)

    @property
    def modes(self) -> tuple[str, ...]:
        """Return its modes, the default first. MARS models support AR; block diffusion models do not."""
        return modes_of(self.objective)


def wrap(
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: Path | None = None,
) -> Checkpoint:
    """Return a model and tokenizer in memory as a `Checkpoint`."""
    config = model.config
    mask_id = getattr(config, "mask_token_id", None)
    block_size = getattr(config, "block_size", None) if mask_id is not None else None
    return Checkpoint(
        name=name,
        model=model,
        tokenizer=tokenizer,
        mask_id=mask_id,
        block_size=block_size,
        objective="ar" if block_size is None else getattr(config, "objective", "mars"),
        context=config.max_position_embeddings,
        end_ids=end_ids(model, tokenizer),
        source=source,
    )


def require_fit(missing: Collection[str], misshapen: Collection[str], unexpected: Collection[str]) -> None:
    """Check that weights fit the model of their config.

    Otherwise missing tensors would be random, and unexpected ones, such as an extra layer or a bias, would
    be dropped silently.

    Raises:
        ValueError: if any name is given.
    """
    problems = {
        "lack {} of the tensors that its config needs": missing,
        "have other shapes than its config needs ({} in all)": misshapen,
        "have tensors that its config does not use ({} in all)": unexpected,
    }
    for problem, names in problems.items():
        if names:
            first = [*sorted(names)[:3], *(["…"] if len(names) > 3 else [])]
            raise ValueError(f"its weights {problem.format(len(names))}: {', '.join(first)}.")


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return all tokens that end an answer, from the model's configs and the tokenizer."""
    all_ids: set[int] = set()
    for source in (model.generation_config, model.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        all_ids.update(ids if isinstance(ids, Sequence) else [] if ids is None else [ids])
    return frozenset(all_ids)
