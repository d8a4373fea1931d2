"""Memory that checkpoints need and a machine has, and facts about a checkpoint."""

from pathlib import Path

import pytest
import torch
from random_models import random_model

from mars_demo.core.layout import causal
from mars_demo.models import memory
from mars_demo.models.facts import front_matter, licence_in
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine


@pytest.mark.parametrize(
    ("dtype", "architecture", "tied"),
    [(torch.float32, "llama", True), (torch.bfloat16, "qwen2", False)],
)
def test_needed_memory_is_the_loaded_model_its_largest_tensor_and_two_texts_on_a_gpu(
    tmp_path, tokenizer, dtype, architecture, tied
):
    model = random_model(architecture, tokenizer)
    model.config.tie_word_embeddings = tied
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight
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


def group(root: Path, path: str, limit: str, names: tuple[str, str, str], used: int, cache: int) -> None:
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(
        names, (limit, str(used), f"anon 7\n{'total_' * ('limit' in names[0])}inactive_file {cache}")
    ):
        (folder / name).write_text(text + "\n")


@pytest.mark.parametrize("version", [1, 2])
def test_available_memory_respects_a_container_and_counts_its_file_cache(tmp_path, version):
    first = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
    names, base = (first, "memory/") if version == 1 else (("memory.max", "memory.current", first[2]), "")
    line = "4:cpu,memory:/box/inner" if version == 1 else "0::/box/inner"
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"9:pids:/elsewhere\n{line}\n")
    assert memory.container_rooms(tmp_path) == []
    group(tmp_path, f"{base}box", "1000", names, used=700, cache=200)
    assert memory.container_rooms(tmp_path) == [500]
    group(tmp_path, f"{base}box/inner", "max" if version == 2 else "900", names, used=950, cache=0)
    assert min(memory.container_rooms(tmp_path)) == (500 if version == 2 else 0)


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\n---\n# x", "apache-2.0"),
        ("---\nlicense: other\nlicense_name: my-terms\n---\n", "my-terms"),
        ("---\nlicense: |\n  two\n  lines\n---\n", "two lines"),
        ("---\nlicense: " + "x" * 5000 + "\n---\n", "x" * 60),
        ("---\nlicense: {a: b}\n---\n", None),
        ("---\nlicense: !!python/object/apply:os.getcwd []\n---\n", None),
        ("---\nlicense: [\n---\n", None),
        ("", None),
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
