"""Whether a prompt is outside what a small model was trained on.

A model of a few closed worlds answers anything and can be sure of its nonsense, so its confidence hardly
tells (`benchmarks.outside` measures that). What tells is the prompt: the share of its pairs of neighbouring
words that the training prompts have too is near 1 inside the worlds and falls outside them. These pairs,
and the share from which on a prompt counts as inside, are data that the benchmark writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parents[1] / "assets"
MEASURED = ASSETS / "results" / "outside.json"


def words(text: str) -> list[str]:
    """The words and signs of a text in lower case; every number is the same word."""
    return re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_", re.sub(r"\d+", "0", text.lower()))


def pairs(prompt: str) -> list[tuple[str, str]]:
    """Its neighbouring words, the prompt's start and end, `""`, included."""
    return list(pairwise(["", *words(prompt), ""]))


def followers(prompts: Iterable[str]) -> dict[str, list[str]]:
    """Their pairs: after each word the words that follow it somewhere."""
    found: dict[str, set[str]] = {}
    for prompt in prompts:
        for first, second in pairs(prompt):
            found.setdefault(first, set()).add(second)
    return {first: sorted(found[first]) for first in sorted(found)}


def familiarity(prompt: str, followers: dict[str, Iterable[str]], shortest: int) -> float:
    """The share, from 0 to 1, of a prompt's pairs that are among these; a prompt with fewer pairs than the
    `shortest` of the training prompts lacks those too.
    """
    found = pairs(prompt)
    return sum(second in followers.get(first, ()) for first, second in found) / max(len(found), shortest)


def advice(settings: Mapping[str, Any]) -> dict[str, str] | None:
    """For a run, by its `model` and `prompt`, whose prompt is outside what the model was trained on: the
    most similar of the model's examples, as `title` and `prompt`. None for a prompt inside, and for a model
    of which nothing was measured.
    """
    measured, model, prompt = _measured(), settings.get("model"), settings.get("prompt")
    if model != measured["model"] or not isinstance(prompt, str):
        return None
    if familiarity(prompt, measured["followers"], measured["shortest"]) >= measured["inside_from"]:
        return None
    examples = [e for e in json.loads((ASSETS / "prompts.json").read_text("utf-8")) if e["model"] == model]
    nearest = max(examples, key=lambda example: _overlap(prompt, example["prompt"]))
    return {"title": nearest["title"], "prompt": nearest["prompt"]}


def _overlap(one: str, other: str) -> float:
    """Words in common ÷ words of either."""
    a, b = ({word for word in words(text) if word.isalnum()} for text in (one, other))
    return len(a & b) / max(1, len(a | b))


@cache
def _measured() -> dict[str, Any]:
    measured = json.loads(MEASURED.read_text("utf-8"))
    # Words hold no spaces; the end of a prompt is the empty word.
    followers = {first: set(found.split(" ")) for first, found in measured["followers"].items()}
    return measured | {"followers": followers}
