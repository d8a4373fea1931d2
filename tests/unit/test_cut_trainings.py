"""Trainings that are killed, or run out of disk, memory or finite numbers, and resume."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from random_models import random_model
from safetensors import safe_open

from mars_demo.training.loop import Trainer, train
from mars_demo.training.recipe import Recipe
from mars_demo.training.states import UNFINISHED, States

RECIPE = Recipe("mars", steps=4, save_every=1, batch_tokens=256, learning_rate=1e-3, data="tasks:units")


STEPS = 12  # of a training in a process of its own


def command(output: Path, data: str) -> list[str]:
    return [
        "train", "--base", "ar-tiny", "--steps", str(STEPS), "--batch-tokens", "256", "--max-length", "256",
        "--save-every", "1", "--data", data, "--prompts", "tasks", "--conversations", "24",
        "--output", str(output), "--resume",
    ]  # fmt: skip


def start(output: Path, data: str) -> subprocess.Popen:
    """Begin or resume a training on one thread: sums in another order would be other losses."""
    return subprocess.Popen(
        [sys.executable, "-m", "mars_demo", *command(output, data)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def read_everything(output: Path) -> None:
    """Read what a resumed run would read. Of a file to which lines are appended, the last may be torn."""
    for file in output.glob("**/*.safetensors"):
        if not any("unfinished" in part for part in file.parts):
            with safe_open(file, "pt") as weights:
                for name in weights.keys():  # noqa: SIM118, it is no dict
                    weights.get_slice(name)
    for file in output.glob("state-*/*.bin"):
        torch.load(file, weights_only=False)
    for file in output.glob("*.json"):
        json.loads(file.read_text())
    for file in output.glob("*.jsonl"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            json.loads(line)


def fresh(tokenizer):
    return random_model("llama", tokenizer, context=512)


def losses(folder: Path) -> list[tuple[int, float, float]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines]


def resumed(tokenizer, folder: Path, recipe: Recipe = RECIPE) -> list[tuple[int, float, float]]:
    list(train(fresh(tokenizer), tokenizer, recipe, folder, resume=True))
    assert not [path.name for path in folder.iterdir() if "state" in path.name or "unfinished" in path.name]
    return losses(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("whole")
    list(train(fresh(tokenizer), tokenizer, RECIPE, folder))
    return losses(folder)


@pytest.mark.full
def test_a_training_that_is_killed_while_it_writes_resumes_to_the_same_losses(tmp_path):
    """The kills come once lines of data, and once files of a state, have been written."""
    whole, output = tmp_path / "whole", tmp_path / "killed"
    assert start(whole, "self").wait() == 0
    for written in ("self.jsonl", "unfinished-state/*"):
        process = start(output, "self")
        while process.poll() is None and not any(output.glob(written)):
            threading.Event().wait(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        read_everything(output)
    assert start(output, "self").wait() == 0
    assert losses(output) == losses(whole)
    for name in ("self.jsonl", "model.safetensors"):
        assert (output / name).read_bytes() == (whole / name).read_bytes()


class Cut(BaseException):
    """An exception that nothing handles, as a kill."""


@pytest.mark.parametrize(
    "place", [pytest.param(n, marks=pytest.mark.full if n in (0, 3, 5) else ()) for n in (0, 1, 2, 3, 5, 8)]
)
def test_a_run_that_is_cut_at_any_write_resumes(tmp_path, tokenizer, whole, monkeypatch, place):
    """Stop before the nth rename or removal of states, metrics and the checkpoint."""
    left = iter(range(place, -1, -1))

    def stopping(work):
        def call(*arguments, **more):
            if next(left, 0) == 0:
                raise Cut
            return work(*arguments, **more)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", stopping(os.replace))
        patched.setattr(States, "_remove", stopping(States._remove))
        with pytest.raises(Cut):
            for _ in train(fresh(tokenizer), tokenizer, RECIPE, tmp_path):
                pass
    read_everything(tmp_path)
    assert resumed(tokenizer, tmp_path) == whole


def test_a_finished_run_is_not_trained_again(tmp_path, tokenizer):
    for trained in (4, 0):
        assert len(list(train(fresh(tokenizer), tokenizer, RECIPE, tmp_path, resume=True))) == trained
        assert len(losses(tmp_path)) == 4


LIMITED = """
import resource, sys
from mars_demo import cli
kind, limit, *command = sys.argv[1:]
from mars_demo.training import loop
steps = loop.Trainer.step
def step(self, number, *more):
    if number == 3:
        if kind == "RLIMIT_AS":
            import psutil
            used = psutil.Process().memory_info().vms
            resource.setrlimit(resource.RLIMIT_AS, (used + int(limit),) * 2)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit),) * 2)
    return steps(self, number, *more)
loop.Trainer.step = step
raise SystemExit(cli.main(command))
"""


@pytest.mark.full
@pytest.mark.parametrize("kind", ["RLIMIT_FSIZE", "RLIMIT_AS"])
def test_a_full_disk_and_full_memory_end_a_run_that_resumes(tmp_path, kind):
    asked = command(tmp_path / "cut", "tasks:units")
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, kind, str(1 << 20), *asked],
        capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    message = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 2 and message.startswith("mars_demo train: "), run.stderr
    assert re.search(r"\b[34]\b", message) and "Traceback" not in run.stderr  # state-3 is written in step 4
    assert [path.name for path in (tmp_path / "cut").glob("state-*")] == ["state-2"]
    assert not (tmp_path / "cut" / UNFINISHED).exists()
    assert start(tmp_path / "cut", "tasks:units").wait() == 0
    assert len(losses(tmp_path / "cut")) == STEPS


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_number_that_is_not_finite_leaves_the_state_before_it(
    tmp_path, tokenizer, whole, monkeypatch, where
):
    accumulate = Trainer._accumulate

    def broken(self, step, group):
        found = accumulate(self, step, group)
        if step == 3 and where == "loss":
            return found | {"loss": torch.tensor(float("nan"))}
        if step == 3:
            next(self.objective.parameters()).grad.fill_(float("inf"))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_accumulate", broken)
        with pytest.raises(ValueError, match=f"{where}.*3"):
            list(train(fresh(tokenizer), tokenizer, RECIPE, tmp_path))
    assert [path.name for path in tmp_path.glob("state-*")] == ["state-2"]
    assert resumed(tokenizer, tmp_path) == whole


def test_a_run_that_was_cut_while_it_removed_its_states_finishes(tmp_path, tokenizer, whole):
    list(train(fresh(tokenizer), tokenizer, RECIPE, tmp_path))
    (tmp_path / UNFINISHED).mkdir()
    assert resumed(tokenizer, tmp_path) == whole
