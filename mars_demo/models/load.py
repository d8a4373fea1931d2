"""Loading of checkpoints from names, folders, GGUF files and hub ids."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import RLock

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from mars_demo.core.names import bundled, gguf_file, locate
from mars_demo.models import block_size as blocks
from mars_demo.models import gguf, hub, memory, precision, safetensors_files
from mars_demo.models.architectures import empty, published_config, require_causal
from mars_demo.models.checkpoint import Checkpoint, require_fit, wrap
from mars_demo.models.device import usable
from mars_demo.models.runtime.quantized import QuantizedModel
from mars_demo.models.runtime.weights import QuantizedWeights

# One thread at a time: two models must not count on the same free memory, and transformers sets the dtype
# of a model as torch's default for all threads meanwhile.
_READING = RLock()
transformers_logging.disable_progress_bar()  # it would draw a bar for every load


def load_checkpoint(
    name: str | None = None,
    device: str | None = None,
    dtype: torch.dtype | str = "auto",
    block_size: int | None = None,
) -> Checkpoint:
    """Load a checkpoint from a bundled name, a local folder, a GGUF file or a hub id.

    The weights of a folder are safetensors or, without them, one GGUF model.

    device: None for the best one of this machine.
    dtype: a torch dtype, or a name of `names.PRECISIONS`. `int8` decodes with quantized weights
        on a CPU. `auto` is bfloat16 on a GPU, float16 on a GPU without bfloat16, int8 on a CPU for a GGUF
        file, and float32 otherwise.
    block_size: masks per block in training, if its config and name do not say so or are wrong; 0 for an
        ordinary AR model.

    Raises:
        ValueError: with a reason in one sentence, if the checkpoint does not exist, cannot be fetched, is
            broken, is not a causal language model, has no known block size, or does not fit into memory.
    """
    name = name or next(iter(bundled()), None)
    if name is None:
        raise ValueError("There is no bundled checkpoint. Name a local folder or a hub id (owner/name).")
    device = usable(device)
    path, label = _located(name)
    with _one_sentence(name):
        tokenizer, config = _described(path, label, block_size)
        quantizes = precision.is_quantized(dtype, path, device, config)
        dense_dtype, outlined = precision.dense_dtype(dtype, device), empty(config)
    with _READING:
        # Also enough for a quantized model, whose dequantized weights may be needed later.
        memory.require(name, outlined, device, dense_dtype)
        with _one_sentence(name):
            if quantizes:
                return _quantized(name, path, tokenizer, config)
        return wrap(name, _dense(name, path, config, dense_dtype, device), tokenizer, Path(path))


def _quantized(
    name: str, path: str, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig
) -> Checkpoint:
    model = empty(config)
    if file := gguf_file(path):
        tensors = gguf.tensors(file, config)
    else:
        tensors = safetensors_files.stored_tensors(Path(path), config)
        with suppress(OSError):  # no such file
            text = (Path(path) / "generation_config.json").read_text("utf-8")
            model.generation_config = GenerationConfig.from_dict(json.loads(text))
    weights = QuantizedWeights(tensors, config.tie_word_embeddings)
    return replace(
        wrap(name, model, tokenizer, Path(path)),
        quantized=QuantizedModel(config, weights),
        _load=lambda: _dense(name, path, config, torch.float32, "cpu"),
    )


def _dense(
    name: str, path: str, config: PreTrainedConfig, dtype: torch.dtype, device: str
) -> PreTrainedModel:
    with _one_sentence(name):
        return _weights(path, config, dtype, device)


def outline(name: str, block_size: int | None = None) -> Checkpoint:
    """Return a checkpoint without weights, on torch's device `meta`, for its facts only.

    Raises:
        ValueError: as `load_checkpoint`.
    """
    path, label = _located(name, weights=False)
    with _one_sentence(name):
        tokenizer, config = _described(path, label, block_size)
        return wrap(name, empty(config), tokenizer, Path(path))


def _located(name: str, weights: bool = True) -> tuple[str, str]:
    """Return the folder or GGUF file of a checkpoint, fetched if necessary, and its own name."""
    path = locate(name)
    if Path(path).exists():
        return path, Path(path).resolve().name
    return hub.fetch(path, weights), name


@contextmanager
def _one_sentence(name: str) -> Iterator[None]:
    """Turn any error of a library into a `ValueError` of one sentence about the checkpoint."""
    try:
        yield
    except SafetensorError as error:
        raise ValueError(f"The weights of {name} are damaged or incomplete ({error}).") from error
    except Exception as error:  # libraries raise many types for broken files
        if memory.is_short(error):
            raise ValueError(f"There is not enough memory for {name}.") from error
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{name} cannot be loaded as a causal language model: {reason}") from error


def _described(
    path: str, label: str, block_size: int | None
) -> tuple[PreTrainedTokenizerBase, PreTrainedConfig]:
    """Return a checkpoint's tokenizer, and its config with its training settings."""
    file, published = gguf_file(path), None
    if file and not file.with_name("config.json").exists():
        source, options = file.parent, {"gguf_file": file.name}
    else:
        source, options = file.parent if file else path, {}
        published = published_config(str(source))
    # If `trust_remote_code` is not False, transformers asks on the terminal whether to run a model's code.
    config = published or AutoConfig.from_pretrained(source, trust_remote_code=False, **options)
    require_causal(config)
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)
    blocks.settle(config, tokenizer, label, published is not None, block_size)
    return tokenizer, config


def _weights(path: str, config: PreTrainedConfig, dtype: torch.dtype, device: str) -> PreTrainedModel:
    """Return a model with weights read tensor by tensor to the device, to save host memory."""
    if file := gguf_file(path):
        return gguf.read_gguf(file, config, dtype, device)
    _require_size(path, config)
    with _READING:
        model, loading = AutoModelForCausalLM.from_pretrained(
            path,
            config=config,
            dtype=dtype,
            device_map={"": device},
            use_safetensors=True,
            attn_implementation="sdpa",
            ignore_mismatched_sizes=True,  # rejected below, with their names
            output_loading_info=True,
            trust_remote_code=False,
        )
    misshapen = {name for name, *_ in loading["mismatched_keys"]}
    require_fit(loading["missing_keys"], misshapen, loading["unexpected_keys"])
    return model


def _require_size(path: str, config: PreTrainedConfig) -> None:
    """Reject a config of a far larger model than the stored weights, before memory is allocated."""
    described = sum(weight.numel() for weight in empty(config).parameters())
    stored = sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))
    if 0 < stored < described:  # a weight takes at least a byte
        raise ValueError(
            f"its config describes {described:,} weights, but its files have {stored:,} bytes."
        )
