"""Trainings that are killed, or run out of disk, memory or finite numbers, and resume."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from random_models import random_model

from benchmarks import kills
from mars_demo.evaluation.frontier import Outcome, Setting
from mars_demo.evaluation.journal import Journal
from mars_demo.training import loop
from mars_demo.training.loop import train
from mars_demo.training.recipe import Recipe
from mars_demo.training.states import UNFINISHED, States

RECIPE = Recipe("mars", steps=4, save_every=1, batch_tokens=256, learning_rate=1e-3, data="tasks:units")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(kills, "LONGEST", 900)


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
    rng, output = random.Random(1), tmp_path / "killed"
    kills.finish(kills.start(tmp_path / "whole", "self"))
    assert kills.killed(output, "self", ["data", "state"], rng) == 2
    assert kills.outcome(output) == kills.outcome(tmp_path / "whole")


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
    kills.read_everything(tmp_path)
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
    asked = kills.command(tmp_path / "cut", "tasks:units")[3:]
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, kind, str(1 << 20), *asked],
        capture_output=True, text=True, env=kills.environment(),
    )  # fmt: skip
    message = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 2 and message.startswith("mars_demo train: "), run.stderr
    assert re.search(r"\b[34]\b", message) and "Traceback" not in run.stderr  # state-3 is written in step 4
    assert [path.name for path in (tmp_path / "cut").glob("state-*")] == ["state-2"]
    assert not (tmp_path / "cut" / UNFINISHED).exists()
    kills.finish(kills.start(tmp_path / "cut", "tasks:units", "--resume"))
    assert len(losses(tmp_path / "cut")) == kills.STEPS


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_number_that_is_not_finite_leaves_the_state_before_it(
    tmp_path, tokenizer, whole, monkeypatch, where
):
    accumulate = loop._accumulate

    def broken(accelerator, objective, recipe, tokenizer, step, group):
        found = accumulate(accelerator, objective, recipe, tokenizer, step, group)
        if step == 3 and where == "loss":
            return found | {"loss": torch.tensor(float("nan"))}
        if step == 3:
            next(objective.parameters()).grad.fill_(float("inf"))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(loop, "_accumulate", broken)
        with pytest.raises(ValueError, match=f"{where}.*3"):
            list(train(fresh(tokenizer), tokenizer, RECIPE, tmp_path))
    assert [path.name for path in tmp_path.glob("state-*")] == ["state-2"]
    assert resumed(tokenizer, tmp_path) == whole


def test_a_journal_whose_writer_is_killed_loses_at_most_its_last_line(tmp_path):
    setting, header = Setting("ar"), {"swept": "here"}
    held = 0
    for _ in range(5):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                journal = Journal(tmp_path, header)
                for number in range(held, 10**9):
                    journal.add(setting, Outcome(number, True, 2, 1, text="text " * 50), float(number))
                    os.write(write, b".")
            finally:
                os._exit(1)
        try:
            os.close(write)
            written = sum(len(os.read(read, 1)) for _ in range(20))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read)
        numbers = Journal(tmp_path, header).outcomes(setting)
        assert sorted(numbers) == list(range(len(numbers))) and len(numbers) >= held + written
        held = len(numbers)


def test_a_run_that_was_cut_while_it_removed_its_states_finishes(tmp_path, tokenizer, whole):
    list(train(fresh(tokenizer), tokenizer, RECIPE, tmp_path))
    (tmp_path / UNFINISHED).mkdir()
    assert resumed(tokenizer, tmp_path) == whole
