"""Loading checkpoints; broken ones are refused in one line that names the cause."""

import copy
import io
import json
import re
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch
from greedy import check_tokens, generate
from random_models import publish, random_model
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertConfig,
    T5Config,
)
from transformers.models.auto.modeling_auto import AutoModelForSequenceClassification

from mars_demo import cli
from mars_demo.core.assets import ASSETS
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models import mask_token
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import wrap
from mars_demo.models.facts import facts
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.models.mask_token import ensure_mask
from mars_demo.models.runtime.onnx_graph import unsupported
from mars_demo.models.safetensors_files import StoredTensor
from mars_demo.serving.decode_batch import decode_batch


def refusal(name, **options) -> str:
    with pytest.raises(ValueError) as error:
        load_checkpoint(str(name), **{"device": "cpu"} | options)
    assert str(error.value) and "\n" not in str(error.value)
    return str(error.value)


def edit(file, **changes):
    """Change entries of a JSON file; None removes an entry."""
    stored = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in stored.items() if value is not None}))


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ASSETS / "mars-tiny", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def published(tmp_path, tokenizer):
    """Return a function that makes folders in the format of the paper's authors."""

    def make(name: str, model=None, **config):
        return publish(tmp_path / name, model or random_model("qwen2", tokenizer), tokenizer, **config)

    return make


def test_models_of_other_kinds_are_named(tmp_path, tokenizer):
    small = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 1,
             "num_attention_heads": 2, "intermediate_size": 32, "d_model": 32, "num_layers": 1}  # fmt: skip

    def saved(name: str, model) -> str:
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        return refusal(tmp_path / name)

    bert, t5 = BertConfig(**small), T5Config(**small)
    assert "bert" in saved("encoder", AutoModel.from_config(bert, trust_remote_code=False))
    assert "bert" in saved("masked", AutoModelForMaskedLM.from_config(bert, trust_remote_code=False))
    assert "encoder" in saved("both", AutoModel.from_config(t5, trust_remote_code=False))
    llama = random_model("llama", tokenizer).config
    grader = AutoModelForSequenceClassification.from_config(llama, trust_remote_code=False)
    assert "LlamaForSequenceClassification" in saved("grader", grader)


def test_unsupported_config_options_are_named(tmp_path, tokenizer):
    plain = random_model("llama", tokenizer).config.to_dict()
    for kind, reason in (("gemma2", "final_logit_softcapping"), ("granite", "logits_scaling")):
        folder = tmp_path / kind
        tokenizer.save_pretrained(folder)
        scales = {"logits_scaling": 8.0} if kind == "granite" else {}
        (folder / "config.json").write_text(
            json.dumps(plain | {"model_type": kind, "architectures": None} | scales)
        )
        assert reason in refusal(folder)


@pytest.mark.parametrize(
    "kinds", [["sliding_attention"] * 3, ["full_attention", *["sliding_attention"] * 2]]
)
def test_texts_outgrow_a_sliding_window(tokenizer, kinds):
    """Compare an answer with the tokens of transformers, alone and in a batch."""
    model = random_model("qwen2", tokenizer)
    model.config.use_sliding_window, model.config.sliding_window = True, 12
    model.config.layer_types = kinds
    model = type(model)(model.config).eval()
    checkpoint, prompts = wrap("x", model, tokenizer), ["hello there", "hi", "Who are you?"]
    theirs = [generate(checkpoint, prompt, 20) for prompt in prompts]
    assert checkpoint.context == 96 and unsupported(model.config)
    for mode in ("ar", "lossless", "jacobi"):
        request = Request(mode, max_new_tokens=20)
        batch = decode_batch(checkpoint, prompts, request, size=2).finish()
        for prompt, run, expected in zip(prompts, batch.runs, theirs):
            check_tokens(checkpoint, run, expected)
            check_tokens(checkpoint, decode(checkpoint, prompt, request).finish(), expected)


@pytest.mark.parametrize("kind", ["gpt2", "qwen3_moe"])
def test_other_ar_models_give_the_tokens_of_transformers(tmp_path, tokenizer, kind):
    small = random_model("llama", tokenizer).config.to_dict()
    sizes = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
              "max_position_embeddings", "initializer_range", "eos_token_id", "bos_token_id",
              "pad_token_id")  # fmt: skip
    config = AutoConfig.for_model(kind, **{key: small[key] for key in sizes})
    model = AutoModelForCausalLM.from_config(config, trust_remote_code=False).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    checkpoint = load_checkpoint(str(tmp_path), device="cpu")
    assert checkpoint.modes == ("ar", "jacobi", "speculative")
    theirs = generate(checkpoint, "hello there", 12)
    for mode in ("ar", "jacobi"):
        request = Request(mode, max_new_tokens=12)
        batch = decode_batch(checkpoint, ["hello there"] * 2, request, size=2).finish()
        for run in (decode(checkpoint, "hello there", request).finish(), *batch.runs):
            check_tokens(checkpoint, run, theirs)


def test_damaged_files_are_named(folder):
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    huge = struct.pack("<Q", 1 << 40) + whole[8:]  # a header length beyond the end of the file
    for damage in (b"", whole[:100], whole[:100_000], b"\xff" * 4000, huge, whole[:-1]):
        weights.write_bytes(damage)
        assert re.search("damaged|bytes", refusal(folder))
    weights.write_bytes(whole)
    for config in ("[]", "null", "nonsense", "\xff", '{"model_type": 5}', '{"model_type": "llama"}'):
        (folder / "config.json").write_text(config)
        assert str(folder) in refusal(folder)
    shutil.copy(ASSETS / "mars-tiny" / "config.json", folder)
    (folder / "tokenizer.json").write_text("{")
    assert str(folder) in refusal(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    assert str(folder) in refusal(folder)


@pytest.mark.parametrize("config_beside", [True, False])
def test_gguf_files_of_other_kinds_or_with_hostile_headers_are_refused_at_once(folder, config_beside):
    """Refuse headers that announce far more entries than the file has, without iterating over them."""
    if not config_beside:
        (folder / "config.json").unlink()
    file, before = folder / "model.gguf", psutil.Process().memory_info().rss
    headers = [
        struct.pack("<4sIQQ", b"GGUF", 3, *counts) for counts in ((0, 0), (1 << 60, 0), (0, 1 << 60))
    ]
    sizes = struct.pack("<QcIQQ12x", 1, b"a", 2, 1 << 40, 1 << 40)  # of one tensor
    headers.append(struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + sizes)
    for content in (b"", b"GGUF", b"GGUF" + b"\xff" * 500, b"nonsense", *headers):
        file.write_bytes(content)
        assert str(file) in refusal(file)
    assert psutil.Process().memory_info().rss - before < 500e6


def test_a_hostile_checkpoint_cannot_control_the_terminal(folder, capsys):
    (folder / "README.md").write_text('---\nlicense: "\\e[31mred"\n---\n')
    assert cli.main(["models", str(folder)]) == 0
    edit(folder / "config.json", model_type="\x1b[31mred")
    assert cli.main(["models", str(folder)]) == 2
    written = capsys.readouterr()
    for text in (written.out, written.err):
        assert "[31mred" in text and "\x1b" not in text


def test_of_two_sets_of_weights_the_safetensors_are_loaded_and_the_other_is_named(folder):
    request = Request(max_new_tokens=8)
    expected = decode(load_checkpoint(str(folder), "cpu"), "Sort 3 and 1", request).finish()
    for part in ("b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "a.gguf"):
        (folder / part).write_bytes(b"no GGUF file")
    for dtype in ("auto", "int8"):
        loaded = load_checkpoint(str(folder), "cpu", dtype)
        assert decode(loaded, "Sort 3 and 1", request).finish().text == expected.text
        assert dict(facts(loaded).shown)["not loaded"] == "a.gguf, b.gguf"
    (folder / "model.safetensors").unlink()
    assert dict(facts(outline(str(folder))).shown)["not loaded"] == "b.gguf"


def test_a_missing_shard_is_named(folder):
    model = load_checkpoint(str(folder), device="cpu").model
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4MB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    load_checkpoint(str(folder), device="cpu")
    shards[0].unlink()
    assert shards[0].name in refusal(folder)


def test_pickled_weights_are_never_loaded(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"x": torch.zeros(1)}, folder / "pytorch_model.bin")
    assert "safetensors" in refusal(folder)


def test_a_config_of_a_far_larger_model_takes_no_memory(folder):
    edit(folder / "config.json", num_hidden_layers=400, intermediate_size=100_000)
    before = psutil.Process().memory_info().rss
    assert "config" in refusal(folder)
    assert psutil.Process().memory_info().rss - before < 500e6


def test_a_model_larger_than_memory_is_refused(folder, monkeypatch):
    def run_out(*_):
        raise MemoryError

    monkeypatch.setattr(StoredTensor, "__getitem__", run_out)
    assert f"enough memory for {folder}" in refusal(folder, dtype="int8")


def test_mask_tokens_outside_the_vocabulary_are_refused(folder):
    for mask_id in (99_999, -1, "2", 2.5):
        edit(folder / "config.json", mask_token_id=mask_id)
        assert repr(mask_id) in refusal(folder)
    edit(folder / "config.json", mask_token_id=None)  # the tokenizer's mask is used
    assert load_checkpoint(str(folder), device="cpu").mask_id == 2
    edit(folder / "tokenizer_config.json", mask_token=None)
    assert "mask" in refusal(folder)


def test_impossible_block_sizes_are_refused(folder):
    for block_size in (512, -4, "8", 2.5, True, [8]):
        edit(folder / "config.json", block_size=block_size)
        assert "511" in refusal(folder)
    edit(folder / "config.json", block_size=8, objective="chess")
    assert "mars, ar, block-diffusion" in refusal(folder)


def test_a_block_size_that_contradicts_the_name_is_refused(folder):
    folder = folder.rename(folder.with_name("Tiny-blk4"))
    assert re.search(r"name.*\b4\b.*config.*\b8\b.*--block-size", refusal(folder))
    assert load_checkpoint(str(folder), device="cpu", block_size=4).block_size == 4


def test_the_block_size_comes_from_name_config_or_option(published):
    named = published("MARS-Qwen2.5-0.5B-blk4")
    assert load_checkpoint(str(named), device="cpu").block_size == 4
    nameless = published("copied")
    message = refusal(nameless)
    assert "--block-size" in message
    loaded = load_checkpoint(str(nameless), device="cpu", block_size=16)
    assert (loaded.block_size, loaded.objective) == (16, "mars")
    assert decode(loaded, "hello", Request(window=17, max_new_tokens=5)).finish().tokens
    assert load_checkpoint(str(nameless), device="cpu", block_size=0).modes[0] == "ar"
    inside = published("configured", block_size=8, objective="block-diffusion")
    assert (outline(str(inside)).block_size, outline(str(inside)).objective) == (8, "block-diffusion")
    assert "95" in refusal(nameless, block_size=96)


def test_without_a_template_prompts_are_raw_and_there_is_no_conversation(folder, mars_tiny, capsys):
    (folder / "chat_template.jinja").unlink()
    prompt = "How do you spell planet backwards?"
    checkpoint = load_checkpoint(str(folder), device="cpu")
    assert (checkpoint.has_template, mars_tiny.has_template) == (False, True)
    run = decode(checkpoint, prompt, Request(max_new_tokens=8)).finish()
    raw = decode(mars_tiny, prompt, Request(max_new_tokens=8, raw=True)).finish()
    assert run.token_ids == raw.token_ids
    assert run.settings.raw and Run.read(run.lines()).settings.raw
    assert not decode(mars_tiny, prompt, Request()).settings.raw

    assert cli.main(["generate", prompt, "--model", str(folder), "--max-new-tokens", "8"]) == 0
    written = capsys.readouterr()
    assert written.out == run.text + "\n"
    assert "template" in written.err

    talk = [{"role": role, "content": "hello"} for role in ("user", "assistant", "user")]
    with pytest.raises(ValueError, match="template"):
        encode_prompt(checkpoint.tokenizer, talk)


def test_a_missing_device_is_named(folder):
    assert re.search("tpu.*cpu", refusal(folder, device="tpu"))
    if not torch.cuda.is_available():
        assert "cuda" in refusal(folder, device="cuda")


def test_all_end_tokens_are_used(mars_tiny, tokenizer):
    assert tokenizer.eos_token_id in mars_tiny.end_ids
    model, generation = mars_tiny.model, mars_tiny.model.generation_config
    original = generation.eos_token_id
    try:
        generation.eos_token_id = [original, 40]
        assert wrap("x", model, tokenizer).end_ids == {tokenizer.eos_token_id, 40}
    finally:
        generation.eos_token_id = original


def test_unknown_names_are_refused_with_the_known_ones(tmp_path):
    assert "mars-tiny" in refusal("no-such-model")
    assert refusal("nobody/no-such-model")
    assert "config.json" in refusal(tmp_path)


def edited(tmp_path, weights=lambda tensors: None, **config):
    """Return a folder with the tiny model's config and weights after an edit."""
    folder = shutil.copytree(ASSETS / "mars-tiny", tmp_path / "edited")
    tensors = load_file(folder / "model.safetensors")
    weights(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    edit(folder / "config.json", **config)
    return folder


BIAS = "model.layers.0.self_attn.q_proj.bias"


@pytest.mark.parametrize(
    ("weights", "config", "named"),
    [
        (
            lambda t: t.pop("model.layers.1.mlp.up_proj.weight"),
            {},
            r"\b1\b.*model\.layers\.1\.mlp\.up_proj",
        ),
        (lambda t: t.clear(), {}, "bytes"),
        (lambda t: None, {"tie_word_embeddings": False}, "lm_head.weight"),
        (lambda t: None, {"num_hidden_layers": 3}, r"\b9\b"),
        (lambda t: t.update({BIAS: torch.ones(256)}), {}, BIAS),
        (lambda t: t.update({"model.norm.weight": torch.ones(10)}), {}, "model.norm.weight"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_number_or_name(tmp_path, weights, config, named):
    """Refuse them: missing tensors would have random values, and decoding would ignore unknown ones."""
    assert re.search(named, refusal(edited(tmp_path, weights, **config)))


def test_a_tied_head_may_be_missing(tmp_path, mars_tiny):
    ids = torch.tensor([[5, 6, 7, 8]])
    expected = mars_tiny.model(ids).logits

    def repeat_the_embedding(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    for name, weights, tied in (("left-out", lambda t: None, True), ("stored", repeat_the_embedding, True),
                                ("untied", repeat_the_embedding, False)):  # fmt: skip
        folder = edited(tmp_path / name, weights, tie_word_embeddings=tied)
        torch.testing.assert_close(load_checkpoint(str(folder), device="cpu").model(ids).logits, expected)


def test_the_first_spare_row_becomes_the_mask(tokenizer, monkeypatch):
    monkeypatch.setattr(mask_token, "MASK", "<|spare|>")  # this tokenizer already has <|mask|>
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None
    model = random_model("qwen2", tokenizer)
    model.resize_token_embeddings(len(tokenizer) + 5)
    spare = len(tokenizer)
    assert spare < model.get_input_embeddings().num_embeddings
    before = model.get_input_embeddings().weight.detach().clone()
    ensure_mask(model, tokenizer)
    rows = model.get_input_embeddings().weight.detach()
    torch.testing.assert_close(rows[spare], before.mean(dim=0))  # it starts without the meaning of any word
    assert (rows != before).any(dim=1).nonzero().flatten().tolist() == [spare]
    assert (tokenizer.mask_token, tokenizer.mask_token_id) == ("<|spare|>", spare)
    assert tokenizer("<|spare|>", split_special_tokens=True)["input_ids"] != [spare]


def test_without_a_spare_row_an_unused_special_token_becomes_the_mask(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.mask_token = None  # its token still exists, special and without a role
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
    """Return a function that writes code into a checkpoint folder, and the file that the code would write.

    A question whether the code may run is answered with yes.
    """
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
            edit(folder / name, auto_map=entries)
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
    published, tokenizer, remote_code, capfd, name, objective, block_size, stored_head
):
    model = random_model("qwen2", tokenizer, tied=not stored_head)
    folder = published(name, model)
    ran = remote_code(folder)
    checkpoint = load_checkpoint(str(folder), device="cpu")
    assert not ran.exists()
    assert not capfd.readouterr().out  # no question was asked
    assert (checkpoint.objective, checkpoint.block_size) == (objective, block_size)
    if objective == "mars":
        assert checkpoint.mask_id == tokenizer.mask_token_id
    ids = torch.tensor([[5, 6, 7, 8]])
    torch.testing.assert_close(checkpoint.model(ids).logits, model(ids).logits)


def test_code_beside_a_known_model_is_ignored_and_an_unknown_model_is_refused(folder, remote_code):
    ran = remote_code(folder)
    assert load_checkpoint(str(folder), device="cpu").objective == "mars"
    assert not ran.exists()
    edit(folder / "config.json", model_type="unheard-of")
    assert "code" in refusal(folder)
    assert not ran.exists()


def test_concurrent_loads_get_their_own_dtypes():
    """Load models concurrently, although transformers changes torch's default dtype for each."""
    kinds = [torch.float32, torch.bfloat16] * 4

    def dtypes(kind) -> set[torch.dtype]:
        model = load_checkpoint("mars-tiny", "cpu", kind).model
        return {value.dtype for value in model.state_dict().values()}

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(dtypes, kinds)) == [{kind} for kind in kinds]
    assert torch.get_default_dtype() == torch.float32


def test_a_model_can_be_outlined_while_another_decodes(monkeypatch):
    changes = []
    monkeypatch.setattr(torch, "set_default_dtype", changes.append)
    assert outline("mars-smollm2-135m").model.device.type == "meta"
    assert not changes
