"""The shape of an answer in a chat request: OpenAI's `response_format` or vLLM's `structured_outputs`."""

import json
from typing import Any

from mars_demo.core.grammar import Grammar


def grammar_of(form: dict[str, Any] | None, outputs: dict[str, Any] | None) -> Grammar | None:
    """Return the grammar of an answer, None for any text; a `ValueError` says which field is not valid."""
    if form is not None and outputs is not None:
        raise ValueError("A request cannot have both response_format and structured_outputs.")
    if outputs is not None:
        return _structured(outputs)
    match form:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return Grammar("json", '{"type": "object"}')
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return Grammar("json", json.dumps(schema, ensure_ascii=False))
    raise ValueError("response_format.type must be text, json_object or json_schema with its schema.")


def _structured(outputs: dict[str, Any]) -> Grammar:
    # Clients of vLLM send all of its fields, most of them empty.
    given = {name: value for name, value in outputs.items() if value not in (None, False)}
    compact = given.pop("disable_any_whitespace", False) is True
    match [*given.items()]:
        case [("choice", [*choices])] if all(isinstance(choice, str) for choice in choices):
            return Grammar.of_choices(choices)
        case [("json", dict() | str() as schema)]:
            text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
            return Grammar("json", text, compact)
        case [("regex" | "grammar" as name, str(text))]:
            return Grammar("lark" if name == "grammar" else name, text)
    allowed = "one choice (list of texts), regex, json (schema) or grammar (Lark)"
    raise ValueError(f"structured_outputs must have {allowed}; beside it, only disable_any_whitespace.")
