"""Fetching checkpoints from a local hub that works, lacks a file or is unreachable."""

import shutil

import pytest
import torch
from huggingface_hub import constants
from local_hub import serving, use

from mars_demo.core.assets import ASSETS
from mars_demo.models import hub
from mars_demo.models.load import load_checkpoint, outline

NAME = "someone/mars-tiny"


@pytest.fixture
def served(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(ASSETS / "mars-tiny", folder)
    (folder / "pytorch_model.bin").write_bytes(b"not wanted" * 100_000)
    (folder / "consolidated.safetensors").write_bytes(b"the same again" * 100_000)
    with serving({NAME: folder}, monkeypatch, tmp_path / "cache") as local:
        yield local


def needed_bytes(local) -> int:
    others = ("pytorch_model.bin", "consolidated.safetensors")
    return sum(size for file, size in local.sizes(NAME).items() if file not in others)


def refusal(name: str = NAME, **options) -> str:
    with pytest.raises(ValueError) as error:
        load_checkpoint(name, device="cpu", **options)
    assert name in str(error.value) and "\n" not in str(error.value)
    return str(error.value)


def test_a_model_is_fetched_once(served, mars_tiny):
    checkpoint = load_checkpoint(NAME, device="cpu")
    ids = torch.tensor([[5, 6, 7, 8]])
    torch.testing.assert_close(checkpoint.model(ids).logits, mars_tiny.model(ids).logits)
    assert (checkpoint.name, checkpoint.block_size) == (NAME, 8)
    load_checkpoint(NAME, device="cpu")
    assert served.served == needed_bytes(served)


def test_a_cached_model_needs_no_hub(served, monkeypatch):
    load_checkpoint(NAME, device="cpu")
    use("http://127.0.0.1:9", monkeypatch, constants.HF_HUB_CACHE)
    assert load_checkpoint(NAME, device="cpu").block_size == 8
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_checkpoint(NAME, device="cpu").block_size == 8


def test_an_outline_fetches_no_weights(served):
    assert sum(weight.numel() for weight in outline(NAME).model.parameters()) == 4_081_920
    assert served.served < 1_000_000


def test_a_fetch_that_breaks_off_is_reported(served):
    weights = served.folders[NAME] / "model.safetensors"
    weights.unlink()
    weights.mkdir()  # the hub lists it and has no such file
    assert "kept" in refusal()


def test_missing_and_gated_models_have_different_errors(served):
    missing = refusal("someone/else")
    served.gated.add(NAME)
    assert refusal().replace(NAME, "") != missing.replace("someone/else", "")


def test_an_unreachable_hub_is_named(monkeypatch, tmp_path):
    use("http://127.0.0.1:9", monkeypatch, tmp_path)
    assert "http://127.0.0.1:9" in refusal()


def test_pickled_weights_are_not_fetched(served):
    for file in ("model.safetensors", "consolidated.safetensors"):
        (served.folders[NAME] / file).unlink()
    assert "safetensors" in refusal()
    assert served.served == 0


def test_the_needed_files_are_texts_and_the_best_weights():
    sharded = [(f"model-0000{i}-of-00002.safetensors", 5) for i in (1, 2)]
    others = [("model.safetensors.index.json", 1), ("config.json", 1), ("original/model.safetensors", 9)]
    texts = [file for file, _ in others[:2]]
    assert hub.needed_files([*sharded, *others, ("a.gguf", 3)]) == texts + [file for file, _ in sharded]
    assert hub.needed_files([("b-Q8_0.gguf", 8), ("b-Q4_1.gguf", 4)]) == ["b-Q8_0.gguf"]
    assert hub.needed_files([("b-F16.gguf", 8), ("b-Q4_1.gguf", 4)]) == ["b-Q4_1.gguf"]
    split = [f"b-Q8_0-0000{i}-of-00002.gguf" for i in (1, 2)]
    assert hub.needed_files([*((file, 9) for file in split), ("b-Q4_1.gguf", 4)]) == split
