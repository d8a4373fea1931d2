"""Uploaded bases: what is a checkpoint is taken, and everything else gets a sentence and leaves nothing."""

import contextlib
import io
import json
import struct
import zipfile
from pathlib import Path

import gradio as gr
import pytest
import torch
from gradio.context import LocalContext
from safetensors.torch import load, save

from mars_demo.assets import ASSETS
from mars_demo.ui import models, owned, uploads, visitors
from mars_demo.ui.storage import storage

BASE = ASSETS / "ar-tiny"
FILES = {file.name: file.read_bytes() for file in BASE.iterdir()}


@contextlib.contextmanager
def visiting(session: str):
    """As Gradio does around a handler."""
    token = LocalContext.request.set(gr.Request(session_hash=session))
    try:
        yield
    finally:
        LocalContext.request.reset(token)


@pytest.fixture(autouse=True)
def visitor():
    with visiting("one"):
        yield
    for session in ("one", "two"):
        visitors.leave(session)
    assert not owned._models


def zipped(path: Path, files: dict[str, bytes], **how) -> str:
    path.write_bytes(io_zip(files, **how))
    return str(path)


def io_zip(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


def config(**changes) -> dict[str, bytes]:
    found = json.loads(FILES["config.json"]) | changes
    return {"config.json": json.dumps(found).encode()}


def weights(change) -> dict[str, bytes]:
    tensors = load(FILES["model.safetensors"])
    change(tensors)
    return {"model.safetensors": save(tensors)}


def tokenizer(**changes) -> dict[str, bytes]:
    return {"tokenizer.json": json.dumps(json.loads(FILES["tokenizer.json"]) | changes).encode()}


def settings(**changes) -> dict[str, bytes]:
    found = json.loads(FILES["tokenizer_config.json"]) | changes
    return {"tokenizer_config.json": json.dumps(found).encode()}


def narrowed(tensors) -> None:
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:-1].clone()


def whole_numbers(tensors) -> None:
    tensors["model.norm.weight"] = torch.ones(256, dtype=torch.int64)


def one_more(tensors) -> None:
    tensors["model.layers.4.mlp.up_proj.weight"] = torch.ones(2, 2)


SLOW_TEMPLATE = b"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
SLOW_RULE = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
DOUBLED = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10_000}

TOKEN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}

WRONG = {
    "layers": (config(num_hidden_layers=10**9), "another number of layers than its weights"),
    "layers as text": (config(num_hidden_layers="4"), "another number of layers"),
    "fewer layers": (config(num_hidden_layers=3), "no place for"),
    "width": (config(hidden_size=10**6, head_dim=10**6), "in another shape than its config says"),
    "endless width": (config(hidden_size=10**30), "hidden_size is not a whole number"),
    "vocabulary": (config(vocab_size=2 * 10**9), "in another shape than its config says"),
    "positions": (config(max_position_embeddings=10**12), "max_position_embeddings is not a whole"),
    "kind": (config(model_type="bert"), "its model type is 'bert'; llama, qwen2, qwen3 can be uploaded"),
    "code": (config(auto_map={"AutoModelForCausalLM": "code.Model"}), "code of its own"),
    "quantized": (config(quantization_config={"quant_method": "bitsandbytes"}), "quantized weights"),
    "config": ({"config.json": b"{"}, "config.json is not JSON"),
    "deep config": ({"config.json": b"[" * 100_000}, "config.json is not JSON"),
    "list as config": ({"config.json": b"[]"}, "config.json is not a JSON object"),
    "no config": ({"config.json": None}, "config.json is missing"),
    "shapes": (weights(narrowed), "in another shape than its config says: model.norm.weight"),
    "types": (weights(whole_numbers), "model.norm.weight holds I64, not floating-point numbers"),
    "one more": (weights(one_more), "no place for"),
    "no weights": ({"model.safetensors": None}, "there are no weights in safetensors"),
    "cut weights": ({"model.safetensors": FILES["model.safetensors"][:-9]}, "damaged or incomplete"),
    "header": ({"model.safetensors": struct.pack("<Q", 1 << 40)}, "is no safetensors file"),
    "pickle": ({"model.safetensors": None, "pytorch_model.bin": b"cos\n"}, "no weights in safetensors"),
    "no tokenizer": ({"tokenizer.json": None}, "tokenizer.json is missing"),
    "no tokenizer's settings": ({"tokenizer_config.json": None}, "tokenizer_config.json is missing"),
    "tokenizer's class": (settings(tokenizer_class="BertJapaneseTokenizer"), "its tokenizer is none of"),
    "tokenizer's file": (settings(vocab_file="/etc/passwd"), "names another file"),
    "template": ({"chat_template.jinja": SLOW_TEMPLATE}, "its chat template is not that of a model"),
    "template within": (settings(chat_template="{{ 'a' * 10**10 }}"), "its chat template is not that"),
    "rule": (tokenizer(pre_tokenizer=SLOW_RULE), "tokenizer's pre_tokenizer is not that of a model"),
    "replacement": (tokenizer(normalizer=DOUBLED), "tokenizer's normalizer is not that of a model"),
    "broken tokenizer": (tokenizer(model={"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}), ""),
    "tokenizer of nothing": (tokenizer(model=None), ""),
    "large tokenizer": (
        tokenizer(added_tokens=[TOKEN | {"id": 5000 + i, "content": f"<{i}>"} for i in range(500)]),
        "tokenizer",
    ),
}  # fmt: skip


def refused(archive: str, sentence: str) -> str:
    before = sorted(storage().root.rglob("*"))
    with pytest.raises(ValueError) as caught:
        uploads.adopt(archive)
    said = str(caught.value)
    assert sentence in said and "\n" not in said and len(said) < 400
    assert str(storage().root) not in said
    assert sorted(storage().root.rglob("*")) == before
    assert not Path(archive).exists()
    assert not owned._models
    return said


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_checkpoint_gets_one_sentence_and_leaves_nothing(tmp_path, case):
    changes, sentence = WRONG[case]
    files = {name: content for name, content in (FILES | changes).items() if content is not None}
    said = refused(zipped(tmp_path / "mine.zip", files), sentence)
    assert said.startswith("mine.zip is not a zipped checkpoint: ")


def damaged(content: bytes) -> bytes:
    """The first file's compressed data overwritten."""
    return content[:200] + b"\xff" * 200 + content[400:]


def encrypted(content: bytes) -> bytes:
    """The flag of encryption set in the list of files and before each file."""
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        parts = content.split(signature)
        marked = [
            part[: offset - 4] + bytes([part[offset - 4] | 1]) + part[offset - 3 :] for part in parts[1:]
        ]
        content = signature.join([parts[0], *marked])
    return content


def other_method(content: bytes) -> bytes:
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        head, *parts = content.split(signature)
        marked = [part[: offset - 4] + b"\x63\x00" + part[offset - 2 :] for part in parts]
        content = signature.join([head, *marked])
    return content


def understated(content: bytes) -> bytes:
    """Sizes of one byte declared for every file, in the list and before each file."""
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        head, *parts = content.split(signature)
        marked = [part[: offset - 4] + struct.pack("<I", 1) + part[offset:] for part in parts]
        content = signature.join([head, *marked])
    return content


SMALL = {name: FILES[name] for name in ("config.json", "tokenizer_config.json", "chat_template.jinja")}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"PK no zip at all", "no zip file"),
        (b"", "no zip file"),
        (damaged(io_zip(SMALL)), "the zip is damaged"),
        (io_zip(SMALL)[:-30], ""),
        (encrypted(io_zip(SMALL)), "the zip is encrypted"),
        (other_method(io_zip(SMALL)), "the zip is damaged"),
        (understated(io_zip(SMALL)), "the zip is damaged"),
    ],
)
def test_a_broken_zip_gets_the_sentence(tmp_path, content, sentence):
    archive = tmp_path / "mine.zip"
    archive.write_bytes(content)
    refused(str(archive), sentence)


def test_links_and_names_that_come_twice_are_refused(tmp_path):
    link = zipfile.ZipInfo("tokenizer.json")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(link, "/etc/passwd")
    archive = tmp_path / "link.zip"
    archive.write_bytes(buffer.getvalue())
    refused(str(archive), "tokenizer.json is a link")
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("config.json", FILES["config.json"])
        packed.writestr("config.json", FILES["config.json"])
    refused(str(archive), "config.json is in it twice")


def test_paths_that_lead_elsewhere_are_not_followed(tmp_path):
    names = ("../config.json", "/tmp/config.json", "sub/config.json", "..\\config.json", "C:config.json")
    files = dict.fromkeys(names, FILES["config.json"])
    refused(zipped(tmp_path / "a.zip", files), "tokenizer.json is missing")


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_UNPACKED", "10")
    bomb = {"model.safetensors": bytes(11 << 20)}
    refused(zipped(tmp_path / "a.zip", FILES | bomb), "unpacked it is larger than 10 MiB")
    many = {f"n{i}": b"" for i in range(30_000)}
    refused(zipped(tmp_path / "a.zip", many, compression=zipfile.ZIP_STORED), "lists more files than")


def test_what_is_a_checkpoint_is_taken_up_to_the_limits(tmp_path, monkeypatch):
    unpacked = sum(len(content) for name, content in FILES.items() if uploads._is_wanted(name))
    archive, mebi = tmp_path / "mine.zip", 1 << 20
    for variable, size, sentence in (
        ("UNPACKED", unpacked, "unpacked it is larger than 8 MiB"),
        ("UPLOAD", len(io_zip(FILES)), "mine.zip is larger than 6 MiB"),
        ("PARAMETERS", None, "at most 4 million"),
    ):
        above = 5 if size is None else -(-size // mebi)
        monkeypatch.setenv(f"MARS_DEMO_{variable}", str(above - 1))
        refused(zipped(archive, FILES), sentence)
        monkeypatch.setenv(f"MARS_DEMO_{variable}", str(above))
    name = uploads.adopt(zipped(archive, FILES))
    assert name.startswith("mine-") and not archive.exists()
    assert models.bases()[-1] == name
    checkpoint = models.fresh(name)
    assert (checkpoint.name, checkpoint.model.dtype) == (name, torch.float32)
    owned.forget("one")
    assert name not in models.bases()


def test_uploading_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_UPLOAD", "0")
    refused(zipped(tmp_path / "mine.zip", FILES), "Uploading is switched off here")


def test_the_disk_has_a_limit_for_all(tmp_path, monkeypatch):
    used = storage().used() >> 20
    monkeypatch.setenv("MARS_DEMO_DISK", str(used + 20))
    uploads.adopt(zipped(tmp_path / "mine.zip", FILES))
    monkeypatch.setenv("MARS_DEMO_DISK", str(used + 10))
    with pytest.raises(ValueError, match="may take .* MiB here, and there is no room for 9 MiB more"):
        uploads.adopt(zipped(tmp_path / "mine.zip", FILES))


def test_only_the_owner_can_use_what_was_uploaded(tmp_path):
    name = uploads.adopt(zipped(tmp_path / "mine.zip", FILES))
    said = []
    with visiting("two"):
        assert name not in models.bases()
        for asked in (name, "mine-00000000"):
            with pytest.raises(ValueError) as caught:
                models.fresh(asked)
            said.append(str(caught.value).replace(asked, "X"))
    assert said[0] == said[1]
    assert models.fresh(name).name == name


def test_a_visitors_own_oldest_makes_room_and_never_anothers(tmp_path, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_UPLOADS", "2")
    first = uploads.adopt(zipped(tmp_path / "a.zip", FILES))
    with visiting("two"):
        uploads.adopt(zipped(tmp_path / "b.zip", FILES))
    second = uploads.adopt(zipped(tmp_path / "c.zip", FILES))
    assert [first in models.bases(), second in models.bases()] == [False, True]
    with visiting("three"), pytest.raises(ValueError, match="2 uploaded and trained models are kept here"):
        uploads.adopt(zipped(tmp_path / "d.zip", FILES))
    with visiting("two"):
        assert len(owned.bases()) == 1


def test_what_was_kept_long_enough_is_forgotten(tmp_path, monkeypatch):
    name = uploads.adopt(zipped(tmp_path / "a.zip", FILES))
    folder = owned.base(name)
    monkeypatch.setenv("MARS_DEMO_KEPT", "2")
    owned._models[name].since -= 60
    owned.forget_old()
    assert folder.exists() and owned.bases() == [name]
    owned._models[name].since -= 60
    owned.forget_old()
    assert not folder.exists() and not owned.bases()
