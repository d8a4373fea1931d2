"""A loaded model and what decoding must know about it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mars_demo.models.architectures import context_of
from mars_demo.models.captured import CapturedModel, captured
from mars_demo.modes import modes_of, trained_window

if TYPE_CHECKING:
    from mars_demo.models.packed import PackedModel


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model and what decoding must know of it. The model has no values, on torch's device `meta`,
    where a packed one decodes in its place; `dense` then loads it."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    mask_id: int | None
    block_size: int | None  # masks per block it was trained with; None for an ordinary AR model
    objective: str  # what it was trained for last: ar, mars or block-diffusion
    context: int  # positions that it can decode
    end_ids: frozenset[int]  # every token that ends an answer
    source: Path | None = None  # the folder or GGUF file it was loaded from, if any
    packed: PackedModel | None = None
    captured: CapturedModel | None = None  # decodes one text with the same weights, faster, on a GPU
    _load: Callable[[], PreTrainedModel] | None = field(default=None, repr=False, compare=False)
    _names: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    def token_name(self, token: int) -> str:
        """Return a token's text on its own, special tokens by their names. Every pass shows dozens."""
        if token not in self._names:
            self._names[token] = self.tokenizer.decode([token])
        return self._names[token]

    @property
    def decoder(self) -> PreTrainedModel | PackedModel | CapturedModel:
        """What computes one text."""
        return self.captured or self.packed or self.model

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.packed else self.model.device

    @property
    def precision(self) -> str:
        """Of its weights where it computes: float32, bfloat16, int8 or int4."""
        return f"int{self.packed.bits}" if self.packed else str(self.model.dtype).removeprefix("torch.")

    @cached_property
    def dense(self) -> Checkpoint:
        """Itself, with a transformers model that computes: for batches, pictures of attention and whatever
        else a packed model cannot do. Loaded when it is first asked for."""
        return replace(self, model=self._load(), packed=None) if self.packed else self

    @property
    def largest_window(self) -> int:
        return trained_window(self.block_size)

    @property
    def has_template(self) -> bool:
        """Whether it can read conversations. Without a chat template a prompt is continued as raw text."""
        return bool(self.tokenizer.chat_template)

    @property
    def modes(self) -> tuple[str, ...]:
        """How it can be decoded, the default first. A MARS model is still the AR model; a block diffusion
        model is not."""
        return modes_of(self.objective)


def wrap(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: Path | None = None
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
        context=context_of(config),
        end_ids=end_ids(model, tokenizer),
        source=source,
        captured=captured(model),
    )


def empty(config: PreTrainedConfig) -> PreTrainedModel:
    """Return a model without values, on torch's device `meta`."""
    config = copy.deepcopy(config)
    with torch.device("meta"):
        # A dtype would be made torch's default for all threads until the model stands.
        return AutoModelForCausalLM.from_config(
            config, dtype=None, attn_implementation="sdpa", trust_remote_code=False
        )


_READING = Lock()


def from_files(folder: str | Path, **options) -> tuple[PreTrainedModel, dict]:
    """Return a model as transformers reads it, and which tensors were missing or too many. One at a time:
    transformers makes a model's dtype torch's default for all threads until the model stands, and two
    threads would take each other's.

    options: of transformers' `from_pretrained`.

    Raises:
        OSError, ValueError, RuntimeError: if the files are not those of a causal language model.
    """
    with _READING:
        return AutoModelForCausalLM.from_pretrained(
            folder, trust_remote_code=False, output_loading_info=True, **options
        )


def require_fit(missing: Collection[str], misshapen: Collection[str], unexpected: Collection[str]) -> None:
    """Refuse weights that do not fit the model their config describes. Missing tensors would be random, and
    unexpected ones, such as an extra layer or a bias, would be dropped silently.

    Raises:
        ValueError: if any name is given.
    """
    troubles = {
        "lack {} of the tensors that its config needs": missing,
        "hold {} of the tensors in another shape than its config says": misshapen,
        "hold tensors that its config has no place for, {} in all": unexpected,
    }
    for trouble, names in troubles.items():
        if names:
            first = [*sorted(names)[:3], *(["…"] if len(names) > 3 else [])]
            raise ValueError(f"its weights {trouble.format(len(names))}: {', '.join(first)}.")


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return every token that ends an answer, as the model's configs and the tokenizer name them."""
    found: set[int] = set()
    for source in (model.generation_config, model.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        found.update(ids if isinstance(ids, Sequence) else [] if ids is None else [ids])
    return frozenset(found)
