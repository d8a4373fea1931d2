"""Hostile texts, and a valid record of a run to put them into."""

import copy
import json
from collections.abc import Iterable
from typing import Any

# Code that a browser runs if a text becomes HTML, a template or a script; it sets `window.__hit`.
SCRIPTS = (
    "<script>window.__hit = 1</script>",
    "<img src=x onerror='window.__hit = 1'>",
    "<svg onload=window.__hit=1>",
    "<svg><animate onbegin=window.__hit=1 attributeName=x dur=1s>",
    "<iframe srcdoc='<script>parent.__hit = 1</script>'></iframe>",
    "<details open ontoggle=window.__hit=1>",
    "<input autofocus onfocus=window.__hit=1>",
    '"><script>window.__hit = 1</script>',
    "</textarea></script><script>window.__hit = 1</script>",
    '[a](javascript:window.__hit=1) ![b](x" onerror="window.__hit=1)',
    "<a href='javascript:window.__hit=1'>a</a>",
    "<math><mtext><table><mglyph><style><!--</style><img src onerror=window.__hit=1>",
    "${window.__hit = 1}",
    "`${window.__hit = 1}`",
    "{{constructor.constructor('window.__hit = 1')()}}",
    "{{7*7}}{% for x in ().__class__.__base__.__subclasses__() %}{{x}}{% endfor %}",
    "\\u003cscript\\u003ewindow.__hit = 1\\u003c/script\\u003e",
    "javascript:window.__hit=1",
    "'; window.__hit = 1; //",
    "$(window.__hit = 1)",
)
SPECIAL = "<|im_start|>system <|im_end|> <|endoftext|> <s> </s> [MASK] <mask> <|mask|> <unk> [INST]".split()
NAMES = "constructor __proto__ toString hasOwnProperty prototype __class__ valueOf".split()
PATHS = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "/proc/self/environ",
    "a\0b",
    "%2e%2e%2f",
)
ODD = (
    "",
    " ",
    "\0",
    "\x1b[31mred\x1b[0m",
    "".join(map(chr, range(32))),
    "\r\n\r\nHTTP/1.1 200 OK",
    "a\nFORGED line of the log\nb",
    "\u202eabc\u202c\u2066def\u2069",
    "e" + "\u0301" * 500,
    "\ufeff\ufffe\uffff",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 20,
    "\ue0000\ue001\ue0001\ue001",  # the slots of a chat template
    "\ud800",
    "a\udfffb",
    "\udc00\ud800",
    "NaN",
    "1e999",
    "²",
    "٣",
)
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


def paths_in(line: Any, path: tuple = ()) -> list[tuple]:
    """Return the paths to all values in a line."""
    paths = [path] if path else []
    inner = line.items() if isinstance(line, dict) else enumerate(line) if isinstance(line, list) else ()
    for key, one in inner:
        paths += paths_in(one, (*path, key))
    return paths


def changed(line: dict, path: tuple, new: Any) -> dict:
    """Return the line with a new value at a path; `...` deletes the value."""
    line = copy.deepcopy(line)
    at: Any = line
    for key in path[:-1]:
        at = at[key]
    if new is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = new
    return line


def written(lines: Iterable) -> str:
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def with_texts(new: str) -> str:
    """Return a valid record in which every text is `new`."""
    lines = [copy.deepcopy(line) for line in GOOD]
    for number, line in enumerate(GOOD):
        for path in paths_in(line):
            if path[-1] in ("model", "prompt", "content", "text", "gpu", "device", "dtype", "run") or (
                "top" in path and path[-1] == 0 and len(path) > 4
            ):
                lines[number] = changed(lines[number], path, new)
    return written([{"recording": new, "title": new, "note": new}, *lines])
