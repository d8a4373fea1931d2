"""Spaces for the Hugging Face hub: their cards, and the app as a Space with its code and models."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import SpaceCardData, SpaceHardware, hf_hub_url

from mars_demo.core.assets import ASSETS
from mars_demo.core.links import PAPER
from mars_demo.core.names import BASE, TINY, bundled, is_hub_id, locate
from mars_demo.models.facts import front_matter

ROOT = ASSETS.parent
ZERO = "zero-a10g"
ZERO_PYTHON = "3.12.12"  # ZeroGPU has this version and 3.10.13
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NEEDED = (TINY, BASE)  # the models of the lessons and of the Train tab
CODE = ("mars_demo", "assets", "pyproject.toml", "space.yaml", "LICENSE")
LEFT_OUT = ("__pycache__", "*.pyc", "*.pyi", "*.webp")
PICTURE = "assets/screenshots/race.jpg"  # of a recorded race, half-way
# The file types of a checkpoint; code and pickles next to it are not copied.
OF_A_MODEL = (".safetensors", ".gguf", ".json", ".jinja", ".model", ".txt", ".md")
LARGE = ("*.gguf", "*.safetensors", "*.jpg")  # files that the hub keeps outside of git


@dataclass(frozen=True)
class Space:
    """The settings of a Space.

    hardware: the hub's name of its hardware.
    models: bundled names, hub ids, local folders and GGUF files, the default first.
    only: whether to leave out bundled models that are neither named nor needed outside the Race tab.
    repository: its OWNER/NAME on the hub, if it has one already.

    Raises:
        ValueError: if the hub has no such hardware, or a model is unknown.
    """

    hardware: str
    models: Sequence[str] = ()
    only: bool = False
    repository: str | None = None

    def __post_init__(self):
        flavours = [flavour.value for flavour in SpaceHardware]
        if self.hardware not in flavours:
            raise ValueError(f"Unknown hardware {self.hardware!r}. Choose from {', '.join(flavours)}.")
        names = [self.named(model) for model in self.models]
        if len(set(names)) < len(names) or any("," in name for name in names):
            raise ValueError("The models of a Space need different names without commas.")

    @property
    def has_gpu(self) -> bool:
        return not self.hardware.startswith("cpu-")

    @property
    def from_hub(self) -> list[str]:
        return [n for n in self.models if n not in bundled() and not Path(locate(n)).exists()]

    @property
    def from_here(self) -> list[Path]:
        return [Path(n) for n in self.models if n not in bundled() and Path(locate(n)).exists()]

    @property
    def included(self) -> list[str]:
        """Return the bundled models that are copied into the Space."""
        return [n for n in bundled() if not self.only or n in self.models or n in NEEDED]

    def named(self, model: str) -> str:
        """Return the Space's name of a model; for a copied folder or file it is its path in the Space."""
        return f"models/{Path(model).resolve().name}" if Path(model) in self.from_here else model


def check_new(output: Path) -> None:
    """Check that a folder is new or empty.

    Raises:
        ValueError: if `output` is a file, or a folder that is not empty.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output} is not empty. Name a folder that does not exist yet.")


def write_space(space: Space, output: Path) -> None:
    """Write the Space's folder.

    Raises:
        ValueError: if the folder is not empty, or the app's own files are missing.
    """
    check_new(output)
    if not (ROOT / "app.py").is_file():
        raise ValueError("The library is installed without the app. Run this in a clone of the repository.")
    output.mkdir(parents=True, exist_ok=True)
    unwanted = shutil.ignore_patterns(*LEFT_OUT, *(n for n in bundled() if n not in space.included))
    for name in CODE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, output / name, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, output)
    for model in space.from_here:
        _copy_model(model, output / space.named(str(model)))
    files = {
        "app.py": _app(space),
        "requirements.txt": _requirements(space),
        ".gitattributes": "".join(f"{p} filter=lfs diff=lfs merge=lfs -text\n" for p in LARGE),
    }
    for name, text in files.items():
        (output / name).write_text(text, encoding="utf-8")
    write_card(output, card(space), space_card_text(space), space.repository)


def fields() -> dict[str, Any]:
    """Return the front matter of the repository as a Space."""
    return yaml.safe_load((ROOT / "space.yaml").read_text("utf-8"))


def write_card(output: Path, front: dict[str, Any], text: str, repository: str | None) -> None:
    """Write `README.md` with its picture.

    repository: its OWNER/NAME on the hub, without which the picture has no URL for `thumbnail`.
    """
    if repository:
        front = front | {"thumbnail": hf_hub_url(repository, PICTURE, repo_type="space")}
    (output / PICTURE).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / PICTURE, output / PICTURE)
    title, _, body = text.partition("\n")
    shown = f"![A recorded race: one token per forward pass, and MARS]({PICTURE})"
    (output / "README.md").write_text(
        f"---\n{SpaceCardData(**front)}\n---\n\n{title}\n\n{shown}\n{body}", encoding="utf-8"
    )


def _copy_model(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    if source.is_file():
        shutil.copy(source, target)
        return
    target.mkdir()
    for file in sorted(source.iterdir()):
        if file.is_file() and file.suffix in OF_A_MODEL:
            shutil.copy(file, target)


def _app(space: Space) -> str:
    """Return the text of `app.py`, with the Space's models as the default of `MARS_DEMO_MODELS`."""
    text = (ROOT / "app.py").read_text("utf-8")
    if not space.models:
        return text
    listed = ",".join(space.named(model) for model in space.models)
    setting = f'os.environ.setdefault("MARS_DEMO_MODELS", {listed!r})'
    return text.replace("import sys\n", f"import os\nimport sys\n\n{setting}\n", 1)


def _requirements(space: Space) -> str:
    """Return the pinned packages, with the CPU build of torch if there is no GPU."""
    pinned = (ROOT / "requirements.txt").read_text("utf-8")
    return pinned if space.has_gpu else f"--extra-index-url {CPU_INDEX}\n{pinned}"


def space_card_text(space: Space) -> str:
    """Return the text of the Space's README."""
    listed = "\n".join(f"- {name}" for name in _linked(space))
    return f"""# MARS Demo

A language model usually computes one token per forward pass. MARS (Mask AutoRegreSsion,
[arXiv 2604.07023]({PAPER})) fine-tunes it so that one forward predicts several
next tokens. The first token is always accepted; the tokens after it are accepted from the left while their
scores are at least a threshold τ. Here a model races itself: one token per forward against several.

The models of this Space:

{listed}

The URL of the page holds its settings, so a link shows others what you see. The models also answer over
HTTP and as an MCP tool: see "Use via API" at the foot of the page.
"""


def _linked(space: Space) -> Iterator[str]:
    for name in [*space.models, *(name for name in space.included if name not in space.models)]:
        yield f"[{name}](https://huggingface.co/{name})" if name in space.from_hub else Path(name).name


def card(space: Space) -> dict[str, Any]:
    """Return the front matter of the Space's README."""
    front = fields() | {
        "suggested_hardware": space.hardware,
        "license": _licence(space),
        "models": [*space.from_hub, *_bases(space)] or None,
        "preload_from_hub": space.from_hub or None,
    }
    if space.hardware == ZERO:
        front["python_version"] = ZERO_PYTHON
    return front


def _licence(space: Space) -> str:
    """Return the licence of the models if all of them share it and none comes from the hub, or "other"."""
    licences = {front["license"] for front in _fronts(space) if "license" in front}
    return licences.pop() if len(licences) == 1 and not space.from_hub else "other"


def _bases(space: Space) -> list[str]:
    bases = (str(front.get("base_model")) for front in _fronts(space))
    return list(dict.fromkeys(filter(is_hub_id, bases)))


def _fronts(space: Space) -> list[dict[str, Any]]:
    return [front_matter(folder) for folder in (*(ASSETS / n for n in space.included), *space.from_here)]
