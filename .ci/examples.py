"""A check that models answer the examples of the app and of the documents right.

    PYTHONPATH=. python .ci/examples.py

answers each prompt alone with AR and with MARS, in the app's precision, prints a line per complaint and
exits with 1 if there is one. MARS decodes at τ = 0.95, and at another τ that a document shows.

What is right is data: assets/prompts.json has the app's examples, .ci/examples.json further prompts of
README.md and docs/. An entry has a `prompt`, its `model`, and

- `answer`, the exact answer, or `includes`, a list of texts that the answer must contain,
- `"fast": true` if MARS at τ = 0.95 must accept at least two tokens per forward.

Looping answers are wrong. A document's prompt needs an entry for its model, unless that model is not in the
repository, and an entry of .ci/examples.json needs a document that shows its prompt.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import DOCUMENTS, ROOT
from mars_demo.core.assets import read_json
from mars_demo.core.names import bundled
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.load import load_checkpoint
from mars_demo.training.distillation import is_loop

TAU = Request.tau
FAST = 2  # tokens per forward
APP = read_json("prompts.json")
FURTHER = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))

FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
TEXT = r'"((?:[^"\\]|\\.)*)"'
COMMAND = re.compile(rf"mars[-_]demo generate {TEXT}(.*)")
CODE = (  # each with what follows the prompt
    re.compile(rf"decode\(checkpoint, {TEXT}(.*)"),
    re.compile(rf"client\.\w+\(\s*{TEXT}(.*)"),
    re.compile(rf'\[\{{"role": "user", "content": {TEXT}\}}\]([^`]*)'),
)
BATCH = re.compile(r"prompts = (\[.*?\])", re.DOTALL)
HISTORY = re.compile(r"history = (\[.*?\])", re.DOTALL)
MODEL = re.compile(r'(?:--model |"model": |model=|load_checkpoint\()"?([^"\s)]+)')
THRESHOLD = re.compile(r'(?:--tau |"tau": |tau=)([\d.]+)')
QUERY = re.compile(r"`\?([^`]*\bprompt=[^`]*)`")

loaded = cache(load_checkpoint)


class Shown(NamedTuple):
    """A prompt of a document, with the model and τ beside it, and its earlier messages as JSON."""

    prompt: str
    model: str
    tau: float = TAU
    history: str = "[]"


def shown(text: str) -> Iterator[Shown]:
    """Yield the prompts of a document, except those for models outside the repository."""
    for block in FENCED.findall(text):
        for prompt, beside, scope in _prompts(block):
            model, tau = MODEL.search(scope), THRESHOLD.search(beside)
            name = model[1] if model else bundled()[0]
            talk = HISTORY.search(block) if "messages=history" in beside else None
            history = json.dumps(ast.literal_eval(talk[1]) if talk else [])
            if name in bundled():
                yield Shown(prompt, name, float(tau[1]) if tau else TAU, history)
    for query in QUERY.findall(text):
        named = dict(part.split("=") for part in query.split("&"))
        entry = next(one for one in APP if one["id"] == named["prompt"])
        yield Shown(entry["prompt"], entry["model"], float(named.get("tau", TAU)))


def _prompts(block: str) -> Iterator[tuple[str, str, str]]:
    """Yield the prompts of a code block, each with the text that may name its τ, and its model."""
    for prompt, options in COMMAND.findall(block):
        yield prompt, options, options
    for pattern in CODE:
        for prompt, beside in pattern.findall(block):
            yield json.loads(f'"{prompt}"'), beside, block
    for prompts in BATCH.findall(block):
        yield from ((prompt, block, block) for prompt in ast.literal_eval(prompts))


def wrong(entry: dict, answer: str) -> str | None:
    """Return what is wrong with an answer; None if it is right."""
    if is_loop(answer):
        return f"repeats itself: … {answer[-60:]!r}"
    if "answer" in entry:
        return None if answer == entry["answer"] else f"is {answer!r}"
    missing = [text for text in entry["includes"] if text not in answer]
    return f"lacks {missing[0]!r}: {answer!r}" if missing else None


def failures(entry: dict, tau: float | None, history: str) -> Iterator[str]:
    """Answer a prompt with MARS, or with AR if τ is None; yield what is wrong with the answer."""
    request = Request("ar") if tau is None else Request("mars", tau)
    messages = json.loads(history)
    run = decode(loaded(entry["model"]), entry["prompt"], request, messages=messages).finish()
    mode = "AR" if tau is None else f"MARS at τ = {tau:g}"
    place = f"{entry['model']}, {entry['prompt']!r}: the answer of {mode}"
    if complaint := wrong(entry, run.text):
        yield f"{place} {complaint}"
    if tau == TAU and entry.get("fast") and run.tokens_per_forward < FAST:
        yield f"{place} has {run.tokens_per_forward:.2f} tokens per forward; {FAST} are expected"


def complaints() -> Iterator[str]:
    """Check all examples."""
    entries = {(entry["prompt"], entry["model"]): entry for entry in (*APP, *FURTHER)}
    # Each prompt in each way to decode it, in order: AR, then MARS.
    requests = {key: {("[]", None): 0, ("[]", TAU): 0} for key in entries}
    unused = {(entry["prompt"], entry["model"]) for entry in FURTHER}
    for name in DOCUMENTS:
        for one in shown((ROOT / name).read_text("utf-8")):
            key = one.prompt, one.model
            if key not in entries:
                yield f"{name}: {one.prompt!r} for {one.model} has no entry in .ci/examples.json"
                continue
            if one.history != "[]" and key in unused:
                requests[key] = {}
            unused.discard(key)
            requests[key] |= {(one.history, tau): 0 for tau in (None, TAU, one.tau)}
    for prompt, model in unused:
        yield f".ci/examples.json: no document shows {prompt!r} for {model}"
    for key, ways in requests.items():
        for history, tau in ways:
            yield from failures(entries[key], tau, history)


if __name__ == "__main__":
    failed = False
    for complaint in complaints():
        print(complaint, file=sys.stderr, flush=True)
        failed = True
    sys.exit(failed)
