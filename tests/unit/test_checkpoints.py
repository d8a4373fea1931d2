"""What can be loaded, and what is said when it cannot."""

import copy
import json
import shutil

import pytest
import torch
from random_models import random_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from mars_demo import checkpoints


def test_the_bundled_pair_is_small_and_plain_transformers_loads_it():
    size = 0
    for name in ("ar-tiny", "mars-tiny"):
        folder = checkpoints.ASSETS / name
        size += sum(file.stat().st_size for file in folder.iterdir())
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert model.dtype == torch.bfloat16
        assert AutoTokenizer.from_pretrained(folder).chat_template
    assert size < 30e6


def test_no_name_means_the_best_bundled_model():
    assert checkpoints.bundled()[0] in ("mars-smollm2-135m", "mars-tiny")
    assert "ar-tiny" in checkpoints.bundled()


def test_every_end_token_counts(mars_tiny, tokenizer):
    assert tokenizer.eos_token_id in mars_tiny.end_ids
    model, generation = mars_tiny.model, mars_tiny.model.generation_config
    kept = generation.eos_token_id
    try:
        generation.eos_token_id = [kept, 40]
        assert checkpoints.wrap("x", model, tokenizer).end_ids == {tokenizer.eos_token_id, 40}
    finally:
        generation.eos_token_id = kept


def broken(tmp_path, name: str):
    folder = tmp_path / name
    shutil.copytree(checkpoints.ASSETS / "mars-tiny", folder)
    return folder


def refusal(name) -> str:
    with pytest.raises(ValueError) as error:
        checkpoints.load(str(name), device="cpu")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_unknown_names_are_refused_with_what_is_allowed():
    assert "allowed are" in refusal("no-such-model")
    assert "mars-tiny" in refusal("no-such-model")
    assert "from the hub" in refusal("nobody/no-such-model")


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path):
    assert "config.json" in refusal(tmp_path)


def test_truncated_weights_are_refused(tmp_path):
    folder = broken(tmp_path, "truncated")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    assert "damaged or cut short" in refusal(folder)
    weights.write_bytes(b"")
    assert "damaged or cut short" in refusal(folder)
    weights.unlink()
    assert "cannot be loaded" in refusal(folder)


def test_pickled_weights_are_never_loaded(tmp_path):
    folder = broken(tmp_path, "pickled")
    torch.save({"x": torch.zeros(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert "cannot be loaded" in refusal(folder)


def test_a_broken_config_is_refused(tmp_path):
    folder = broken(tmp_path, "config")
    (folder / "config.json").write_text("{")
    assert "cannot be loaded" in refusal(folder)
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 32}')
    assert "cannot be loaded" in refusal(folder)


def test_the_first_spare_row_becomes_the_mask(tokenizer, monkeypatch):
    monkeypatch.setattr(checkpoints, "MASK", "<|spare|>")  # this tokenizer has a <|mask|> already
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None
    model = random_model("qwen2", tokenizer)
    model.resize_token_embeddings(len(tokenizer) + 5)
    spare = len(tokenizer)
    assert spare < model.get_input_embeddings().num_embeddings
    before = model.get_input_embeddings().weight.detach().clone()
    checkpoints.ensure_mask(model, tokenizer)
    rows = model.get_input_embeddings().weight.detach()
    torch.testing.assert_close(rows[spare], before.mean(dim=0))  # it begins as no word in particular
    assert (rows != before).any(dim=1).nonzero().flatten().tolist() == [spare]
    assert (tokenizer.mask_token, tokenizer.mask_token_id) == ("<|spare|>", spare)
    assert tokenizer("<|spare|>", split_special_tokens=True)["input_ids"] != [spare]


def test_without_a_spare_row_an_unused_special_token_is_taken_over(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None  # its token is still there, special and without a role
    rows = len(tokenizer)
    checkpoints.ensure_mask(random_model("llama", tokenizer), tokenizer)
    assert tokenizer.mask_token_id is not None
    assert tokenizer.mask_token_id not in {tokenizer.eos_token_id, tokenizer.pad_token_id}
    assert tokenizer.mask_token not in tokenizer.chat_template
    assert len(tokenizer) == rows


def test_without_any_room_there_is_a_sentence(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None
    tokenizer.chat_template += "{# <|mask|> <|system|> <|user|> <|assistant|> #}"
    with pytest.raises(ValueError, match="no room for a mask token"):
        checkpoints.ensure_mask(random_model("llama", tokenizer), tokenizer)


@pytest.mark.parametrize("stored_head", [True, False])
@pytest.mark.parametrize(
    ("name", "objective", "block_size"),
    [
        ("MARS-Qwen2.5-0.5B-blk4", "mars", 4),
        ("MARS-Qwen2.5-0.5B-BD3LM-blk4", "block-diffusion", 4),
        ("MARS-Qwen2.5-0.5B-AR-SFT", "ar", None),
    ],
)
def test_the_published_format_loads_without_remote_code(
    tmp_path, tokenizer, name, objective, block_size, stored_head
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
    checkpoint = checkpoints.load(str(folder), device="cpu")
    assert (checkpoint.objective, checkpoint.block_size) == (objective, block_size)
    if objective == "mars":
        assert checkpoint.mask_id == tokenizer.mask_token_id
    ids = torch.tensor([[5, 6, 7, 8]])
    torch.testing.assert_close(checkpoint.model(ids).logits, model(ids).logits)
