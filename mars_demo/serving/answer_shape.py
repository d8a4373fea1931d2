"""The shape of an answer in a chat request: the fields of OpenAI and of vLLM."""

import json
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic does not support that of Python 3.11

from mars_demo.core import fields as types
from mars_demo.core.grammar import Grammar

KINDS = {"choice": "choice", "regex": "regex", "json": "json", "grammar": "lark"}  # of vLLM's fields
Schema = Annotated[dict[str, Any], AfterValidator(lambda schema: json.dumps(schema, ensure_ascii=False))]


@with_config(types.STRICT)
class JsonSchema(TypedDict):
    """OpenAI's JSON schema, which answers always follow strictly."""

    name: types.Name
    schema: Schema
    description: NotRequired[types.Text | None]
    strict: NotRequired[bool | None]


@with_config(types.STRICT)
class ResponseFormat(TypedDict):
    """OpenAI's shape of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NotRequired[JsonSchema | None]


@with_config(ConfigDict(strict=True, extra="allow"))
class StructuredOutputs(TypedDict, total=False):
    """vLLM's shape of an answer; `grammar_of` checks that it is exactly one."""

    choice: list[str] | None
    regex: str | None
    json: Schema | str | None
    grammar: str | None
    disable_any_whitespace: bool


def grammar_of(form: ResponseFormat | None, outputs: StructuredOutputs | None) -> Grammar | None:
    """Return the grammar of an answer; None for any text.

    Raises:
        ValueError: if there are both fields, or one has not exactly one supported grammar.
    """
    if form is not None and outputs is not None:
        raise ValueError("A request cannot have both response_format and structured_outputs.")
    if outputs is not None:
        return _structured(outputs)
    if form is None or form["type"] == "text":
        return None
    if form["type"] == "json_object":
        return Grammar("json", '{"type": "object"}')
    if schema := form.get("json_schema"):
        return Grammar("json", schema["schema"])
    raise ValueError("response_format.json_schema is missing.")


def _structured(outputs: StructuredOutputs) -> Grammar:
    # Clients of vLLM send all of its fields, most of them empty.
    given = {name: value for name, value in outputs.items() if value not in (None, False)}
    compact = given.pop("disable_any_whitespace", False)
    if len(given) != 1 or not given.keys() <= KINDS.keys():
        allowed = f"exactly one of {', '.join(KINDS)}, and only disable_any_whitespace beside it"
        raise ValueError(f"structured_outputs must have {allowed}.")
    [(name, value)] = given.items()
    if name == "choice":
        return Grammar.of_choices(value)
    return Grammar(KINDS[name], value, compact and name == "json")
