"""What a name means: a bundled checkpoint, a folder, a GGUF file or a hub id. Nothing is loaded here."""

import re
from pathlib import Path

from mars_demo.assets import ASSETS

DENSE = ("auto", "float32", "bfloat16", "float16")  # of models that decode in batches
PRECISIONS = (*DENSE, "int8", "int4")
# `--dtype`, for argparse
DTYPE = {
    "choices": PRECISIONS,
    "default": "auto",
    "help": "auto: bfloat16 on a GPU (float16 on an older one), int8 on a CPU for GGUF files, else float32",
}
PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)")  # in the name of a file of a split GGUF model
BUNDLED = ("mars-smollm2-135m", "mars-tiny", "ar-tiny")  # best first


def bundled() -> list[str]:
    """Return the names of the checkpoints in `assets/`, best first."""
    return [name for name in BUNDLED if (ASSETS / name / "config.json").exists()]


def locate(name: str) -> str:
    """Return the folder, GGUF file or hub id that `name` means. The hub is not asked.

    Raises:
        ValueError: if it is none of these.
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
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ValueError(f"Unknown checkpoint {name!r}. {choices()}")
    return name


def choices() -> str:
    """Return what a name may be, as the second sentence of a refusal."""
    return f"Choose from {', '.join([*bundled(), 'a local folder', 'a hub id (owner/name)'])}."


def gguf_file(path: str) -> Path | None:
    """Return the GGUF file that `path` is or that holds the weights of the folder it is, or None."""
    if path.endswith(".gguf"):
        return Path(path)
    return next(iter(sorted(Path(path).glob("*.gguf"))), None) if Path(path).is_dir() else None


def split_name(file: str) -> str:
    """Return a GGUF file's name without the number of its part."""
    return PART.sub("", file)


def parts(file: Path) -> list[Path]:
    """Return all files of a GGUF model that is split as llama.cpp does it, or the file alone."""
    if not (numbered := PART.search(file.name)):
        return [file]
    count = int(numbered[2])
    return [file.with_name(PART.sub(f"-{n:05d}-of-{count:05d}", file.name)) for n in range(1, count + 1)]
