"""Names, folders and hub ids → model, tokenizer, mask token and block size; and back onto disk."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from huggingface_hub import HfApi, try_to_load_from_cache
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
)
from transformers.utils import logging as transformers_logging

from mars_demo import reordering

transformers_logging.disable_progress_bar()  # it would draw a bar for every load, in tests and apps too

ASSETS = Path(__file__).resolve().parent.parent / "assets"
BUNDLED = ("mars-smollm2-135m", "mars-tiny", "ar-tiny")  # best first


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model and what decoding must know of it.

    block_size: masks per block it was trained with; None for an ordinary AR model.
    objective: what it was trained for last: ar, mars or block-diffusion.
    context: positions its position embedding was made for.
    end_ids: every token that ends an answer.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    mask_id: int | None
    block_size: int | None
    objective: str
    context: int
    end_ids: frozenset[int]
    _names: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    def token_name(self, token: int) -> str:
        """A token's text on its own, special tokens by their names. Kept, as every pass shows dozens."""
        if token not in self._names:
            self._names[token] = self.tokenizer.decode([token])
        return self._names[token]

    @property
    def largest_window(self) -> int:
        """Slots a window may have: B masks give B + 1, no masks give one."""
        return 1 if self.block_size is None else self.block_size + 1

    @property
    def modes(self) -> tuple[str, ...]:
        """How it can be decoded. A MARS model is still the AR model; a block diffusion model is none."""
        if self.objective == "mars":
            return ("mars", "lossless", "ar", "jacobi", "speculative")
        return ("ar", "jacobi", "speculative") if self.objective == "ar" else (self.objective,)


def bundled() -> list[str]:
    """Names of the checkpoints that lie beside this code, best first."""
    return [name for name in BUNDLED if (ASSETS / name / "config.json").exists()]


def load(
    name: str | None = None, device: str | None = None, dtype: torch.dtype | None = None
) -> Checkpoint:
    """Load a bundled name, a local folder, a GGUF file or a hub id. A folder's weights are safetensors or
    one GGUF file. By default they become bfloat16 on a GPU or if they come from a GGUF file, else float32.

    Raises:
        ValueError: if there is no such checkpoint, it is broken, or it is no causal language model.
    """
    name = name or next(iter(bundled()), None)
    if name is None:
        raise ValueError("No checkpoint is bundled here; name a local folder or a hub id (owner/name).")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    path = _locate(name)
    dtype = dtype or (torch.float32 if device == "cpu" and not _gguf(path) else torch.bfloat16)
    try:
        tokenizer, model = _read(path, dtype)
    except SafetensorError as error:
        raise ValueError(f"The weights of {name} are damaged or cut short ({error}).") from error
    except (OSError, ValueError, KeyError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{name} cannot be loaded as a causal language model: {reason}") from error
    if device == "cpu" and dtype == torch.bfloat16 and reordering.is_available():
        reordering.reorder(model)
    return wrap(name, model.to(device).eval(), tokenizer)


def _read(path: str, dtype: torch.dtype) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    if file := _gguf(path):
        from mars_demo import packing  # needs gguf, which plain checkpoints do without

        inside = file.with_name("config.json").exists()
        named = {} if inside else {"gguf_file": file.name}
        tokenizer = AutoTokenizer.from_pretrained(file.parent, trust_remote_code=False, **named)
        config = AutoConfig.from_pretrained(file.parent, trust_remote_code=False) if inside else None
        return tokenizer, packing.load(file, config, dtype)
    # Without an explicit no, transformers asks on the terminal whether code beside the weights may run.
    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    published = _published_config(path, tokenizer)
    model, found = AutoModelForCausalLM.from_pretrained(
        path,
        **({"config": published} if published else {}),
        dtype=dtype,
        use_safetensors=True,
        attn_implementation="sdpa",
        trust_remote_code=False,
        ignore_mismatched_sizes=True,  # refused below, with names
        output_loading_info=True,
    )
    misshapen = {name for name, *_ in found["mismatched_keys"]}
    require_fit(found["missing_keys"], misshapen, found["unexpected_keys"])
    return tokenizer, model


def require_fit(missing: Collection[str], misshapen: Collection[str], unexpected: Collection[str]) -> None:
    """Refuse weights that are not those of the model their config describes: tensors that are missing would
    be random, and one without a place there, of a layer or a bias, would be left out in silence.

    Raises:
        ValueError: if any of the tensors' names are given.
    """
    troubles = {
        "lack {} of the tensors that its config asks for": missing,
        "hold {} of the tensors in another shape than its config says": misshapen,
        "hold tensors that its config has no place for, {} in all": unexpected,
    }
    for trouble, names in troubles.items():
        if names:
            first = [*sorted(names)[:3], *(["…"] if len(names) > 3 else [])]
            raise ValueError(f"its weights {trouble.format(len(names))}: {', '.join(first)}.")


def _gguf(path: str) -> Path | None:
    """The GGUF file that `path` is or that holds the weights of the folder it is, or None."""
    if path.endswith(".gguf"):
        return Path(path)
    return next(iter(sorted(Path(path).glob("*.gguf"))), None) if Path(path).is_dir() else None


def _locate(name: str) -> str:
    """The folder or hub id that `name` means, without loading anything."""
    if name in bundled():
        return str(ASSETS / name)
    if Path(name).exists():
        if name.endswith(".gguf"):
            return name
        if not (Path(name) / "config.json").is_file():
            raise ValueError(
                f"{name} is no checkpoint: a folder with a config.json or a .gguf file is needed."
            )
        return name
    allowed = ", ".join([*bundled(), "a local folder", "a hub id (owner/name)"])
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ValueError(f"No checkpoint called {name!r}: allowed are {allowed}.")
    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return name
    try:  # one quick question, where loading would ask again and again for a minute
        HfApi().model_info(name, timeout=10)
    except Exception as error:  # whatever the hub's HTTP client raises, the answer is the same
        raise ValueError(
            f"No folder called {name!r}, and no such model came from the hub: allowed are {allowed}."
        ) from error
    return name


def _published_config(path: str, tokenizer: PreTrainedTokenizerBase) -> Qwen2Config | None:
    """The config of a checkpoint that the paper's authors published; None for any other.

    Theirs say `a2d-qwen2`, which transformers does not know: weights and layers are Qwen2's. What they
    were trained for stands in their names only: `-blk8`, `-BD3LM-`, `-AR-SFT`.
    """
    config, _ = PreTrainedConfig.get_config_dict(path)
    if config.get("model_type") != "a2d-qwen2":
        return None
    foreign = ("model_type", "architectures", "auto_map")
    known = {key: value for key, value in config.items() if key not in foreign}
    block = re.search(r"-blk(\d+)", path)
    if block:
        known |= {"block_size": int(block[1]), "mask_token_id": tokenizer.mask_token_id}
        known["objective"] = "block-diffusion" if "BD3LM" in path else "mars"
    return Qwen2Config(**known)


def wrap(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Checkpoint:
    """A model and tokenizer in memory as a `Checkpoint`."""
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
        end_ids=_end_ids(model, tokenizer),
    )


def _end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    found: set[int] = set()
    for source in (model.generation_config, model.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        found.update(ids if isinstance(ids, Sequence) else [] if ids is None else [ids])
    return frozenset(found)


def truncated(checkpoint: Checkpoint, layers: int) -> Checkpoint:
    """Its first `layers` layers between its embedding and its head, weights shared: a draft to train on.

    Raises:
        ValueError: if it has fewer layers.
    """
    model = checkpoint.model
    if not 1 <= layers <= model.config.num_hidden_layers:
        raise ValueError(
            f"{checkpoint.name} has {model.config.num_hidden_layers} layers: allowed is 1 to that, "
            f"not {layers}."
        )
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    smaller = type(model)(config)
    weights = model.state_dict()
    smaller.load_state_dict({name: weights[name] for name in smaller.state_dict()}, assign=True)
    smaller.tie_weights()
    return wrap(
        f"{checkpoint.name}, {layers} layers", smaller.to(model.device).eval(), checkpoint.tokenizer
    )


def save(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    output: Path,
    block_size: int | None,
    objective: str = "mars",
    weights: dict[str, Tensor] | None = None,
) -> None:
    """Write a folder that plain transformers loads: bfloat16 safetensors, tokenizer, config.

    `block_size`, the mask token's id and `objective` go into config.json; None marks an AR checkpoint.
    weights: those to store if they are not the model's own, as where they are spread over processes.
    """
    config = copy.deepcopy(model.config)
    config.block_size = block_size
    config.mask_token_id = None if block_size is None else tokenizer.mask_token_id
    config.objective = "ar" if block_size is None else objective
    config.dtype = torch.bfloat16
    weights = model.state_dict() if weights is None else weights
    with torch.device("meta"):
        stored = type(model)(config)
    stored.generation_config = model.generation_config
    stored.load_state_dict({name: w.to(torch.bfloat16) for name, w in weights.items()}, assign=True)
    stored.tie_weights()
    stored.save_pretrained(output)
    tokenizer.save_pretrained(output)
    if config.objective == "mars":
        _save_custom_generate(output / "custom_generate")


def _save_custom_generate(folder: Path) -> None:
    """The decoder as files that transformers' `custom_generate` loads without this project."""
    here = Path(__file__).parent
    folder.mkdir(exist_ok=True)
    for source in (here / "layout.py", here / "engine.py", here / "export" / "generate.py"):
        code = source.read_text(encoding="utf-8").replace("from mars_demo.", "from .")
        (folder / source.name).write_text(code, encoding="utf-8")


MASK = "<|mask|>"
_RESERVED = re.compile("reserved|unused|extra_id|placeholder", re.IGNORECASE)


def ensure_mask(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the tokenizer a mask token if it has none, without a new row in the embedding.

    The first spare row behind the tokenizer's own ids becomes `<|mask|>`; where there is none, a special
    token that is reserved or that no chat template and no other role uses is taken over. Its row becomes
    the mean of all rows, of which a model expects no word in particular: nobody has trained it so far.

    Raises:
        ValueError: if there is neither.
    """
    if tokenizer.mask_token_id is not None:
        return
    rows = model.get_input_embeddings().weight
    if len(tokenizer) < len(rows):
        tokenizer.add_special_tokens({"mask_token": MASK})
    else:
        tokenizer.mask_token = _unused_special(model, tokenizer)
    with torch.no_grad():
        rows[tokenizer.mask_token_id] = rows.mean(dim=0)


def _unused_special(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    roles = {
        getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad", "unk", "sep", "cls")
    } | _end_ids(model, tokenizer)
    free = [
        token.content
        for index, token in sorted(tokenizer.added_tokens_decoder.items())
        if token.special and index not in roles and token.content not in (tokenizer.chat_template or "")
    ]
    if not free:
        raise ValueError(
            "The tokenizer has no room for a mask token: "
            "no spare row in the embedding and no unused special token."
        )
    return next((name for name in free if _RESERVED.search(name)), free[-1])
