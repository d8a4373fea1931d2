"""Runs of the live page's decoder, compared with those of `decode`.

`expected` decodes in Python; `check_lines` compares the worker's lines, up to a tie: if the two best tokens
of a slot, or a score and τ, lie within `TIE` of each other, rounding decides, and the comparison ends.
"""

import json
import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from greedy import TIE

from mars_demo.core.trace import Pass, Run, Slot, read_text
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.tasks import mixed

TAUS = (0.95, 0.5, 0.8, 0.99)
SCORE_TOLERANCE = 1e-4

Race = dict[str, Any]  # the worker's message: prompt, modes, tau, maxNewTokens


def held_out_prompts(count: int) -> list[str]:
    """Return held-out prompts of the tasks in turn."""
    return [example.prompt for example in mixed(-(-count // 12))][:count]


def races_of(prompts: Iterable[str], taus: Sequence[float] = TAUS, tokens: int = 128) -> list[Race]:
    """Return races on each prompt: all modes at the first τ, and `mars` alone at the others."""
    lanes = [["ar", "mars", "lossless"], *[["mars"]] * (len(taus) - 1)]
    return [
        {"prompt": prompt, "modes": modes, "tau": tau, "maxNewTokens": tokens}
        for prompt in prompts
        for modes, tau in zip(lanes, taus)
    ]


def expected(checkpoint: Checkpoint, races: Iterable[Race]) -> list[dict[str, dict]]:
    """Return the runs of each race by mode, as JSON: the facts of the settings, and those of each pass."""
    return [{mode: _facts(checkpoint, race, mode) for mode in race["modes"]} for race in races]


def _facts(checkpoint: Checkpoint, race: Race, mode: str) -> dict:
    request = Request(mode, tau=race["tau"], max_new_tokens=race["maxNewTokens"], linear=True)
    run = decode(checkpoint, race["prompt"], request).finish()
    return {**_settings(run), "passes": [_pass(step) for step in run.passes]}


def _settings(run: Run) -> dict:
    names = "mode model window block_size tau prompt prompt_tokens dtype max_new_tokens criterion raw"
    return {name: getattr(run.settings, name) for name in names.split()}


def _pass(step: Pass) -> dict:
    names = "number tau positions accepted stop drafts verified groups".split()
    slots = [
        {"id": slot.id, "text": slot.text, "score": slot.score, "source": slot.source, "gap": _gap(slot)}
        for slot in step.slots
    ]
    return {name: getattr(step, name) for name in names} | {"slots": slots}


def _gap(slot: Slot) -> float | None:
    """Return the difference of the two best logits; None for n-gram drafts, or if it is far from a tie."""
    if len(slot.top) < 2 or slot.top[1][1] == 0:
        return None
    return math.log(slot.top[0][1] / slot.top[1][1])


def read_lanes(text: str) -> dict[str, Run]:
    """Return the validated runs of a race's lines by lane."""
    lanes: dict[str, list[str]] = {}
    for line in text.splitlines():
        record = json.loads(line)
        lanes.setdefault(record.pop("lane"), []).append(json.dumps(record))
    return {lane: read_text("\n".join(lines))[0] for lane, lines in lanes.items()}


def check_lines(text: str, runs: dict[str, dict]) -> list[bool]:
    """Assert that the lines of a race hold the expected runs, each up to a tie; return which had a tie."""
    lanes = read_lanes(text)
    assert list(lanes) == list(runs)
    return [_is_tied_run(lanes[lane], runs[lane]) for lane in lanes]


def _is_tied_run(run: Run, facts: dict) -> bool:
    assert _settings(run) == {name: value for name, value in facts.items() if name != "passes"}
    assert run.settings.device in ("wasm", "webgpu") and len(run.settings.run) == 8
    for step, other in zip_longest(map(_pass, run.passes), facts["passes"]):
        if step is None or other is None or not _is_same(step, other):
            assert step and other and _is_tied(step, other), f"{run.settings}: {step} is not {other}"
            return True
    assert run.stop == facts["passes"][-1]["stop"]
    return False


def _is_same(step: dict, other: dict) -> bool:
    """Return whether two passes are equal, up to the rounding of scores."""
    exact = [{name: value for name, value in one.items() if name != "slots"} for one in (step, other)]
    names = ("id", "text", "source")
    slots = [[[slot[name] for name in names] for slot in one["slots"]] for one in (step, other)]
    scores = zip(step["slots"], other["slots"])
    near = all(abs(one["score"] - two["score"]) < SCORE_TOLERANCE for one, two in scores)
    return exact[0] == exact[1] and slots[0] == slots[1] and near


def _is_tied(step: dict, other: dict) -> bool:
    """Return whether rounding may decide the first difference of two passes."""
    for one, two in zip(step["slots"], other["slots"]):
        if one["id"] != two["id"]:
            return two["gap"] is not None and two["gap"] < TIE
    threshold = other["tau"]
    return threshold is not None and any(abs(slot["score"] - threshold) < TIE for slot in other["slots"])
