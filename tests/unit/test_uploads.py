"""Uploaded bases: checkpoints are accepted; everything else gets one line and leaves no file."""

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
    """Set the session as Gradio does around a handler."""
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


def io_zip(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


def config(**changes) -> dict[str, bytes]:
    return {"config.json": json.dumps(json.loads(FILES["config.json"]) | changes).encode()}


def weights(change) -> dict[str, bytes]:
    tensors = load(FILES["model.safetensors"])
    change(tensors)
    return {"model.safetensors": save(tensors)}


def tokenizer(**changes) -> dict[str, bytes]:
    return {"tokenizer.json": json.dumps(json.loads(FILES["tokenizer.json"]) | changes).encode()}


def settings(**changes) -> dict[str, bytes]:
    changed = json.loads(FILES["tokenizer_config.json"]) | changes
    return {"tokenizer_config.json": json.dumps(changed).encode()}


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
    "layers": (config(num_hidden_layers=10**9), "layers"),
    "layers as text": (config(num_hidden_layers="4"), "layers"),
    "fewer layers": (config(num_hidden_layers=3), "model.layers.3"),
    "width": (config(hidden_size=10**6, head_dim=10**6), "shape"),
    "endless width": (config(hidden_size=10**30), "hidden_size"),
    "vocabulary": (config(vocab_size=2 * 10**9), "shape"),
    "positions": (config(max_position_embeddings=10**12), "max_position_embeddings"),
    "kind": (config(model_type="bert"), "'bert'"),
    "code": (config(auto_map={"AutoModelForCausalLM": "code.Model"}), "code"),
    "quantized": (config(quantization_config={"quant_method": "bitsandbytes"}), "quantized"),
    "config": ({"config.json": b"{"}, "config.json"),
    "deep config": ({"config.json": b"[" * 100_000}, "config.json"),
    "list as config": ({"config.json": b"[]"}, "config.json"),
    "no config": ({"config.json": None}, "config.json"),
    "shapes": (weights(narrowed), "model.norm.weight"),
    "types": (weights(whole_numbers), "model.norm.weight"),
    "one more": (weights(one_more), "model.layers.4.mlp.up_proj.weight"),
    "no weights": ({"model.safetensors": None}, "safetensors"),
    "cut weights": ({"model.safetensors": FILES["model.safetensors"][:-9]}, "damaged"),
    "header": ({"model.safetensors": struct.pack("<Q", 1 << 40)}, "safetensors"),
    "pickle": ({"model.safetensors": None, "pytorch_model.bin": b"cos\n"}, "safetensors"),
    "no tokenizer": ({"tokenizer.json": None}, "tokenizer.json"),
    "no tokenizer's settings": ({"tokenizer_config.json": None}, "tokenizer_config.json"),
    "tokenizer's class": (settings(tokenizer_class="BertJapaneseTokenizer"), "tokenizer"),
    "tokenizer's file": (settings(vocab_file="/etc/passwd"), "file"),
    "template": ({"chat_template.jinja": SLOW_TEMPLATE}, "template"),
    "template within": (settings(chat_template="{{ 'a' * 10**10 }}"), "template"),
    "rule": (tokenizer(pre_tokenizer=SLOW_RULE), "pre_tokenizer"),
    "replacement": (tokenizer(normalizer=DOUBLED), "normalizer"),
    "broken tokenizer": (tokenizer(model={"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}), ""),
    "tokenizer of nothing": (tokenizer(model=None), ""),
    "large tokenizer": (
        tokenizer(added_tokens=[TOKEN | {"id": 5000 + i, "content": f"<{i}>"} for i in range(500)]),
        "tokenizer",
    ),
}  # fmt: skip


def refused(archive: str, fact: str) -> str:
    """Return the error of an upload that is refused without a trace; it contains `fact` and no path."""
    before = sorted(storage().root.rglob("*"))
    with pytest.raises(ValueError) as caught:
        uploads.adopt(archive)
    message = str(caught.value)
    assert fact in message and "\n" not in message and len(message) < 400
    assert str(storage().root) not in message
    assert sorted(storage().root.rglob("*")) == before
    assert not Path(archive).exists()
    assert not owned._models
    return message


@pytest.mark.parametrize("case", WRONG)
def test_a_broken_checkpoint_is_refused_in_one_line_without_a_trace(tmp_path, case):
    changes, fact = WRONG[case]
    files = {name: content for name, content in (FILES | changes).items() if content is not None}
    assert refused(zipped(tmp_path / "mine.zip", files), fact).startswith("mine.zip")


def damaged(content: bytes) -> bytes:
    """Overwrite the compressed data of the first file."""
    return content[:200] + b"\xff" * 200 + content[400:]


def encrypted(content: bytes) -> bytes:
    """Set the encryption flag in the list of files and before each file."""
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
    """Declare one byte for every file, in the list and before each file."""
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        head, *parts = content.split(signature)
        marked = [part[: offset - 4] + struct.pack("<I", 1) + part[offset:] for part in parts]
        content = signature.join([head, *marked])
    return content


SMALL = {name: FILES[name] for name in ("config.json", "tokenizer_config.json", "chat_template.jinja")}
PACKED = io_zip(SMALL, zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"PK no zip at all", "zip"),
        (b"", "zip"),
        (damaged(PACKED), "damaged"),
        (PACKED[:-30], ""),
        (encrypted(PACKED), "encrypted"),
        (other_method(PACKED), "damaged"),
        (understated(PACKED), "damaged"),
    ],
)
def test_a_broken_zip_is_refused(tmp_path, content, fact):
    archive = tmp_path / "mine.zip"
    archive.write_bytes(content)
    refused(str(archive), fact)


def test_links_and_duplicate_names_are_refused(tmp_path):
    link = zipfile.ZipInfo("tokenizer.json")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(link, "/etc/passwd")
    archive = tmp_path / "link.zip"
    archive.write_bytes(buffer.getvalue())
    refused(str(archive), "tokenizer.json")
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("config.json", FILES["config.json"])
        packed.writestr("config.json", FILES["config.json"])
    refused(str(archive), "config.json")


def test_paths_out_of_the_archive_are_not_followed(tmp_path):
    names = ("../config.json", "/tmp/config.json", "sub/config.json", "..\\config.json", "C:config.json")
    files = dict.fromkeys(names, FILES["config.json"])
    refused(zipped(tmp_path / "a.zip", files), "tokenizer.json")


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_UNPACKED", "10")
    bomb = {"model.safetensors": bytes(11 << 20)}
    refused(zipped(tmp_path / "a.zip", FILES | bomb, compression=zipfile.ZIP_DEFLATED), "10 MiB")
    many = {f"n{i}": b"" for i in range(30_000)}
    refused(zipped(tmp_path / "a.zip", many), "files")


def test_a_checkpoint_is_accepted_up_to_the_limits(tmp_path, monkeypatch):
    unpacked = sum(len(content) for name, content in FILES.items() if uploads._is_wanted(name))
    archive, mebi = tmp_path / "mine.zip", 1 << 20
    for variable, size in (("UNPACKED", unpacked), ("UPLOAD", len(io_zip(FILES))), ("PARAMETERS", None)):
        above = 5 if size is None else -(-size // mebi)
        monkeypatch.setenv(f"MARS_DEMO_{variable}", str(above - 1))
        refused(zipped(archive, FILES), f" {above - 1} ")
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
    refused(zipped(tmp_path / "mine.zip", FILES), "")


def test_the_disk_has_a_limit_for_all(tmp_path, monkeypatch):
    used = storage().used() >> 20
    monkeypatch.setenv("MARS_DEMO_DISK", str(used + 20))
    uploads.adopt(zipped(tmp_path / "mine.zip", FILES))
    monkeypatch.setenv("MARS_DEMO_DISK", str(used + 10))
    with pytest.raises(ValueError, match="9 MiB"):
        uploads.adopt(zipped(tmp_path / "mine.zip", FILES))


def test_only_the_owner_can_use_an_upload(tmp_path):
    name = uploads.adopt(zipped(tmp_path / "mine.zip", FILES))
    messages = []
    with visiting("two"):
        assert name not in models.bases()
        for asked in (name, "mine-00000000"):
            with pytest.raises(ValueError) as caught:
                models.fresh(asked)
            messages.append(str(caught.value).replace(asked, "X"))
    assert messages[0] == messages[1]
    assert models.fresh(name).name == name


def test_a_full_store_evicts_the_oldest_upload_of_the_same_visitor(tmp_path, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_UPLOADS", "2")
    first = uploads.adopt(zipped(tmp_path / "a.zip", FILES))
    with visiting("two"):
        uploads.adopt(zipped(tmp_path / "b.zip", FILES))
    second = uploads.adopt(zipped(tmp_path / "c.zip", FILES))
    assert [first in models.bases(), second in models.bases()] == [False, True]
    with visiting("three"), pytest.raises(ValueError, match="2"):
        uploads.adopt(zipped(tmp_path / "d.zip", FILES))
    with visiting("two"):
        assert len(owned.bases()) == 1


def test_old_uploads_are_deleted(tmp_path, monkeypatch):
    name = uploads.adopt(zipped(tmp_path / "a.zip", FILES))
    folder = owned.base(name)
    monkeypatch.setenv("MARS_DEMO_KEPT", "2")
    owned._models[name].since -= 60
    owned.forget_old()
    assert folder.exists() and owned.bases() == [name]
    owned._models[name].since -= 60
    owned.forget_old()
    assert not folder.exists() and not owned.bases()
