"""Records of runs that are none: a good one with something wrong in it."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from benchmarks.hostile.values import NAMES, SCRIPTS, text, value

GOOD = (
    {
        "run": "made-up",
        "schema": 2,
        "mode": "mars",
        "model": "mars-tiny",
        "window": 3,
        "block_size": 8,
        "tau": 0.9,
        "prompt": "Say it",
        "prompt_tokens": 12,
        "device": "cpu",
        "dtype": "float32",
        "max_new_tokens": 8,
        "criterion": "entropy",
        "sampling": {"temperature": 1.0, "top_p": 0.9, "top_k": 0, "seed": 1},
        "gpu": "GPU",
        "messages": [{"role": "system", "content": "Be brief."}],
        "cached_tokens": 0,
        "costs": [[1, 2.5], [3, 4.5]],
    },
    {
        "pass": 1,
        "tau": 0.9,
        "positions": 14,
        "ms": 4.5,
        "accepted": 2,
        "stop": None,
        "model_ms": 4.0,
        "read_ms": 0.5,
        "slots": [
            {"id": 11, "text": "It", "score": 1.0, "top": [["It", 0.9], [" is", 0.1]], "source": "model"},
            {"id": 12, "text": " is", "score": 0.95, "top": [[" is", 0.95]], "source": "mask"},
            {"id": 13, "text": " so", "score": 0.2, "top": [], "source": "mask"},
        ],
    },
    {
        "pass": 2,
        "tau": 0.9,
        "positions": 4,
        "ms": 3.5,
        "accepted": 1,
        "stop": "eos",
        "drafts": 0,
        "verified": 0,
        "groups": 1,
        "draft_forwards": 0,
        "slots": [{"id": 0, "text": "", "score": 0.99, "top": [["", 0.99]]}],
    },
    {"done": True, "tokens": 3, "forwards": 2, "seconds": 0.008, "stop": "eos", "commits": 0},
)


def places(line: Any, path: tuple = ()) -> list[tuple]:
    """The ways to all values in a line."""
    found = [path] if path else []
    inner = line.items() if isinstance(line, dict) else enumerate(line) if isinstance(line, list) else ()
    for key, one in inner:
        found += places(one, (*path, key))
    return found


def changed(line: dict, path: tuple, new: Any) -> dict:
    """The line with another value at that place; without one where it is `...`."""
    line = copy.deepcopy(line)
    at: Any = line
    for key in path[:-1]:
        at = at[key]
    if new is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return line


def written(lines: Any) -> str:
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def with_texts(new: str) -> str:
    """A record that is right, with this text wherever a record may have any."""
    lines = [copy.deepcopy(line) for line in GOOD]
    for number, line in enumerate(GOOD):
        for path in places(line):
            if path[-1] in ("model", "prompt", "content", "text", "gpu", "device", "dtype", "run") or (
                "top" in path and path[-1] == 0 and len(path) > 4
            ):
                lines[number] = changed(lines[number], path, new)
    return written([{"recording": new, "title": new, "note": new}, *lines])


def record(rng: Random) -> str:
    """One that is wrong in one way, or in several."""
    kind = rng.randrange(8)
    if kind == 0:
        whole = written(GOOD)
        return whole[: rng.randrange(len(whole))]
    if kind == 1:
        lines = [*GOOD]
        rng.shuffle(lines)
        return written(lines[: rng.randrange(5)])
    if kind == 2:
        return "[" * rng.choice((10, 1000, 100_000)) + text(rng)
    if kind == 3:
        return written(GOOD).replace('"', rng.choice(("'", "", '""')), rng.randrange(1, 50))
    if kind == 4:
        return written([GOOD[0], *[GOOD[1]] * rng.choice((20, 200)), GOOD[-1]])
    lines = [*GOOD]
    for _ in range(rng.choice((1, 1, 1, 3))):
        number = rng.randrange(len(lines))
        if not (ways := places(lines[number])):
            continue
        path = rng.choice(ways)
        lines[number] = changed(lines[number], path, rng.choice((value(rng), ..., rng.choice(SCRIPTS))))
        if rng.random() < 0.2:
            lines[number] = {**lines[number], rng.choice(NAMES): value(rng)}
    return written(lines)
