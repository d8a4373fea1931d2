"""One or several short values in a request: within its sentence, or in lines."""

import random
import re
from collections.abc import Sequence

from mars_demo.tasks.skills.common import and_list, lines_of, marked, request

_PLURAL = re.compile(r"\{several\}|\b(dates|numbers|these|those|them|ones|each|every|list|all)\b", re.I)
_BULLETS = ("{}", "{}", "{}", "- {}", "* {}", "• {}", "{n}. {}", "{n}) {}")


def count(rng: random.Random, phrasing: str) -> int:
    """Return how many values fit a phrasing.

    A phrasing with `{one}` takes one value in its sentence, and one with `{several}` two or three. Others
    take one to three lines, or at least two if their words are plural.
    """
    if "{one}" in phrasing:
        return 1
    return rng.randint(2 if _PLURAL.search(phrasing) else 1, 3)


def request_with(rng: random.Random, phrasing: str, values: Sequence[str], **fields: object) -> str:
    """Return a request for `count` values in its sentence or in lines."""
    if "{one}" in phrasing or "{several}" in phrasing:
        material = _in_a_row(rng, values)
    else:
        bullet = rng.choice(_BULLETS) if len(values) > 1 else "{}"
        material = marked(bullet, values)
    phrasing = phrasing.replace("{one}", "{material}").replace("{several}", "{material}")
    return request(rng, phrasing, material, **fields)


def _in_a_row(rng: random.Random, values: Sequence[str]) -> str:
    if any("," in value for value in values):
        return "; ".join(values)
    return rng.choice((and_list, ", ".join))(values)


def results_of(answer: str) -> list[str]:
    """Return the result of each line of an answer, which stands after an arrow or alone."""
    lines = lines_of(answer)
    return [line.partition("->")[2].strip() if line.count("->") == 1 else line for line in lines]
