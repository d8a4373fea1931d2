"""Rounding for what a layer computes: exact where it can be, and better than the nearest value."""

import random

import pytest
import torch
from gguf.quants import dequantize, quantize
from torch.nn.functional import kl_div

from mars_demo.assets import ASSETS
from mars_demo.decoding.engine import hidden_states, logits_of
from mars_demo.models.load import load_checkpoint
from mars_demo.quantization import gptq, packing
from mars_demo.recipes import smollm
from mars_demo.training import corpus
from mars_demo.training.objective import IGNORE, mars_batch

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def batches(mars_tiny):
    tokenizer = mars_tiny.tokenizer
    drawn = corpus.batches(corpus.task_pools(None, 9), tokenizer, 1024, 512, 9)
    ids = tokenizer.mask_token_id, tokenizer.pad_token_id
    return [mars_batch(next(drawn), 8, *ids, random.Random(i)) for i in range(3)]


@pytest.fixture(scope="module")
def moments(mars_tiny, batches):
    return gptq.second_moments(mars_tiny.model, batches)


def test_moments_are_those_of_the_inputs_clean_and_noisy(mars_tiny, batches, moments):
    """Of the first layer they can be computed by hand: its inputs are normed embeddings."""
    model = mars_tiny.model
    with torch.inference_mode():
        normed = [
            model.model.layers[0].input_layernorm(model.model.embed_tokens(b.layout.ids)) for b in batches
        ]
        wanted = sum(x.flatten(0, 1).T @ x.flatten(0, 1) for x in normed)
    torch.testing.assert_close(
        moments["model.layers.0.self_attn.q_proj.weight"], wanted, rtol=1e-4, atol=1e-2
    )
    assert len(moments) == 4 * 7 + 1
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_the_moments_of_a_tied_head_have_the_embedding_s_name(mars_tiny, batches, moments):
    """Only what has a target goes through the head."""
    model = mars_tiny.model
    with torch.inference_mode():
        last = torch.cat([hidden_states(model, b.layout)[b.targets != IGNORE] for b in batches])
    found = moments["model.embed_tokens.weight"]
    torch.testing.assert_close(found, last.T @ last, rtol=1e-3, atol=0.1)


@pytest.mark.parametrize("kind", packing.SYMMETRIC)
def test_inputs_without_correlation_leave_the_nearest_value(kind):
    """Of those that the scale of its group allows, which loses less than GGUF's own scale."""
    weight = torch.randn(24, 96, generator=torch.Generator().manual_seed(1))
    found = gptq.rounded(weight, torch.eye(96), packing.SYMMETRIC[kind])
    usual = torch.from_numpy(dequantize(quantize(weight.numpy(), kind), kind))
    assert (found.dense() - weight).norm() < (usual - weight).norm()
    scales, offsets = (t.float().repeat_interleave(gptq.GROUP, 1) for t in (found.scales, found.offsets))
    allowed = scales[..., None] * torch.arange(gptq.HIGHEST + 1) + offsets[..., None]
    nearest = (allowed - weight[..., None]).abs().amin(-1)
    torch.testing.assert_close((found.dense() - weight).abs(), nearest, rtol=1e-4, atol=1e-6)
    read = torch.from_numpy(dequantize(packing._blocks(found), kind))
    torch.testing.assert_close(read, found.dense(), rtol=1e-6, atol=1e-6)
    for value in (0.0, 0.25, -0.25):
        equal = torch.full((3, 64), value)
        found = gptq.rounded(equal, torch.eye(64), packing.SYMMETRIC[kind])
        torch.testing.assert_close(found.dense(), equal)


@pytest.mark.parametrize(
    ("name", "kind"),
    zip(("model.layers.1.mlp.down_proj.weight", "model.embed_tokens.weight"), packing.SYMMETRIC),
)
def test_what_a_layer_computes_changes_less_than_by_the_nearest_value(
    mars_tiny, moments, monkeypatch, name, kind
):
    weight, moment, symmetric = mars_tiny.model.state_dict()[name], moments[name], packing.SYMMETRIC[kind]
    nearest = torch.from_numpy(dequantize(quantize(weight.numpy(), kind), kind))
    found = gptq.rounded(weight, moment, symmetric).dense()
    monkeypatch.setattr(gptq, "CLIPPED", [0.0])
    unclipped = gptq.rounded(weight, moment, symmetric).dense()

    def change(other):
        """‖X (W - W')ᵀ‖² of all inputs that were seen."""
        difference = other - weight
        return torch.einsum("ri,ij,rj->", difference, moment, difference)

    assert change(found) < 0.7 * change(nearest)
    assert change(found) < change(unclipped)


def test_a_calibrated_file_changes_predictions_less(mars_tiny, batches, moments, tmp_path):
    def predictions(model):
        with torch.inference_mode():
            hidden = [hidden_states(model, b.layout)[b.targets != IGNORE] for b in batches]
            return logits_of(model, torch.cat(hidden)).log_softmax(-1)

    exact, changes = predictions(mars_tiny.model), []
    for name, known in (("nearest", None), ("calibrated", moments)):
        recipe = packing.RECIPES[smollm.PACKED_AS]
        packing.pack(mars_tiny.model, ASSETS / "mars-tiny", tmp_path / name, recipe, known)
        packed = load_checkpoint(str(tmp_path / name), device="cpu", dtype=torch.float32)
        changes.append(kl_div(predictions(packed.model), exact, log_target=True, reduction="batchmean"))
    assert changes[1] < 0.8 * changes[0]
