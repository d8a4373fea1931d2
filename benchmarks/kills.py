"""Trainings that are killed at random moments, and resumed to the losses of one that never was.

    python -m benchmarks.kills --kills 20 --seed 0

Each run trains a small random model with the command line, on its own answers or on the built-in tasks, and
is killed (SIGKILL) again and again: some time after it has begun to train, when a file of a state appears,
or when a line of data does. After each kill everything that a resumed run would read is read, and the last
process runs to the end. Losses, data and weights must then be those of a run that was never killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from safetensors import safe_open

MOMENTS = ("data", "any", "state", "end")  # in the order of a run
STEPS = 12
LONGEST = 120  # seconds of one process


def command(output: Path, data: str, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "mars_demo", "train", "--base", "ar-tiny", "--steps", str(STEPS),
        "--batch-tokens", "256", "--max-length", "256", "--save-every", "1", "--data", data,
        "--prompts", "tasks", "--conversations", "24", "--output", str(output), *more,
    ]  # fmt: skip


def environment() -> dict[str, str]:
    """One thread: sums in another order would be other losses."""
    return os.environ | {"OMP_NUM_THREADS": "1"}


def start(output: Path, data: str, *more: str) -> subprocess.Popen:
    return subprocess.Popen(
        command(output, data, *more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()
    )


def finish(process: subprocess.Popen) -> None:
    """
    Raises:
        RuntimeError: if it fails.
    """
    _, said = process.communicate(timeout=LONGEST)
    if process.returncode:
        raise RuntimeError(said.decode(errors="replace")[-500:])


def kill(process: subprocess.Popen, output: Path, moment: str, rng: random.Random) -> bool:
    """Kill it at such a moment, unless it ends before; whether it was killed."""
    patterns = {
        "any": ["metrics.jsonl"],
        "state": ["unfinished-state/*"],
        "data": ["self.jsonl"],
        "end": ["unfinished-checkpoint/*"],
    }[moment]
    until = time.monotonic() + LONGEST
    sizes = {path: path.stat().st_size for pattern in patterns for path in output.glob(pattern)}
    while process.poll() is None and time.monotonic() < until:
        if any(_changed(path, sizes) for pattern in patterns for path in output.glob(pattern)):
            break
    time.sleep(rng.random() * {"any": 1.0, "state": 0.02, "data": 0.05, "end": 0.02}[moment])
    was_running = process.poll() is None
    process.kill()
    process.communicate()
    return was_running


def _changed(path: Path, sizes: dict[Path, int]) -> bool:
    try:
        return path.stat().st_size != sizes.get(path, -1)
    except OSError:  # removed meanwhile
        return False


def read_everything(output: Path) -> None:
    """Read what a resumed run, or whoever looks into the folder, would read. A last line that is torn is
    allowed, where lines are appended.

    Raises:
        ValueError, SafetensorError: if anything is half-written.
    """
    for state in output.glob("state-*"):
        with safe_open(state / "model.safetensors", "numpy") as weights:
            for name in weights.keys():  # noqa: SIM118, it is no dict
                weights.get_slice(name)
        for file in state.glob("*.bin"):
            import torch

            torch.load(file, weights_only=False)
    for name in ("config.json", "tokenizer.json", "recipe.json", "generation_config.json"):
        if (output / name).exists():
            json.loads((output / name).read_text())
    if (output / "model.safetensors").exists():
        with safe_open(output / "model.safetensors", "numpy"):
            pass
    for name in ("metrics.jsonl", "self.jsonl"):
        if (output / name).exists():
            for line in (output / name).read_bytes().split(b"\n")[:-1]:
                json.loads(line)


def outcome(output: Path) -> dict:
    """What must be the same: losses of all steps, the data, the weights."""
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    losses = [
        {name: line[name] for name in ("step", "loss", "noisy", "grad_norm", "tokens")} for line in lines
    ]
    data = (output / "self.jsonl").read_bytes() if (output / "self.jsonl").exists() else b""
    leftovers = sorted(
        path.name for path in output.iterdir() if "state" in path.name or "unfinished" in path.name
    )
    weights = (output / "model.safetensors").read_bytes()
    return {"losses": losses, "data": data, "weights": weights, "leftovers": leftovers}


def killed(output: Path, data: str, moments: list[str], rng: random.Random) -> int:
    """Train with a kill at each of the moments, then to the end; how many kills there were."""
    count = 0
    for moment in moments:
        was_killed = kill(start(output, data, "--resume"), output, moment, rng)
        read_everything(output)
        if not was_killed:
            return count  # it came to its end
        count += 1
    finish(start(output, data, "--resume"))
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, done, failures = random.Random(arguments.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        whole = {}
        for data in ("tasks:units", "self"):
            output = Path(folder) / data.partition(":")[0]
            finish(start(output, data))
            whole[data] = outcome(output)
        number = 0
        while done < arguments.kills:
            number += 1
            data = "self" if number % 2 else "tasks:units"
            allowed = MOMENTS if data == "self" else [moment for moment in MOMENTS if moment != "data"]
            drawn = [rng.choice(allowed) for _ in range(min(5, arguments.kills - done))]
            moments = sorted(drawn, key=MOMENTS.index)
            output = Path(folder) / f"killed-{number}"
            kills = killed(output, data, moments, rng)
            found = outcome(output)
            other = [name for name, value in whole[data].items() if found[name] != value]
            failures += bool(other)
            done += kills
            said = f"OTHER {', '.join(other)}" if other else "the same"
            print(f"{data}: {kills} kills ({', '.join(moments)}): {said}", flush=True)
    print(f"{done} kills in {number} trainings of {STEPS} steps, {failures} with another outcome.")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
