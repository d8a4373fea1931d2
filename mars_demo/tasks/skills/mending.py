"""Correcting capitals, spaces and punctuation in texts."""

import random
import re
from string import capwords

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import request, same, skill, texts, unquoted
from mars_demo.tasks.skills.passages import filled

TEXT = texts("mending")


def make(rng: random.Random, unseen: bool) -> Example:
    chosen = rng.sample(TEXT.sentences.of(unseen), rng.choices((1, 2, 3), (3, 3, 1))[0])
    text = " ".join(filled(rng, sentence) for sentence in chosen)
    prompt = request(rng, TEXT.asks.pick(rng, unseen), _spoiled(rng, text))
    return Example("mending", prompt, text)


def _spoiled(rng: random.Random, text: str) -> str:
    """Return a text with wrong capitals and wrong spaces, at times without its last mark."""
    text = rng.choices((str.lower, str.upper, capwords), (4, 1, 1))[0](text)
    if rng.random() < 0.5:
        text = text[:-1]
    text = re.sub(r"([.,?])( |$)", lambda mark: rng.choice((" ", "", "")) + mark[1] + mark[2], text)
    text = re.sub(r"([.,?]) ", lambda mark: mark[1] + rng.choice((" ", " ", "")), text)
    return re.sub(" ", lambda _: rng.choices((" ", "  ", "   "), (6, 2, 1))[0], text)


TASK = skill("mending", "Texts mended", make, same(unquoted))
