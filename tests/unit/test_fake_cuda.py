"""Decoding and training on a fake CUDA device, with the layers and vocabulary of Qwen2.5-0.5B.

Every tensor is on the right device, and the host waits for the device once per forward.
"""

from types import SimpleNamespace

import pytest
import torch
from draft_models import trained_for
from fake_cuda import CUDA, LIBRARY, fake_cuda
from torch.utils._python_dispatch import TorchDispatchMode
from training_batches import PAD, conversation, mars
from transformers import AutoModelForCausalLM, Qwen2Config

from mars_demo.decoding import answer, reading
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling, gumbel
from mars_demo.models import memory
from mars_demo.models.checkpoint import wrap
from mars_demo.models.runtime.decoder import logits_of
from mars_demo.serving import batch as batches
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.training.batch import batch_of
from mars_demo.training.blocks import block_mask
from mars_demo.training.objective import Objective, Reference
from mars_demo.ui import racing

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="needs torch for Linux")

WIDTH = 2 + 2 * reading.ALTERNATIVES  # numbers of a reading
REQUESTS = {
    "ar": {"mode": "ar", "max_new_tokens": 2},
    "window": {"mode": "mars"},
    "window, entropy": {"mode": "mars", "criterion": "entropy"},
    "window, margin": {"mode": "mars", "criterion": "margin"},
    "window, sampled": {"mode": "mars", "sampling": Sampling(0.8, top_p=0.9, top_k=40, seed=1)},
    "linear verification": {"mode": "lossless", "linear": True},
    "grouped verification": {"mode": "lossless", "linear": False},
    "jacobi": {"mode": "jacobi", "max_new_tokens": 2},
    "block diffusion": {"mode": "block-diffusion"},
}


@pytest.fixture(scope="module")
def model():
    """Return a model of two layers; more would be the same."""
    config = Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=2,
        num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    config.block_size, config.mask_token_id = 8, 3
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa", trust_remote_code=False
        )
    with fake_cuda():
        model.to_empty(device=CUDA).tie_weights()
    return model.eval()


@pytest.fixture
def device(monkeypatch):
    """Enter the fake device."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "fake GPU")
    monkeypatch.setattr(memory, "available", lambda device: 2**36)
    gumbel.cache_clear()
    with fake_cuda():
        yield
    gumbel.cache_clear()


@pytest.fixture
def transfers(device, monkeypatch):
    """Return the list of all transfers to the host; every token is then 7, with a score of 0.95."""
    measured = []

    def fetch(readings):
        assert (readings.device, readings.dtype, readings.shape[1]) == (CUDA, torch.float32, WIDTH)
        measured.append(readings)
        return [reading.Reading(7, 0.95, [7] * 5, [0.2] * 5) for _ in range(len(readings))]

    for module in (reading, batches):
        monkeypatch.setattr(module, "read_measured", fetch)
    return measured


def checkpoint_for(model, tokenizer, mode):
    return trained_for(wrap("fake", model, tokenizer), mode)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_host_waits_once_per_forward_within_its_clock(
    model, tokenizer, transfers, monkeypatch, request_name
):
    monkeypatch.setattr(answer, "time", SimpleNamespace(perf_counter=lambda: len(transfers)))
    request = Request(**{"tau": 0.9, "max_new_tokens": 12} | REQUESTS[request_name])
    checkpoint = checkpoint_for(model, tokenizer, request.mode)
    run = decode(checkpoint, "Hello", request).finish()
    assert len(transfers) == run.forwards > 1
    assert {step.ms for step in run.passes} == {1000}  # of a clock that only these waits move
    assert not any(step.model_ms or step.read_ms for step in run.passes)


def test_the_host_waits_for_the_forwards_after_a_pause(model, tokenizer, transfers):
    """Otherwise the clock of the next forward would count them."""
    knobs = SimpleNamespace(pause=lambda ms: True, stopped=False)
    racing.paced(checkpoint_for(model, tokenizer, "mars"), knobs)(0)
    assert len(transfers) == racing.WARM


@pytest.mark.parametrize("request_name", ["window, sampled", "grouped verification", "block diffusion"])
def test_the_host_waits_once_per_forward_of_a_batch(model, tokenizer, transfers, request_name):
    request = Request(**{"tau": 0.9, "max_new_tokens": 10} | REQUESTS[request_name])
    checkpoint = checkpoint_for(model, tokenizer, request.mode)
    prompts = ["Hello", "x", "Who are you?"]  # the third one takes the place of a finished one
    decoding = decode_batch(checkpoint, prompts, request, size=2).finish()
    assert len(transfers) == decoding.batch.forwards > 2


def test_logits_are_products_in_float32(model, device):
    """Find no other dtype in all tensors as large as the logits."""
    dtypes = set()

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), options=None):
            output = function(*args, **options or {})
            if getattr(output, "shape", None) == (3, model.config.vocab_size):
                dtypes.add(output.dtype)
            return output

    hidden = torch.zeros(3, model.config.hidden_size, dtype=torch.bfloat16, device=CUDA)
    with Watching():
        logits_of(model, hidden)
    assert dtypes == {torch.float32}


@torch.no_grad()  # torch has no backward pass without a driver
def test_the_loss_of_training_never_waits(model, device):
    streams = [mars(conversation(4, 16, own=True)), mars(conversation(4, 29, own=False))]
    batch = batch_of([streams, streams[:1]], PAD, 120, reference=True)
    losses = Objective(reference=Reference(model, 1.0))(model, batch)
    assert set(losses) == {"loss", "slots", "clean", "noisy", "reference"}
    assert {loss.device for loss in losses.values()} == {CUDA}
    _, spans = batch.positions.in_one_row()
    mask = block_mask(spans.to(CUDA, non_blocking=True))  # of FlexAttention
    assert mask.kv_indices.device == CUDA
