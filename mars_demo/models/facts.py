"""The facts of a checkpoint, for the page and the terminal."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from huggingface_hub import metadata_load

from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name

_TRAINED_FOR = {
    "ar": "one token per forward (AR)",
    "mars": "several tokens per forward (MARS)",
    "block-diffusion": "filling blocks in any order (block diffusion)",
}


@dataclass(frozen=True)
class Facts:
    """The facts of one checkpoint."""

    name: str
    parameters: int  # tied weights count once
    trained_for: str
    block_size: int | None
    context: int
    device: str | None  # None if its weights are not loaded
    precision: str
    licence: str | None  # as its model card gives it
    modes: tuple[str, ...]
    has_template: bool

    def shown(self) -> list[tuple[str, str]]:
        """Return (label, text) pairs of all known facts."""
        texts = {
            "parameters": _rounded(self.parameters),
            "trained for": self.trained_for,
            "block size": self.block_size and f"{self.block_size} masks",
            "reads up to": f"{self.context:,} tokens",
            "computes on": self.device and f"{self.device}, {self.precision}",
            "licence": self.licence,
            "modes": ", ".join(self.modes),
            "chat template": None if self.has_template else "none: prompts are continued as they are",
        }
        return [(label, text) for label, text in texts.items() if text]


def _rounded(count: int) -> str:
    """Return a count in thousands, millions or billions with three significant digits."""
    size, word = next(
        ((s, w) for s, w in ((1e9, "billion"), (1e6, "million")) if count >= s), (1e3, "thousand")
    )
    return f"{count / size:.3g} {word}"


def facts(checkpoint: Checkpoint) -> Facts:
    """Return the facts of a checkpoint."""
    model = checkpoint.model
    return Facts(
        name=checkpoint.name,
        parameters=sum(weight.numel() for weight in model.parameters()),
        trained_for=_TRAINED_FOR[checkpoint.objective],
        block_size=checkpoint.block_size,
        context=checkpoint.context,
        device=None if checkpoint.device.type == "meta" else gpu_name(checkpoint.device) or "CPU",
        precision=checkpoint.precision,
        licence=checkpoint.source and licence_in(checkpoint.source),
        modes=checkpoint.modes,
        has_template=checkpoint.has_template,
    )


def licence_in(source: Path) -> str | None:
    """Return the licence from the front matter of the model card next to the weights, on one short line."""
    try:
        fields = metadata_load((source if source.is_dir() else source.parent) / "README.md") or {}
    except (OSError, yaml.YAMLError, RecursionError, ValueError):
        return None
    named = fields.get("license_name") or fields.get("license")
    if isinstance(named, list):
        named = ", ".join(one for one in named[:3] if isinstance(one, str))
    return " ".join(named.split())[:60] or None if isinstance(named, str) else None
