"""Files that are no checkpoints, and the names of models that belong to other visitors."""

from __future__ import annotations

import io
import json
import pickle
import stat
import zipfile
from functools import cache
from random import Random
from typing import Any

from benchmarks.hostile.requests import API, Case, Page, body, visitor
from benchmarks.hostile.values import NAMES, PATHS, text, value

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 10, "hidden_size": 8}
HUGE = {
    "num_hidden_layers": 10**6,
    "hidden_size": 10**6,
    "vocab_size": 10**9,
    "max_position_embeddings": 10**9,
}


class Executed:
    """What runs if somebody unpickles it."""

    def __reduce__(self):
        return exec, ("open('hit', 'w').close()",)


def zipped(files: dict[str, bytes], **more: Any) -> bytes:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED, **more) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return found.getvalue()


@cache
def bomb() -> bytes:
    """A few hundred kilobytes that unpack to 700 MiB."""
    found = io.BytesIO()
    with (
        zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("model.safetensors", "w", force_zip64=True) as file,
    ):
        for _ in range(700):
            file.write(bytes(1 << 20))
    return found.getvalue()


def lying() -> bytes:
    """One that says it unpacks to 10 bytes, and unpacks to more."""
    whole = zipped({"config.json": b"0" * 100_000})
    return whole.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))


def linked() -> bytes:
    """A link to a file of the server."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as packed:
        entry = zipfile.ZipInfo("config.json")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(entry, "/etc/passwd")
    return found.getvalue()


def encrypted() -> bytes:
    """One whose entries say that they are encrypted."""
    whole = bytearray(zipped({"config.json": b"{}"}))
    whole[6] |= 1
    whole[whole.index(b"PK\1\2") + 8] |= 1
    return bytes(whole)


def wrong(rng: Random) -> bytes:
    """A file that is no zip of a checkpoint."""
    config = json.dumps(
        CONFIG | rng.choice(({}, HUGE, {"auto_map": {"AutoModelForCausalLM": "code.Model"}}))
    ).encode()
    weights = rng.choice(
        (b"", b"\xff" * 64, (10**15).to_bytes(8, "little") + b"{}", bytes(8) + rng.randbytes(100))
    )
    makers = (
        lambda: rng.randbytes(rng.randrange(2000)),
        lambda: b"PK\3\4" + rng.randbytes(300),
        lambda: pickle.dumps(Executed()),
        lambda: zipped({}),
        lambda: zipped(
            {rng.choice((*PATHS, "../../canary.json", "/tmp/canary.json")): b"{}", "config.json": config}
        ),
        lambda: zipped({"config.json": config, "model.safetensors": weights}),
        lambda: zipped({"config.json": config, "pytorch_model.bin": pickle.dumps(Executed())}),
        lambda: zipped(
            {
                "config.json": rng.choice(
                    (b"[]", b"\xff", b"{" * 1000, text(rng)[:500].encode("utf-8", "replace"))
                )
            }
        ),
        lambda: zipped(
            {
                "config.json": config,
                "tokenizer.json": b"{}",
                "chat_template.jinja": text(rng)[:500].encode("utf-8", "replace"),
            }
        ),
        lambda: zipped({f"{number}.json": b"{}" for number in range(3000)}),
        lambda: zipped({"a.zip": zipped({"config.json": config})}),
        lambda: zipped({"config.json": config})[: rng.randrange(20, 100)],
        linked,
        lying,
        encrypted,
        bomb,
    )
    return rng.choice(makers)()


def upload(rng: Random, page: Page) -> Case:
    """A file onto the server, under a name that may be a path; whoever sends it lets it be adopted."""
    name = rng.choice(("base.zip", "base.zip", "a.zip", *PATHS, text(rng)[:60])).encode("utf-8", "replace")
    name = name.replace(b'"', b"").replace(b"\r", b"").replace(b"\n", b"")
    sent = b'--x\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n' % name
    sent += wrong(rng) + b"\r\n--x--\r\n"
    kind = {"content-type": "multipart/form-data; boundary=x"}
    return Case("upload", f"{API}/upload", sent, visitor(rng), headers=kind)


def adoption(page: Page, path: Any, session: str) -> Case:
    """What the page calls after an upload."""
    one = page.named("adopt")
    file = {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": "base.zip"}
    asked = {"data": [file], "fn_index": one["id"], "session_hash": session}
    return Case("adoption", f"{API}/queue/join?", body(asked), session, queued=True)


def forged(rng: Random, page: Page) -> Case:
    """A file that nobody has uploaded."""
    path = rng.choice((*PATHS, "/etc/passwd", "/proc/self/mem", "/dev/zero", value(rng)))
    return adoption(page, path, f"forged{rng.randrange(10**9)}")


def others(rng: Random, page: Page) -> Case:
    """The trained or uploaded models of others, by names that may be theirs, and where names are listed."""
    name = rng.choice(
        (
            "mine-000000",
            f"mine-{rng.randbytes(3).hex()}",
            f"base-{rng.randbytes(2).hex()}",
            *NAMES,
            None,
            [],
        )
    )
    one = page.named(
        rng.choice(("fit", "take", "to_the_race", "recorded", "see", "compete", "introduce", "list_bases"))
    )
    data = [name if kind == "dropdown" else None for kind in page.inputs[one["id"]]]
    if one["api_name"] == "fit":  # all else is right, so that the name is looked up
        data = [name, "mars", 4, 1.0, "tasks", 2, 0.001, "hello", None]
    hash_ = f"other{rng.randrange(10**9)}"
    given = {"model": name, "mode": "mars", "tau": 0.5, "criterion": "margin"}
    asked = {"data": data, "fn_index": one["id"], "session_hash": hash_, "event_data": given}
    if one["queue"]:
        return Case("others' models", f"{API}/queue/join?", body(asked), hash_, queued=True)
    return Case("others' models", f"{API}/run/predict", body(asked), hash_)


KINDS = {upload: 6, forged: 3, others: 5}
