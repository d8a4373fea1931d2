"""Names of checkpoints: bundled names, folders, GGUF files and hub ids."""

import re
from pathlib import Path

from mars_demo.core.assets import ASSETS

DENSE = ("auto", "float32", "bfloat16", "float16")  # the precisions of models that can decode in batches
PRECISIONS = (*DENSE, "int8")
# The argparse settings of `--dtype`.
DTYPE = {
    "choices": PRECISIONS,
    "default": "auto",
    "help": "auto: bfloat16 on a GPU (float16 on an older one), int8 on a CPU for GGUF files, else float32",
}
PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)")  # the part number in a split GGUF model's file name
CHAT = "mars-smollm2-135m"  # the chat model
TINY, BASE = "mars-tiny", "ar-tiny"  # the model of lessons, batches and trainings, and its base
BUNDLED = (CHAT, TINY, BASE)  # best first


def bundled() -> list[str]:
    """Return the names of the checkpoints in `assets/`, best first."""
    return [name for name in BUNDLED if (ASSETS / name / "config.json").exists()]


def locate(name: str) -> str:
    """Return the folder, GGUF file or hub id of a name, without network access.

    Raises:
        ValueError: if the name is neither known nor a possible hub id.
    """
    if name in bundled():
        return str(ASSETS / name)
    if Path(name).exists():
        if name.endswith(".gguf"):
            return name
        if not (Path(name) / "config.json").is_file():
            raise ValueError(
                f"{name} is not a checkpoint. Name a folder with a config.json, or a .gguf file."
            )
        return name
    if not is_hub_id(name):
        raise ValueError(f"Unknown checkpoint {name!r}. {choices()}")
    return name


def is_hub_id(name: str) -> bool:
    """Return whether a name has the form of a hub id and is not a path."""
    return bool(re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name)) and not Path(name).exists()


def choices() -> str:
    """Return the possible names, as the second sentence of an error."""
    return f"Choose from {', '.join([*bundled(), 'a local folder', 'a hub id (owner/name)'])}."


def gguf_file(path: str) -> Path | None:
    """Return the GGUF file at `path` or in the folder `path`; None if it has none, or safetensors."""
    if path.endswith(".gguf"):
        return Path(path)
    has_safetensors = any(Path(path).glob("model*.safetensors"))
    return None if has_safetensors else next(iter(sorted(Path(path).glob("*.gguf"))), None)


def split_name(file: str) -> str:
    """Return a GGUF file's name without its part number."""
    return PART.sub("", file)


def not_loaded(folder: Path) -> list[str]:
    """Return the GGUF models in a folder that are not loaded, because it has other weights as well."""
    chosen = gguf_file(str(folder))
    models = {split_name(file.name) for file in folder.glob("*.gguf")}
    return sorted(models - {split_name(chosen.name)} if chosen else models)


def parts(file: Path) -> list[Path]:
    """Return all files of a GGUF model with llama.cpp's split naming, or the single file."""
    if not (numbered := PART.search(file.name)):
        return [file]
    count = int(numbered[2])
    return [file.with_name(PART.sub(f"-{n:05d}-of-{count:05d}", file.name)) for n in range(1, count + 1)]
