"""The training loop: learning, resuming to the same losses, saving for plain transformers."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from random_models import random_model
from torch import nn
from transformers import AutoModelForCausalLM

from mars_demo import cli, tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import tiny
from mars_demo.training import corpus
from mars_demo.training.loop import make_batch, train
from mars_demo.training.objective import Objective
from mars_demo.training.optimizers import ExactMuon, make_optimizers
from mars_demo.training.recipe import Recipe

RECIPE = Recipe(
    "mars", steps=6, save_every=2, batch_tokens=512, learning_rate=1e-3, muon_learning_rate=1e-2,
    data="tasks:units",
)  # fmt: skip


def fresh(tokenizer):
    return random_model("llama", tokenizer, context=512)


def plain(folder):
    """Load a saved checkpoint with transformers alone."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)


@pytest.mark.parametrize(
    "changed",
    [
        {"reference": "base", "reference_weight": 2.0},
        {"muon_learning_rate": None, "mask_learning_rate": 4e-2, "mask_head_start": 0.3},
    ],
)
def test_an_interrupted_run_resumes_to_the_losses_of_a_whole_one(tmp_path, tokenizer, monkeypatch, changed):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(fresh(tokenizer), tokenizer, tmp_path / "base", block_size=None)
    recipe = replace(RECIPE, **changed)
    whole = list(train(fresh(tokenizer), tokenizer, recipe, tmp_path / "whole"))
    cut = train(fresh(tokenizer), tokenizer, recipe, tmp_path / "cut")
    for metrics in cut:
        if metrics.step == 3:
            break
    cut.close()
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
def test_two_processes_get_the_losses_of_one_with_the_same_global_batch(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    subprocess.run([sys.executable, *command(one, "--accumulate", "2")], check=True, capture_output=True)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true"}
    run = [sys.executable, *launch, *command(two)]
    subprocess.run(run, check=True, capture_output=True, env=environment)
    for (loss, noisy, tokens), expected in zip(losses_of(two), losses_of(one), strict=True):
        assert (loss, noisy) == pytest.approx(expected[:2], rel=1e-3)
        assert tokens == expected[2]


FSDP = {
    "ACCELERATE_USE_CPU": "true", "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "LlamaDecoderLayer", "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
}  # fmt: skip


@pytest.mark.full
def test_sharded_weights_of_two_processes_get_the_losses_of_one(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = [sys.executable, *launch, *command(two)]
    subprocess.run(run, check=True, capture_output=True, env=os.environ | FSDP)
    in_float32 = (
        "import sys; from mars_demo import cli; from mars_demo.training import loop; "
        "loop.multiplies_bfloat16 = lambda device: False; raise SystemExit(cli.main(sys.argv[1:]))"
    )
    alone = [sys.executable, "-c", in_float32, *command(one, "--accumulate", "2")[2:]]
    subprocess.run(alone, check=True, capture_output=True)
    for (loss, noisy, tokens), expected in zip(losses_of(two), losses_of(one), strict=True):
        assert (loss, noisy) == pytest.approx(expected[:2], rel=1e-4)
        assert tokens == expected[2]
    trained = [plain(folder).state_dict() for folder in (one, two)]
    for name, weight in trained[0].items():
        torch.testing.assert_close(trained[1][name], weight, rtol=0.02, atol=1e-4)


def test_lora_trains_adapters_and_leaves_no_parameter_behind(tmp_path, tokenizer):
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


def test_the_pace_multiplies_the_learning_rate_of_a_running_training(tmp_path, tokenizer):
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


def test_saved_checkpoints_load_in_plain_transformers_with_the_same_weights(tmp_path, tokenizer):
    model = fresh(tokenizer)
    list(train(model, tokenizer, replace(RECIPE, steps=1), tmp_path))
    loaded = plain(tmp_path)
    for key, weight in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[key], weight.bfloat16().float())
    checkpoint = load_checkpoint(str(tmp_path), device="cpu")
    assert (checkpoint.block_size, checkpoint.mask_id) == (8, tokenizer.mask_token_id)


@pytest.mark.parametrize(
    "changed, fact",
    [
        ({"objective": "magic"}, "ar, mars, block-diffusion"),
        ({"block_size": 1}, "2.*32"),
        ({"block_size": 33}, "2.*32"),
        ({"steps": 0}, "0"),
        ({"kl_weight": -1.0}, "-1"),
        ({"slot_decay": 0.0}, "0"),
        ({"slot_decay": 1.5}, "1.5"),
        ({"slot_decay": 0.5, "objective": "ar"}, "mars.*ar"),
        ({"reference_weight": -1.0}, "-1"),
        ({"reference_weight": 2.0}, "2"),
        ({"reference": "ar-tiny"}, "ar-tiny"),
        ({"reference": "ar-tiny", "reference_weight": 1.0, "objective": "block-diffusion"}, "reference"),
        ({"mask_learning_rate": 0.01, "mask_head_start": 1.0}, r"\b1\b"),
        ({"mask_head_start": 0.5}, "learning rate"),
        ({"mask_learning_rate": 0.0}, r"\b0\b"),
        ({"mask_learning_rate": 0.01, "objective": "ar"}, "mask"),
        ({"mask_learning_rate": 0.01, "lora": 4}, "LoRA"),
    ],
)
def test_recipes_out_of_range_are_refused(changed, fact):
    with pytest.raises(ValueError, match=fact):
        replace(RECIPE, **changed)


@pytest.mark.full
def test_a_compiled_training_has_the_losses_of_one_that_is_not(tmp_path, tokenizer):
    recipes = [replace(RECIPE, steps=3, compile=chosen) for chosen in (False, True)]
    plain, compiled = (
        list(train(fresh(tokenizer), tokenizer, recipe, tmp_path / str(recipe.compile)))
        for recipe in recipes
    )
    for one, other in zip(plain, compiled, strict=True):
        assert one.slots[0] == pytest.approx(other.slots[0], rel=1e-2)
        assert one.loss == pytest.approx(other.loss, rel=1e-2)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=5e-2)  # bfloat16 rounds in another order


def test_compiling_without_a_compiler_is_refused(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match=r"g\+\+"):
        next(train(fresh(tokenizer), tokenizer, replace(RECIPE, compile=True), tmp_path / "never"))


def test_accumulated_batches_are_one_large_batch(tmp_path, tokenizer):
    """Compare gradients, losses and the next step of three batches of different sizes with those of all
    their conversations in one batch.

    Autocast leaves weights in float64 alone. Blocks are fixed because phases would be sampled per batch.
    """
    recipe = replace(
        RECIPE, steps=1, accumulate=3, muon_learning_rate=None, fixed_blocks=True, kl_weight=0.5, seed=4,
        data="tasks:units,stories",
    )  # fmt: skip
    stream = corpus.batches(corpus.source(recipe.data, 4), tokenizer, recipe.batch_tokens, 512, 4)
    parts = list(itertools.islice(stream, 3))
    assert len({len(part) for part in parts}) > 1
    large = make_batch([c for part in parts for c in part], recipe, tokenizer, 1, 0)

    whole = fresh(tokenizer).double()
    expected = Objective(whole, kl_weight=0.5)(large)
    expected["loss"].backward()

    model, gradients = fresh(tokenizer).double(), {}
    for name, weight in model.named_parameters():
        weight.register_post_accumulate_grad_hook(
            lambda weight, name=name: gradients.update({name: weight.grad.clone()})
        )
    metrics = next(train(model, tokenizer, recipe, tmp_path))

    for name, weight in whole.named_parameters():
        torch.testing.assert_close(gradients[name], weight.grad, rtol=1e-4, atol=1e-8)
    for name in ("loss", "clean", "noisy", "kl"):
        assert getattr(metrics, name) == pytest.approx(expected[name].item(), rel=1e-6)
    norm = torch.nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
    assert metrics.grad_norm == pytest.approx(norm.item(), rel=1e-6)
    make_optimizers(whole, recipe)[0].step()
    for weight, other in zip(model.parameters(), whole.parameters()):
        torch.testing.assert_close(weight, other, rtol=0, atol=1e-3 * recipe.learning_rate)


def test_the_kl_divergence_from_the_reference_starts_at_zero_and_counts_in_the_loss(tmp_path):
    base = load_checkpoint("ar-tiny", device="cpu", dtype=torch.float32)
    data = tmp_path / "data.jsonl"  # in which nothing is said of who wrote the answers
    rows = [
        {"messages": [{"role": "user", "content": e.prompt}, {"role": "assistant", "content": e.answer}]}
        for e in tasks.held_out("units", 40)
    ]
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    recipe = replace(RECIPE, steps=3, sft_weight=0.0, reference="ar-tiny", reference_weight=2.0)
    recipe = replace(recipe, data=str(data))
    first, *rest = train(base.model, base.tokenizer, recipe, tmp_path)
    assert abs(first.reference) < 1e-3
    assert all(m.reference > 10 * abs(first.reference) for m in rest)  # the masks pull it away
    assert all(m.loss == pytest.approx(m.noisy + 2 * m.reference, rel=1e-5) for m in rest)


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


def test_muon_in_float32_takes_the_steps_of_torch_without_its_rounding():
    """Check the optimizer for CPUs that emulate bfloat16, whose products take ten times as long."""
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
        # Orthogonalized means: the same singular vectors, and singular values that are nearly equal.
        u, _, v = torch.linalg.svd(gradient, full_matrices=False)
        core = u.T @ (-exact) @ v.T
        assert (core - core.diag().diag()).abs().max() < 1e-4 * core.diag().max()
        assert core.diag().max() < 2 * core.diag().min()
    assert torch.ones(1).bfloat16().dtype == torch.bfloat16
