"""The grammar of an answer: the shape that its text must have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import with_config

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

    Raises:
        ValueError: if the text is empty or too long.
    """

    kind: Literal[tuple(KINDS)]
    text: str
    compact: Annotated[bool, UNLESS_EMPTY] = False

    def __post_init__(self):
        if not 1 <= len(self.text) <= LONGEST:
            raise ValueError(f"A grammar must have 1 to {LONGEST} characters, not {len(self.text)}.")

    @classmethod
    def of_choices(cls, choices: Sequence[str]) -> Self:
        """Return the grammar of a list of choices; a `ValueError` names one that is not a stripped line."""
        if wrong := [choice for choice in choices if choice.strip().splitlines() != [choice]]:
            raise ValueError(f"A choice must be a line without spaces around it, not {wrong[0]!r:.60}.")
        return cls("choice", "\n".join(choices))
