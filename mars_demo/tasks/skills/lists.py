"""Lists to sort, deduplicate, reverse, number, or write as bullets."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import listings
from mars_demo.tasks.skills.common import request, skill, texts

CHANGES = {
    "sort": lambda items: sorted(items, key=str.lower),
    "sort down": lambda items: sorted(items, key=str.lower, reverse=True),
    "rise": lambda items: sorted(items, key=int),
    "fall": lambda items: sorted(items, key=int, reverse=True),
    "distinct": lambda items: list(dict.fromkeys(items)),
    "backwards": lambda items: items[::-1],
    "same": list,
}
ORDERS = ("sort", "sort down", "rise", "fall", "backwards")
TEXT = texts("lists")


def make(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(TEXT.chores)
    phrasing, change = chore["asks"].pick(rng, unseen), chore["change"]
    size, forms = rng.randint(3, 5), chore.get("material", listings.FORMS)
    if change in ("rise", "fall"):
        (nouns, items), forms = listings.numbers(rng, size), listings.FORMS_OF_NUMBERS
    else:
        nouns, items = listings.drawn(rng, size, phrasing)
    if change == "distinct":
        items = _with_repeats(rng, items)
    given = listings.form_for(rng, phrasing, forms)
    asked = chore.get("form")
    if asked == "asked":
        asked = rng.choice(list(TEXT.shapes))
        nouns["shape"] = rng.choice(TEXT.shapes[asked])
    prompt = request(rng, phrasing, listings.typed(rng, items, given), **nouns)
    return _example(prompt, CHANGES[change](items), asked, asked or given, change in ORDERS)


def _with_repeats(rng: random.Random, items: list[str]) -> list[str]:
    """Return three or four of the items, with one or two of them repeated later."""
    items = items[:4]
    for repeated in rng.sample(items, rng.randint(1, 2)):
        items.insert(rng.randint(items.index(repeated) + 1, len(items)), repeated)
    return items


def _example(prompt: str, items: list[str], asked: str | None, form: str, ordered: bool) -> Example:
    facts = {"items": items, "form": asked, "written": form, "ordered": ordered}
    return Example("lists", prompt, listings.written(items, form), facts)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request for the same list in another order or form, or without an item."""
    items, form, ordered = (example.facts[key] for key in ("items", "written", "ordered"))
    kind = rng.choice(
        [kind for kind in TEXT.follow_ups if kind != form and (kind != "other way" or ordered)]
    )
    item = rng.choice(items)
    named = f'"{item}"' if " " in item else item
    prompt = request(rng, TEXT.follow_ups[kind].pick(rng, unseen), item=named)
    if kind not in ("other way", "without"):
        return _example(prompt, items, kind, kind, ordered)
    items = items[::-1] if kind == "other way" else [other for other in items if other != item]
    return _example(prompt, items, None, form, ordered)


TASK = skill("lists", "Lists in order", make, listings.grade, follow_up)
