"""Lists to sort, deduplicate, reverse, number, or write as bullets, and items picked from lists."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import listings
from mars_demo.tasks.skills.common import lines_of, request, skill, texts

CHANGES = {
    "sort": lambda items: sorted(items, key=str.lower),
    "sort down": lambda items: sorted(items, key=str.lower, reverse=True),
    "rise": lambda items: sorted(items, key=int),
    "fall": lambda items: sorted(items, key=int, reverse=True),
    "distinct": lambda items: list(dict.fromkeys(items)),
    "backwards": lambda items: items[::-1],
    "same": list,
}
SORTS = ("sort", "sort down", "rise", "fall")
# The chores of `LISTS` have a change, phrasings, and at times the forms of answer and material; those of
# `PICKING` have what to pick, and phrasings.
LISTS, PICKING = texts("lists"), texts("picking")


def _changed(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(LISTS.chores)
    phrasing, change = chore["asks"].pick(rng, unseen), chore["change"]
    size = rng.randint(3, 3 if change in SORTS else 5)
    forms = chore.get("material", listings.FORMS)
    if change in ("rise", "fall"):
        (nouns, items), forms = listings.numbers(rng, size), listings.FORMS_OF_NUMBERS
    else:
        nouns, items = listings.draw_items(rng, size, phrasing)
    if change == "distinct":
        items = _with_repeats(rng, items)
    given = listings.form_for(rng, phrasing, forms)
    asked = chore.get("form")
    if asked == "asked":
        asked = rng.choice(list(LISTS.shapes))
        nouns["shape"] = rng.choice(LISTS.shapes[asked])
    prompt = request(rng, phrasing, listings.typed(rng, items, given), **nouns)
    return _example(prompt, CHANGES[change](items), asked, asked or given, change in (*SORTS, "backwards"))


def _with_repeats(rng: random.Random, items: list[str]) -> list[str]:
    """Return three or four of the items, with one or two of them repeated later."""
    items = items[:4]
    for repeated in rng.sample(items, rng.randint(1, 2)):
        items.insert(rng.randint(items.index(repeated) + 1, len(items)), repeated)
    return items


def _example(prompt: str, items: list[str], asked: str | None, form: str, ordered: bool) -> Example:
    facts = {"items": items, "form": asked, "written": form, "ordered": ordered}
    return Example("lists", prompt, listings.as_listing(items, form), facts)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request for the same list in another order or form, or without an item."""
    items, form, ordered = (example.facts[key] for key in ("items", "written", "ordered"))
    kind = rng.choice(
        [kind for kind in LISTS.follow_ups if kind != form and (kind != "other way" or ordered)]
    )
    item = rng.choice(items)
    named = f'"{item}"' if " " in item else item
    prompt = request(rng, LISTS.follow_ups[kind].pick(rng, unseen), item=named)
    if kind not in ("other way", "without"):
        return _example(prompt, items, kind, kind, ordered)
    items = items[::-1] if kind == "other way" else [other for other in items if other != item]
    return _example(prompt, items, None, form, ordered)


def _picking(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(PICKING.chores)
    phrasing, pick = chore["asks"].pick(rng, unseen), chore["pick"]
    size, forms, missing = rng.randint(3, 5), listings.FORMS, ""
    if pick in ("least", "most"):
        (nouns, items), forms = listings.numbers(rng, size), listings.FORMS_OF_NUMBERS
    else:
        nouns, [missing, *items] = listings.draw_items(rng, size + 1, phrasing)
    fields, picked = _picked(rng, pick, items, missing)
    text = listings.typed(rng, items, listings.form_for(rng, phrasing, forms))
    if " " in fields.get("item", "") or rng.random() < 0.1:
        phrasing = phrasing.replace("{item}", '"{item}"')
    prompt = request(rng, phrasing, text, **nouns, **fields)
    answer = f"{picked[0]}." if pick == "contains" else ", ".join(picked)
    return Example("picking", prompt, answer, {"picked": picked})


def _picked(
    rng: random.Random, pick: str, items: list[str], missing: str
) -> tuple[dict[str, str], list[str]]:
    """Return the fields of a request to pick from items, and what it picks."""
    match pick:
        case "first":
            return {}, items[:1]
        case "last":
            return {}, items[-1:]
        case "few":
            many = rng.randint(2, min(3, len(items) - 1))
            end, picked = rng.choice((("first", items[:many]), ("last", items[-many:])))
            return {"end": end, "few": rng.choice(PICKING.few[str(many)])}, picked
        case "nth":
            place = rng.randint(1, min(3, len(items) - 1))
            return {"nth": rng.choice(PICKING.ordinals[str(place)])}, [items[place]]
        case "after":
            place = rng.randrange(1, len(items))
            return {"item": items[place - 1]}, [items[place]]
        case "least":
            return {"extreme": rng.choice(PICKING.least)}, [min(items, key=int)]
        case "most":
            return {"extreme": rng.choice(PICKING.most)}, [max(items, key=int)]
        case "except":
            item = rng.choice(items)
            return {"item": item}, [other for other in items if other != item]
    item = rng.choice((missing, rng.choice(items)))
    return {"item": item}, ["Yes" if item in items else "No"]


def _holds(example: Example, answer: str) -> bool:
    """Return whether the answer has exactly the right items, as any kind of list; yes or no may go on."""
    picked = example.facts["picked"]
    if listings.holds(answer, picked):
        return True
    return picked[0] in ("Yes", "No") and len(lines_of(answer)) == 1 and answer.startswith(f"{picked[0]}, ")


CHANGED = skill("lists", "Lists in order", _changed, listings.grade, follow_up)
PICKED = skill("picking", "Items picked from lists", _picking, _holds)
