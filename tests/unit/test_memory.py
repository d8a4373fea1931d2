"""Memory that checkpoints need, and facts about a checkpoint."""

from dataclasses import replace

import pytest
import torch
from random_models import random_model

from mars_demo.core.layout import causal
from mars_demo.decoding.request import Request
from mars_demo.models import memory
from mars_demo.models.facts import front_matter, licence_in
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.ui.racing import decode_for_visitor


@pytest.mark.parametrize(
    ("dtype", "architecture", "tied"),
    [(torch.float32, "llama", True), (torch.bfloat16, "qwen2", False)],
)
def test_needed_memory_is_the_loaded_model_its_largest_tensor_and_two_texts_on_a_gpu(
    tmp_path, tokenizer, dtype, architecture, tied
):
    model = random_model(architecture, tokenizer, tied=tied)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = load_checkpoint(str(tmp_path), device="cpu", dtype=dtype).model
    largest = max(weight.numel() for weight in loaded.parameters()) * 4
    once = sum(weight.numel() * weight.itemsize for weight in loaded.parameters())
    assert memory.needed(loaded, "cpu", dtype) == once + largest
    engine, length = Engine(TransformersDecoder(loaded)), 16
    engine.forward(causal([5] * length))
    text = sum(layer.keys.nbytes + layer.values.nbytes for layer in engine.cache.keys.layers)
    texts = 2 * memory.TEXT * text // length
    assert memory.needed(loaded, "cuda", dtype) == once + largest + texts


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_race_is_refused_if_its_caches_do_not_fit_into_free_memory(dtype, monkeypatch):
    checkpoint, request = load_checkpoint("mars-tiny", "cpu", dtype), Request("mars", max_new_tokens=40)
    modes = ["ar", "mars", "lossless"]

    def race():
        return [decode_for_visitor(checkpoint, "Hello", replace(request, mode=mode), 3) for mode in modes]

    engine, tokens = Engine(checkpoint.decoder), race()[0].settings.prompt_tokens + 40
    engine.forward(causal([5] * tokens))
    if dtype == "int8":
        stores = engine.cache.keys.stores.values()
        used = sum(store.numpy()[:, :, :tokens].nbytes for store in stores)
    else:
        used = sum(layer.keys.nbytes + layer.values.nbytes for layer in engine.cache.keys.layers)
    monkeypatch.setattr(memory, "available", lambda device: 3 * used)
    race()
    monkeypatch.setattr(memory, "available", lambda device: 3 * used - 1)
    with pytest.raises(ValueError, match="3 answers.*GiB.*enough for 2"):
        race()


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\n---\n# x", "apache-2.0"),
        ("---\nlicense: other\nlicense_name: my-terms\n---\n", "my-terms"),
        ("---\nlicense: |\n  two\n  lines\n---\n", "two lines"),
        ("---\nlicense: " + "x" * 5000 + "\n---\n", "x" * 60),
        ("---\nlicense: {a: b}\n---\n", None),
        ("---\nlicense: !!python/object/apply:os.getcwd []\n---\n", None),
        (None, None),
    ],
)  # fmt: skip
def test_the_licence_comes_from_the_card_and_a_hostile_card_has_none(tmp_path, card, licence):
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert licence_in(front_matter(tmp_path)) == licence
    assert licence_in(front_matter(tmp_path / "weights.gguf")) == licence


def test_a_self_referential_card_is_read_quickly(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    (tmp_path / "README.md").write_text("\n".join(["---", *lines, "license: *a11", "---", ""]))
    assert licence_in(front_matter(tmp_path)) in (None, "")
