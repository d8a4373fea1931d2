"""The facts of a checkpoint, for the page and the terminal."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import metadata_load

from mars_demo.core.names import not_loaded
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import best, gpu_name
from mars_demo.models.precision import integer_kernel, is_quantized

_TRAINED_FOR = {
    "ar": "one token per forward (AR)",
    "mars": "several tokens per forward (MARS)",
    "block-diffusion": "filling blocks in any order (block diffusion)",
}


@dataclass(frozen=True)
class Facts:
    """The facts of one checkpoint."""

    parameters: int  # tied weights count once
    modes: tuple[str, ...]
    shown: list[tuple[str, str]]  # (label, text) pairs


def facts(checkpoint: Checkpoint) -> Facts:
    """Return the facts of a checkpoint."""
    parameters = sum(weight.numel() for weight in checkpoint.model.parameters())
    is_loaded = checkpoint.device.type != "meta"
    device = (gpu_name(checkpoint.device) or "CPU") if is_loaded else None
    has_integers = checkpoint.quantized or (
        not is_loaded and is_quantized("auto", str(checkpoint.source), best(), checkpoint.model.config)
    )
    texts = {
        "parameters": _rounded(parameters),
        "trained for": _TRAINED_FOR[checkpoint.objective],
        "block size": checkpoint.block_size and f"{checkpoint.block_size} masks",
        "reads up to": f"{checkpoint.context:,} tokens",
        "computes on": device and f"{device}, {checkpoint.precision}",
        "int8 products": integer_kernel() if has_integers else None,
        "not loaded": checkpoint.source and ", ".join(not_loaded(checkpoint.source)),
        "licence": licence_in(front_matter(checkpoint.source)),
        "modes": ", ".join(checkpoint.modes),
        "chat template": None if checkpoint.has_template else "none: prompts are continued as they are",
    }
    return Facts(parameters, checkpoint.modes, [(label, text) for label, text in texts.items() if text])


def _rounded(count: int) -> str:
    """Return a count in thousands, millions or billions with three significant digits."""
    size, word = next(
        ((s, w) for s, w in ((1e9, "billion"), (1e6, "million")) if count >= s), (1e3, "thousand")
    )
    return f"{count / size:.3g} {word}"


def front_matter(source: Path | None) -> dict[str, Any]:
    """Return the front matter of the model card next to the weights; empty if there is none."""
    with suppress(OSError, yaml.YAMLError, RecursionError, ValueError):
        if source:
            return metadata_load(beside(source, "README.md")) or {}
    return {}


def beside(source: Path, name: str) -> Path:
    """Return the path of a file in the folder of the weights; `source` is the folder or a file in it."""
    return (source if source.is_dir() else source.parent) / name


def licence_in(fields: dict[str, Any]) -> str | None:
    """Return the licence that a front matter names, on one short line."""
    named = fields.get("license_name") or fields.get("license")
    if isinstance(named, list):
        named = ", ".join(name for name in named[:3] if isinstance(name, str))
    return " ".join(named.split())[:60] or None if isinstance(named, str) else None
