"""The mask's own vector and the learning rates over a run."""

import copy
from dataclasses import replace

import pytest
import torch
from random_models import random_model
from transformers import get_cosine_schedule_with_warmup

from mars_demo.training.loop import train
from mars_demo.training.mask_vector import MaskVector
from mars_demo.training.optimizers import make_optimizers, make_schedulers
from mars_demo.training.recipe import Recipe

MASK = 2
RECIPE = Recipe(
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


def test_it_is_added_to_every_mask_and_merged_into_the_row(model):
    """The model does not tie its head to the embedding: a changed row is a changed input and no more."""
    plain = copy.deepcopy(model)
    vector = torch.randn(model.config.hidden_size)
    own = MaskVector(model.get_input_embeddings(), MASK)
    torch.testing.assert_close(logits(model), logits(plain))
    own.vector.data += vector
    plain.get_input_embeddings().weight.data[MASK] += vector
    torch.testing.assert_close(logits(model), logits(plain))
    own.merge()
    torch.testing.assert_close(logits(model), logits(plain))
    assert torch.equal(model.get_input_embeddings().weight, plain.get_input_embeddings().weight)


def rates(recipe, model, vector=None):
    """The learning rates of AdamW's groups at each step."""
    optimizers = make_optimizers(model, recipe, vector)
    [scheduler] = make_schedulers(optimizers, recipe, vector)
    found = []
    for _ in range(recipe.steps):
        found.append(scheduler.get_last_lr())
        optimizers[0].step()
        scheduler.step()
    return found


def test_without_a_vector_it_is_the_cosine_of_transformers(model):
    recipe = Recipe(steps=20, warmup=0.25, learning_rate=3e-4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 5, 20)
    for [rate] in rates(recipe, model):
        assert rate == pytest.approx(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()


def test_the_mask_begins_and_then_follows_the_weights(model):
    recipe = replace(RECIPE, steps=100)
    found = rates(recipe, model, MaskVector(model.get_input_embeddings(), MASK))
    for step, (body, mask) in enumerate(found):
        if step < 30:
            assert (body, mask) == (0.0, 4e-2)
        else:
            assert mask == pytest.approx(10 * body + 4e-2 / 20 * (1 - step / 100))
    bodies = [body for body, _ in found]
    assert bodies[30] == 0 and max(bodies) == bodies[50] == pytest.approx(1e-3)  # after 20 steps of warm-up
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
    head_start = replace(RECIPE, steps=3, mask_head_start=0.99)
    for _ in train(model, tokenizer, head_start, tmp_path):
        pass
    mask = tokenizer.mask_token_id
    for name, weight in model.state_dict().items():
        if name == "model.embed_tokens.weight":
            moved = (weight != before[name]).any(-1).nonzero().flatten().tolist()
            assert moved == [mask]
        else:
            assert torch.equal(weight, before[name]), name
