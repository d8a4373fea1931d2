"""A check that models answer the examples of the app and of the documents right.

    PYTHONPATH=. python .ci/examples.py

answers each prompt alone with AR and with MARS, in the app's precision, prints a line per complaint and
exits with 1 if there is one.

What is right is data: assets/prompts.json has the app's examples, .ci/examples.json further prompts of
README.md and docs/. An entry has a `prompt`, its `model`, and

- `answer`, the exact answer, or `includes`, a list of texts that the answer must contain,
- `"fast": true` if MARS at τ = 0.95 must accept at least two tokens per forward,
- perhaps `shape` and `grammar`, which the answer follows,
- perhaps `tau`, another one that a document shows, and `messages`, the conversation before the prompt.

Looping answers are wrong.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from mars_demo.core.assets import read_json
from mars_demo.core.grammar import Grammar
from mars_demo.core.loops import is_loop
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.load import load_checkpoint

TAU = Request.tau
FAST = 2  # tokens per forward
FURTHER = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
ENTRIES = [*read_json("prompts.json"), *FURTHER]

loaded = cache(load_checkpoint)


def wrong(entry: dict, answer: str) -> str | None:
    """Return what is wrong with an answer; None if it is right."""
    if is_loop(answer):
        return f"repeats itself: … {answer[-60:]!r}"
    if "answer" in entry:
        return None if answer == entry["answer"] else f"is {answer!r}"
    missing = [text for text in entry["includes"] if text not in answer]
    return f"lacks {missing[0]!r}: {answer!r}" if missing else None


def failures(entry: dict) -> Iterator[str]:
    """Answer a prompt with AR and with MARS; yield what is wrong with the answers."""
    for tau in dict.fromkeys([None, TAU, entry.get("tau", TAU)]):
        request = Request("ar") if tau is None else Request("mars", tau)
        if "shape" in entry:
            request = replace(request, grammar=Grammar(entry["shape"], entry["grammar"]))
        messages = entry.get("messages", [])
        run = decode(loaded(entry["model"]), entry["prompt"], request, messages=messages).finish()
        mode = "AR" if tau is None else f"MARS at τ = {tau:g}"
        place = f"{entry['model']}, {entry['prompt']!r}: the answer of {mode}"
        if complaint := wrong(entry, run.text):
            yield f"{place} {complaint}"
        if tau == TAU and entry.get("fast") and run.tokens_per_forward < FAST:
            yield f"{place} has {run.tokens_per_forward:.2f} tokens per forward; {FAST} are expected"


if __name__ == "__main__":
    failed = False
    for complaint in (complaint for entry in ENTRIES for complaint in failures(entry)):
        print(complaint, file=sys.stderr, flush=True)
        failed = True
    sys.exit(failed)
