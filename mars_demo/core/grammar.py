"""The grammar of an answer: the shape that its text must have."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, with_config

from mars_demo.core.fields import STRICT, UNLESS_EMPTY

LONGEST = 50_000  # characters of a grammar
KINDS = {  # with the names of their texts
    "json": "JSON schema",
    "regex": "regular expression",
    "choice": "list of choices, one per line",
    "lark": "grammar in llguidance's Lark syntax",
}


@with_config(STRICT)
@dataclass(frozen=True)
class Grammar:
    """The grammar of an answer. kind: of `KINDS`, which say what the text is.

    compact: whether JSON has no white space outside of its strings; otherwise the model chooses.
    """

    kind: Literal[tuple(KINDS)]
    text: Annotated[str, Field(min_length=1, max_length=LONGEST)]
    compact: Annotated[bool, UNLESS_EMPTY] = False
