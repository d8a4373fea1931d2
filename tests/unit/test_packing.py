"""Packed weights: what goes in comes out, within what the bits allow."""

import pytest
import torch
from gguf import GGMLQuantizationType
from transformers import LlamaConfig, LlamaForCausalLM

from mars_demo import cli
from mars_demo.assets import ASSETS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.export.save import save_checkpoint
from mars_demo.models import gguf, memory
from mars_demo.models.facts import facts
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.models.names import bundled
from mars_demo.quantization import packing
from mars_demo.recipes import smollm

CHOSEN = packing.RECIPES[smollm.PACKED_AS]
EXACT = dict.fromkeys(("token_embd", "attn", "ffn"), GGMLQuantizationType.F32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tokenizer):
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=96,
        tie_word_embeddings=True, initializer_range=0.2, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None, rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("plain")
    save_checkpoint(LlamaForCausalLM(config), tokenizer, folder, block_size=8)
    return folder


def packed(saved, tmp_path, recipe):
    source = load_checkpoint(str(saved), device="cpu")
    file = packing.pack(source.model, saved, tmp_path / "packed", recipe)
    return source, load_checkpoint(str(tmp_path / "packed"), device="cpu", dtype=torch.float32), file


def test_unquantized_weights_come_back_exactly(saved, tmp_path):
    source, loaded, _ = packed(saved, tmp_path, EXACT)
    for name, weight in source.model.state_dict().items():
        torch.testing.assert_close(loaded.model.state_dict()[name], weight, rtol=0, atol=0)
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    torch.testing.assert_close(loaded.model(ids).logits, source.model(ids).logits)


def test_transformers_reads_the_file_as_we_do(saved, tmp_path):
    _, loaded, file = packed(saved, tmp_path, CHOSEN)
    theirs = LlamaForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32, trust_remote_code=False
    )
    torch.testing.assert_close(theirs.state_dict(), loaded.model.state_dict(), rtol=0, atol=0)


def test_a_packed_folder_is_the_same_checkpoint(saved, tmp_path):
    source, loaded, _ = packed(saved, tmp_path, EXACT)
    for name in ("block_size", "mask_id", "objective", "context", "end_ids"):
        assert getattr(loaded, name) == getattr(source, name)
    runs = [
        decode(c, "hello", Request(tau=0.2, max_new_tokens=12)).finish().token_ids for c in (source, loaded)
    ]
    assert runs[0] == runs[1]  # of the same shapes, on the same weights


@pytest.mark.parametrize(("recipe", "bits", "error"), [("Q8_0", 8.5, 0.01), (smollm.PACKED_AS, 6, 0.06)])
def test_fewer_bits_mean_a_smaller_file_and_a_larger_error(saved, tmp_path, recipe, bits, error):
    source, loaded, file = packed(saved, tmp_path, packing.RECIPES[recipe])
    name = "model.layers.0.mlp.up_proj.weight"
    weight = source.model.state_dict()[name]
    difference = (loaded.model.state_dict()[name] - weight).norm() / weight.norm()
    assert error / 5 < difference < error
    weights = sum(w.numel() for w in source.model.parameters())
    assert file.stat().st_size < 1.1 * weights * bits / 8 + 20_000


def test_a_packed_file_is_described_by_its_header(saved, tmp_path):
    _, loaded, file = packed(saved, tmp_path, CHOSEN)
    for name in (file, file.parent):
        assert facts(outline(str(name))).parameters == facts(loaded).parameters
        assert load_checkpoint(str(name), device="cpu").model.dtype == torch.bfloat16  # unless told
    largest = max(weight.numel() for weight in loaded.model.parameters())
    size = facts(loaded).parameters * 4 + largest * 4
    assert memory.needed(str(file.parent), "cpu", torch.float32) == size


def test_a_packed_model_can_be_saved_plain_again(saved, tmp_path):
    _, loaded, _ = packed(saved, tmp_path, EXACT)
    save_checkpoint(loaded.model, loaded.tokenizer, tmp_path / "again", 8)
    again = load_checkpoint(str(tmp_path / "again"), device="cpu")
    torch.testing.assert_close(again.model.state_dict(), loaded.model.state_dict())


@pytest.mark.full
def test_a_gguf_file_can_be_the_base_of_a_training(saved, tmp_path):
    _, _, file = packed(saved, tmp_path, EXACT)
    command = ["train", "--base", str(file), "--steps", "2", "--max-length", "96", "--batch-tokens", "512"]
    assert cli.main([*command, "--output", str(tmp_path / "trained")]) == 0
    trained = load_checkpoint(str(tmp_path / "trained"), device="cpu")
    assert (trained.block_size, trained.model.dtype) == (8, torch.float32)


def test_a_broken_file_is_refused(saved, tmp_path):
    _, _, file = packed(saved, tmp_path, EXACT)
    whole = file.read_bytes()
    for part in (whole[:5000], whole[:-500], whole.replace(b"blk.1.attn_q", b"blk.1.attn_x"), b"", b"GGUF"):
        file.write_bytes(part)
        with pytest.raises(ValueError, match="packed"):
            load_checkpoint(str(file.parent), device="cpu")


def test_a_file_whose_tensors_are_not_the_models_is_refused(saved, tmp_path):
    """What is missing would be random; a config beside the file need not describe it."""
    _, loaded, file = packed(saved, tmp_path, EXACT)
    config = loaded.model.config

    def refusal(trouble: str) -> None:
        with pytest.raises(ValueError, match=trouble):
            gguf.read(file, config, torch.float32)

    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"blk.1.attn_q", b"blk.1.attn_x"))
    refusal(r"\b1\b.*1.*q")
    file.write_bytes(whole)
    config.num_hidden_layers = 1
    refusal(r"\b9\b.*blk.1.attn_k.weight")
    config.num_hidden_layers, config.intermediate_size = 2, 64
    refusal(r"\b6\b.*blk.0.ffn_down.weight")
    config.intermediate_size, config.tie_word_embeddings = 128, False
    refusal(r"\b1\b.*output.weight")


@pytest.mark.parametrize("name", bundled())
def test_bundled_weights_are_within_their_limits(name):
    """100 MB a file is what a repository takes, 110 MB in all what a clone should cost."""
    sizes = [file.stat().st_size for file in (ASSETS / name).rglob("*") if file.is_file()]
    assert max(sizes) < 100e6 and sum(sizes) < 110e6
