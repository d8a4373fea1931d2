"""Verifiable instructions: format, length, inclusion, arithmetic and lists.

They measure how well a chat model follows instructions. `assets/checks.json` has them, each a prompt with
named checks that must all hold.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mars_demo.core.assets import read_json


@dataclass(frozen=True)
class Instruction:
    """A prompt with named checks of its answer and their arguments."""

    id: str
    prompt: str
    checks: dict[str, Any]

    def holds(self, answer: str) -> bool:
        """Return whether an answer passes all checks; an empty one fails."""
        return bool(answer.strip()) and all(
            CHECKS[name](answer, argument) for name, argument in self.checks.items()
        )


def instructions() -> list[Instruction]:
    return [Instruction(**entry) for entry in read_json("checks.json")]


_SENTENCE_ENDS = re.compile(r"[.!?]+(?=\s|$)")
# A dash, a bullet or a number at the beginning of a line.
_ITEM_STARTS = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*\S", re.MULTILINE)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text)


def has(text: str, part: str) -> bool:
    """Return whether a text has a word that begins with `part`; numbers and signs must match exactly."""
    if part.isdigit():
        return re.search(rf"(?<![\d.,]){part}(?![\d]|[.,]\d)", text) is not None
    if not part[0].isalnum():
        return part in text
    return re.search(rf"\b{re.escape(part)}", text, re.IGNORECASE) is not None


CHECKS: dict[str, Callable[[str, Any], bool]] = {
    "includes": lambda answer, parts: all(has(answer, part) for part in parts),
    "includes_exact": lambda answer, parts: all(part in answer for part in parts),
    "excludes": lambda answer, parts: (
        not any(re.search(rf"\b{part}\b", answer, re.IGNORECASE) for part in parts)
    ),
    "one_of": lambda answer, parts: any(has(answer, part) for part in parts),
    "max_words": lambda answer, count: len(words(answer)) <= count,
    "min_words": lambda answer, count: len(words(answer)) >= count,
    "max_sentences": lambda answer, count: 1 <= len(_SENTENCE_ENDS.findall(answer.strip())) <= count,
    "items": lambda answer, count: len(_ITEM_STARTS.findall(answer)) == count,
    "starts_with": lambda answer, start: answer.lstrip().startswith(start),
}
