"""Names, folders and hub ids → a `Checkpoint` that can decode."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from mars_demo.models import blocks, hub, precision, reordering
from mars_demo.models.architectures import GGUF, published_config, require_causal
from mars_demo.models.checkpoint import Checkpoint, empty, from_files, require_fit, wrap
from mars_demo.models.device import usable
from mars_demo.models.hub import Report
from mars_demo.models.memory import is_short
from mars_demo.models.names import bundled, gguf_file, locate
from mars_demo.models.quantized import of_model
from mars_demo.models.weights import require_files, stored_shapes

transformers_logging.disable_progress_bar()  # it would draw a bar for every load, in tests and apps too


def load_checkpoint(
    name: str | None = None,
    device: str | None = None,
    dtype: torch.dtype | str = "auto",
    block_size: int | None = None,
    report: Report | None = None,
) -> Checkpoint:
    """Load a bundled name, a local folder, a GGUF file or a hub id. A folder's weights are safetensors or
    one GGUF file. The default device is the best one there is.

    dtype: torch's own, or a name of `names.PRECISIONS`. `int8` and `int4` decode on a CPU with few bits per
        weight. `auto` is bfloat16 on a GPU, and float16 on one that lacks it; on a CPU int8 for a GGUF
        file, else float32.

    block_size: masks per block it was trained with, where neither its config nor its name says so or where
        they are wrong; 0 for an ordinary AR model.
    report: is called with `fetching`, the bytes that are here and all bytes, and then with `loading`, 0, 0.

    Raises:
        ValueError: in one sentence, if there is no such checkpoint, it cannot be fetched, it is broken, it
            is not a causal language model, its block size is unknown, or the device has no room for it.
    """
    name = name or next(iter(bundled()), None)
    if name is None:
        raise ValueError("No checkpoint is bundled here. Name a local folder or a hub id (owner/name).")
    device = usable(device)
    path, label = _found(name, report)
    if report:
        report("loading", 0, 0)
    with _one_sentence(name):
        tokenizer, config = _described(path, label, block_size)
        bits = precision.packed_bits(dtype, path, device, config)
        if bits and (packed := _packed(name, path, tokenizer, config, bits)):
            return packed
    model = _ready(name, path, config, precision.dense_dtype(dtype, path, device), device)
    return wrap(name, model, tokenizer, Path(path))


def _packed(
    name: str, path: str, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, bits: int
) -> Checkpoint | None:
    """Return a checkpoint that decodes with few bits per weight, and can load its model when that is asked
    for; None if this processor's kernels do not compute what they should."""
    from mars_demo.models.packed import PackedModel, kernels  # imports what only few bits need

    if not kernels(bits).right:
        return None
    shown, dtype = empty(config), precision.default_dtype(path, "cpu")
    if (file := gguf_file(path)) and config.model_type in GGUF:
        from mars_demo.models import gguf

        weights = gguf.few_bits(file, config, bits)
    else:
        dense = _weights(path, config, dtype, "cpu")
        weights, shown.generation_config = of_model(dense, bits), dense.generation_config

    return replace(
        wrap(name, shown, tokenizer, Path(path)),
        packed=PackedModel(config, weights, bits),
        _load=lambda: _ready(name, path, config, dtype, "cpu"),
    )


def _ready(
    name: str, path: str, config: PreTrainedConfig, dtype: torch.dtype, device: str
) -> PreTrainedModel:
    """Return a transformers model that computes."""
    with _one_sentence(name):
        model = _weights(path, config, dtype, device)
        if device == "cpu" and dtype == torch.bfloat16 and reordering.is_available():
            reordering.reorder(model)
        return model.to(device).eval()


def outline(name: str, block_size: int | None = None) -> Checkpoint:
    """Return a checkpoint without its weights, on torch's device `meta`: what it is can be told, nothing
    computed.

    Raises:
        ValueError: as `load_checkpoint`.
    """
    path, label = _found(name, weights=False)
    with _one_sentence(name):
        tokenizer, config = _described(path, label, block_size)
        return wrap(name, empty(config), tokenizer, Path(path))


def _found(name: str, report: Report | None = None, weights: bool = True) -> tuple[str, str]:
    """Return the folder or GGUF file of a checkpoint, fetched if need be, and its own name."""
    path = locate(name)
    if Path(path).exists():
        return path, Path(path).resolve().name
    return hub.fetch(path, report, weights), name


@contextmanager
def _one_sentence(name: str) -> Iterator[None]:
    """Say what is wrong with a checkpoint in one sentence, whatever a library says of it."""
    try:
        yield
    except SafetensorError as error:
        raise ValueError(f"The weights of {name} are damaged or incomplete ({error}).") from error
    except Exception as error:  # files from elsewhere break in many ways, and each library has its own
        if is_short(error):
            raise ValueError(f"There is not enough memory for {name}.") from error
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{name} cannot be loaded as a causal language model: {reason}") from error


def _described(
    path: str, label: str, block_size: int | None
) -> tuple[PreTrainedTokenizerBase, PreTrainedConfig]:
    """Read a checkpoint's tokenizer, and its config with what it was trained for."""
    # Without an explicit no, transformers asks on the terminal whether code next to the weights may run.
    file, published = gguf_file(path), None
    if file and not file.with_name("config.json").exists():
        source, named = file.parent, {"gguf_file": file.name}
    else:
        source, named = file.parent if file else path, {}
        published = published_config(str(source))
    config = published or AutoConfig.from_pretrained(source, trust_remote_code=False, **named)
    require_causal(config)
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **named)
    blocks.settle(config, tokenizer, label, published is not None, block_size)
    return tokenizer, config


def _weights(path: str, config: PreTrainedConfig, dtype: torch.dtype, device: str) -> PreTrainedModel:
    """Read weights tensor by tensor to the device: the host never holds all those of a GPU."""
    if file := gguf_file(path):
        from mars_demo.models import gguf  # imports gguf, which plain checkpoints do without

        return gguf.read(file, config, dtype, device)
    require_files(Path(path))
    _require_size(path, config)
    model, found = from_files(
        path,
        config=config,
        dtype=dtype,
        device_map={"": device},
        use_safetensors=True,
        attn_implementation="sdpa",
        ignore_mismatched_sizes=True,  # refused below, with names
    )
    misshapen = {name for name, *_ in found["mismatched_keys"]}
    require_fit(found["missing_keys"], misshapen, found["unexpected_keys"])
    return model


def _require_size(path: str, config: PreTrainedConfig) -> None:
    """Refuse weights of a far smaller model than the config describes before memory is taken for it."""
    stored = stored_shapes(path)
    described = {name: tuple(weight.shape) for name, weight in empty(config).state_dict().items()}
    if sum(map(math.prod, described.values())) <= 2 * sum(map(math.prod, stored.values())):
        return  # transformers says which tensors do not fit, if any
    misshapen = [name for name in described.keys() & stored if described[name] != stored[name]]
    require_fit(described.keys() - stored.keys(), misshapen, ())
