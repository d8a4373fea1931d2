"""GGUF Q8_0 files: writing, reading and rounding errors."""

import copy
import re
import shutil
import weakref

import pytest
import torch
from random_models import random_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from mars_demo import cli
from mars_demo.core.assets import ASSETS
from mars_demo.core.names import bundled, gguf_file
from mars_demo.models import gguf
from mars_demo.models.export import q8_0
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.facts import facts
from mars_demo.models.load import load_checkpoint, outline


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("plain")
    save_checkpoint(random_model("llama", tokenizer, tied=True), tokenizer, folder, block_size=8)
    return folder


@pytest.fixture(scope="module")
def source(saved):
    return load_checkpoint(str(saved), device="cpu")


@pytest.fixture(scope="module")
def folder(source, tmp_path_factory):
    """Return a folder with the checkpoint in one file."""
    folder = tmp_path_factory.mktemp("gguf") / "quantized"
    q8_0.write_q8_0(source, folder)
    return folder


def weights(folder) -> dict[str, torch.Tensor]:
    return load_checkpoint(str(folder), device="cpu", dtype=torch.float32).model.state_dict()


def test_weights_are_read_back_within_half_a_step(source, folder):
    read = weights(folder)
    for name, weight in source.model.state_dict().items():
        groups = weight.unflatten(-1, (-1, 32))
        step = groups.abs().amax(-1, keepdim=True) / 127 if weight.ndim > 1 else torch.zeros(1)
        # The scale of a group is a float16.
        error = (read[name] - weight).abs().view_as(groups)
        assert (error <= 0.5 * step + 127 * step * 2**-11).all(), name


def test_rounded_weights_are_written_unchanged(folder, tmp_path):
    again = tmp_path / "again"
    q8_0.write_q8_0(load_checkpoint(str(folder), device="cpu", dtype=torch.float32), again)
    torch.testing.assert_close(weights(again), weights(folder), rtol=0, atol=0)


def test_transformers_reads_weights_and_tokenizer_as_we_do(source, folder):
    name = gguf_file(str(folder)).name
    theirs = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32, trust_remote_code=False
    )
    torch.testing.assert_close(theirs.state_dict(), weights(folder), rtol=0, atol=0)
    shutil.copy(folder / name, folder.parent)  # without other tokenizer files
    tokenizer = AutoTokenizer.from_pretrained(folder.parent, gguf_file=name, trust_remote_code=False)
    for text in (
        "Sort these: 3, 1 and 2.",
        "  two  spaces\n\tand a tab, naïve 😀",
        source.tokenizer.mask_token,
    ):
        assert tokenizer(text)["input_ids"] == source.tokenizer(text)["input_ids"]
    messages = [{"role": "user", "content": "Hello"}]
    assert tokenizer.apply_chat_template(messages) == source.tokenizer.apply_chat_template(messages)


@pytest.mark.parametrize(("architecture", "head"), [("qwen2", 8), ("qwen3", 128)])
def test_other_types_are_read_as_transformers_reads_them(tokenizer, tmp_path, architecture, head):
    plain = tmp_path / "plain"
    save_checkpoint(random_model(architecture, tokenizer, head_dim=head), tokenizer, plain, block_size=8)
    [file] = q8_0.write_q8_0(load_checkpoint(str(plain), device="cpu"), tmp_path / "quantized")
    theirs = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32, trust_remote_code=False
    )
    torch.testing.assert_close(theirs.state_dict(), weights(file.parent), rtol=0, atol=0)


def test_a_split_model_is_the_same_model(source, folder, tmp_path):
    files = q8_0.write_q8_0(source, tmp_path / "split", largest=60_000)
    assert len(files) > 1 and all(f"-of-{len(files):05d}" in file.name for file in files)
    for name in (tmp_path / "split", files[-1]):
        torch.testing.assert_close(weights(name), weights(folder), rtol=0, atol=0)
    files[-1].unlink()
    with pytest.raises(ValueError, match=re.escape(files[-1].name)):
        weights(tmp_path / "split")


def test_weights_go_to_a_device_tensor_by_tensor(source, folder, monkeypatch):
    """Count the dequantized tensors in host memory while reading to the device `meta`, which takes none."""
    original, tensors, counts = gguf.GgufTensor.__getitem__, [], []

    def dequantized(stored, rows):
        tensor = original(stored, rows)
        tensors.append(weakref.ref(tensor))
        counts.append(sum(one() is not None for one in tensors))
        return tensor

    monkeypatch.setattr(gguf.GgufTensor, "__getitem__", dequantized)
    gguf.read_gguf(gguf_file(str(folder)), source.model.config, torch.float32, "meta")
    assert max(counts) <= 2 < len(counts)


def test_a_quantized_file_is_the_same_checkpoint(source, folder):
    for name in (gguf_file(str(folder)), folder):
        loaded = load_checkpoint(str(name), device="cpu")
        for fact in ("block_size", "mask_id", "objective", "context", "end_ids"):
            assert getattr(loaded, fact) == getattr(source, fact)
        assert facts(outline(str(name))).parameters == facts(source).parameters
        assert loaded.model.dtype == torch.float32  # by default


@pytest.mark.full
def test_a_gguf_file_can_be_the_base_of_a_training(folder, tmp_path):
    file = str(gguf_file(str(folder)))
    command = ["train", "--base", file, "--max-steps", "2", "--max-length", "96", "--batch-tokens", "512"]
    assert cli.main([*command, "--output-dir", str(tmp_path / "trained")]) == 0
    trained = load_checkpoint(str(tmp_path / "trained"), device="cpu")
    assert (trained.block_size, trained.model.dtype) == (8, torch.float32)


def test_a_file_with_tensors_of_another_model_is_refused(source, folder, tmp_path):
    """Refuse missing tensors, which would be random; a config beside the file need not describe it."""
    copied = shutil.copytree(folder, tmp_path / "copied")
    file, config = gguf_file(str(copied)), copy.deepcopy(source.model.config)

    def refusal(trouble: str) -> None:
        with pytest.raises(ValueError, match=trouble):
            gguf.read_gguf(file, config, torch.float32)

    whole = file.read_bytes()
    for part in (whole[:5000], whole[:-500]):
        file.write_bytes(part)
        refusal("incomplete")
    file.write_bytes(whole.replace(b"blk.1.attn_q", b"blk.1.attn_x"))
    refusal(r"\b1\b.*1.*q")
    file.write_bytes(whole)
    config.num_hidden_layers = 2
    refusal(r"\b9\b.*blk.2.attn_k.weight")
    config.num_hidden_layers, config.intermediate_size = 3, 64
    refusal(r"\b9\b.*blk.0.ffn_down.weight")
    config.intermediate_size, config.tie_word_embeddings = 96, False
    refusal(r"\b1\b.*output.weight")


@pytest.mark.parametrize("name", bundled())
def test_bundled_weights_are_within_their_limits(name):
    """Limit a file to 100 MB, for the repository, and all files to 160 MB, for a clone."""
    sizes = [file.stat().st_size for file in (ASSETS / name).rglob("*") if file.is_file()]
    assert max(sizes) < 100e6 and sum(sizes) < 160e6
