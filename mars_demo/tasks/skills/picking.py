"""Items picked from a list by place, alphabet, size or name."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import listings
from mars_demo.tasks.skills.common import lines_of, request, skill, texts

TEXT = texts("picking")


def make(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(TEXT.chores)
    phrasing, pick = chore["asks"].pick(rng, unseen), chore["pick"]
    size, forms, missing = rng.randint(3, 5), listings.FORMS, ""
    if pick in ("least", "most"):
        (nouns, items), forms = listings.numbers(rng, size), listings.FORMS_OF_NUMBERS
    else:
        nouns, [missing, *items] = listings.drawn(rng, size + 1, phrasing)
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
            return {"end": end, "few": rng.choice(TEXT.few[str(many)])}, picked
        case "nth":
            place = rng.randint(1, min(3, len(items) - 1))
            return {"nth": rng.choice(TEXT.ordinals[str(place)])}, [items[place]]
        case "after":
            place = rng.randrange(1, len(items))
            return {"item": items[place - 1]}, [items[place]]
        case "alphabet":
            end, best = rng.choice((("first", min), ("last", max)))
            return {"end": end}, [best(items, key=str.lower)]
        case "least":
            return {"extreme": rng.choice(TEXT.least)}, [min(items, key=int)]
        case "most":
            return {"extreme": rng.choice(TEXT.most)}, [max(items, key=int)]
        case "except":
            item = rng.choice(items)
            return {"item": item}, [other for other in items if other != item]
    item = rng.choice((missing, rng.choice(items)))
    return {"item": item}, ["Yes" if item in items else "No"]


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has exactly the right items, as any kind of list; yes or no may go on."""
    picked = example.facts["picked"]
    if listings.holds(answer, picked):
        return True
    return picked[0] in ("Yes", "No") and len(lines_of(answer)) == 1 and answer.startswith(f"{picked[0]}, ")


TASK = skill("picking", "Items picked from lists", make, grade)
