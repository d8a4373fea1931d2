"""What the lines of a run's record may hold: a table, and the check of a line against it.

`LINES` is JSON Schema, of which only the words below are used. The page gets the same table and checks with
`ui/components/stage/schema.js`, so that both readers accept the same records and say the same of the
others. Texts are hostile until they have passed: a record may come from anywhere.
"""

from __future__ import annotations

import math
import re
from typing import Any

from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.models.messages import ROLES
from mars_demo.modes import MODES

SCHEMA = 2
READABLE = (1, SCHEMA)  # schema 1 had one criterion, the probability, and called the score `confidence`

# Where a token came from before it was accepted, and how that is said of it.
SOURCES = {
    "model": "the model's own next token",
    "mask": "predicted by a mask",
    "copy": "repeats earlier text",
    "guess": "guessed by the forward before",
    "draft": "made by the second model",
}

MOST_LINES = 6000  # of a record
MOST_SLOTS = 50_000  # of all its forwards
MOST_GIVEN = 10_000  # tokens that an answer begins with
WIDEST = 256  # slots of a window
LONG, SHORT = 200_000, 1000  # characters: of a prompt or a message, and of a token or a name

_SURROGATE = re.compile("[\ud800-\udfff]")


# ----------------------------------------------------------------------------- how the table is written


def _number(least: float, most: float, kind: str = "number") -> dict[str, Any]:
    noun = {"number": "a number", "integer": "a whole number"}[kind]
    return {
        "type": kind,
        "minimum": least,
        "maximum": most,
        "description": f"{noun} from {least} to {most}",
    }


def _count(most: int, least: int = 0) -> dict[str, Any]:
    return _number(least, most, "integer")


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, "description": f"a text of at most {most} characters"}


def _one_of(*values: Any) -> dict[str, Any]:
    return {"enum": list(values), "description": f"one of {', '.join(map(str, values))}"}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema | {"type": [schema["type"], "null"], "description": f"{schema['description']} or null"}


def _list(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most, "description": f"a list of at most {most}"}


def _pair(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = {"prefixItems": [first, second], "minItems": 2, "maxItems": 2}
    return {"type": "array", "description": "a pair"} | both


def _object(
    required: dict[str, Any], optional: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "an object",
        "required": list(required),
        "properties": required | (optional or {}),
        "additionalProperties": False,
    } | more


# ------------------------------------------------------------------------------------------- the table

_SHARE = _number(0, 1)
_TOKENS = _count(10_000_000)
_MS = _number(0, 10**9)
_TAU = _or_null(_SHARE)
_MODE = _one_of(*MODES)
_STOP = _or_null(_text(SHORT))

_ID = _count(2**31 - 1)
_SLOT = _object(
    {"id": _ID, "text": _text(SHORT), "top": _list(_pair(_text(SHORT), _SHARE), 64)},
    {"score": _SHARE, "confidence": _SHARE, "source": _one_of(*SOURCES), "candidates": _list(_ID, 64)},
    oneOf=[{"required": ["score"]}, {"required": ["confidence"]}],
)
_MESSAGE = _object({"role": _one_of(*ROLES), "content": _text(LONG)}, {"mode": _text(SHORT)})
_SAMPLING = _object(
    {},
    {
        "temperature": _number(0, 10**6),
        "top_p": _SHARE,
        "top_k": _TOKENS,
        "seed": _number(-(2**63), 2**63, "integer"),
    },
)

_BRANCH = _object(
    {"of": _or_null(_text(SHORT)), "at": _TOKENS, "given": _list(_pair(_ID, _text(SHORT)), MOST_GIVEN)}
)

# What each kind of line is, by the field that only this kind has.
LINES: dict[str, dict[str, Any]] = {
    "recording": _object({"recording": _text(SHORT), "title": _text(SHORT), "note": _text(LONG)}),
    "run": _object(
        {
            "run": _text(SHORT),
            "schema": _one_of(*READABLE),
            "mode": _MODE,
            "model": _text(SHORT),
            "window": _count(WIDEST, 1),
            "block_size": _or_null(_count(WIDEST, 1)),
            "tau": _TAU,
            "prompt": _text(LONG),
            "prompt_tokens": _TOKENS,
            "device": _text(SHORT),
            "dtype": _text(SHORT),
            "max_new_tokens": _TOKENS,
        },
        {
            "criterion": _one_of(*CRITERIA),
            "sampling": _SAMPLING,
            "raw": {"type": "boolean", "description": "true or false"},
            "gpu": _text(SHORT),
            "messages": _list(_MESSAGE, 1000),
            "cached_tokens": _TOKENS,
            "costs": _list(_pair(_TOKENS, _MS), 64),
            "branch": _BRANCH,
        },
    ),
    "pass": _object(
        {
            "pass": _count(10_000_000, 1),
            "tau": _TAU,
            "positions": _TOKENS,
            "ms": _MS,
            "accepted": _count(2 * WIDEST),
            "stop": _STOP,
            "slots": _list(_SLOT, 2 * WIDEST),
        },
        {
            "drafts": _count(2 * WIDEST),
            "verified": _count(2 * WIDEST),
            "groups": _or_null(_count(2 * WIDEST)),
            "draft_forwards": _count(2 * WIDEST),
            "model_ms": _MS,
            "read_ms": _MS,
        },
        dependentRequired={"drafts": ["verified", "groups"], "model_ms": ["read_ms"]},
    ),
    "done": _object(
        {"done": _one_of(True), "tokens": _TOKENS, "forwards": _TOKENS, "seconds": _MS, "stop": _STOP},
        {"commits": _TOKENS},
    ),
}


# ------------------------------------------------------------------------------------------- the check


def checked(record: Any) -> str:
    """Which kind of line of `LINES` a parsed line is.

    Raises:
        ValueError: if it is none of them, in words that name its field.
    """
    kind = next((kind for kind in LINES if isinstance(record, dict) and kind in record), None)
    if kind is None:
        raise ValueError("it is neither settings nor forward nor end of a run")
    if wrong := _fault(record, LINES[kind], ""):
        raise ValueError(wrong)
    if kind == "pass" and record["accepted"] > len(record["slots"]):
        raise ValueError("accepted is larger than the number of its slots")
    return kind


def _fault(value: Any, schema: dict[str, Any], at: str) -> str | None:
    """What is wrong with a value, in words; None if nothing is."""
    if not _is_plain(value, schema):
        return f"{at or 'the line'} must be {schema['description']}"
    if isinstance(value, dict):
        return _object_fault(value, schema, f"{at}." if at else "")
    if isinstance(value, list):
        parts = schema.get("prefixItems") or [schema["items"]] * len(value)
        found = (_fault(one, part, f"{at}[{i}]") for i, (one, part) in enumerate(zip(value, parts)))
        return next(filter(None, found), None)
    return None


def _is_plain(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value has the schema's type and size, whatever is in it."""
    if "enum" in schema:
        return any(value is one or (type(value) is type(one) and value == one) for one in schema["enum"])
    kind, *null = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if value is None:
        return bool(null)
    if kind in ("number", "integer"):
        fits = type(value) is int or (kind == "number" and type(value) is float and math.isfinite(value))
        return fits and schema["minimum"] <= value <= schema["maximum"]
    if kind == "string":
        return isinstance(value, str) and len(value) <= schema["maxLength"] and _is_whole(value)
    if kind == "array":
        return isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= schema["maxItems"]
    return isinstance(value, {"object": dict, "boolean": bool}[kind])


def _is_whole(text: str) -> bool:
    """Whether no surrogate in it lacks its other half."""
    return text.isascii() or not _SURROGATE.search(text)


def _object_fault(value: dict[str, Any], schema: dict[str, Any], start: str) -> str | None:
    properties = schema["properties"]
    for name in value:
        if name not in properties:
            shown = _SURROGATE.sub("\ufffd", name[:40])
            return f"{start}“{shown}” is no field that it may have"
    needed = [*schema["required"]]
    for name, others in schema.get("dependentRequired", {}).items():
        needed += others if name in value else []
    for name in needed:
        if name not in value:
            return f"{start}{name} is missing"
    choices = [each["required"][0] for each in schema.get("oneOf", ())]
    if choices and sum(name in value for name in choices) != 1:
        return f"{start}{choices[0]} is missing"
    found = (_fault(one, properties[name], f"{start}{name}") for name, one in value.items())
    return next(filter(None, found), None)
