"""To-do lists, numbered plans and shopping lists from what people say."""

import random
import re
from collections.abc import Sequence

from mars_demo.tasks.common import Example, capitalized, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import lines_of, request, skill, texts

TEXT = texts("todo")
GROCERIES = words.GROUPS["groceries"]
_FURTHER = ("Also", "Oh", "And", "Then")  # beginnings of a sentence that follows another one
_LINE = re.compile(
    r"((?P<number>\d+)[.)]|(?P<done>([-*•] *)?\[x\])|[-*•] *\[ ?\]|[-*•]|\[ ?\]) +(?P<item>.*)",
    re.IGNORECASE,
)


def make(rng: random.Random, unseen: bool) -> Example:
    form, phrasing = TEXT.asks.pick(rng, unseen)
    what = rng.choice(("groceries", "lacking")) if form == "shopping" else "tasks"
    items = _items(rng, what, rng.randint(2, 6))
    prompt = request(rng, phrasing, _talk(rng, TEXT.talk[what].of(unseen), items))
    return _list(prompt, {"what": what, "numbered": form == "plan", "items": items, "done": []})


def _items(rng: random.Random, what: str, count: int) -> list[str]:
    """Return groceries, or tasks of which some have a time."""
    if what != "tasks":
        amounts = TEXT.amounts if what == "groceries" else ["{}"]
        return [rng.choice(amounts).format(name) for name in rng.sample(GROCERIES, count)]
    names = {"name": rng.choice(words.FIRST_NAMES), "city": rng.choice(words.CITIES)}
    tasks = rng.sample(TEXT.tasks, count)
    return [task.format(**names) + rng.choice(TEXT.times) for task in tasks]


def _talk(rng: random.Random, talk: dict[str, list], items: Sequence[str]) -> str:
    """Return the items as a list in a sentence or as a sentence each, at times with chat in between."""
    if rng.random() < 0.55:
        start, comma, last, end = rng.choice(talk["lists"])
        sentences = [f"{start}{comma.join(items[:-1])}{last}{items[-1]}{end}"]
    else:
        stems = rng.choices(talk["stems"], k=len(items))
        stems[0] = rng.choice([stem for stem in talk["stems"] if not stem.startswith(_FURTHER)])
        sentences = [stem.format(item) for stem, item in zip(stems, items)]
    for _ in range(rng.choice((0, 0, 1, 2))):
        if sentences[-1].endswith((".", "!", "?")):
            sentences.insert(rng.randint(0, len(sentences)), rng.choice(TEXT.talk["chat"]))
    return " ".join(sentences)


def _list(prompt: str, facts: dict) -> Example:
    lines = []
    for number, item in enumerate(facts["items"], 1):
        box = "x" if item in facts["done"] else " "
        lines.append(f"{f'{number}.' if facts['numbered'] else f'- [{box}]'} {capitalized(item)}")
    return Example("todo", prompt, "\n".join(lines), facts)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request to tick, add or remove an item."""
    facts, items = example.facts, example.facts["items"]
    changes = {"add", "remove"} if facts["numbered"] else {"add", "remove", "done"}
    change, phrasing = rng.choice([pair for pair in TEXT.follow_ups.of(unseen) if pair[0] in changes])
    place = rng.randrange(len(items))
    item, nth = items[place], TEXT.ordinals[place]
    new = _items(rng, facts["what"], 1)[0]
    while new in items:
        new = _items(rng, facts["what"], 1)[0]
    changed = {
        "done": {"done": [item]},
        "add": {"items": [*items, new]},
        "remove": {"items": [other for other in items if other != item]},
    }
    prompt = request(rng, phrasing, item=item, nth=nth, place=place + 1, new=new)
    return _list(prompt, facts | changed[change])


def _lines(answer: str) -> list[tuple[str | None, bool, list[str]]]:
    """Return the number of each item, whether it is ticked, and its words in lower case."""
    lines = [_LINE.fullmatch(line) for line in lines_of(answer)]
    if not all(lines):
        raise ValueError("other lines than items")
    items = [re.findall(r"[\w'’-]+", line["item"].lower()) for line in lines]
    return [(line["number"], bool(line["done"]), item) for line, item in zip(lines, items)]


TASK = skill("todo", "To-do lists", make, same(_lines), follow_up)
