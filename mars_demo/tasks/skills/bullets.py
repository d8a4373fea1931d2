"""Paragraphs and sentences as bullets or numbered lists, and bullets as running text."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import listings, words
from mars_demo.tasks.skills.common import and_list, request, skill, texts

TEXT = texts("bullets")
FIELDS = words.drawings(TEXT.fields)


def make(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(TEXT.chores)
    nouns, items, text = MATERIAL[chore["from"]](rng)
    prompt = request(rng, chore["asks"].pick(rng, unseen), text, **nouns)
    return _example(prompt, items, chore["form"])


def _paragraph(rng: random.Random) -> tuple[dict[str, str], list[str], str]:
    """Return the sentences of a paragraph without full stops, and the paragraph, after no nouns."""
    topic = TEXT.topics[rng.choice(list(TEXT.topics))]
    sentences = [_filled(rng, text) for text in rng.sample(topic, rng.randint(3, 5))]
    return {}, [sentence.rstrip(".") for sentence in sentences], " ".join(sentences)


def _list(rng: random.Random) -> tuple[dict[str, str], list[str], str]:
    """Return the nouns for the items of a sentence, the items, and the sentence."""
    kind = rng.choice(list(TEXT.frames))
    nouns, items = listings.draw_items(rng, rng.randint(3, 5), groups=TEXT.kinds[kind])
    joined = rng.choice((and_list, and_list, ", ".join))(items)
    return nouns, items, _filled(rng, rng.choice(TEXT.frames[kind]).replace("{}", joined))


def _bullets(rng: random.Random) -> tuple[dict[str, str], list[str], str]:
    """Return the nouns for the items of a list, the items, and the list."""
    nouns, items = listings.draw_items(rng, rng.randint(3, 5))
    return nouns, items, listings.typed(rng, items, "bullets")


MATERIAL = {"paragraph": _paragraph, "list": _list, "bullets": _bullets}


def _filled(rng: random.Random, text: str) -> str:
    return text.format(**{field: draw(rng) for field, draw in FIELDS.items()})


def _example(prompt: str, items: list[str], form: str) -> Example:
    return Example("bullets", prompt, listings.as_listing(items, form), {"items": items, "form": form})


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return a request for the other kind of list, or for the list without its first or last line."""
    items, form = example.facts["items"], example.facts["form"]
    if form == "sentence":
        return None
    kind = rng.choice([kind for kind in TEXT.follow_ups if kind != form])
    end = rng.choice(("first", "last"))
    prompt = request(rng, TEXT.follow_ups[kind].pick(rng, unseen), end=end)
    if kind == "without":
        return _example(prompt, items[1:] if end == "first" else items[:-1], form)
    return _example(prompt, items, kind)


TASK = skill("bullets", "Texts as bullets", make, listings.grade, follow_up)
