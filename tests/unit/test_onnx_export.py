"""Exported ONNX models, compared with transformers."""

import hashlib
import json
import random

import numpy as np
import pytest
from random_models import ARCHITECTURES, random_model, varied

from mars_demo.cli import main
from mars_demo.core import layout as layouts
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import wrap
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.models.runtime.quantized import QuantizedModel
from mars_demo.models.runtime.weights import QuantizedWeights
from mars_demo.static import onnx_model

CONTEXT = 96
FILES = {
    "LICENSE",
    "chat_template.jinja",
    "model.onnx",
    "tokenizer.json",
    "tokenizer_config.json",
    "weights-1.bin",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    output = tmp_path_factory.mktemp("exported") / "mars-tiny"
    assert main(["export", "--format", "onnx", "mars-tiny", "--output", str(output)]) == 0
    return output


def test_the_command_writes_a_complete_folder(folder, mars_tiny):
    described = json.loads((folder / "decoder.json").read_text("utf-8"))
    assert (
        {file.name for file in folder.iterdir()}
        == FILES | {"decoder.json"}
        == {*described["files"], "decoder.json"}
    )
    for name, facts in described.pop("files").items():
        content = (folder / name).read_bytes()
        assert facts == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    config, tokenizer = mars_tiny.model.config, mars_tiny.tokenizer
    prompt = "Sort 3, 1 and 2"
    whole = described.pop("before") + prompt + described.pop("after")
    assert tokenizer(whole, add_special_tokens=False)["input_ids"] == encode_prompt(tokenizer, prompt)
    assert described == {
        "name": "mars-tiny",
        "layers": 4,
        "heads": config.num_key_value_heads,
        "width": 64,
        "vocabulary": config.vocab_size,
        "context": 512,
        "mask_id": tokenizer.mask_token_id,
        "block_size": 8,
        "window": 9,
        "end_ids": [tokenizer.eos_token_id],
        "modes": ["ar", "mars", "lossless"],
        "raw": False,
        "special": sorted(token.content for token in tokenizer.added_tokens_decoder.values()),
        "dtype": "float32",
        "license": "apache-2.0",
        "base_model": None,
    }
    assert (
        sum(file.stat().st_size for file in folder.iterdir()) < 20e6
    )  # a second embedding would be too much


@pytest.fixture(scope="module", params=[*ARCHITECTURES, "tied"])
def checkpoint(request, tokenizer):
    """Return a random checkpoint whose biases and norms matter, or one with a tied head."""
    kind = "llama" if request.param == "tied" else request.param
    model = random_model(kind, tokenizer, CONTEXT, head_dim=16, tied=request.param == "tied")
    return wrap(request.param, varied(model), tokenizer)


def decoder_of(model, bits: int):
    """Return the decoder whose logits an export must have."""
    if bits == 32:
        return TransformersDecoder(model)
    weights = QuantizedWeights(model.state_dict(), model.config.tie_word_embeddings)
    return QuantizedModel(model.config, weights)


@pytest.mark.parametrize("bits", (32, 8))
def test_logits_are_those_of_the_app_up_to_the_end_of_the_context(checkpoint, bits, tmp_path):
    onnx_model.write_onnx(checkpoint, tmp_path / "exported", bits)
    exported = onnx_model.ExportedModel(tmp_path / "exported" / "model.onnx")
    engine, rng, equal = Engine(decoder_of(checkpoint.model, bits)), random.Random(bits), []
    while room := CONTEXT - engine.length:
        kept = min(room, rng.randint(1, 30))
        tokens, drafts = ([rng.randrange(400) for _ in range(n)] for n in (kept, rng.randint(0, 8)))
        linear = rng.random() < 0.5
        layout = layouts.verification(
            tokens, drafts, rng.randint(0, 8), checkpoint.mask_id, engine.length, linear
        )
        first = rng.randrange(layout.ids.shape[1])
        expected = engine.forward(layout, first).numpy()
        engine.commit(kept)
        difference = np.abs(exported.forward(layout, first) - expected).max(-1) / np.abs(expected).max()
        assert difference.max() < (1e-4 if bits == 32 else 0.02)
        equal += [*(difference < 1e-4)]
    # With 8 bits, a difference in the last digit of attention can round an input to the next step.
    assert np.mean(equal) > 0.6


def test_a_model_without_a_template_gets_raw_prompts(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint.tokenizer, "chat_template", None)
    onnx_model.write_onnx(checkpoint, tmp_path / "raw", 32)
    described = json.loads((tmp_path / "raw" / "decoder.json").read_text("utf-8"))
    assert described["raw"] and described["before"] == described["after"] == ""


def test_refusals_leave_no_folder(folder, checkpoint, tmp_path, tokenizer, monkeypatch, capsys):
    assert main(["export", "mars-tiny", "--output", str(folder)]) == 2
    assert "is not empty" in capsys.readouterr().err
    output = tmp_path / "exported"
    narrow = wrap("narrow", random_model("llama", tokenizer, head_dim=8), tokenizer)
    with pytest.raises(ValueError, match="narrow cannot be exported: its heads are 8 wide"):
        onnx_model.write_onnx(narrow, output, 32)
    monkeypatch.setattr(onnx_model, "TOLERANCE", {8: 0})
    with pytest.raises(ValueError, match="does not compute the logits"):
        onnx_model.write_onnx(checkpoint, output, 8)
    assert [*tmp_path.iterdir()] == []
