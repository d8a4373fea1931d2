"""The whole window on a CPU, in a folder with only the files that would travel."""

import contextlib
import filecmp
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch

from mars_demo.core.names import locate
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes.window import carry, train
from mars_demo.recipes.window.machine import BUNDLE, FIRST, SECOND, TRAINED

ROOT = Path(__file__).resolve().parents[3]
# For the checkpoint's loading, the compiler and some steps of learning.
LEFT = train.ARRIVING + train.SAVING + train.LATER + 150
CALLS = (  # the carried folder, then the command and its arguments
    (FIRST, "prove"),
    (SECOND, "train", "--left", str(LEFT)),
    (None, "measure"),
    (None, "deliver", "2"),
)
FILES, FILE, TOTAL = 8, 16 * 2**20, 64 * 2**20  # the most that a call returns
NAME = re.compile(r"[A-Za-z0-9._-]+")


def rehearse(machine: Path, base: str, own: Path, work: Path) -> None:
    """Run all calls of the window.

    machine: the Python of an environment like the lent machine's.

    Raises:
        ValueError: if a call would return too much, or the bundle changes on its way.
    """
    work = work.resolve()
    checkout, there, joined = work / "checkout", work / "machine", work / "joined"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
    before = _index(checkout)
    located = Path(locate(base)).resolve()
    _run(sys.executable, checkout, "prepare", "--base", str(located), "--own", str(own.resolve()))
    for file in _travelling(checkout):
        (there / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(checkout / file, there / file)
    returned = []
    for number, (carried, *command) in enumerate(CALLS, start=1):
        if carried:
            shutil.copytree(checkout / carried, there / carried)
        returned.append(work / f"returned-{number}")
        returned[-1].mkdir()
        _run(str(machine.absolute()), there, *command, "--output", str(returned[-1]))
        _check_size(returned[-1])
    _run(sys.executable, checkout, "join", *map(str, returned), "--output", str(joined))
    _compare(joined / BUNDLE.name, there)
    _run(sys.executable, checkout, "restore")
    if _index(checkout) != before:
        raise ValueError("restore left another index or new files.")
    print("The rehearsal passed.")


def _run(python: str, folder: Path, *command: str) -> None:
    """Run a command of the window in `folder`, without a GPU and the packages of this process; time it."""
    started = time.monotonic()
    hidden = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}
    window = [python, "-m", "mars_demo.recipes.window", *command]
    subprocess.run(window, check=True, cwd=folder, env=os.environ | hidden)
    print(f"{command[0]}: {time.monotonic() - started:.0f} s", flush=True)


def _travelling(checkout: Path) -> list[str]:
    with contextlib.chdir(checkout):
        return carry.travelling()


def _index(checkout: Path) -> str:
    """Return git's index and the files that it does not know."""
    commands = (["git", "ls-files", "-s"], ["git", "status", "--porcelain"])
    return "".join(
        subprocess.run(c, check=True, cwd=checkout, capture_output=True, text=True).stdout for c in commands
    )


def _check_size(folder: Path) -> None:
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    if len(sizes) > FILES or max(sizes.values()) > FILE or sum(sizes.values()) > TOTAL:
        raise ValueError(f"{folder} is more than a call returns: {sizes}")
    if wrong := [name for name in sizes if not NAME.fullmatch(name)]:
        raise ValueError(f"Files with these names do not return: {', '.join(wrong)}.")


def _compare(joined: Path, there: Path) -> None:
    """Check that the joined bundle is the one of the machine, and computes what the trained weights do."""
    sent = there / BUNDLE
    names = [str(file.relative_to(sent)) for file in sent.rglob("*") if file.is_file()]
    _, different, missing = filecmp.cmpfiles(sent, joined, names, shallow=False)
    if different or missing:
        raise ValueError(f"These files changed on their way: {', '.join(different + missing)}.")
    ids = torch.arange(100, 164)[None]
    with torch.no_grad():
        quantized, trained = (
            load_checkpoint(str(folder), "cpu", torch.float32).model(ids).logits
            for folder in (joined, there / TRAINED)
        )
    error = ((quantized - trained).norm() / trained.norm()).item()
    print(f"Relative error of the logits in 8 bits: {error:.4f}.")
    if error > 0.1:
        raise ValueError("The bundle computes other logits than the trained weights.")
