"""Requests to the app that no page of its own sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from benchmarks.hostile.records import record
from benchmarks.hostile.values import NAMES, PATHS, body, nested, text, value

API = "/gradio_api"
VISITORS = 6  # that come again and again; every tenth request is from somebody new
# What may run for long if it happens to be right.
LONG_WORK = ("replay", "measure", "fit", "conclude")


@dataclass(frozen=True)
class Case:
    """One request.

    kind: what it attacks. body: None for a GET. queued: its answer comes later, as events of the queue.
    """

    kind: str
    path: str
    body: bytes | None = None
    session: str = ""
    queued: bool = False
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})

    def __str__(self) -> str:
        return f"{self.kind}: {self.path[:120]} {(self.body or b'')[:400]!r}"


class Page:
    """What a visitor may call, as the app's own configuration says it."""

    def __init__(self, config: dict[str, Any]):
        kinds = {component["id"]: component["type"] for component in config["components"]}
        self.functions = [one for one in config["dependencies"] if one["backend_fn"]]
        self.inputs = {one["id"]: [kinds[each] for each in one["inputs"]] for one in self.functions}
        self.components = list(kinds)

    def named(self, name: str) -> dict[str, Any]:
        return next(one for one in self.functions if one["api_name"] == name)


def visitor(rng: Random) -> str:
    return f"visitor{rng.randrange(VISITORS)}" if rng.random() < 0.9 else f"new{rng.randrange(10**9)}"


# ------------------------------------------------------------------------------------- the public API

RIGHT = {
    "prompt": "hello",
    "model": None,
    "mode": "mars",
    "tau": 0.9,
    "window": None,
    "max_new_tokens": 2,
    "criterion": "probability",
}


def generate(rng: Random, page: Page) -> Case:
    """A public call with one parameter wrong, or several, or too few."""
    asked = dict(RIGHT)
    for name in rng.sample(list(asked), rng.choice((1, 1, 1, 2, 7))):
        asked[name] = text(rng) if name == "prompt" and rng.random() < 0.5 else value(rng)
    data = list(asked.values())[: rng.choice((7, 7, 7, 7, 3, 0))] + [value(rng)] * rng.choice((0, 0, 0, 2))
    if rng.random() < 0.3:
        return Case("generate", f"{API}/run/generate", body({"data": data}), visitor(rng))
    return Case("generate", f"{API}/call/generate", body({"data": data}), queued=True)


def generate_by_name(rng: Random, page: Page) -> Case:
    """The form of the API that takes parameters by their names."""
    asked = dict(RIGHT) | {rng.choice((*RIGHT, *NAMES)): value(rng)}
    return Case("generate by name", f"{API}/call/v2/generate", body(asked), queued=True)


# ------------------------------------------------------------------------------- the page's own calls


def private(rng: Random, page: Page) -> Case:
    """A function of the page by its number, with any values and any event."""
    while (one := rng.choice(page.functions))["api_name"].rstrip("_0123456789") in LONG_WORK:
        pass
    kinds, hash_ = page.inputs[one["id"]], visitor(rng)
    data: Any = [None if kind == "state" and rng.random() < 0.8 else value(rng) for kind in kinds]
    if rng.random() < 0.15:
        data = data[: rng.randrange(len(data) + 1)] + [value(rng)] * rng.randrange(3)
    asked = {
        "data": data,
        "fn_index": one["id"],
        "session_hash": hash_,
        "trigger_id": rng.choice((None, *page.components)),
        "event_data": event(rng),
    }
    return _sent("private", rng, one, asked)


def _sent(kind: str, rng: Random, one: dict[str, Any], asked: dict[str, Any]) -> Case:
    """To the queue, which has the events of a session in one stream, or beside it."""
    if one["queue"]:
        asked["session_hash"] = f"queue{rng.randrange(10**9)}"
        return Case(kind, f"{API}/queue/join?", body(asked), asked["session_hash"], queued=True)
    return Case(kind, f"{API}/run/predict", body(asked), asked["session_hash"])


def event(rng: Random) -> Any:
    """The data of an event of the stage or of another component."""
    if rng.random() < 0.2:
        return value(rng)
    fields = ("prompt", "tau", "criterion", "messages", "system", "id", "model", "mode", "record", "number")
    found = {name: value(rng) for name in fields if rng.random() < 0.8}
    if rng.random() < 0.3:
        roles = (*NAMES, "system", "user", "assistant")
        found["messages"] = [{"role": rng.choice(roles), "content": text(rng)} for _ in range(3)]
    return found


def whole_calls(rng: Random, page: Page) -> Case:
    """A call whose envelope is wrong."""
    asked: dict[str, Any] = {"data": [], "fn_index": page.functions[0]["id"], "session_hash": visitor(rng)}
    asked[rng.choice((*asked, "trigger_id", "event_id", "batched", "simple_format"))] = value(rng)
    if rng.random() < 0.2:
        asked = rng.choice(([], nested(rng, 5), text(rng), None))
    path = rng.choice(
        (
            "run/predict",
            "queue/join?",
            "call/generate",
            "run/compete",
            f"run/{quote(text(rng)[:40], errors='replace')}",
        )
    )
    return Case("envelope", f"{API}/{path}", body(asked))


def show_pass(rng: Random, page: Page) -> Case:
    """A visitor's own record, to be drawn as a picture."""
    shown = record(rng) if rng.random() < 0.9 else value(rng)
    number = rng.choice((1, 1, 2, value(rng)))
    asked = {"data": [], "session_hash": visitor(rng), "event_data": {"record": shown, "number": number}}
    one = page.named("show_pass")
    return _sent("record", rng, one, asked | {"fn_index": one["id"]})


def compete(rng: Random, page: Page) -> Case:
    """A race whose prompt and system prompt are hostile; its models and modes are right."""
    one, system = page.named("compete"), rng.choice(("", "", text(rng)))
    asked = {"data": [text(rng), None, [], "probability", system, None, None, None], "fn_index": one["id"]}
    return _sent("race", rng, one, asked)


def served(rng: Random, page: Page) -> Case:
    """What the page's scripts ask of the server beside its events."""
    asked = {
        "session_hash": visitor(rng),
        "component_id": rng.choice((*page.components, value(rng))),
        "fn_name": rng.choice(
            ("advice", "recording", "replay_page", "__init__", "load", "get_config", *NAMES, value(rng))
        ),
        "data": rng.choice(
            (value(rng), event(rng), {"model": "mars-tiny", "prompt": text(rng)}, record(rng))
        ),
    }
    return Case("component server", f"{API}/component_server", body(asked))


# ------------------------------------------------------------------------------------------- the rest


def address(rng: Random, page: Page) -> Case:
    """An address with broken fields: of the page, or of the calls with which it opens its tabs."""
    fields = """tab run prompt model mode tau criterion wait chapter lane pass view __theme
        mask_kind mask_length mask_block_size mask_layer mask_lens mask_sentence""".split()
    query = {name: _short(value(rng)) for name in rng.sample(fields, rng.randrange(1, 6))}
    written = urlencode(query, errors="replace")
    if rng.random() < 0.2:
        return Case("address", f"/?{written}")
    names = ("arrive", "list_models", "opened", "turn", "open_tab")
    one = page.named(rng.choice(names))
    data = [None] * len(page.inputs[one["id"]])
    asked = {"data": data, "fn_index": one["id"], "session_hash": visitor(rng)}
    return Case("address", f"{API}/run/predict?{written}", body(asked))


def _short(found: Any) -> str:
    try:
        return str(found)[:2000]
    except (ValueError, RecursionError):
        return "9" * 5000


def path(rng: Random, page: Page) -> Case:
    """Files and routes that are nobody's business."""
    wanted = quote(rng.choice((*PATHS, "../" * 12 + "canary", text(rng)[:80])), safe="/%", errors="replace")
    starts = """file= file/ proxy= stream/ custom_component/ deep_link? call/generate/ reset/
        theme.css?""".split()
    root = rng.choice((f"{API}/", f"{API}/", "/", "/assets/", "/static/", "/svelte/"))
    return Case("path", f"{root}{rng.choice(starts)}{wanted}")


def junk(rng: Random, page: Page) -> Case:
    """Bytes that are not what the route reads."""
    routes = """run/predict queue/join call/generate component_server reset cancel upload mcp/
        process_recording stream/x""".split()
    sent = rng.choice((b"", b"\xff\xfe\0", b"{", b'{"data": [', body(nested(rng, 900)), rng.randbytes(200)))
    sent = rng.choice(
        (sent, b"[" * 100_000, b'{"data": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", body(value(rng)))
    )
    kinds = (
        "application/json",
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=x",
        "x/y",
        "",
    )
    return Case("junk", f"{API}/{rng.choice(routes)}", sent, headers={"content-type": rng.choice(kinds)})


def tool(rng: Random, page: Page) -> Case:
    """Calls of the tool that other models have."""
    call = {
        "name": rng.choice(("generate", text(rng))),
        "arguments": dict(RIGHT) | {rng.choice((*RIGHT, "x")): value(rng)},
    }
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": rng.choice((call, call, value(rng))),
    }
    accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return Case("tool", f"{API}/mcp/", body(asked), headers=accepted)


# Of every kind so many.
KINDS: dict[Callable[[Random, Page], Case], int] = {
    generate: 12,
    generate_by_name: 4,
    private: 40,
    whole_calls: 6,
    show_pass: 12,
    compete: 2,
    served: 8,
    address: 8,
    path: 6,
    junk: 6,
    tool: 2,
}
