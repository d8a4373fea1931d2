"""Boilerplate in HTML, CSS, Python and shell from the names and values in a request."""

import ast
import random
import re
from collections.abc import Sequence

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, is_inline, request, skill, texts, unfenced, with_bullets

TEXT = texts("boilerplate")
# Each kind with its language, the names of its values, its code, the line of an item, and phrasings.
KINDS = TEXT.asks
BULLETS = ("{}", "{}", "- {}", "• {}", "{n}. {}", "{n}) {}")
TAGS = {"numbered": "ol", "bulleted": "ul"}
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def _schedule(rng: random.Random) -> str:
    days = ("every day", f"every {rng.choice(WEEKDAYS)}", f"on day {rng.randint(1, 28)} of every month")
    return f"{rng.choice(days)} at {rng.randint(0, 23)}:{rng.randint(0, 59):02}"


# The generator of each value in a request.
VALUES = {
    **words.drawings(TEXT.values),
    "action": words.one_of(list(TEXT.actions)),
    "url": lambda rng: f"https://{rng.choice(words.STREETS).lower()}.example.{rng.choice(('com', 'org'))}",
    "schedule": _schedule,
}


def make(rng: random.Random, unseen: bool) -> Example:
    kind = rng.choice(list(KINDS))
    phrasing = rng.choice(KINDS[kind]["unseen" if unseen else "seen"])
    values = {name: VALUES[name](rng) for name in KINDS[kind]["values"]}
    *items, spare = _items(rng, kind)
    prompt = request(rng, phrasing, _material(rng, phrasing, items), **values)
    return _example(prompt, kind, values, items, spare)


def _items(rng: random.Random, kind: str) -> list[str]:
    """Return the items of a request, if its kind has any, and one more for a follow-up."""
    match kind:
        case "list":
            pool = rng.choice([TEXT.tasks, words.PRODUCTS, *words.GROUPS.values()])
        case "table":
            pool = [f"{product}, {words.price(rng)}" for product in words.PRODUCTS]
        case "style":
            pool = [f"{name}: {rng.choice(values)}" for name, values in TEXT.properties.items()]
        case _:
            pool = TEXT.items.get(kind, "").split()
    return rng.sample(pool, rng.randint(3, 5)) if pool else [""]


def _material(rng: random.Random, phrasing: str, items: Sequence[str]) -> str:
    """Return the items as a list in a sentence or as lines, whichever fits the phrasing."""
    if not items:
        return ""
    if is_inline(phrasing):
        return rng.choice(("; ".join,) if "," in items[0] else (", ".join, and_list))(items)
    return with_bullets(rng.choice(BULLETS), items)


def _example(prompt: str, kind: str, values: dict, items: Sequence[str], spare: str) -> Example:
    """Return an example with the code of this kind, filled with values and items."""
    form = KINDS[kind]
    lines = "\n".join(form.get("line", "").format(item.replace(", ", "</td><td>")) for item in items)
    code = form["code"].format(
        **values, **_derived(values), lines=lines, listed=", ".join(items), spaced=" ".join(items)
    )
    facts = {"kind": kind, "values": values, "items": items, "spare": spare}
    return Example("boilerplate", prompt, f"```{form['language']}\n{code}\n```", facts)


def _derived(values: dict) -> dict:
    return {
        "tag": TAGS.get(values.get("marker")),
        "end": int(values.get("n", 0)) + 1,
        "command": TEXT.actions.get(values.get("action")),
        "cron": "schedule" in values and _cron(values["schedule"]),
    }


def _cron(schedule: str) -> str:
    hour, minute = schedule.rpartition(" ")[2].split(":")
    date = re.search(r"day (\d+)", schedule)
    weekday = next((number for number, day in enumerate(WEEKDAYS) if day in schedule), "*")
    return f"{int(minute)} {hour} {date[1] if date else '*'} * {weekday}"


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request to add or remove an item, or to change a value."""
    kind, values, items, spare = (example.facts[key] for key in ("kind", "values", "items", "spare"))
    possible = {"change": values, "add": spare, "drop": items[2:]}
    change = rng.choice([change for change, parts in possible.items() if parts])
    phrasing = TEXT.follow_ups[change].pick(rng, unseen)
    if change == "change":
        name = rng.choice(list(values))
        old = new = values[name]
        while new == old:
            new = VALUES[name](rng)
        return _example(request(rng, phrasing, old=old, new=new), kind, values | {name: new}, items, spare)
    item = spare if change == "add" else rng.choice(items)
    items = [*items, spare] if change == "add" else [other for other in items if other != item]
    return _example(request(rng, phrasing, item=item), kind, values, items, "")


def _normalized(answer: str, kind: str) -> str | list[str]:
    code = unfenced(answer)
    match KINDS[kind]["language"]:
        case "python":
            return ast.dump(ast.parse(code))
        case "html" | "css":
            return re.sub(r"\s*([<>{}:;])\s*", r"\1", " ".join(code.split()))
    return [" ".join(line.split()) for line in code.splitlines() if line.strip()]


TASK = skill("boilerplate", "Boilerplate code", make, same(_normalized, "kind"), follow_up)
