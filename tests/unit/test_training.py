"""Training: losses, resuming after interruptions, watched trainings, and the mask vector."""

import argparse
import copy
import itertools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from accelerate.utils import DistributedType
from random_models import random_model
from safetensors import safe_open
from torch import nn
from transformers import AutoModelForCausalLM, get_cosine_schedule_with_warmup

from mars_demo import cli, tasks
from mars_demo.cli.train import register
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.export.save import save_checkpoint
from mars_demo.models.checkpoint import wrap
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import tiny
from mars_demo.training import corpus, loop, watching
from mars_demo.training.attention import FLEX
from mars_demo.training.loop import Trainer, make_batch, train
from mars_demo.training.mask_vector import MaskVector
from mars_demo.training.objective import Objective
from mars_demo.training.optimizers import ExactMuon, make_optimizers, make_schedulers
from mars_demo.training.recipe import Recipe
from mars_demo.training.states import UNFINISHED, States

ROOT = Path(__file__).resolve().parents[2]
RECIPE = Recipe(
    "mars", steps=6, save_every=2, batch_tokens=512, learning_rate=1e-3, muon_learning_rate=1e-2,
    data="tasks:units",
)  # fmt: skip


def fresh(tokenizer):
    return random_model("llama", tokenizer, context=512)


def plain(folder):
    """Load a saved checkpoint with transformers only."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)


@pytest.mark.parametrize(
    "changed",
    [
        {"reference": "base", "reference_weight": 2.0},
        {"muon_learning_rate": None, "mask_learning_rate": 4e-2, "mask_head_start": 0.3},
    ],
)
def test_an_interrupted_run_resumes_to_the_losses_of_an_uninterrupted_one(
    tmp_path, tokenizer, monkeypatch, changed
):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(fresh(tokenizer), tokenizer, tmp_path / "base", block_size=None)
    recipe = replace(RECIPE, **changed)
    whole = list(train(fresh(tokenizer), tokenizer, recipe, tmp_path / "whole"))
    interrupted = train(fresh(tokenizer), tokenizer, recipe, tmp_path / "cut")
    for metrics in interrupted:
        if metrics.step == 3:
            break
    interrupted.close()
    rest = list(train(fresh(tokenizer), tokenizer, recipe, tmp_path / "cut", resume=True))
    assert [m.step for m in rest] == [4, 5, 6]
    assert [(m.losses, m.tokens) for m in rest] == [(m.losses, m.tokens) for m in whole[3:]]
    lines = (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 6
    assert not list((tmp_path / "cut").glob("*state*"))


def command(output, *options: str) -> list[str]:
    return [
        "-m", "mars_demo", "train", "--base", "ar-tiny", "--data", "tasks:units", "--steps", "6",
        "--batch-tokens", "512", "--save-every", "2", "--output", str(output), *options,
    ]  # fmt: skip


def losses_of(output) -> list[tuple[float, float, int]]:
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return [(line["loss"], line["noisy"], line["tokens"]) for line in lines]


@pytest.mark.full
def test_two_processes_have_the_losses_of_one_with_the_same_global_batch(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    subprocess.run([sys.executable, *command(one, "--accumulate", "2")], check=True, capture_output=True)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true"}
    run = [sys.executable, *launch, *command(two)]
    subprocess.run(run, check=True, capture_output=True, env=environment)
    for (loss, noisy, tokens), expected in zip(losses_of(two), losses_of(one), strict=True):
        assert (loss, noisy) == pytest.approx(expected[:2], rel=1e-3)
        assert tokens == expected[2]


CONFIGS = ROOT / "docs" / "accelerate"
IN_FLOAT32 = str(ROOT / "tests" / "float32_training.py")
ON_CPU = os.environ | {"ACCELERATE_USE_CPU": "true", "PYTHONPATH": str(ROOT)}


def launching(config: str, *options: str) -> list[str]:
    """Return `accelerate launch` for two processes with a configuration of the documents."""
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(CONFIGS / config)]
    return [*launch, "--num_processes", "2", *options]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a file of conversations that the reference and the SFT loss both learn."""
    path = tmp_path_factory.mktemp("data") / "data.jsonl"
    examples = itertools.islice(tasks.examples(["units"], "train", seed=3), 60)
    turns = [(("user", example.prompt), ("assistant", example.answer)) for example in examples]
    lines = [{"messages": [{"role": role, "content": text} for role, text in pair]} for pair in turns]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.full
def test_sharded_weights_of_two_processes_are_trained_as_whole_ones_also_after_an_interruption(
    tmp_path, data
):
    one, two = tmp_path / "one", tmp_path / "two"
    options = [
        "--base", "ar-tiny", "--data", str(data), "--steps", "6", "--batch-tokens", "256",
        "--save-every", "2", "--gradient-checkpointing", "--kl-weight", "0.5",
        "--reference", "ar-tiny", "--reference-weight", "1",
    ]  # fmt: skip
    sharded = [*options, "--accumulate", "2", "--output", str(two)]
    launch = [*launching("fsdp.yaml", "--main_process_port", "0"), IN_FLOAT32, *sharded]
    interrupted = subprocess.run(launch, capture_output=True, env=ON_CPU | {"STOP_AFTER": "3"})
    assert interrupted.returncode and [path.name for path in two.glob("state-*")] == ["state-2"]
    subprocess.run([*launch, "--resume"], check=True, capture_output=True, env=ON_CPU)
    whole = [sys.executable, IN_FLOAT32, *options, "--accumulate", "4", "--output", str(one)]
    subprocess.run(whole, check=True, capture_output=True, env=ON_CPU)
    names = ("loss", "noisy", "kl", "reference", "grad_norm", "tokens")
    rows = [map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) for run in (one, two)]
    for expected, line in zip(*rows, strict=True):
        for name in names:
            assert line[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-8)
        assert line["slots"] == [pytest.approx(slot, rel=1e-4) for slot in expected["slots"]]
    trained = [plain(folder).state_dict() for folder in (one, two)]
    for name, weight in trained[0].items():
        torch.testing.assert_close(trained[1][name], weight, rtol=0.02, atol=1e-4)


@pytest.mark.full
def test_two_nodes_have_the_losses_of_one_process(tmp_path):
    """Start the two nodes on this machine, and compare products in bfloat16, if they are."""
    one, two = tmp_path / "one", tmp_path / "two"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = ["--main_process_ip", "127.0.0.1", "--main_process_port", str(port)]
    nodes = [
        subprocess.Popen(
            [*launching("two-nodes.yaml", *address, "--machine_rank", rank), *command(two)],
            env=ON_CPU,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank in "01"
    ]
    subprocess.run([sys.executable, *command(one, "--accumulate", "2")], check=True, capture_output=True)
    assert [node.wait() for node in nodes] == [0, 0]
    for (loss, noisy, tokens), expected in zip(losses_of(two), losses_of(one), strict=True):
        assert (loss, noisy) == pytest.approx(expected[:2], rel=0.02)
        assert tokens == expected[2]


def test_the_commands_of_the_documents_are_those_of_accelerate():
    """Parse each command as accelerate and `train` do, with the configuration that it names."""
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").replace("\\\n", "")
    commands = re.findall(r"(?<=accelerate launch )--config_file .*", text)
    processes = []
    for line in commands:
        known = launch_command_parser().parse_args(shlex.split(line, comments=True))
        config = load_config_from_file(str(ROOT / known.config_file))
        assert config.distributed_type == DistributedType.FSDP and config.fsdp_config["fsdp_version"] == 2
        assert known.module and known.training_script == "mars_demo"
        assert known.training_script_args[0] == "train"
        parser = argparse.ArgumentParser()
        register(parser)
        parser.parse_args(known.training_script_args[1:])
        processes.append((config.num_machines, known.num_processes or config.num_processes))
    assert processes == [(1, 8), (2, 16), (1, 2)]


def test_the_first_version_of_fsdp_is_refused(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "1")
    with pytest.raises(ValueError, match="fsdp_version"):
        next(train(fresh(tokenizer), tokenizer, RECIPE, tmp_path))


def test_several_processes_do_not_generate_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    arguments = ["train", "--base", "ar-tiny", "--data", "self", "--output", str(tmp_path / "out")]
    assert cli.main(arguments) == 2
    assert "self.jsonl" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_model_decodes_as_before_after_a_failed_step(tmp_path, tokenizer, monkeypatch):
    """Let a step with FlexAttention fail, as it must on a CPU, where it has no backward pass.

    FlexAttention cannot interpret the masks of decoding.
    """
    checkpoint = wrap("x", fresh(tokenizer), tokenizer)
    request = Request("ar", max_new_tokens=8)
    expected = decode(checkpoint, "Hello", request).finish().token_ids
    monkeypatch.setattr(loop, "fastest", lambda device: FLEX)
    with pytest.raises(NotImplementedError):
        next(train(checkpoint.model, tokenizer, RECIPE, tmp_path))
    assert checkpoint.model.config._attn_implementation == "sdpa"
    assert decode(checkpoint, "Hello", request).finish().token_ids == expected


def test_lora_trains_adapters_and_saves_no_extra_parameter(tmp_path, tokenizer):
    model = fresh(tokenizer)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    list(train(model, tokenizer, replace(RECIPE, lora=4, muon_learning_rate=None), tmp_path))
    after = plain(tmp_path).state_dict()
    assert {name: weight.shape for name, weight in after.items()} == {
        name: weight.shape for name, weight in before.items()
    }
    changed = {name for name in before if not torch.equal(after[name], before[name].bfloat16().float())}
    assert {name for name in before if name.endswith("proj.weight")} <= changed
    rows = (after["model.embed_tokens.weight"] != before["model.embed_tokens.weight"].bfloat16()).any(-1)
    assert rows.nonzero().flatten().tolist() == [tokenizer.mask_token_id]


def test_gradient_checkpointing_changes_no_loss(tmp_path, tokenizer):
    losses = [
        [m.loss for m in train(fresh(tokenizer), tokenizer, recipe, tmp_path / str(i))]
        for i, recipe in enumerate([RECIPE, replace(RECIPE, gradient_checkpointing=True)])
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_the_pace_scales_the_learning_rate_of_a_running_training(tmp_path, tokenizer):
    paces = iter([1.0, 1.0, 1.0] + [0.0] * 100)
    model = fresh(tokenizer)
    weights = []
    for _ in train(model, tokenizer, RECIPE, tmp_path, pace=lambda: next(paces)):
        weights.append(model.model.layers[0].mlp.up_proj.weight.clone())
    assert torch.equal(weights[-1], weights[-2])
    assert not torch.equal(weights[1], weights[0])


def test_training_lowers_both_losses(tmp_path, tokenizer):
    recipe = replace(RECIPE, steps=40, save_every=100)
    metrics = list(train(fresh(tokenizer), tokenizer, recipe, tmp_path))
    assert metrics[-1].clean < 0.8 * metrics[0].clean
    assert metrics[-1].noisy < 0.8 * metrics[0].noisy


@pytest.mark.parametrize(
    "changed, fact",
    [
        ({"objective": "magic"}, "ar, mars, block-diffusion"),
        ({"block_size": 1}, "2.*32"),
        ({"steps": 0}, "0"),
        ({"slot_decay": 0.0}, "0"),
        ({"slot_decay": 0.5, "objective": "ar"}, "mars.*ar"),
        ({"reference_weight": 2.0}, "2"),
        ({"reference": "ar-tiny"}, "ar-tiny"),
        ({"reference": "ar-tiny", "reference_weight": 1.0, "objective": "block-diffusion"}, "reference"),
        ({"mask_learning_rate": 0.01, "mask_head_start": 1.0}, r"\b1\b"),
        ({"mask_head_start": 0.5}, "learning rate"),
        ({"mask_learning_rate": 0.01, "objective": "ar"}, "mask"),
        ({"mask_learning_rate": 0.01, "lora": 4}, "LoRA"),
    ],
)
def test_recipes_out_of_range_are_refused(changed, fact):
    with pytest.raises(ValueError, match=fact):
        replace(RECIPE, **changed)


@pytest.mark.full
def test_a_compiled_training_has_the_same_losses(tmp_path, tokenizer):
    recipes = [replace(RECIPE, steps=3, compile=chosen) for chosen in (False, True)]
    plain, compiled = (
        list(train(fresh(tokenizer), tokenizer, recipe, tmp_path / str(recipe.compile)))
        for recipe in recipes
    )
    for one, other in zip(plain, compiled, strict=True):
        assert one.slots[0] == pytest.approx(other.slots[0], rel=1e-2)
        assert one.loss == pytest.approx(other.loss, rel=1e-2)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=5e-2)  # in bfloat16, order matters


def test_compiling_without_a_compiler_is_refused(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match=r"g\+\+"):
        next(train(fresh(tokenizer), tokenizer, replace(RECIPE, compile=True), tmp_path / "never"))


def test_accumulated_batches_equal_one_large_batch(tmp_path, tokenizer):
    """Compare gradients, losses and the next step with those of one batch of all conversations.

    The three batches have different sizes. Autocast does not cast float64 weights. Blocks are fixed because
    phases are sampled per batch.
    """
    recipe = replace(
        RECIPE, steps=1, accumulate=3, muon_learning_rate=None, fixed_blocks=True, kl_weight=0.5, seed=4,
        data="tasks:units,stories",
    )  # fmt: skip
    stream = corpus.batches(corpus.source(recipe.data, 4), tokenizer, recipe.batch_tokens, 512, 4)
    parts = list(itertools.islice(stream, 3))
    assert len({len(part) for part in parts}) > 1
    large = make_batch([c for part in parts for c in part], recipe, tokenizer, 1, 0)

    reference = fresh(tokenizer).double()
    expected = Objective(reference, kl_weight=0.5)(large)
    expected["loss"].backward()

    model, gradients = fresh(tokenizer).double(), {}
    for name, weight in model.named_parameters():
        weight.register_post_accumulate_grad_hook(
            lambda weight, name=name: gradients.update({name: weight.grad.clone()})
        )
    metrics = next(train(model, tokenizer, recipe, tmp_path))

    for name, weight in reference.named_parameters():
        torch.testing.assert_close(gradients[name], weight.grad, rtol=1e-4, atol=1e-8)
    for name in ("loss", "clean", "noisy", "kl"):
        assert getattr(metrics, name) == pytest.approx(expected[name].item(), rel=1e-6)
    norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
    assert metrics.grad_norm == pytest.approx(norm.item(), rel=1e-6)
    make_optimizers(reference, recipe)[0].step()
    for weight, other in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(weight, other, rtol=0, atol=1e-3 * recipe.learning_rate)


@pytest.mark.parametrize(
    "changed, fact",
    [
        ({"reference": "no-such-model"}, "no-such-model"),
        ({"reference": "ar-tiny"}, "ar-tiny"),
    ],
)
def test_unusable_references_are_refused(tmp_path, tokenizer, changed, fact):
    model = fresh(tokenizer)
    model.resize_token_embeddings(len(tokenizer) + 8)
    with pytest.raises(ValueError, match=fact):
        next(train(model, tokenizer, replace(RECIPE, reference_weight=1.0, **changed), tmp_path))


@pytest.mark.parametrize(
    "changed",
    [
        {"objective": "ar"},
        {"objective": "block-diffusion"},
        {"kl_weight": 1.0},
        {"fixed_blocks": True, "whole_copy": True},
    ],
)
def test_every_option_trains_and_its_checkpoint_decodes(tmp_path, tokenizer, changed):
    metrics = list(train(fresh(tokenizer), tokenizer, replace(RECIPE, steps=3, **changed), tmp_path))
    assert all(0 < (m.noisy or m.loss) < 20 for m in metrics)
    checkpoint = load_checkpoint(str(tmp_path), device="cpu")
    assert checkpoint.objective == changed.get("objective", "mars")
    run = decode(checkpoint, "hello", Request(mode=checkpoint.modes[0], max_new_tokens=12)).finish()
    assert 1 <= run.tokens <= 12


@pytest.mark.full
def test_the_tiny_recipe_runs_all_stages_and_resumes(tmp_path, monkeypatch):
    short = {name: replace(recipe, steps=2, batch_tokens=256) for name, recipe in tiny.STAGES.items()}
    for stages in (dict(itertools.islice(short.items(), 1)), short):
        monkeypatch.setattr(tiny, "STAGES", stages)
        assert cli.main(["recipe", "tiny", "--output", str(tmp_path)]) == 0
    ar, mars = (load_checkpoint(str(tmp_path / n), device="cpu") for n in ("ar-tiny", "mars-tiny"))
    assert (ar.block_size, mars.block_size) == (None, 8)
    assert len(ar.tokenizer) == len(mars.tokenizer)


def test_muon_in_float32_takes_the_steps_of_torch_up_to_rounding():
    """Check the optimizer for CPUs that emulate bfloat16, where matrix products take ten times as long."""
    draw = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=draw) for shape in ((48, 16), (16, 64), (32, 32))]
    gradients = [torch.randn(weight.shape, generator=draw) for weight in start]

    def moved(kind) -> list[torch.Tensor]:
        weights = [nn.Parameter(weight.clone()) for weight in start]
        optimizer = kind(weights, lr=0.1, weight_decay=0, adjust_lr_fn="match_rms_adamw")
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient.clone()
        optimizer.step()
        return [weight.detach() - before for weight, before in zip(weights, start)]

    for exact, rounded, gradient in zip(moved(ExactMuon), moved(torch.optim.Muon), gradients):
        torch.testing.assert_close(exact, rounded, rtol=0, atol=0.05 * float(rounded.abs().max()))
        # Orthogonalized: the same singular vectors, and singular values that are nearly equal.
        u, _, v = torch.linalg.svd(gradient, full_matrices=False)
        core = u.T @ (-exact) @ v.T
        assert (core - core.diag().diag()).abs().max() < 1e-4 * core.diag().max()
        assert core.diag().max() < 2 * core.diag().min()
    assert torch.ones(1).bfloat16().dtype == torch.bfloat16


# ----------------------------------------------------------------------------------- interrupted trainings

SHORT = Recipe("mars", steps=4, save_every=1, batch_tokens=256, learning_rate=1e-3, data="tasks:units")


STEPS = 12  # steps of a training in a child process


def resuming(output: Path, data: str) -> list[str]:
    return [
        "train", "--base", "ar-tiny", "--steps", str(STEPS), "--batch-tokens", "256", "--max-length", "256",
        "--save-every", "1", "--data", data, "--prompts", "tasks", "--conversations", "24",
        "--output", str(output), "--resume",
    ]  # fmt: skip


def start(output: Path, data: str) -> subprocess.Popen:
    """Start or resume a training on one thread: another order of sums would change the losses."""
    return subprocess.Popen(
        [sys.executable, "-m", "mars_demo", *resuming(output, data)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def read_everything(output: Path) -> None:
    """Read all that a resumed run would read; the last line of an appended file may be incomplete."""
    for file in output.glob("**/*.safetensors"):
        if not any("unfinished" in part for part in file.parts):
            with safe_open(file, "pt") as weights:
                for name in weights.keys():  # noqa: SIM118, it is not a dict
                    weights.get_slice(name)
    for file in output.glob("state-*/*.bin"):
        torch.load(file, weights_only=False)
    for file in output.glob("*.json"):
        json.loads(file.read_text())
    for file in output.glob("*.jsonl"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            json.loads(line)


def losses(folder: Path) -> list[tuple[int, float, float]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines]


def resumed(tokenizer, folder: Path, recipe: Recipe = SHORT) -> list[tuple[int, float, float]]:
    list(train(fresh(tokenizer), tokenizer, recipe, folder, resume=True))
    assert not [path.name for path in folder.iterdir() if "state" in path.name or "unfinished" in path.name]
    return losses(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("whole")
    list(train(fresh(tokenizer), tokenizer, SHORT, folder))
    return losses(folder)


@pytest.mark.full
def test_a_training_killed_while_writing_resumes_to_the_same_losses(tmp_path):
    """Kill one run after it has written data lines, and one after files of a state."""
    uninterrupted, output = tmp_path / "whole", tmp_path / "killed"
    assert start(uninterrupted, "self").wait() == 0
    for written in ("self.jsonl", "unfinished-state/*"):
        process = start(output, "self")
        while process.poll() is None and not any(output.glob(written)):
            threading.Event().wait(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        read_everything(output)
    assert start(output, "self").wait() == 0
    assert losses(output) == losses(uninterrupted)
    for name in ("self.jsonl", "model.safetensors"):
        assert (output / name).read_bytes() == (uninterrupted / name).read_bytes()


class Killed(BaseException):
    """An exception that nothing catches, as if the process were killed."""


@pytest.mark.parametrize(
    "place", [pytest.param(n, marks=pytest.mark.full if n in (0, 3, 5) else ()) for n in (0, 1, 2, 3, 5, 8)]
)
def test_a_run_interrupted_at_any_write_resumes(tmp_path, tokenizer, whole, monkeypatch, place):
    """Stop before the nth rename or removal of states, metrics and checkpoint files."""
    left = iter(range(place, -1, -1))

    def stopping(work):
        def call(*arguments, **more):
            if next(left, 0) == 0:
                raise Killed
            return work(*arguments, **more)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", stopping(os.replace))
        patched.setattr(States, "_remove", stopping(States._remove))
        with pytest.raises(Killed):
            for _ in train(fresh(tokenizer), tokenizer, SHORT, tmp_path):
                pass
    read_everything(tmp_path)
    assert resumed(tokenizer, tmp_path) == whole


def test_a_finished_run_is_not_trained_again(tmp_path, tokenizer):
    for trained in (4, 0):
        assert len(list(train(fresh(tokenizer), tokenizer, SHORT, tmp_path, resume=True))) == trained
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
def test_a_run_resumes_after_a_full_disk_or_memory(tmp_path, kind):
    arguments = resuming(tmp_path / "cut", "tasks:units")
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, kind, str(1 << 20), *arguments],
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
def test_a_non_finite_loss_keeps_the_previous_state(tmp_path, tokenizer, whole, monkeypatch, where):
    accumulate = Trainer._accumulate

    def broken(self, step, group):
        result = accumulate(self, step, group)
        if step == 3 and where == "loss":
            return result | {"loss": torch.tensor(float("nan"))}
        if step == 3:
            next(self.objective.parameters()).grad.fill_(float("inf"))
        return result

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_accumulate", broken)
        with pytest.raises(ValueError, match=f"{where}.*3"):
            list(train(fresh(tokenizer), tokenizer, SHORT, tmp_path))
    assert [path.name for path in tmp_path.glob("state-*")] == ["state-2"]
    assert resumed(tokenizer, tmp_path) == whole


# --------------------------------------------------------------------------------------- watched trainings


def test_a_recorded_training_matches_its_preset_and_is_complete():
    for entry in watching.index():
        lines = [json.loads(line) for line in watching.recording(entry["id"]).splitlines()]
        preset = next(preset for preset in watching.PRESETS if preset["id"] == entry["preset"])
        settings = ("objective", "block_size", "sft_weight", "data", "steps", "learning_rate")
        recipe = watching.recipe(*(preset[name] for name in settings), seed=entry["seed"])
        first, last = lines[0], lines[-1]
        assert (first["schema"], first["base"], first["prompt"]) == (1, entry["base"], entry["prompt"])
        # Settings newer than the recording have their defaults.
        assert Recipe(**first["recipe"] | {"save_every": 0}) == recipe  # saved states were never read
        assert [line["step"] for line in lines if "step" in line] == list(range(1, recipe.steps + 1))
        assert last == {"done": True, "steps": recipe.steps}
        for kind in ("answer", "probe"):
            assert [line[kind] for line in lines if kind in line][-1] == recipe.steps


@pytest.mark.parametrize("stop", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_stopped_training_is_saved_at_any_step(stop, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "PROBE_PROMPTS", 1)
    checkpoint = load_checkpoint("ar-tiny", "cpu", torch.float32)
    recipe = watching.recipe("mars", 4, 1, "code", steps=2, learning_rate=1e-3, seed=0)
    lines = []

    def stopped() -> bool:
        return sum('"step"' in line for line in lines) >= stop

    for line in watching.watch(checkpoint, recipe, "Hello", tmp_path, "mine", stopped=stopped):
        lines.append(line)
    assert json.loads(lines[-1]) == {"done": True, "steps": stop}
    records = [line.get("record") or line.get("before") for line in map(json.loads, lines)]
    slots = [slot for record in records for line in record or [] for slot in line.get("slots", [])]
    assert slots and all(len(slot.get("candidates", [])) == len(slot["top"]) for slot in slots)
    saved = load_checkpoint(str(tmp_path), "cpu")
    assert saved.block_size == 4
    for name, value in saved.model.state_dict().items():
        torch.testing.assert_close(value, checkpoint.model.state_dict()[name].bfloat16().float())


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"data": "poems"}, "poems.*word problems"),
        ({"steps": 0}, "1.*2000.*0"),
        ({"learning_rate": 0.5}, "0.1.*0.5"),
    ],
)
def test_impossible_trainings_are_refused(wrong, fact):
    right = {"objective": "mars", "block_size": 8, "sft_weight": 1, "data": "code", "steps": 5}
    with pytest.raises(ValueError, match=fact):
        watching.recipe(**(right | {"learning_rate": 1e-3, "seed": 0} | wrong))


def test_an_unknown_recording_is_refused():
    with pytest.raises(ValueError, match="../runs/bus"):
        watching.recording("../runs/bus")


# ---------------------------------------------------------------------- the mask vector and learning rates

MASK = 2
MASKED = Recipe(
    "mars", block_size=4, data="tasks:units", steps=10, batch_tokens=256, learning_rate=1e-3, warmup=0.2,
    mask_learning_rate=4e-2, mask_head_start=0.3, final_learning_rate=1e-5, save_every=100,
)  # fmt: skip


@pytest.fixture
def model(tokenizer):
    return random_model("llama", tokenizer, context=256)


def logits(model):
    ids = torch.tensor([[5, MASK, 9, MASK, MASK]])
    with torch.no_grad():
        return model(ids).logits


def test_the_mask_vector_is_added_to_every_mask_and_merged_into_the_embedding(model):
    """Use a model with an untied head: a changed embedding row changes only inputs."""
    plain = copy.deepcopy(model)
    vector = torch.randn(model.config.hidden_size)
    mask_vector = MaskVector(model.get_input_embeddings(), MASK)
    torch.testing.assert_close(logits(model), logits(plain))
    mask_vector.vector.data += vector
    plain.get_input_embeddings().weight.data[MASK] += vector
    torch.testing.assert_close(logits(model), logits(plain))
    mask_vector.merge()
    torch.testing.assert_close(logits(model), logits(plain))
    assert torch.equal(model.get_input_embeddings().weight, plain.get_input_embeddings().weight)


def rates(recipe, model, vector=None):
    """Return the learning rates of the AdamW groups at each step."""
    optimizers = make_optimizers(model, recipe, vector)
    [scheduler] = make_schedulers(optimizers, recipe, vector)
    history = []
    for _ in range(recipe.steps):
        history.append(scheduler.get_last_lr())
        optimizers[0].step()
        scheduler.step()
    return history


def test_without_a_vector_the_schedule_is_the_cosine_of_transformers(model):
    recipe = Recipe(steps=20, warmup=0.25, learning_rate=3e-4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 5, 20)
    for [rate] in rates(recipe, model):
        assert rate == pytest.approx(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()


def test_the_rate_of_the_mask_starts_first_and_then_follows_the_weights(model):
    recipe = replace(MASKED, steps=100)
    history = rates(recipe, model, MaskVector(model.get_input_embeddings(), MASK))
    for step, (body, mask) in enumerate(history):
        if step < 30:
            assert (body, mask) == (0.0, 4e-2)
        else:
            assert mask == pytest.approx(10 * body + 4e-2 / 20 * (1 - step / 100))
    bodies = [body for body, _ in history]
    assert bodies[30] == 0 and max(bodies) == bodies[50] == pytest.approx(1e-3)  # after 20 warm-up steps
    assert bodies[50:] == sorted(bodies[50:], reverse=True)
    assert bodies[-1] == pytest.approx(1e-5, rel=0.3)


def test_weight_decay_can_spare_vectors(model):
    for recipe, decays in ((Recipe(), [0.01]), (Recipe(decay_vectors=False), [0.01, 0.0])):
        [optimizer] = make_optimizers(model, recipe)
        groups = optimizer.param_groups
        assert [group["weight_decay"] for group in groups] == decays
        assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
        if len(groups) == 2:
            assert {p.ndim for p in groups[0]["params"]} == {2} and {
                p.ndim for p in groups[1]["params"]
            } == {1}


def test_only_the_mask_learns_during_its_head_start(tokenizer, model, tmp_path):
    before = copy.deepcopy(model.state_dict())
    head_start = replace(MASKED, steps=3, mask_head_start=0.99)
    for _ in train(model, tokenizer, head_start, tmp_path):
        pass
    mask = tokenizer.mask_token_id
    for name, weight in model.state_dict().items():
        if name == "model.embed_tokens.weight":
            moved = (weight != before[name]).any(-1).nonzero().flatten().tolist()
            assert moved == [mask]
        else:
            assert torch.equal(weight, before[name]), name
