"""Fetching checkpoints from a hub: a real one on this machine, working and broken."""

import resource
import shutil

import pytest
import torch
from huggingface_hub import constants
from local_hub import serving, use

from mars_demo.assets import ASSETS
from mars_demo.models import hub, memory
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


def wanted_bytes(local) -> int:
    unwanted = ("pytorch_model.bin", "consolidated.safetensors")
    return sum(size for file, size in local.sizes(NAME).items() if file not in unwanted)


def refusal(name: str = NAME, **options) -> str:
    with pytest.raises(ValueError) as error:
        load_checkpoint(name, device="cpu", **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_model_is_fetched_once_and_its_bytes_are_reported(served, mars_tiny):
    seen = []
    checkpoint = load_checkpoint(NAME, device="cpu", report=lambda *told: seen.append(told))
    ids = torch.tensor([[5, 6, 7, 8]])
    torch.testing.assert_close(checkpoint.model(ids).logits, mars_tiny.model(ids).logits)
    assert (checkpoint.name, checkpoint.block_size) == (NAME, 8)

    phases = list(dict.fromkeys(phase for phase, *_ in seen))
    assert phases == ["fetching", "loading"]
    for phase in phases:
        done = [bytes for told, bytes, _ in seen if told == phase]
        totals = {total for told, _, total in seen if told == phase}
        assert done == sorted(done) and len(totals) == 1 and done[-1] == totals.pop()
    assert seen[0][2] == wanted_bytes(served) == served.served

    load_checkpoint(NAME, device="cpu", report=lambda *told: seen.append(told))
    assert served.served == wanted_bytes(served)


def test_what_is_in_the_cache_needs_no_hub(served, monkeypatch):
    load_checkpoint(NAME, device="cpu")
    use("http://127.0.0.1:9", monkeypatch, constants.HF_HUB_CACHE)
    assert load_checkpoint(NAME, device="cpu").block_size == 8
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_checkpoint(NAME, device="cpu").block_size == 8


def test_what_a_model_is_takes_none_of_its_weights(served):
    assert sum(weight.numel() for weight in outline(NAME).model.parameters()) == 4_081_920
    assert served.served < 1_000_000
    size = memory.needed(NAME, "cpu", torch.float32)
    served_before = served.served
    load_checkpoint(NAME, device="cpu")
    assert served.served > served_before
    assert 0.8 < size / memory.needed(NAME, "cpu", torch.float32) < 1.25


def test_a_hub_that_breaks_off_gets_a_sentence_and_another_try(served, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1_000_000)  # it counts the bytes by these
    served.breaks_at = 5_000_000
    message = refusal()
    assert message.startswith(f"Fetching {NAME} broke off at 5.") and message.endswith(
        "Try again; files that have arrived whole are kept."
    )
    assert "of 8.4 MB" in message
    served.breaks_at = None
    before = served.served
    assert load_checkpoint(NAME, device="cpu").block_size == 8
    assert served.served - before == served.sizes(NAME)["model.safetensors"]  # the rest was kept


def test_a_full_disk_gets_a_sentence_before_anything_is_fetched(served, tmp_path):
    free = shutil.disk_usage(tmp_path).free
    with (served.folders[NAME] / "model.safetensors").open("r+b") as weights:
        weights.truncate(free + (1 << 30))  # a hole, which takes no room here
    assert "There is no room for" in refusal()
    assert served.served == 0


def test_a_disk_that_fills_up_meanwhile_gets_a_sentence(served):
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, most[1]))
    try:
        message = refusal()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert message.startswith("The disk is full") and "of 8.4 MB" in message
    assert load_checkpoint(NAME, device="cpu").block_size == 8


def test_a_model_that_is_not_there_or_not_for_everybody(served):
    assert "no such model came from the hub" in refusal("someone/else")
    served.gated.add(NAME)
    assert "asks for permission first" in refusal()


def test_no_hub_gets_a_sentence_at_once(monkeypatch, tmp_path):
    use("http://127.0.0.1:9", monkeypatch, tmp_path)
    assert refusal() == f"{NAME} cannot be fetched: the hub at http://127.0.0.1:9 cannot be reached."


def test_pickled_weights_are_not_fetched(served):
    for file in ("model.safetensors", "consolidated.safetensors"):
        (served.folders[NAME] / file).unlink()
    assert "no weights in safetensors or GGUF" in refusal()
    assert served.served == 0


def test_which_files_are_needed():
    sharded = [(f"model-0000{i}-of-00002.safetensors", 5) for i in (1, 2)]
    others = [("model.safetensors.index.json", 1), ("config.json", 1), ("original/model.safetensors", 9)]
    assert hub.needed_files([*sharded, *others, ("a.gguf", 3)]) == dict([*sharded, *others[:2]])
    assert hub.needed_files([("b-Q8_0.gguf", 8), ("b-Q4_1.gguf", 4)]) == {"b-Q8_0.gguf": 8}
    assert hub.needed_files([("b-F16.gguf", 8), ("b-Q4_1.gguf", 4)]) == {"b-Q4_1.gguf": 4}
