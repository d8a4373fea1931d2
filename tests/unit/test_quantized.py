"""Quantized models on a CPU, compared with plain models whose weights and inputs are rounded."""

import shutil
import weakref
from dataclasses import replace

import pytest
import torch
from greedy import check_same_passes, check_tokens
from random_models import ARCHITECTURES, random_model, rounded, rounding, varied
from safetensors.torch import load_file, save_file

from mars_demo.core import layout as layouts
from mars_demo.core.assets import ASSETS
from mars_demo.decoding import prefill
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models import precision, safetensors_files
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime import quantized, weights
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.models.runtime.quantized import QuantizedModel
from mars_demo.models.runtime.rotation import Rotation
from mars_demo.models.runtime.weights import QuantizedWeights
from mars_demo.serving.decode_batch import decode_batch

CONTEXT = 96
PROMPT = "Can you show me the 7 times table up to 10?"


@pytest.mark.parametrize("width", (32, 48, 576, 896))
def test_a_rotation_is_orthogonal_and_spreads_each_channel(width):
    rotation = Rotation(width)(torch.eye(width))
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(width), rtol=0, atol=1e-5)
    assert rotation.abs().max() < 1.5 / width**0.5


def logits_in_parts(model, ids: list[int], size: int) -> torch.Tensor:
    engine, logits = Engine(model), []
    for start in range(0, len(ids), size):
        part = ids[start : start + size]
        logits.append(engine.forward(layouts.causal(part, start)))
        engine.commit(len(part))
    return torch.cat(logits)


def quantized_form(model) -> QuantizedModel:
    tensors = QuantizedWeights(model.state_dict(), model.config.tie_word_embeddings)
    return QuantizedModel(model.config, tensors)


@pytest.fixture(scope="module", params=[*ARCHITECTURES, "tied", "biased"])
def pair(request, tokenizer):
    """Return a plain model and its quantized form."""
    kind = request.param if request.param in ARCHITECTURES else "llama"
    biases = {"attention_bias": True, "mlp_bias": True} if request.param == "biased" else {}
    tied = request.param == "tied"
    model = varied(random_model(kind, tokenizer, CONTEXT, head_dim=16, tied=tied, **biases))
    return model, quantized_form(model)


@pytest.fixture
def naive(pair):
    """Yield the plain model, rounded as the quantized one; no cache, no fused operators."""
    model = rounded(pair[0])
    hooks = [
        module.register_forward_pre_hook(rounding)
        for module in model.modules()
        if isinstance(module, torch.nn.Linear)
    ]
    yield model
    for hook in hooks:
        hook.remove()


def close(output: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether outputs agree, up to inputs halfway between two steps."""
    return bool((output - expected).abs().mean() < 0.02 * expected.std())


def test_a_quantized_model_predicts_as_the_plain_one(pair, naive):
    _, quantized_model = pair
    ids = torch.randint(0, 400, (40,), generator=torch.Generator().manual_seed(1)).tolist()
    with torch.inference_mode():
        expected = naive(torch.tensor([ids])).logits[0]
    for size in (1, 7, 40):
        assert close(logits_in_parts(quantized_model, ids, size), expected)


def test_logits_are_bitwise_independent_of_the_number_of_positions(pair):
    _, quantized_model = pair
    ids = torch.randint(0, 400, (33,), generator=torch.Generator().manual_seed(2)).tolist()
    whole = logits_in_parts(quantized_model, ids, 33)
    for size in range(1, 18):
        assert torch.equal(logits_in_parts(quantized_model, ids, size), whole), size


def test_logits_are_bitwise_those_of_ar_in_windows_and_in_both_layouts_of_verification(pair):
    _, quantized_model = pair
    ids = torch.randint(0, 400, (30,), generator=torch.Generator().manual_seed(5)).tolist()
    alone = logits_in_parts(quantized_model, ids, 1)
    engine = Engine(quantized_model)
    engine.forward(layouts.causal(ids[:10]))
    engine.commit(10)
    for drafts in range(9):
        guesses = ids[11 : 11 + drafts]
        for masks in (0, 1, 8):
            for linear in (True, False):
                layout = layouts.verification(ids[10:11], guesses, masks, 4, 10, linear)
                logits = engine.forward(layout)
                engine.commit(0)
                assert torch.equal(logits[: drafts + 1], alone[10 : 11 + drafts]), (drafts, masks, linear)


def test_groups_of_masks_see_the_same_as_in_the_plain_model(pair, naive):
    _, quantized_model = pair
    ids = torch.randint(0, 400, (12,), generator=torch.Generator().manual_seed(3)).tolist()
    logits = []
    for decoder in (TransformersDecoder(naive), quantized_model):
        engine = Engine(decoder)
        engine.forward(layouts.causal(ids))
        engine.commit(len(ids))
        logits.append(engine.forward(layouts.verification([5], [6, 7], 3, 4, len(ids)), first=1))
    assert close(logits[1], logits[0])


def test_a_text_outgrows_its_first_store_and_is_rolled_back(pair, monkeypatch):
    _, quantized_model = pair
    ids = torch.randint(0, 400, (60,), generator=torch.Generator().manual_seed(4)).tolist()
    whole = logits_in_parts(quantized_model, ids, 7)
    monkeypatch.setattr(quantized, "_FIRST_ROOM", 8)
    engine, logits = Engine(quantized_model), []
    for start in range(0, 60, 5):
        engine.forward(layouts.causal([1, 2, 3], start))  # computed and rolled back
        engine.commit(0)
        logits.append(engine.forward(layouts.causal(ids[start : start + 5], start)))
        engine.commit(5)
    assert torch.equal(torch.cat(logits), whole)


def test_positions_of_masks_are_read_in_a_first_forward(pair):
    _, quantized_model = pair
    whole = Engine(quantized_model).forward(layouts.verification([5, 6], [7, 8], 3, 4))
    engine = Engine(quantized_model)
    engine.forward(layouts.causal([5]))
    engine.commit(1)
    assert torch.equal(engine.forward(layouts.verification([6], [7, 8], 3, 4, past=1)), whole[1:])


def test_drafts_are_verified_at_the_end_of_the_context(pair):
    _, quantized_model = pair
    engine, ids = Engine(quantized_model), [*range(CONTEXT)]
    engine.forward(layouts.causal(ids[:-1]))
    engine.commit(CONTEXT - 1)
    [verified] = engine.forward(layouts.verification(ids[-1:], [5] * 8, 8, 4, CONTEXT - 1))[:1]
    engine.commit(0)
    assert torch.equal(engine.forward(layouts.causal(ids[-1:], CONTEXT - 1))[0], verified)


@pytest.fixture(scope="module")
def int8_model():
    return load_checkpoint("mars-tiny", dtype="int8")


def test_quantized_lossless_gives_the_tokens_of_ar(int8_model):
    for prompt in (PROMPT, "Tell me a short story about a lantern and a wizard."):
        runs = {
            (mode, window): decode(int8_model, prompt, Request(mode, window=window, linear=linear)).finish()
            for mode, window, linear in (
                ("ar", None, None), ("lossless", 3, True), ("lossless", 5, False), ("jacobi", 5, None)
            )
        }  # fmt: skip
        for run in runs.values():
            check_tokens(int8_model, run, runs["ar", None].token_ids)
        assert {run.settings.dtype for run in runs.values()} == {"int8"}
        assert runs["lossless", 5].forwards < runs["ar", None].forwards


def test_alternating_answers_of_a_quantized_model_equal_single_ones(int8_model):
    pairs = [
        (PROMPT, "ar"),
        ("Tell me a short story about a lantern and a wizard.", "lossless"),
        (PROMPT, "mars"),
    ]
    requests = [(prompt, Request(mode, 0.8, max_new_tokens=40)) for prompt, mode in pairs]
    alone = [decode(int8_model, *one).finish() for one in requests]
    runs = [decode(int8_model, *one) for one in requests]
    for _ in range(40):
        for run in runs:
            next(run, None)
    for run, other in zip(runs, alone):
        check_same_passes(run, other)


@pytest.mark.parametrize("mode", ["ar", "mars", "lossless", "jacobi"])
def test_chunks_of_a_prompt_change_nothing_in_a_record_but_its_times(int8_model, mode, monkeypatch):
    request = Request(mode, 0.8, max_new_tokens=30)
    whole = decode(int8_model, PROMPT, request).finish()
    monkeypatch.setattr(prefill, "CHUNK", 4)
    run = decode(int8_model, PROMPT, request)
    assert list(run.turns()).count(None) == (run.settings.prompt_tokens - 1) // 4
    untimed = [[replace(step, ms=0, model_ms=0, read_ms=0) for step in one.passes] for one in (run, whole)]
    assert untimed[0] == untimed[1]


def test_batching_uses_the_dequantized_weights(int8_model):
    assert int8_model.model.device.type == "meta"
    (run,) = decode_batch(int8_model, [PROMPT], Request("ar", max_new_tokens=8)).finish().runs
    plain = load_checkpoint("mars-tiny", device="cpu")
    assert int8_model.dense is int8_model.dense and int8_model.dense.precision == plain.precision
    assert run.settings.dtype == plain.precision
    check_same_passes(run, decode(plain, PROMPT, Request("ar", max_new_tokens=8)).finish())
    assert plain.dense is plain


def test_auto_quantizes_only_quantized_files(monkeypatch, mars_tiny):
    config, large = mars_tiny.model.config, str(ASSETS / "mars-smollm2-135m")
    assert load_checkpoint("mars-tiny", "cpu", "auto").precision == "float32"
    assert precision.is_quantized("auto", large, "cpu", config)
    assert not precision.is_quantized("auto", large, "cuda", config)
    # On a CPU without the kernels, the model computes in float32.
    monkeypatch.setattr(precision, "kernel", lambda: None)
    assert load_checkpoint("mars-tiny", "cpu", "int8").precision == "float32"


def test_a_folder_is_quantized_while_it_is_read(tmp_path, mars_tiny, monkeypatch):
    """Compare with the form of the model in memory, and count the float32 weights that exist at a time."""
    folder = shutil.copytree(ASSETS / "mars-tiny", tmp_path / "model")
    ids = torch.randint(0, 400, (20,), generator=torch.Generator().manual_seed(6)).tolist()
    expected = logits_in_parts(quantized_form(load_checkpoint(str(folder), "cpu").model), ids, 20)
    original, rows, alive = safetensors_files.StoredTensor.__getitem__, [], []

    def read(tensor, part):
        value = original(tensor, part)
        rows.append(weakref.ref(value))
        alive.append(sum(one().numel() for one in rows if one() is not None))
        return value

    monkeypatch.setattr(safetensors_files.StoredTensor, "__getitem__", read)
    monkeypatch.setattr(weights, "_BLOCK", 1 << 16)
    checkpoint = load_checkpoint(str(folder), "cpu", "int8")
    assert torch.equal(logits_in_parts(checkpoint.decoder, ids, 20), expected)
    assert max(alive) <= 4 * max(mars_tiny.model.config.intermediate_size * 256, 1 << 16)
    assert checkpoint.end_ids == mars_tiny.end_ids


def test_damaged_folders_are_refused_before_they_are_quantized(tmp_path):
    folder = shutil.copytree(ASSETS / "mars-tiny", tmp_path / "model")
    file = folder / "model.safetensors"
    tensors = load_file(file)
    removed = tensors.pop("model.layers.1.mlp.up_proj.weight")
    for change in ({}, {"model.layers.1.mlp.up_proj.weight": removed[:-1].clone()}):
        save_file(tensors | change, file, metadata={"format": "pt"})
        with pytest.raises(ValueError, match=r"model\.layers\.1\.mlp\.up_proj"):
            load_checkpoint(str(folder), "cpu", "int8")
    file.write_bytes(b"\xff" * 4000)
    with pytest.raises(ValueError, match="damaged"):
        load_checkpoint(str(folder), "cpu", "int8")


def test_signed_and_unsigned_weights_give_the_same_logits(pair, monkeypatch):
    """This holds on CPUs whose products of signed weights are exact; others do not use these."""
    model, quantized_model = pair
    ids = torch.randint(0, 400, (20,), generator=torch.Generator().manual_seed(7)).tolist()
    monkeypatch.setattr(quantized, "kernel", lambda: quantized.UNSIGNED)
    other = quantized_form(model)
    assert torch.equal(logits_in_parts(other, ids, 3), logits_in_parts(quantized_model, ids, 3))


def test_unsupported_quantization_is_refused(mars_tiny):
    with pytest.raises(ValueError, match="int8.*CPU"):
        precision.is_quantized("int8", ".", "cuda:0", mars_tiny.model.config)
    config = mars_tiny.model.config.__class__(**mars_tiny.model.config.to_dict() | {"hidden_act": "gelu"})
    with pytest.raises(ValueError, match="int8.*gelu.*silu"):
        precision.is_quantized("int8", ".", "cpu", config)
