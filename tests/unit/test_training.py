"""Training: losses, resuming after interruptions, watched trainings, the clock and the optimizer."""

import itertools
import json
import math
import os
import random
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from accelerate.utils import DistributedType
from hostile import written
from random_models import random_model
from torch import nn
from transformers import AutoModelForCausalLM, TrainerCallback, TrainerState

from mars_demo import cli, tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import training_record, trainings
from mars_demo.models.checkpoint import wrap
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.mask_token import ensure_mask
from mars_demo.recipes import tiny
from mars_demo.training import optimizers, states, trainer
from mars_demo.training.adapters import add_adapters
from mars_demo.training.attention import FLEX, SDPA, fastest
from mars_demo.training.clock import Clock
from mars_demo.training.config import MarsConfig
from mars_demo.training.metrics import Metrics, logged
from mars_demo.training.objective import Objective
from mars_demo.training.optimizers import make_optimizer
from mars_demo.training.steps import Steps
from mars_demo.training.stepwise import stepwise
from mars_demo.training.trainer import MarsTrainer

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "max_steps": 4, "save_steps": 2, "batch_tokens": 512, "learning_rate": 1e-3, "muon_learning_rate": 1e-2,
    "data": "tasks:units",
}  # fmt: skip
SHORT = {
    "max_steps": 4, "save_steps": 1, "batch_tokens": 256, "learning_rate": 1e-3, "data": "tasks:units"
}  # fmt: skip


def fresh(tokenizer):
    return random_model("llama", tokenizer, context=512)


def plain(folder):
    """Load a saved checkpoint with transformers only."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)


def ready(model, tokenizer, output, settings: dict = SETTINGS, **more) -> MarsTrainer:
    """Return a trainer, with `settings` of its config and `more` arguments of its own."""
    return MarsTrainer(model, MarsConfig(str(output), **settings), processing_class=tokenizer, **more)


def train(model, tokenizer, output, settings: dict = SETTINGS, resume=False, **more) -> list[Metrics]:
    """Run a training to its end and return the metrics of its steps."""
    run, metrics = ready(model, tokenizer, output, settings, **more), []
    run.steps.watchers.append(metrics.append)
    run.run(resume)
    return metrics


def stopped(run: MarsTrainer, step: int) -> None:
    """Run a training and stop it after a step, as the page and Ctrl-C do."""
    run.steps.watchers.append(lambda metrics: metrics.step == step and run.stop())
    assert not run.run()


@pytest.mark.parametrize(
    "changed",
    [{"reference": "base", "reference_weight": 2.0}, {"muon_learning_rate": None, "packed": 1024}],
)
def test_an_interrupted_run_resumes_to_the_losses_of_an_uninterrupted_one(
    tmp_path, tokenizer, monkeypatch, changed
):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(fresh(tokenizer), tokenizer, tmp_path / "base", block_size=None)
    settings = SETTINGS | changed
    whole = train(fresh(tokenizer), tokenizer, tmp_path / "whole", settings)
    stopped(ready(fresh(tokenizer), tokenizer, tmp_path / "cut", settings), 3)
    assert states.last(tmp_path / "cut").name == "checkpoint-3"
    rest = train(fresh(tokenizer), tokenizer, tmp_path / "cut", settings, resume=True)
    assert [m.step for m in rest] == [4]
    assert [(m.losses, m.tokens) for m in rest] == [(m.losses, m.tokens) for m in whole[3:]]
    assert len(logged(tmp_path / "cut")) == 4
    assert not states.last(tmp_path / "cut")


def command(output, *options: str) -> list[str]:
    return [
        "-m", "mars_demo", "train", "--base", "ar-tiny", "--data", "tasks:units", "--max-steps", "6",
        "--batch-tokens", "512", "--save-steps", "2", "--output-dir", str(output), *options,
    ]  # fmt: skip


TWO_PROCESSES = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.full
def test_two_processes_by_the_clock_end_at_the_same_step(tmp_path):
    run = [sys.executable, *TWO_PROCESSES, *command(tmp_path / "two"), "--minutes", "0.1"]
    subprocess.run(run, check=True, capture_output=True, env=os.environ | {"ACCELERATE_USE_CPU": "true"})
    assert logged(tmp_path / "two") and load_checkpoint(str(tmp_path / "two"), "cpu").block_size == 8


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
    talks = ([*one.messages, {"role": "assistant", "content": one.answer}] for one in examples)
    path.write_text(written({"messages": talk} for talk in talks))
    return path


def replicated() -> list[list[str]]:
    return [[sys.executable, *TWO_PROCESSES]]


def sharded() -> list[list[str]]:
    return [launching("fsdp.yaml", "--main_process_port", "0")]


def two_nodes() -> list[list[str]]:
    """Return the launchers of two nodes, both on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = ["--main_process_ip", "127.0.0.1", "--main_process_port", str(port)]
    return [launching("two-nodes.yaml", *address, "--machine_rank", rank) for rank in "01"]


@pytest.mark.full
@pytest.mark.parametrize("launchers", [replicated, sharded, two_nodes])
def test_two_interrupted_processes_train_as_one_with_the_same_global_batch(tmp_path, data, launchers):
    one, two = tmp_path / "one", tmp_path / "two"
    training = [
        IN_FLOAT32, "--base", "ar-tiny", "--data", str(data), "--max-steps", "6", "--batch-tokens", "256",
        "--save-steps", "2", "--activation-checkpointing",
        "--reference", "ar-tiny", "--reference-weight", "1",
    ]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def are_done(*options: str, **environment: str) -> bool:
        of_each = [*training, "--gradient-accumulation-steps", "2", "--output-dir", str(two), *options]
        started = [
            subprocess.Popen([*launcher, *of_each], env=ON_CPU | environment, **quiet)
            for launcher in launchers()
        ]
        return not any([process.wait() for process in started])

    assert not are_done(FAIL_AFTER="3", FAILURE="interrupt")
    assert [path.name for path in two.glob("checkpoint-*")] == ["checkpoint-2"]
    assert are_done("--resume")
    as_two = [
        "--gradient-accumulation-steps",
        "4",
        "--dataloader-num-workers",
        "2",
        "--output-dir",
        str(one),
    ]
    subprocess.run([sys.executable, *training, *as_two], check=True, capture_output=True, env=ON_CPU)
    for expected, metrics in zip(logged(one), logged(two), strict=True):
        numbers = expected.scalars() | {"seconds": metrics.seconds}
        assert metrics.scalars() == pytest.approx(numbers, rel=1e-4, abs=1e-8)
        assert metrics.slots == [pytest.approx(slot, rel=1e-4) for slot in expected.slots]
    trained = [plain(folder).state_dict() for folder in (one, two)]
    for name, weight in trained[0].items():
        torch.testing.assert_close(trained[1][name], weight, rtol=0.02, atol=1e-4)


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
        cli.parser("train").parse_args(known.training_script_args)
        processes.append((config.num_machines, known.num_processes or config.num_processes))
    assert processes == [(1, 2), (1, 8)]


def test_several_processes_do_not_generate_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    arguments = ["train", "--base", "ar-tiny", "--data", "self", "--output-dir", str(tmp_path / "out")]
    assert cli.main(arguments) == 2
    assert "self.jsonl" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_model_decodes_as_before_after_a_failed_step(tmp_path, tokenizer, monkeypatch):
    """Let a step with FlexAttention fail, as it must on a CPU, where it has no backward pass.

    FlexAttention cannot interpret the masks of decoding.
    """
    checkpoint = wrap("x", fresh(tokenizer), tokenizer)
    request = Request("ar", max_new_tokens=8)
    expected = decode(checkpoint, "Hello", request).finish().token_ids
    monkeypatch.setattr(trainer, "fastest", lambda device: FLEX)
    with pytest.raises(NotImplementedError):
        train(checkpoint.model, tokenizer, tmp_path)
    assert checkpoint.model.config._attn_implementation == "sdpa"
    assert decode(checkpoint, "Hello", request).finish().token_ids == expected


@pytest.mark.parametrize("lacking", ["", "Triton", "gcc"])
def test_flex_attention_needs_triton_and_a_compiler(tmp_path, monkeypatch, lacking):
    """Choose for a GPU that computes bfloat16, with empty files for what is installed."""
    (tmp_path / "triton.py").touch()
    (tmp_path / "gcc").touch(mode=0o755)
    (tmp_path / "no-packages").mkdir()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    for name in ("CC", "SPACES_ZERO_GPU"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "no-packages" if lacking == "Triton" else tmp_path)])
    monkeypatch.setenv("PATH", "nowhere" if lacking == "gcc" else str(tmp_path))
    device = torch.device("cuda")
    with warnings.catch_warnings(record=True) as said:
        assert fastest(device) == fastest(device) == (SDPA if lacking else FLEX)
    assert len(said) == bool(lacking) and all(lacking in str(one.message) for one in said)


def test_lora_trains_adapters_and_saves_no_extra_parameter(tmp_path, tokenizer):
    model = fresh(tokenizer)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    ensure_mask(model, tokenizer)
    adapted = add_adapters(model, 4, tokenizer.mask_token_id)
    train(adapted, tokenizer, tmp_path, SETTINGS | {"muon_learning_rate": None})
    after = plain(tmp_path).state_dict()
    assert {name: weight.shape for name, weight in after.items()} == {
        name: weight.shape for name, weight in before.items()
    }
    changed = {name for name in before if not torch.equal(after[name], before[name].bfloat16().float())}
    assert {name for name in before if name.endswith("proj.weight")} <= changed
    rows = (after["model.embed_tokens.weight"] != before["model.embed_tokens.weight"].bfloat16()).any(-1)
    assert rows.nonzero().flatten().tolist() == [tokenizer.mask_token_id]


def test_muon_takes_adapters_and_adamw_the_row_of_the_mask(tokenizer):
    model = fresh(tokenizer)
    ensure_mask(model, tokenizer)
    adapted = add_adapters(model, 4, tokenizer.mask_token_id)
    names = {id(parameter): name for name, parameter in adapted.named_parameters()}
    groups = optimizers.make_optimizer(adapted.get_base_model(), 1e-3, 1e-2, 0.0, (0.9, 0.95)).param_groups
    by_adamw, by_muon = ([names[id(p)] for p in group["params"]] for group in groups)
    assert by_muon and all("lora_" in name for name in by_muon)
    assert by_adamw and all("trainable_tokens" in name for name in by_adamw)


def test_the_pace_scales_the_learning_rate_of_a_running_training(tmp_path, tokenizer):
    paces = iter([1.0, 1.0, 1.0] + [0.0] * 100)
    model = fresh(tokenizer)
    weights = []
    run = ready(model, tokenizer, tmp_path, pace=lambda: next(paces))
    run.steps.watchers.append(lambda _: weights.append(model.model.layers[0].mlp.up_proj.weight.clone()))
    run.run()
    assert torch.equal(weights[-1], weights[-2])
    assert not torch.equal(weights[1], weights[0])


def test_packed_batches_of_workers_train_with_constant_shapes(tmp_path, tokenizer):
    shapes, model = set(), fresh(tokenizer)
    model.model.register_forward_hook(
        lambda module, args, settings, output: shapes.add(settings["input_ids"].shape), with_kwargs=True
    )
    settings = SETTINGS | {"packed": 1024, "max_length": 256, "dataloader_num_workers": 1}
    metrics = train(model, tokenizer, tmp_path, settings)
    assert shapes == {(2, 512)}
    assert all(m.tokens > n * 500 for n, m in enumerate(metrics, start=1))


@pytest.mark.parametrize(
    "changed, fact",
    [
        ({"objective": "magic"}, "mars, ar, block-diffusion"),
        ({"block_size": 1}, "2.*32"),
        ({"max_steps": 0}, "0"),
        ({"minutes": 0.0}, "0"),
        ({"slot_decay": 0.0}, "0"),
        ({"slot_decay": 0.5, "objective": "ar"}, "mars.*ar"),
        ({"reference_weight": 2.0}, "2"),
        ({"reference": "ar-tiny"}, "ar-tiny"),
        ({"reference": "ar-tiny", "reference_weight": 1.0, "objective": "block-diffusion"}, "reference"),
    ],
)
def test_settings_out_of_range_are_refused(tmp_path, changed, fact):
    with pytest.raises(ValueError, match=fact):
        MarsConfig(str(tmp_path), **SETTINGS | changed)


@pytest.mark.full
def test_a_compiled_training_has_the_same_losses(tmp_path, tokenizer):
    plain, compiled = (
        train(
            fresh(tokenizer),
            tokenizer,
            tmp_path / str(chosen),
            SETTINGS | {"max_steps": 3, "compile": chosen},
        )
        for chosen in (False, True)
    )
    for one, other in zip(plain, compiled, strict=True):
        assert one.slots[0] == pytest.approx(other.slots[0], rel=1e-2)
        assert one.loss == pytest.approx(other.loss, rel=1e-2)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=5e-2)  # in bfloat16, order matters


def test_accumulated_batches_equal_one_large_batch(tmp_path, tokenizer):
    """Compare gradients, losses and the next step with those of one batch of all conversations.

    The three batches have different sizes. Autocast does not cast float64 weights. Blocks are fixed because
    phases are sampled per batch.
    """
    settings = SETTINGS | {
        "max_steps": 1, "gradient_accumulation_steps": 3, "muon_learning_rate": None, "fixed_blocks": True,
        "seed": 4, "data": "tasks:units,stories", "warmup_steps": 0, "bf16": False,
    }  # fmt: skip
    model, gradients = fresh(tokenizer).double(), {}
    for name, weight in model.named_parameters():
        weight.register_post_accumulate_grad_hook(
            lambda weight, name=name: gradients.update({name: weight.grad.clone()})
        )
    run = ready(model, tokenizer, tmp_path, settings)
    batches = run.get_train_dataloader().dataset
    parts = list(itertools.islice(batches.rows(), 3))
    assert len({len(part) for part in parts}) > 1

    reference = fresh(tokenizer).double()
    whole = batches.batch([row for part in parts for row in part], random.Random(0))
    expected = Objective()(reference, whole)
    expected["loss"].backward()

    metrics = []
    run.steps.watchers.append(metrics.append)
    run.run()
    for name, weight in reference.named_parameters():
        torch.testing.assert_close(gradients[name], weight.grad, rtol=1e-4, atol=1e-8)
    for name in ("loss", "clean", "noisy"):
        assert metrics[0].record()[name] == pytest.approx(expected[name].item(), rel=1e-6)
    norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
    assert metrics[0].grad_norm == pytest.approx(norm.item(), rel=1e-6)
    make_optimizer(reference, 1e-3, None, 0.01, (0.9, 0.95)).step()
    for weight, other in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(weight, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "changed, environment, fact",
    [
        ({"reference": "no-such-model", "reference_weight": 1.0}, {}, "no-such-model"),
        ({"reference": "ar-tiny", "reference_weight": 1.0}, {}, "ar-tiny"),  # of another vocabulary
        ({"compile": True}, {"PATH": "nowhere"}, r"g\+\+"),
        ({}, {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1"}, "fsdp_version"),
    ],
)
def test_impossible_settings_are_refused(tmp_path, tokenizer, monkeypatch, changed, environment, fact):
    model = fresh(tokenizer)
    model.resize_token_embeddings(len(tokenizer) + 8)
    monkeypatch.delenv("CXX", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=fact):
        ready(model, tokenizer, tmp_path, SETTINGS | changed)


@pytest.mark.parametrize("objective", ["ar", "mars", "block-diffusion"])
def test_every_objective_trains_and_its_checkpoint_decodes(tmp_path, tokenizer, objective):
    metrics = train(
        fresh(tokenizer), tokenizer, tmp_path, SETTINGS | {"max_steps": 3, "objective": objective}
    )
    assert {"noisy" in m.losses for m in metrics} == {objective != "ar"}
    assert all(0 < m.losses.get("noisy", m.loss) < 20 for m in metrics)
    checkpoint = load_checkpoint(str(tmp_path), device="cpu")
    assert checkpoint.objective == objective
    run = decode(checkpoint, "hello", Request(mode=checkpoint.modes[0], max_new_tokens=12)).finish()
    assert 1 <= run.tokens <= 12


@pytest.mark.full
def test_the_tiny_recipe_runs_all_stages_and_resumes(tmp_path, monkeypatch):
    short = {name: one | {"max_steps": 2, "batch_tokens": 256} for name, one in tiny.STAGES.items()}
    for stages in (dict(itertools.islice(short.items(), 1)), short):
        monkeypatch.setattr(tiny, "STAGES", stages)
        assert cli.main(["recipe", "tiny", "--output-dir", str(tmp_path)]) == 0
    ar, mars = (load_checkpoint(str(tmp_path / n), device="cpu") for n in ("ar-tiny", "mars-tiny"))
    assert (ar.block_size, mars.block_size) == (None, 8)
    assert len(ar.tokenizer) == len(mars.tokenizer)


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("fast", [True, False])
def test_muon_takes_the_steps_of_torch(fast, stacked, monkeypatch):
    """Compare two steps with `torch.optim.Muon`, which computes in bfloat16, matrix by matrix."""
    monkeypatch.setattr(optimizers, "multiplies_bfloat16", lambda device: fast)
    if stacked:  # as on a GPU
        monkeypatch.setattr(torch.Tensor, "is_cpu", False)
    draw = torch.Generator().manual_seed(0)
    shapes = ((48, 16), (16, 64), (32, 32), (16, 64), (48, 16))
    start = [torch.randn(shape, generator=draw) for shape in shapes]
    gradients = [[torch.randn(weight.shape, generator=draw) for weight in start] for _ in range(2)]

    def moved(make) -> list[torch.Tensor]:
        weights = [nn.Parameter(weight.clone()) for weight in start]
        optimizer = make(weights)
        for step in gradients:
            for weight, gradient in zip(weights, step):
                weight.grad = gradient.clone()
            optimizer.step()
        return [weight.detach() - before for weight, before in zip(weights, start)]

    def ours(weights):
        return optimizers.MuonAdamW([{"params": weights, "muon": True, "lr": 0.1}], weight_decay=0.01)

    expected = moved(
        lambda weights: torch.optim.Muon(weights, lr=0.1, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    )
    for one, other in zip(moved(ours), expected):
        torch.testing.assert_close(one, other, rtol=0, atol=0.05 * float(other.abs().max()))


def test_a_gradient_that_is_not_finite_leaves_the_weights_finite(tokenizer, monkeypatch):
    """Take a step after clipping, as on a GPU, whose norm the host has not read yet."""
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)
    model = fresh(tokenizer)
    optimizer = make_optimizer(model, 1e-3, 1e-2, 0.0, (0.9, 0.95))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
        parameter.grad.view(-1)[0] = float("inf")
    before = [parameter.clone() for parameter in model.parameters()]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    for parameter, weight in zip(model.parameters(), before):
        torch.testing.assert_close(parameter.data, weight)


# ----------------------------------------------------------------------------------- interrupted trainings


def losses(folder: Path) -> list[tuple[int, float, float]]:
    return [(m.step, m.loss, m.grad_norm) for m in logged(folder)]


def resumed(tokenizer, folder: Path) -> list[tuple[int, float, float]]:
    train(fresh(tokenizer), tokenizer, folder, SHORT, resume=True)
    left = [path.name for path in folder.iterdir()]
    assert not [name for name in left if "checkpoint-" in name or "unfinished" in name]
    return losses(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("whole")
    train(fresh(tokenizer), tokenizer, folder, SHORT)
    return losses(folder)


class Killed(BaseException):
    """An exception that nothing catches, as if the process were killed."""


@pytest.mark.parametrize(
    "place", [pytest.param(n, marks=pytest.mark.full if n % 6 else ()) for n in range(12)]
)
def test_a_run_interrupted_at_any_write_resumes(tmp_path, tokenizer, whole, monkeypatch, place):
    """Stop before the nth write, rename or removal of states, metrics and checkpoint files."""
    left = iter(range(place, -1, -1))

    def stopping(work):
        def call(*arguments, **more):
            if next(left, 0) == 0:
                raise Killed
            return work(*arguments, **more)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", stopping(os.replace))
        patched.setattr(torch, "save", stopping(torch.save))
        patched.setattr(TrainerState, "save_to_json", stopping(TrainerState.save_to_json))
        with pytest.raises(Killed):
            train(fresh(tokenizer), tokenizer, tmp_path, SHORT)
    assert resumed(tokenizer, tmp_path) == whole


def test_a_finished_run_is_not_trained_again(tmp_path, tokenizer):
    for trained in (4, 0):
        assert len(train(fresh(tokenizer), tokenizer, tmp_path, SHORT, resume=True)) == trained
        assert len(losses(tmp_path)) == 4


@pytest.fixture
def full_disk():
    """Return a function after which files of this process can have 64 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_full_at_the_end_keeps_the_state(tmp_path, tokenizer, full_disk):
    run = ready(fresh(tokenizer), tokenizer, tmp_path, SHORT)
    run.steps.watchers.append(lambda metrics: metrics.step == 4 and full_disk())
    with pytest.raises(ValueError, match="The disk is full at step 4"):
        run.run()
    assert states.last(tmp_path).name == "checkpoint-3"


@pytest.mark.full
def test_a_run_resumes_after_a_full_disk(tmp_path):
    options = command(tmp_path, "--save-steps", "1", "--max-steps", "5", "--batch-tokens", "256")[3:]
    train = [sys.executable, IN_FLOAT32, *options, "--max-length", "256"]
    alone = ON_CPU | {"OMP_NUM_THREADS": "1"}
    failing = alone | {"FAIL_AFTER": "2", "FAILURE": "disk"}
    run = subprocess.run(train, capture_output=True, text=True, env=failing)
    message = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 2 and message.startswith("mars_demo train: "), run.stderr
    assert re.search(r"\b[34]\b", message) and "Traceback" not in run.stderr  # the state of step 3
    assert states.last(tmp_path).name == "checkpoint-2"
    subprocess.run([*train, "--resume"], check=True, env=alone)
    assert len(logged(tmp_path)) == 5


def test_a_saved_state_is_deleted_only_where_it_is_said(tmp_path, tokenizer):
    stopped(ready(fresh(tokenizer), tokenizer, tmp_path, SHORT), 2)
    with pytest.raises(ValueError, match="checkpoint-2.*--resume.*--overwrite"):
        train(fresh(tokenizer), tokenizer, tmp_path, SHORT)
    assert states.last(tmp_path).name == "checkpoint-2"
    assert ready(fresh(tokenizer), tokenizer, tmp_path, SHORT).run(overwrite=True)
    assert len(logged(tmp_path)) == 4 and not states.last(tmp_path)


def test_a_folder_is_for_one_training_until_its_process_ends(tmp_path, tokenizer):
    run, other = (ready(fresh(tokenizer), tokenizer, tmp_path, SHORT) for _ in range(2))
    refusals = []

    def start_another(metrics: Metrics) -> None:
        with pytest.raises(ValueError, match=f"{tmp_path}") as refusal:
            other.run(overwrite=True)
        refusals.append(str(refusal.value))

    run.steps.watchers.append(start_another)
    assert run.run() and len(logged(tmp_path)) == len(refusals) == 4
    if not (child := os.fork()):
        try:
            with states.locked(tmp_path):
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with states.locked(tmp_path):
        assert refusals[0].startswith("Another training")


@pytest.mark.parametrize("where", ["loss", "gradient", "memory"])
def test_a_step_that_fails_keeps_the_previous_state(tmp_path, tokenizer, whole, monkeypatch, where):
    add, clip = Steps.add, MarsTrainer._clip_grad_norm

    def broken_loss(self, losses):
        if self.trainer.state.global_step == 2 and where == "memory":
            raise MemoryError
        if self.trainer.state.global_step == 2 and where == "loss":
            losses = losses | {"loss": torch.tensor(float("nan"))}
        add(self, losses)

    def broken_gradient(self, model):
        if self.state.global_step == 2 and where == "gradient":
            next(model.parameters()).grad.fill_(float("inf"))
        return clip(self, model)

    with monkeypatch.context() as patched:
        patched.setattr(Steps, "add", broken_loss)
        patched.setattr(MarsTrainer, "_clip_grad_norm", broken_gradient)
        with pytest.raises(ValueError, match=f"{where}.*3"):
            train(fresh(tokenizer), tokenizer, tmp_path, SHORT)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]
    assert resumed(tokenizer, tmp_path) == whole


# --------------------------------------------------------------------------------------- watched trainings


def test_a_recorded_training_matches_its_preset_and_is_complete():
    for entry in trainings.training_index():
        lines = [json.loads(line) for line in trainings.training_recording(entry["id"]).splitlines()]
        settings = trainings.preset_settings(entry["preset"], entry["seed"])
        steps, recorded = settings["max_steps"], lines[0]["recipe"]
        first, last = lines[0], lines[-1]
        assert (first["schema"], first["base"], first["prompt"]) == (1, entry["base"], entry["prompt"])
        assert recorded["steps"] == steps
        shared = settings.keys() & recorded.keys()
        assert {name: recorded[name] for name in shared} == {name: settings[name] for name in shared}
        assert [line["step"] for line in lines if "step" in line] == list(range(1, steps + 1))
        assert last == {"done": True, "steps": steps}
        for kind in ("answer", "probe"):
            assert [line[kind] for line in lines if kind in line][-1] == steps


@pytest.mark.parametrize("stop", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_stopped_training_is_saved_at_any_step(stop, tmp_path, monkeypatch):
    monkeypatch.setattr(training_record, "PROBE_PROMPTS", 1)
    checkpoint = load_checkpoint("ar-tiny", "cpu", torch.float32)
    settings = trainings.training_settings("mars", 4, 1, "code", steps=2, learning_rate=1e-3, seed=0)
    config = MarsConfig(str(tmp_path), **settings | {"batch_tokens": 512})
    lines = []

    def stopped() -> bool:
        return sum('"step"' in line for line in lines) >= stop

    for line in training_record.watch(checkpoint, config, "Hello", "mine", stopped=stopped):
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
        trainings.training_settings(**(right | {"learning_rate": 1e-3, "seed": 0} | wrong))
    with pytest.raises(ValueError, match="../runs/bus"):
        trainings.training_recording("../runs/bus")


# ----------------------------------------------------------------------------------------------- the clock


@pytest.mark.parametrize("started", [False, True])
def test_a_training_by_the_clock_follows_the_share_of_its_time_and_resumes(
    tmp_path, tokenizer, monkeypatch, started
):
    """Let every step take 6 seconds of a minute on a fake clock, and stop the run after the fourth.

    A clock that is `started` before the training counts its first step, too.
    """
    settings = {name: value for name, value in SHORT.items() if name != "max_steps"}
    settings |= {"minutes": 1.0, "warmup_steps": 0.2, "save_steps": 2, "logging_steps": 3}

    class Ticking(TrainerCallback):
        now = 0.0

        def on_step_begin(self, args, state, control, **_):
            Ticking.now += 6

    monkeypatch.setattr(trainer, "Clock", lambda minutes: Clock(minutes, now=lambda: Ticking.now))
    run, metrics = ready(fresh(tokenizer), tokenizer, tmp_path, settings, callbacks=[Ticking()]), []
    run.steps.watchers.append(metrics.append)
    if started:
        run.clock.start()
    stopped(run, 4)
    Ticking.now += 1000  # time that no process trains does not count
    metrics += train(fresh(tokenizer), tokenizer, tmp_path, settings, resume=True, callbacks=[Ticking()])
    # A step's rate is that of the share before it. The first step of a process starts its clock.
    first = 6 if started else 0
    elapsed = [0, *range(first, first + 19, 6), *range(first + 18, 61, 6)]
    assert [m.step for m in metrics] == list(range(1, len(elapsed)))
    for m, seconds in zip(metrics, elapsed):
        share = seconds / 60
        cosine = 0.5 * (1 + math.cos(math.pi * (share - 0.2) / 0.8))
        assert m.learning_rate == pytest.approx(1e-3 * (share / 0.2 if share < 0.2 else cosine), abs=1e-9)
        assert m.steps is None
    assert load_checkpoint(str(tmp_path), "cpu").block_size == 8


def test_an_abandoned_training_ends_its_thread(tmp_path, tokenizer):
    before = threading.active_count()
    run = ready(fresh(tokenizer), tokenizer, tmp_path, SHORT)
    steps = stepwise(run)
    assert next(steps).step == 1
    steps.close()
    assert threading.active_count() == before
    assert run.state.global_step == 1 and states.last(tmp_path).name == "checkpoint-1"


def test_errors_of_a_training_are_raised_where_its_steps_are_read(tmp_path, tokenizer):
    model = fresh(tokenizer)
    next(model.parameters()).data.fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        list(stepwise(ready(model, tokenizer, tmp_path, SHORT)))
