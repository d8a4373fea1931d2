"""Quantized weights on a CPU, compared with GGUF's own dequantization and with plain models."""

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from greedy import check_same_passes, check_tokens
from random_models import ARCHITECTURES, random_model, with_other_norms, with_rounded_weights

from mars_demo.cli import main
from mars_demo.core import layout as layouts
from mars_demo.core.assets import ASSETS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models import gguf, precision
from mars_demo.models.export import q8_0
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime import quantized as quantized
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.models.runtime.quantized import QuantizedModel
from mars_demo.models.runtime.quantized_weights import of_model, quantize
from mars_demo.serving.decode_batch import decode_batch

Q8_0 = GGMLQuantizationType.Q8_0
PROMPT = "Can you show me the 7 times table up to 10?"


def random_matrix(rows: int, width: int) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows))


def dense(matrix) -> np.ndarray:
    return matrix.rows(np.arange(matrix.shape[0]))


def test_a_matrix_is_rounded_to_the_nearest_step():
    weights = random_matrix(8, 64)
    weights[0] = 0
    matrix = quantize(weights)
    assert matrix.shape == weights.shape
    step = np.abs(matrix.scales)[..., None].repeat(32, -1).reshape(weights.shape)
    assert (np.abs(dense(matrix) - weights.numpy()) <= 0.5 * step + 1e-6).all()


def logits_in_parts(model, ids: list[int], size: int) -> torch.Tensor:
    engine, logits = Engine(model), []
    for start in range(0, len(ids), size):
        part = ids[start : start + size]
        logits.append(engine.forward(layouts.causal(part, start)))
        engine.commit(len(part))
    return torch.cat(logits)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request, tokenizer):
    """Return a plain model and its quantized form."""
    model = with_rounded_weights(with_other_norms(random_model(request.param, tokenizer, head_dim=16)))
    return model, QuantizedModel(model.config, of_model(model))


def rounding(linear, inputs):
    """Round the inputs of a product as the kernels do: to 8 bits, with a scale per group of 32."""
    groups = inputs[0].unflatten(-1, (-1, 32))
    steps = groups.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (((groups / steps).round() * steps).flatten(-2),)


@pytest.fixture
def naive(pair):
    """Yield the plain model with inputs rounded as in the quantized one; no cache, no fused operators."""
    model, _ = pair
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
    for size in (1, 2, 3, 5, 8, 17):
        assert torch.equal(logits_in_parts(quantized_model, ids, size), whole), size


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
    monkeypatch.setattr(precision, "fewest_rows", lambda: None)
    assert load_checkpoint("mars-tiny", "cpu", "int8").precision == "float32"


def test_a_file_in_the_same_format_is_read_without_rounding(tmp_path, mars_tiny):
    before = {name: value.clone() for name, value in mars_tiny.model.state_dict().items()}
    [file] = q8_0.write(mars_tiny, tmp_path / "quantized")
    torch.testing.assert_close(mars_tiny.model.state_dict(), before, rtol=0, atol=0)
    config = mars_tiny.model.config
    weights, plain = gguf.read_quantized(file, config), gguf.read(file, config, torch.float32)
    for name, value in plain.state_dict().items():
        if value.ndim == 2 and name != "lm_head.weight":
            assert np.array_equal(dense(weights.matrix(name.removesuffix(".weight"))), value.numpy()), name


def test_unsupported_quantization_is_refused(mars_tiny, capsys):
    with pytest.raises(ValueError, match="int8.*CPU"):
        precision.is_quantized("int8", ".", "cuda:0", mars_tiny.model.config)
    config = mars_tiny.model.config.__class__(**mars_tiny.model.config.to_dict() | {"hidden_act": "gelu"})
    with pytest.raises(ValueError, match="int8.*gelu.*silu"):
        precision.is_quantized("int8", ".", "cpu", config)
    with pytest.raises(SystemExit):
        main(["generate", "Hi", "--dtype", "int4"])
    assert "int4" in capsys.readouterr().err
