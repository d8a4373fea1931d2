"""Fused layers: compiling and saving; `test_captured` compares their logits."""

import pytest
import torch
from random_models import ARCHITECTURES, random_model

from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.fused import FusedModel


def inputs(model, count: int = 5, width: int = 64) -> tuple[torch.Tensor, ...]:
    """Return arguments of `FusedModel.hidden` for the first positions of a text."""
    config, order = model.config, torch.arange(count)
    layers, groups, size = config.num_hidden_layers, config.num_key_value_heads, 8
    visible = torch.ones(count, width, dtype=torch.bool).tril()
    return order + 5, order, visible, order, torch.zeros(layers, 2, groups, width, size)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_a_compiler_finds_no_break_in_the_forward(tokenizer, architecture):
    model = random_model(architecture, tokenizer)
    fused = FusedModel(model)
    compiled = torch.compile(fused.hidden, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*inputs(model)), fused.hidden(*inputs(model)))


def test_a_fused_model_is_saved_and_trained_with_the_same_weights(tokenizer, tmp_path):
    model = random_model("qwen2", tokenizer)
    fused = FusedModel(model)
    save_checkpoint(model, tokenizer, tmp_path, block_size=8)
    again = load_checkpoint(str(tmp_path), "cpu").model
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight.bfloat16().float())
    with torch.no_grad():
        before = fused.hidden(*inputs(model))
        model.model.layers[0].self_attn.k_proj.weight += 0.5
        model.model.layers[0].mlp.up_proj.weight *= 2
        changed = FusedModel(model).hidden(*inputs(model))
        torch.testing.assert_close(fused.hidden(*inputs(model)), changed)
    assert not torch.allclose(before, changed)
