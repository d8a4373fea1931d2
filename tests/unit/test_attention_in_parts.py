"""Attention that leaves out what is masked gives the losses and gradients of attention that does not."""

import copy
import gc
import random

import pytest
import torch
from random_models import random_model

from mars_demo.decoding.layout import Role
from mars_demo.training import attention
from mars_demo.training.corpus import Conversation
from mars_demo.training.objective import Objective, ar_batch, diffusion_batch, mars_batch

PAD, MASK = 0, 2
LENGTHS = [(5, 90), (9, 12), (70, 71), (1, 3)]  # of prompts and answers: one part, several, edges of parts


def conversations() -> list[Conversation]:
    rng = random.Random(0)
    return [
        Conversation([rng.randrange(10, 300) for _ in range(p + a)], [False] * p + [True] * a)
        for p, a in LENGTHS
    ]


BATCHES = {
    "ar": lambda: ar_batch(conversations(), PAD),
    "mars": lambda: mars_batch(conversations(), 4, MASK, PAD, random.Random(0)),
    "whole copy": lambda: mars_batch(
        conversations(), 8, MASK, PAD, random.Random(0), fixed_blocks=True, whole_copy=True
    ),
    "block diffusion": lambda: diffusion_batch(conversations(), 4, MASK, PAD, random.Random(0)),
}


def loss_and_gradients(model, batch, implementation):
    model.set_attn_implementation(implementation)
    model.zero_grad()
    loss = Objective(model)(batch)["loss"]
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("kind", BATCHES)
def test_parts_cover_what_each_position_sees_once_and_nothing_else(kind):
    batch = BATCHES[kind]()
    layout, packed = batch.layout, batch.streams.packed()
    real = layout.roles != Role.PADDING
    parts = attention.parts_of(packed)
    count = int(real.sum())
    seen = torch.zeros(count, count, dtype=torch.int)
    for part in parts.parts:
        columns = torch.cat([torch.arange(one.start, one.stop) for one in part.keys])
        here = torch.ones(len(seen[part.queries]), len(columns), dtype=torch.bool)
        seen[part.queries.start : part.queries.stop, columns] += (
            here if part.bias is None else part.bias[0, 0] == 0
        )
    expected = torch.block_diag(*(v[kept][:, kept].int() for v, kept in zip(layout.visible, real)))
    assert torch.equal(seen, expected.int())
    assert torch.equal(packed.layout.ids[0], layout.ids[real])
    assert torch.equal(packed.layout.positions[0], layout.positions[real])


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("llama", "mars"),
        ("qwen2", "ar"),
        ("qwen2", "mars"),
        ("qwen3", "whole copy"),
        ("qwen3", "block diffusion"),
    ],
)
def test_loss_and_gradients_are_those_of_the_boolean_mask(tokenizer, architecture, kind):
    model = random_model(architecture, tokenizer).double()
    found, expected = (
        loss_and_gradients(model, BATCHES[kind](), implementation)
        for implementation in (attention.NAME, "sdpa")
    )
    torch.testing.assert_close(found, expected)


def test_in_bfloat16_they_are_as_near_to_float32_as_those_of_the_boolean_mask(tokenizer):
    model = random_model("llama", tokenizer)
    batch = BATCHES["mars"]()
    _, exact = loss_and_gradients(model, batch, "sdpa")
    errors = {}
    for implementation in ("sdpa", attention.NAME):
        with torch.autocast("cpu", torch.bfloat16):
            _, found = loss_and_gradients(model, batch, implementation)
        errors[implementation] = sum((found[n] - exact[n]).square().sum() for n in exact).sqrt()
    assert errors[attention.NAME] < 1.1 * errors["sdpa"]


def test_a_loss_keeps_what_its_gradient_needs_and_no_longer(tokenizer):
    model = random_model("llama", tokenizer)
    model.set_attn_implementation(attention.NAME)
    objective, first, second = Objective(model), BATCHES["mars"](), BATCHES["ar"]()
    expected = torch.autograd.grad(objective(first)["loss"], list(model.parameters()), allow_unused=True)
    kept = objective(first)["loss"]
    objective(second)
    gc.collect()
    torch.testing.assert_close(
        torch.autograd.grad(kept, list(model.parameters()), allow_unused=True), expected
    )
    del kept, expected
    gc.collect()
    assert not attention._KNOWN


def test_a_model_answers_as_before_after_it_was_trained_so(tokenizer):
    """Layouts, caches and left padding have masks of other kinds, which are left to transformers."""
    model = random_model("llama", tokenizer).eval()
    trained = copy.deepcopy(model)
    trained.set_attn_implementation(attention.NAME)
    ids = torch.randint(10, 300, (2, 12), generator=torch.Generator().manual_seed(1))
    real = torch.ones_like(ids)
    real[0, :5] = 0
    settings = {"attention_mask": real, "max_new_tokens": 8, "do_sample": False, "pad_token_id": PAD}
    assert torch.equal(trained.generate(ids, **settings), model.generate(ids, **settings))


def test_a_model_with_dropout_in_its_attention_keeps_its_own(tokenizer):
    model = random_model("llama", tokenizer)
    assert attention.suits(model)
    model.config.attention_dropout = 0.1
    assert not attention.suits(model)
