"""Texts and values that nobody sends who means well."""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

# What a browser would run if a text became HTML, a template or a script; `window.__hit` tells.
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
    "..\\..\\windows",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "/proc/self/environ",
    "CON",
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
    "%s%n%x",
    "' OR 1=1 --",
    "; rm -rf / #",
    "$(touch hit)",
    "NaN",
    "1e999",
    "²",
    "٣",
)
NUMBERS = (
    *(math.nan, math.inf, -math.inf, -0.0, 0.1, 1e-320, 1e308, -1e308),
    *(-1, 2**31, 2**63, 10**30, -(10**30), 10**400),
)
LONG = 1 << 20


def text(rng: Random) -> str:
    """A hostile text, seldom a long one."""
    kind = rng.random()
    if kind < 0.01:
        return rng.choice(("a", "word ", "<b>", "\u202e", "é", "[", "{{")) * rng.choice((30_000, LONG // 4))
    if kind < 0.1:
        return "".join(map(chr, (rng.randrange(0x11_0000) for _ in range(rng.randrange(40)))))
    pool = rng.choice((SCRIPTS, SPECIAL, NAMES, PATHS, ODD))
    found = rng.choice(pool)
    return found if rng.random() < 0.8 else f"{found}{rng.choice(SCRIPTS)}"


def nested(rng: Random, depth: int) -> Any:
    """Lists or objects in each other."""
    found: Any = text(rng)
    for _ in range(depth):
        found = [found] if rng.random() < 0.5 else {rng.choice((*NAMES, "value", "path")): found}
    return found


def value(rng: Random) -> Any:
    """Any JSON, and what Python takes for JSON."""
    kind = rng.randrange(9)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind <= 3:
        return rng.choice(NUMBERS)
    if kind <= 5:
        return text(rng)
    if kind == 6:
        return [value(rng) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {rng.choice((text(rng)[:50], *NAMES)): value(rng) for _ in range(rng.randrange(4))}
    return nested(rng, rng.choice((3, 30, 300)))


def body(found: Any) -> bytes:
    """JSON, with NaN and half characters where there are any. Deeper than Python writes, as a text."""
    try:
        return json.dumps(found).encode()
    except (RecursionError, ValueError):
        return b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
