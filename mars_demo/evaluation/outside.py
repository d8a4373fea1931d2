"""Whether a prompt is outside what a small model was trained on.

A model of a few closed worlds answers anything and can be confident of nonsense, so its confidence is a
bad signal (`benchmarks.outside` measures that). The prompt is a good one: the share of its pairs of
neighbouring words that also occur in training prompts is near 1 inside the worlds and lower outside them.
These pairs and the smallest share that counts as inside are data that the benchmark writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from mars_demo.assets import read_json
from mars_demo.limits import LIMITS


def words(text: str) -> list[str]:
    """The words and punctuation marks of a text in lower case; every number is the same word."""
    return re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_", re.sub(r"\d+", "0", text.lower()))


def pairs(prompt: str) -> list[tuple[str, str]]:
    """Its neighbouring words, the prompt's start and end, `""`, included."""
    return list(pairwise(["", *words(prompt), ""]))


def followers(prompts: Iterable[str]) -> dict[str, list[str]]:
    """The pairs of all prompts: for each word the words that follow it somewhere."""
    found: dict[str, set[str]] = {}
    for prompt in prompts:
        for first, second in pairs(prompt):
            found.setdefault(first, set()).add(second)
    return {first: sorted(found[first]) for first in sorted(found)}


def familiarity(prompt: str, followers: dict[str, Iterable[str]], shortest: int) -> float:
    """The share, from 0 to 1, of a prompt's pairs that are among these. A prompt with fewer pairs than the
    `shortest` training prompt counts as if the others were unknown.
    """
    found = pairs(prompt)
    return sum(second in followers.get(first, ()) for first, second in found) / max(len(found), shortest)


def advice(settings: Any) -> dict[str, str] | None:
    """For a run whose prompt is outside what its model was trained on: the most similar of the model's
    examples, as `title` and `prompt`. None for a prompt inside, and for models that were not measured.
    These were trained on single prompts, so one that continues a conversation is outside.

    settings: the run's, of which `model`, `prompt` and `messages` are read. They come from a browser, which
        may send anything.
    """
    known = settings if isinstance(settings, Mapping) else {}
    measured, model, prompt = _measured(), known.get("model"), known.get("prompt")
    if model != measured["model"] or not isinstance(prompt, str) or len(prompt) > LIMITS.prompt:
        return None
    inside = familiarity(prompt, measured["followers"], measured["shortest"]) >= measured["inside_from"]
    if inside and not known.get("messages"):
        return None
    examples = [e for e in read_json("prompts.json") if e["model"] == model]
    nearest = max(examples, key=lambda example: _overlap(prompt, example["prompt"]))
    return {"title": nearest["title"], "prompt": nearest["prompt"]}


def _overlap(one: str, other: str) -> float:
    """Words in common ÷ words of either."""
    a, b = ({word for word in words(text) if word.isalnum()} for text in (one, other))
    return len(a & b) / max(1, len(a | b))


@cache
def _measured() -> dict[str, Any]:
    measured = read_json("results", "outside.json")
    # Words hold no spaces; the end of a prompt is the empty word.
    followers = {first: set(found.split(" ")) for first, found in measured["followers"].items()}
    return measured | {"followers": followers}
