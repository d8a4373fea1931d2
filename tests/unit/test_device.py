"""The device that a model computes on, and how often the host waits for it."""

import warnings

import pytest
import torch
from random_models import random_model

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models import device
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.precision import dense_dtype
from mars_demo.models.runtime.decoder import logits_of
from mars_demo.training.attention import SDPA, fastest

PROMPT = "Sort 31, 4 and 15"
DRAWN = Sampling(0.9, top_p=0.95, top_k=20, seed=3)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="requires a GPU")


def test_the_best_device_is_a_gpu_if_there_is_one(monkeypatch):
    for cuda, mps, best in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert device.best() == best
    assert device.gpu_name(torch.device("cpu")) is None
    assert device.gpu_name(torch.device("mps")) == "Apple GPU"


def test_a_gpu_without_bfloat16_computes_in_float16_and_trains_without_a_compiler(monkeypatch):
    versions = {"cuda": (9, 0), "cuda:0": (9, 0), "cuda:1": (7, 5)}  # each is asked about itself
    monkeypatch.setattr(torch.cuda, "get_device_capability", versions.get)
    for name, version in versions.items():
        supported = version >= (8, 0)
        assert dense_dtype("auto", name) == (torch.bfloat16 if supported else torch.float16)
        assert supported or fastest(torch.device(name)) == SDPA
        assert device.multiplies_bfloat16(name) == supported  # else training computes in float32
    assert dense_dtype("auto", "mps") == torch.bfloat16
    assert dense_dtype("auto", "cpu") == torch.float32
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert fastest(torch.device("cuda")) == fastest(torch.device("cpu")) == SDPA


def test_logits_are_not_rounded_to_the_precision_of_the_weights(tokenizer):
    model = random_model("qwen2", tokenizer).to(torch.bfloat16)
    hidden = torch.linspace(-1, 1, 3 * model.config.hidden_size).view(3, -1).to(torch.bfloat16)
    exact = hidden.double() @ model.lm_head.weight.double().t()
    logits = logits_of(model, hidden)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits.double(), exact, rtol=1e-5, atol=1e-6)


def check_waits(checkpoint: Checkpoint, request: Request) -> None:
    """Assert that decoding waits for the GPU once per forward, and that the record names the GPU."""
    with warnings.catch_warnings(record=True) as waits:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        run = decode(checkpoint, PROMPT, request).finish()
        torch.cuda.set_sync_debug_mode("default")
    messages = [str(wait.message) for wait in waits]
    assert sum("called a synchronizing" in words for words in messages) == run.forwards, messages
    assert run.settings.gpu == torch.cuda.get_device_name()


@on_a_gpu
def test_a_gpu_has_one_bfloat16_copy_and_is_read_once_per_forward():
    before = torch.cuda.memory_allocated()
    checkpoint = load_checkpoint("mars-tiny")
    size = sum(weight.numel() * weight.itemsize for weight in checkpoint.model.parameters())
    assert checkpoint.model.dtype == torch.bfloat16
    assert torch.cuda.memory_allocated() - before < 1.2 * size
    for mode in ("ar", "mars", "lossless"):
        for sampling in (None, DRAWN):
            request = Request(mode, 0.9, max_new_tokens=24, sampling=sampling)
            decode(checkpoint, PROMPT, request).finish()  # allocations that happen only once
            check_waits(checkpoint, request)
