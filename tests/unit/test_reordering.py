"""Reordered weights compute what they did before."""

import copy

import pytest
import torch
from greedy import check_tokens
from transformers import AutoModelForCausalLM

from mars_demo import tasks
from mars_demo.assets import ASSETS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.reordering import ReorderedLinear, is_available, reorder


@pytest.fixture(scope="module")
def models():
    folder = ASSETS / "mars-tiny"
    plain = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, trust_remote_code=False
    ).eval()
    reordered = copy.deepcopy(plain)
    if is_available():  # elsewhere there is nothing to reorder, and nothing must change
        reorder(reordered)
    return plain, reordered


@pytest.mark.parametrize("count", [1, 2, 9, 150])
def test_logits_are_those_of_the_plain_layers(models, count):
    ids = torch.randint(10, 3000, (1, count), generator=torch.Generator().manual_seed(count))
    with torch.inference_mode():
        plain, reordered = (model(ids).logits.float() for model in models)
        copied = copy.deepcopy(models[1])(ids).logits.float()
    assert (plain - reordered).abs().max() < 0.02 * plain.abs().max()
    assert torch.equal(copied, reordered)


def test_weights_gradients_and_casts_are_the_plain_ones(models):
    plain, reordered = models
    torch.testing.assert_close(reordered.state_dict(), plain.state_dict(), rtol=0, atol=0)
    ids = torch.tensor([[5, 6, 7, 8]])
    for model in models:
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
    found, wanted = (model.model.layers[0].mlp.up_proj.weight.grad for model in (reordered, plain))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    with torch.inference_mode():
        exact = [copy.deepcopy(model).float()(ids).logits for model in models]
    torch.testing.assert_close(*exact, rtol=0, atol=0)


def test_bfloat16_on_a_cpu_is_reordered_and_float32_is_not():
    kinds = {
        dtype: {type(m) for m in load_checkpoint("mars-tiny", "cpu", dtype).model.modules()}
        for dtype in (torch.bfloat16, torch.float32)
    }
    assert (ReorderedLinear in kinds[torch.bfloat16]) == is_available()
    assert ReorderedLinear not in kinds[torch.float32]


def test_what_was_reordered_can_be_saved(tmp_path):
    loaded = load_checkpoint("mars-tiny", device="cpu", dtype=torch.bfloat16)
    save_checkpoint(loaded.model, loaded.tokenizer, tmp_path, 8)
    again = load_checkpoint(str(tmp_path), device="cpu", dtype=torch.bfloat16)
    prompt = tasks.held_out("units", 1)[0].prompt
    runs = [decode(c, prompt, Request(mode="ar")).finish() for c in (loaded, again)]
    check_tokens(loaded, runs[1], runs[0].token_ids)
