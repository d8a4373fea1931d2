"""Recipes for more or fewer people: the factor, then the ingredients with their new amounts."""

import random
import re

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills.common import and_list, lines_of, request, skill, texts, with_bullets

TEXT = texts("recipes")
SPELLED = {"tbsp": "tablespoons", "tsp": "teaspoons"}
BULLETS = ("{}", "{}", "- {}", "- {}", "* {}", "• {}", "{n}. {}", "{n}) {}")


def make(rng: random.Random, unseen: bool) -> Example:
    phrasing, factor = TEXT.asks.pick(rng, unseen), rng.choice(list(TEXT.factors))
    kitchen, (base, people) = rng.choice(TEXT.kitchens), rng.choice(TEXT.servings[factor])
    ingredients = _ingredients(rng, kitchen, rng.randint(2, 4), factor)
    if "{material}" in phrasing and "\n" not in phrasing:
        material = rng.choice((and_list, ", ".join))([_amount(*each) for each in ingredients])
    else:
        material = _listed(rng, phrasing, ingredients, title=rng.choice(kitchen["titles"]), base=base)
    prompt = request(rng, phrasing, material, base=base, people=people, **TEXT.factors[factor])
    return _example(prompt, ingredients, factor)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request to scale the original by another factor."""
    ingredients, old = example.facts["ingredients"], example.facts["factor"]
    odd = any(number % 2 for number, _, _ in ingredients if number)
    impossible = (old, "half") if odd else (old,)
    factor = rng.choice([factor for factor in TEXT.factors if factor not in impossible])
    prompt = request(rng, TEXT.follow_ups.pick(rng, unseen), **TEXT.factors[factor])
    return _example(prompt, ingredients, factor)


def _ingredients(rng: random.Random, kitchen: dict, count: int, factor: str) -> list[tuple]:
    """Return ingredients as (amount, unit, singular and plural), in which plain ones have no amount."""
    units = rng.choice((("g", "ml"), ("g", "ml"), ("cups",)))  # metric, or in cups
    spelled = SPELLED if rng.random() < 0.3 else {}
    chosen: dict[str, tuple] = {}
    even = factor == "half" or rng.random() < 0.4
    while len(chosen) < count:
        unit = rng.choice((*units, *units, "tbsp", "tsp", "", ""))
        name = rng.choice(kitchen[unit])
        number = rng.choice([number for number in TEXT.amounts[unit] if not (even and number % 2)])
        names = name if isinstance(name, list) else [name, name]
        chosen.setdefault(names[0], (number, spelled.get(unit, unit), names))
    if rng.random() < 0.15:
        plain = rng.choice(kitchen["plain"])
        return [*chosen.values(), (None, "", [plain, plain])]
    return list(chosen.values())


def _parts(number: int | None, unit: str, names: list[str]) -> tuple[str, str]:
    """Return an amount with its unit, and the name in its number."""
    if number == 1:
        unit = unit.rstrip("s")
    return f"{number} {unit}".strip(), names[0] if number == 1 else names[1]


def _amount(number: int | None, unit: str, names: list[str]) -> str:
    return " ".join(_parts(number, unit, names)) if number else names[0]


def _listed(rng: random.Random, phrasing: str, ingredients: list[tuple], **header: object) -> str:
    """Return an ingredient list, headed by its number of servings if the phrasing does not state it."""
    layout, bullet, close = rng.choice(TEXT.layouts), rng.choice(BULLETS), rng.random() < 0.25
    lines = []
    for number, unit, names in ingredients:
        amount, name = _parts(number, unit, names)
        if close and unit in ("g", "ml"):
            amount = amount.replace(" ", "")
        # Without a unit, "3 of eggs" and "eggs 3" read wrongly.
        usual = unit or layout not in ("{amount} of {name}", "{name} {amount}")
        shape = layout if usual else "{amount} {name}"
        lines.append(shape.format(amount=amount, name=name) if number else name)
    in_a_row = layout == "{amount} {name}" and rng.random() < 0.2
    text = ", ".join(lines) if in_a_row else with_bullets(bullet, lines)
    if "{people}" in phrasing and "{base}" not in phrasing:
        return f"{rng.choice(TEXT.headers).format(**header)}\n{text}"
    return f"{rng.choice(TEXT.titles).format(**header)}\n{text}" if rng.random() < 0.3 else text


def _example(prompt: str, ingredients: list[tuple], factor: str) -> Example:
    scaled = [
        _amount(number and (number // 2 if factor == "half" else number * int(factor)), unit, names)
        for number, unit, names in ingredients
    ]
    answer = "\n".join((TEXT.factors[factor]["head"], *(f"- {line}" for line in scaled)))
    return Example("recipes", prompt, answer, {"factor": factor, "ingredients": ingredients})


def _contents(answer: str) -> tuple[str, list[str]]:
    """Return the line with the factor and, in alphabetical order, those with ingredients."""
    head, *lines = [_plain(line) for line in lines_of(answer)]
    return head, sorted(lines)


def _plain(line: str) -> str:
    """Return a line in lower case, without bullet, final punctuation, "of", or space before a unit."""
    line = re.sub(r"^([-*•]|\d+[.)])\s+", "", line).lower().rstrip(".:,")
    return re.sub(r"(?<=\d) (?=(g|ml)\b)", "", line.replace(" of ", " "))


TASK = skill("recipes", "Recipes for more people", make, same(_contents), follow_up)
