"""Types of the fields of records and HTTP requests, and error sentences for invalid values.

`trace` declares the lines of a record with these types, and the HTTP APIs their parameters. pydantic
validates them.
"""

import re
import reprlib
from dataclasses import field
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict  # pydantic does not support that of Python 3.11

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.limits import LIMITS
from mars_demo.core.messages import ROLES
from mars_demo.core.modes import MODES

SCHEMA = 2
NO_RECORD = f"This is not a run record of schema {SCHEMA}"

# The sources of accepted tokens, with descriptions.
SOURCES = {
    "model": "the model's own next token",
    "mask": "predicted by a mask",
    "copy": "n-gram draft from earlier text",
    "guess": "guessed by the previous forward",
    "draft": "drafted by the second model",
    "forced": "the only one that the grammar allows",
}

MOST_LINES = 6000  # lines of a record
LONGEST_LINE = 2_500_000  # characters of a line, checked before it is parsed
MOST_SLOTS = 50_000  # slots of a record
WIDEST = 256  # slots of a window

Model = TypeVar("Model", bound=BaseModel)
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def at_most(most: int) -> Any:
    """Return the annotation of a list of at most `most` items; validation stops at the first error."""
    return Field(max_length=most, fail_fast=True)


def rounded(digits: int) -> PlainSerializer:
    """Return the annotation of a number that is written with `digits` decimal places."""
    return PlainSerializer(lambda number: round(number, digits))


UNLESS_EMPTY = Field(exclude_if=lambda value: not value)
UNLESS_NONE = Field(exclude_if=lambda value: value is None)


def _allowed(tokens: int) -> int:
    if tokens > LIMITS.answer:
        raise ValueError(f"must be at most {LIMITS.answer}")
    return tokens


Name = Annotated[str, Field(max_length=1000)]  # a name, or the text of a token
Text = Annotated[str, Field(max_length=200_000)]  # a prompt or a message
Id = Annotated[int, Field(ge=0, lt=2**31)]
Tokens = Annotated[int, Field(ge=0, le=10_000_000)]
NewTokens = Annotated[int, Field(ge=1), AfterValidator(_allowed)]
Slots = Annotated[int, Field(ge=1)]  # of a requested window; the mode sets the maximum
Width = Annotated[int, Field(ge=1, le=WIDEST)]
Count = Annotated[int, Field(ge=0, le=2 * WIDEST)]
Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0, le=2)]
TopP = Annotated[float, Field(gt=0, le=1)]
TopK = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Score = Annotated[Share, rounded(6)]
Duration = Annotated[float, Field(ge=0, le=10**9)]
Ms = Annotated[Duration, rounded(3)]
Mode = Literal[tuple(MODES)]
Criterion = Literal[tuple(CRITERIA)]
Source = Literal[tuple(SOURCES)]
Schema = Literal[SCHEMA]
Candidates = Annotated[tuple[tuple[Name, Score], ...], at_most(64)]
Ids = Annotated[tuple[Id, ...], at_most(64)]
Costs = Annotated[list[tuple[Tokens, Ms]], at_most(64)]


@with_config(STRICT)
class RecordedMessage(TypedDict):
    """A message of the conversation; `mode` is the mode of the run that an answer comes from."""

    role: Literal[ROLES]
    content: Text
    mode: NotRequired[Name]


Messages = Annotated[list[RecordedMessage], at_most(1000)]


@with_config(STRICT)
class RecordedSampling(TypedDict, total=False):
    """The fields of `sampling.Sampling`."""

    temperature: Annotated[float, Field(ge=0, le=10**6)]
    top_p: Share
    top_k: Tokens
    seed: Seed


def parameter(default: Any, kind: Any, explained: str) -> Any:
    """Return a dataclass field that users set: in Python, on the command line or over HTTP.

    kind: the type of its valid values. explained: its help.
    """
    return field(default=default, metadata={"kind": kind, "help": explained})


# ------------------------------------------------------------------------------------------------- errors


def problem(error: ValidationError) -> tuple[str, str]:
    """Return the first invalid field, such as `slots[1].score`, and a sentence without a period."""
    [first, *_] = error.errors(include_url=False)
    path = ((f"[{part}]" if isinstance(part, int) else f".{part[:40]}") for part in first["loc"])
    place = "".join(path).removeprefix(".")
    if first["type"] == "missing":
        return place, f"{place} is missing"
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return place, f"{place} is an unknown field"
    words = re.sub(r"^(Value error, |\w+ (?=should ))", "", first["msg"])
    words = re.sub("^should", "must", words)
    value = f", not {reprlib.repr(first['input'])}" if words.startswith("must be") else ""
    return place, f"{place} {words}{value}".strip()


def validated(kind: type[Model], values: Any) -> Model:
    """Return untrusted values as a validated model.

    Raises:
        ValueError: with a sentence about the first invalid field.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{problem(error)[1]}.") from None
