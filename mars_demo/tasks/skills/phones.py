"""Phone numbers in another format, with their digits as a step."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import request, same, skill, texts
from mars_demo.tasks.skills.inline import count, request_with, results_of

TEXT = texts("phones")
SOURCES = [form for form, _ in TEXT.forms.seen]


def make(rng: random.Random, unseen: bool) -> Example:
    phrasing = TEXT.asks.pick(rng, unseen)
    form, ways = TEXT.forms.pick(rng, unseen)
    numbers = _numbers(rng, count(rng, phrasing))
    prompt = request_with(rng, phrasing, _given(rng, numbers, form), **_named(rng, form, ways))
    return _example(prompt, numbers, form)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request for other numbers in the same form, or for the same numbers in another form."""
    phrasing, old = TEXT.follow_ups.pick(rng, unseen), example.facts["form"]
    if "{one}" in phrasing or "{several}" in phrasing:
        numbers = _numbers(rng, count(rng, phrasing))
        return _example(request_with(rng, phrasing, _given(rng, numbers, old)), numbers, old)
    form, ways = rng.choice([kind for kind in TEXT.forms.of(unseen) if kind[0] != old])
    prompt = request(rng, phrasing, **_named(rng, form, ways))
    return _example(prompt, example.facts["digits"], form)


def _filled(form: str, digits: str) -> str:
    """Return a format with its X replaced by the digits in order."""
    rest = iter(digits)
    return "".join(next(rest) if sign == "X" else sign for sign in form)


def _numbers(rng: random.Random, number: int) -> list[str]:
    return [rng.choice("23456789") + "".join(rng.choices("0123456789", k=9)) for _ in range(number)]


def _given(rng: random.Random, numbers: list[str], form: str) -> list[str]:
    """Return numbers in other forms; only forms with a country code have sources with one."""
    sources = [source for source in SOURCES if source != form and ("+" in form or "+" not in source)]
    source, mixed = rng.choice(sources), rng.random() < 0.5
    return [_filled(rng.choice(sources) if mixed else source, number) for number in numbers]


def _named(rng: random.Random, form: str, ways: list[str]) -> dict[str, str]:
    """Return a form as a phrasing may name it: by a pattern, a way of writing, or an example."""
    example = _filled(form, rng.choice(("5551234567", *_numbers(rng, 2))))
    way = rng.choice((rng.choice(ways), rng.choice(ways), f"as {form}", f"like {example}"))
    return {"form": form, "way": way, "example": example}


def _example(prompt: str, numbers: list[str], form: str) -> Example:
    answer = "\n".join(f"{' '.join(number)} -> {_filled(form, number)}" for number in numbers)
    return Example("phones", prompt, answer, {"digits": numbers, "form": form})


TASK = skill("phones", "Phone numbers in another form", make, same(results_of), follow_up)
