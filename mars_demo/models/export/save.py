"""Saving of checkpoints as folders that plain transformers loads."""

import copy
import os
import re
import shutil
from pathlib import Path

import torch
import yaml
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars_demo.core import acceptance, layout
from mars_demo.models.export import vllm_plugin
from mars_demo.models.runtime import decoder, engine

UNFINISHED = "unfinished-checkpoint"  # the folder of files that are being written
PACKAGE = Path(__file__).parents[2]
GENERATE, PLUGIN = "custom_generate", "mars_vllm"
OLDEST = "5.0.0"  # transformers that has run the code of a checkpoint
CORE = [
    PACKAGE / "__init__.py",
    *(PACKAGE / "core" / f"{name}.py" for name in ("__init__", "acceptance", "noise")),
]
# The code in a checkpoint: transformers' `custom_generate` in one folder, and the plugin in packages.
DECODER = [
    *(Path(module.__file__) for module in (layout, decoder, engine, acceptance)),
    Path(__file__).with_name("generate.py"),
]


def save_checkpoint(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    output: Path,
    block_size: int | None,
    objective: str = "mars",
    weights: dict[str, Tensor] | None = None,
) -> None:
    """Write a folder that plain transformers loads: bfloat16 safetensors, tokenizer and config.

    An interruption leaves only complete files in the folder.

    block_size: masks per block; None for an AR checkpoint.
    weights: the weights to store instead of the model's own, for example if they are sharded.
    """
    config = copy.deepcopy(model.config)
    config.block_size = block_size
    config.mask_token_id = None if block_size is None else tokenizer.mask_token_id
    config.pard_token = config.mask_token_id  # its name for the parallel drafting of vLLM
    config.objective = "ar" if block_size is None else objective
    config.dtype = torch.bfloat16
    weights = model.state_dict() if weights is None else weights
    with torch.device("meta"):
        stored = type(model)(config)
    stored.generation_config = model.generation_config
    stored.load_state_dict({name: w.to(torch.bfloat16) for name, w in weights.items()}, assign=True)
    stored.tie_weights()
    unfinished = output / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        stored.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        if config.objective == "mars":
            _save_code(unfinished, block_size)
        for file in [path for path in unfinished.rglob("*") if path.is_file()]:
            target = output / file.relative_to(unfinished)
            target.parent.mkdir(exist_ok=True)
            os.replace(file, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _save_code(output: Path, block_size: int) -> None:
    """Write the decoder and the plugin as standalone files, with the flags of vLLM."""
    (output / GENERATE).mkdir()
    for source in DECODER:
        # The same sources, not copies of them: transformers imports the files of one folder by these names.
        code = re.sub(r"from mars_demo\.(?:\w+\.)*", "from .", source.read_text(encoding="utf-8"))
        (output / GENERATE / source.name).write_text(code, encoding="utf-8")
    (output / GENERATE / "requirements.txt").write_text(f"transformers>={OLDEST}\n", encoding="utf-8")
    for source in [*CORE, *(PACKAGE / "vllm").glob("*.py")]:
        target = output / PLUGIN / source.relative_to(PACKAGE.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    flags = yaml.safe_dump(vllm_plugin.flags(block_size), sort_keys=False)
    (output / PLUGIN / "serve.yaml").write_text(flags, encoding="utf-8")
