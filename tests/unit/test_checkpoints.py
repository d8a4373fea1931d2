"""Loading checkpoints, and refusing those whose tensors, config or tokenizer do not fit."""

import copy
import io
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from random_models import random_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from mars_demo.assets import ASSETS
from mars_demo.models import mask_token
from mars_demo.models.checkpoint import wrap
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.models.mask_token import ensure_mask


def test_the_bundled_pair_is_small_and_plain_transformers_loads_it():
    size = 0
    for name in ("ar-tiny", "mars-tiny"):
        folder = ASSETS / name
        size += sum(file.stat().st_size for file in folder.iterdir())
        model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
        assert model.dtype == torch.bfloat16
        assert AutoTokenizer.from_pretrained(folder, trust_remote_code=False).chat_template
    assert size < 30e6


def test_every_end_token_counts(mars_tiny, tokenizer):
    assert tokenizer.eos_token_id in mars_tiny.end_ids
    model, generation = mars_tiny.model, mars_tiny.model.generation_config
    kept = generation.eos_token_id
    try:
        generation.eos_token_id = [kept, 40]
        assert wrap("x", model, tokenizer).end_ids == {tokenizer.eos_token_id, 40}
    finally:
        generation.eos_token_id = kept


def broken(tmp_path, name: str):
    folder = tmp_path / name
    shutil.copytree(ASSETS / "mars-tiny", folder)
    return folder


def refusal(name) -> str:
    with pytest.raises(ValueError) as error:
        load_checkpoint(str(name), device="cpu")
    assert str(name) in str(error.value) and "\n" not in str(error.value)
    return str(error.value)


def test_unknown_names_are_refused_with_the_known_ones(tmp_path):
    assert "mars-tiny" in refusal("no-such-model")
    assert refusal("nobody/no-such-model")
    assert "config.json" in refusal(tmp_path)


def edited(tmp_path, weights=lambda tensors: None, **config):
    """Return a folder with the tiny model's weights and config, changed."""
    folder = broken(tmp_path, "edited")
    tensors = load_file(folder / "model.safetensors")
    weights(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    stored = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stored | config))
    return folder


def layer(tensors: dict, number: int) -> list[str]:
    return [name for name in tensors if name.startswith(f"model.layers.{number}.")]


def test_missing_tensors_are_refused_by_number_and_name(tmp_path):
    """Refuse tensors that would get random values."""
    folder = edited(tmp_path / "one", lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    assert re.search(r"\b1\b.*model\.layers\.1\.mlp\.up_proj\.weight", refusal(folder))
    folder = edited(tmp_path / "layer", lambda t: [t.pop(name) for name in layer(t, 2)])
    assert re.search(r"\b9\b", refusal(folder))
    assert re.search(r"\b18\b", refusal(edited(tmp_path / "config", num_hidden_layers=6)))
    assert refusal(edited(tmp_path / "none", lambda tensors: tensors.clear()))


def test_only_a_tied_head_may_be_missing(tmp_path, mars_tiny):
    ids = torch.tensor([[5, 6, 7, 8]])
    expected = mars_tiny.model(ids).logits

    def repeat_the_embedding(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    for name, weights, tied in (("left-out", lambda t: None, True), ("stored", repeat_the_embedding, True),
                                ("untied", repeat_the_embedding, False)):  # fmt: skip
        folder = edited(tmp_path / name, weights, tie_word_embeddings=tied)
        torch.testing.assert_close(load_checkpoint(str(folder), device="cpu").model(ids).logits, expected)
    assert "lm_head.weight" in refusal(edited(tmp_path / "lost", tie_word_embeddings=False))
    lost = edited(tmp_path / "embedding", lambda tensors: tensors.pop("model.embed_tokens.weight"))
    assert "model.embed_tokens.weight" in refusal(lost)


def test_tensors_without_a_place_in_the_config_are_refused(tmp_path):
    """Refuse layers and biases that would be left out of every answer."""
    assert re.search(r"\b9\b", refusal(edited(tmp_path / "layer", num_hidden_layers=3)))
    bias = "model.layers.0.self_attn.q_proj.bias"
    folder = edited(tmp_path / "bias", lambda tensors: tensors.update({bias: torch.ones(256)}))
    assert bias in refusal(folder)
    shaped = edited(tmp_path / "shape", lambda t: t.update({"model.norm.weight": torch.ones(10)}))
    assert "model.norm.weight" in refusal(shaped)


def test_the_first_spare_row_becomes_the_mask(tokenizer, monkeypatch):
    monkeypatch.setattr(mask_token, "MASK", "<|spare|>")  # this tokenizer has a <|mask|> already
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None
    model = random_model("qwen2", tokenizer)
    model.resize_token_embeddings(len(tokenizer) + 5)
    spare = len(tokenizer)
    assert spare < model.get_input_embeddings().num_embeddings
    before = model.get_input_embeddings().weight.detach().clone()
    ensure_mask(model, tokenizer)
    rows = model.get_input_embeddings().weight.detach()
    torch.testing.assert_close(rows[spare], before.mean(dim=0))  # it begins as no word in particular
    assert (rows != before).any(dim=1).nonzero().flatten().tolist() == [spare]
    assert (tokenizer.mask_token, tokenizer.mask_token_id) == ("<|spare|>", spare)
    assert tokenizer("<|spare|>", split_special_tokens=True)["input_ids"] != [spare]


def test_without_a_spare_row_an_unused_special_token_is_taken_over(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None  # its token is still there, special and without a role
    rows = len(tokenizer)
    ensure_mask(random_model("llama", tokenizer), tokenizer)
    assert tokenizer.mask_token_id is not None
    assert tokenizer.mask_token_id not in {tokenizer.eos_token_id, tokenizer.pad_token_id}
    assert tokenizer.mask_token not in tokenizer.chat_template
    assert len(tokenizer) == rows


def test_without_room_for_a_mask_token_there_is_an_error(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None
    tokenizer.chat_template += "{# <|mask|> <|system|> <|user|> <|assistant|> #}"
    with pytest.raises(ValueError, match="mask"):
        ensure_mask(random_model("llama", tokenizer), tokenizer)


@pytest.fixture
def remote_code(monkeypatch):
    """Return a function that writes code into a checkpoint's folder and the path of the file that the code
    would leave; a question whether it may run is answered with yes."""
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n" * 9))

    def lay(folder):
        trap = f"open({str(folder / 'RAN')!r}, 'w')\nConfig = Model = Tokenizer = None\n"
        (folder / "remote.py").write_text(trap)
        (folder / "custom_generate").mkdir(exist_ok=True)
        (folder / "custom_generate" / "generate.py").write_text(trap)
        auto_map = {
            "config.json": {"AutoConfig": "remote.Config", "AutoModelForCausalLM": "remote.Model"},
            "tokenizer_config.json": {"AutoTokenizer": ["remote.Tokenizer", "remote.Tokenizer"]},
        }
        for name, entries in auto_map.items():
            stored = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps(stored | {"auto_map": entries}))
        return folder / "RAN"

    return lay


@pytest.mark.parametrize(
    ("name", "objective", "block_size", "stored_head"),
    [
        ("MARS-Qwen2.5-0.5B-blk4", "mars", 4, True),
        ("MARS-Qwen2.5-0.5B-blk4", "mars", 4, False),
        ("MARS-Qwen2.5-0.5B-BD3LM-blk4", "block-diffusion", 4, False),
        ("MARS-Qwen2.5-0.5B-AR-SFT", "ar", None, True),
    ],
)
def test_the_published_format_loads_without_remote_code(
    tmp_path, tokenizer, remote_code, capfd, name, objective, block_size, stored_head
):
    model = random_model("qwen2", tokenizer)
    if not stored_head:
        model.config.tie_word_embeddings = True
        model.lm_head.weight = model.model.embed_tokens.weight
    folder = tmp_path / name
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    for key in ("block_size", "mask_token_id"):
        del config[key]
    config |= {"model_type": "a2d-qwen2", "architectures": ["A2DQwen2LMHeadModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    ran = remote_code(folder)
    checkpoint = load_checkpoint(str(folder), device="cpu")
    assert not ran.exists()
    assert not capfd.readouterr().out  # no question
    assert (checkpoint.objective, checkpoint.block_size) == (objective, block_size)
    if objective == "mars":
        assert checkpoint.mask_id == tokenizer.mask_token_id
    ids = torch.tensor([[5, 6, 7, 8]])
    torch.testing.assert_close(checkpoint.model(ids).logits, model(ids).logits)


def test_code_beside_a_known_model_is_ignored_and_an_unknown_model_is_refused(tmp_path, remote_code):
    folder = broken(tmp_path, "known")
    ran = remote_code(folder)
    assert load_checkpoint(str(folder), device="cpu").objective == "mars"
    assert not ran.exists()
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "unheard-of"}
    (folder / "config.json").write_text(json.dumps(config))
    assert "code" in refusal(folder)
    assert not ran.exists()


def test_threads_that_load_at_once_get_their_own_dtypes():
    """Load models at once, for each of which transformers changes torch's default dtype."""
    kinds = [torch.float32, torch.bfloat16] * 4

    def dtypes(kind) -> set[torch.dtype]:
        model = load_checkpoint("mars-tiny", "cpu", kind).model
        return {value.dtype for value in model.state_dict().values()}

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(dtypes, kinds)) == [{kind} for kind in kinds]
    assert torch.get_default_dtype() == torch.float32


def test_a_model_can_be_outlined_while_another_one_is_decoded(monkeypatch):
    changes = []
    monkeypatch.setattr(torch, "set_default_dtype", changes.append)
    assert outline("mars-smollm2-135m").model.device.type == "meta"
    assert not changes
