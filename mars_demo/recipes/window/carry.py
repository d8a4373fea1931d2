"""The folders that are carried to the lent machine, made in a checkout and removed again, and the bundle.

A call may carry 64 MiB, the checkout's files included. So the checkout's own weights stay at home, and the
base travels in two halves.
"""

import lzma
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from mars_demo.core.names import gguf_file, locate
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.recipes import smollm
from mars_demo.recipes.window import pieces
from mars_demo.recipes.window.machine import FIRST, PACKED, PLAIN, SECOND, WHEELS, WINDOW

LARGEST = 63 * 2**20  # bytes of a call, with some room below the limit
PACKAGES = ("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "gguf")
PYTHON = "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
WEIGHTS = ("/assets/**/*.gguf", "/assets/**/*.safetensors")
IGNORED = (f"/{WINDOW}/", *WEIGHTS)
PROMPT = "Sort these: pear, apple"  # for the trained bundle


def prepare(base: str, own: Path) -> None:
    """Write the folders to carry, and take the weights out of git's index, so that they do not travel.

    base: the checkpoint to train, a GGUF file or a folder.
    own: conversations with the base's own answers, as JSONL, which may be compressed by xz.

    Raises:
        ValueError: if a call would carry too much.
    """
    shutil.rmtree(WINDOW, ignore_errors=True)
    for folder in (PLAIN, WHEELS, SECOND):
        folder.mkdir(parents=True)
    _describe(base)
    lines = own.read_bytes()
    PACKED.write_bytes(lines if own.suffix == ".xz" else lzma.compress(lines))
    _download()
    path = locate(base)
    weights = gguf_file(path) or Path(path) / "model.safetensors"
    pieces.split(weights, SECOND, (weights.stat().st_size + _size(FIRST)) // 2 + 1)
    shutil.move(SECOND / "piece-01-of-02", FIRST)
    leave_weights()
    tree = sum(Path(file).stat().st_size for file in travelling())
    for folder in (FIRST, SECOND):
        size = tree + _size(folder)
        print(f"{folder}: {size / 2**20:.0f} MiB with the checkout")
        if size > LARGEST:
            raise ValueError(f"{folder} and the checkout are larger than {LARGEST >> 20} MiB.")


def restore() -> None:
    """Undo `prepare`: put the weights back into git's index and remove the folders."""
    _git("reset", "-q", "--", "assets")
    exclude = _exclude()
    kept = [line for line in exclude.read_text("utf-8").splitlines() if line not in IGNORED]
    exclude.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    shutil.rmtree(WINDOW, ignore_errors=True)


def join(folders: list[Path], output: Path) -> None:
    """Write the bundle whose pieces lie in `folders` to `output`, and let it answer a prompt.

    Raises:
        ValueError: if a piece is missing or damaged, or the bundle does not load.
    """
    bundle = pieces.join(folders, output)
    smollm.describe(bundle)
    run = decode(load_checkpoint(str(bundle)), PROMPT, Request("mars", max_new_tokens=12)).finish()
    print(f"{bundle} answers {PROMPT!r} with {run.text!r}, in {run.forwards} forwards.")


def travelling() -> list[str]:
    """Return the files of the checkout that travel: those that git tracks or does not ignore."""
    return [
        file for file in _git("ls-files", "-zco", "--exclude-standard").split("\0") if Path(file).is_file()
    ]


def _describe(base: str) -> None:
    """Write config and tokenizer as files.

    Versions of transformers read different special tokens from a GGUF file.
    """
    described = outline(base, block_size=0)
    for part in (described.model.config, described.model.generation_config, described.tokenizer):
        part.save_pretrained(PLAIN)


def _download() -> None:
    """Download the packages that the machine lacks, in the versions of this environment."""
    target = ["--python-version", PYTHON, "--implementation", "cp", "--only-binary=:all:", "--no-deps"]
    target += [word for platform in PLATFORMS for word in ("--platform", platform)]
    packages = [f"{name}=={version(name)}" for name in PACKAGES]
    command = [sys.executable, "-m", "pip", "download", "-q", *target, "-d", str(WHEELS), *packages]
    subprocess.run(command, check=True)


def leave_weights() -> None:
    """Take the weights out of the index, and ignore them and the window's folder; the files stay."""
    _git("rm", "-q", "--cached", "--ignore-unmatch", *(f":(glob){path[1:]}" for path in WEIGHTS))
    exclude = _exclude()
    lines = exclude.read_text("utf-8").splitlines() if exclude.exists() else []
    added = [line for line in IGNORED if line not in lines]
    exclude.write_text("".join(f"{line}\n" for line in (*lines, *added)), encoding="utf-8")


def _exclude() -> Path:
    path = Path(_git("rev-parse", "--git-path", "info/exclude").strip())
    path.parent.mkdir(exist_ok=True)
    return path


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
