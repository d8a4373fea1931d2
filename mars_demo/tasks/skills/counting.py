"""Items, letters and words counted one by one, and words spelled."""

import random
import re

from mars_demo.tasks.common import WORDS, Example
from mars_demo.tasks.skills import listings, words
from mars_demo.tasks.skills.common import lines_of, request, skill, texts, unfenced

TEXT = texts("counting")
_SPELLED = WORDS + tuple(
    word for group in sorted(words.GROUPS) for word in words.GROUPS[group] if 3 <= len(word) <= 9
)


def random_sentence(rng: random.Random) -> str:
    """Return a short sentence with its punctuation."""
    name, other = rng.sample(words.FIRST_NAMES, 2)
    city, day = rng.choice(words.CITIES), rng.choice(words.DAYS)
    return rng.choice(TEXT.sentences).format(name=name, other=other, city=city, day=day)


def make(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(list(TEXT.asks))
    phrasing = TEXT.asks[chore].pick(rng, unseen)
    if chore == "items":
        nouns, [spare, *items] = listings.draw_items(rng, rng.randint(4, 7), phrasing)
        text = listings.typed(rng, items, listings.form_for(rng, phrasing, listings.FORMS_OF_NUMBERS))
        return _example(chore, request(rng, phrasing, text, **nouns), items, spare)
    text = _text(rng, chore)
    prompt = request(rng, phrasing, text if chore == "words" else "", word=text)
    return _example(chore, prompt, _parts(chore, text))


def _text(rng: random.Random, chore: str) -> str:
    return random_sentence(rng) if chore == "words" else rng.choice(_SPELLED)


def _parts(chore: str, text: str) -> list[str]:
    return re.findall(r"\w+", text) if chore == "words" else list(text)


def _example(chore: str, prompt: str, parts: list[str], spare: str = "") -> Example:
    if chore == "spell":
        answer = "-".join(parts)
    else:
        answer = f"{listings.as_listing(parts, 'numbers')}\nThere are {len(parts)} {chore}."
    return Example("counting", prompt, answer, {"chore": chore, "parts": parts, "spare": spare})


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return the same question about one item more or less, or about another word or sentence."""
    chore, parts = example.facts["chore"], example.facts["parts"]
    kind = rng.choice(("add", "without")) if chore == "items" else "other"
    phrasing = TEXT.follow_ups[kind].pick(rng, unseen)
    if kind == "other":
        text = _text(rng, chore)
        prompt = request(rng, phrasing, other=f'"{text}"' if chore == "words" else text)
        return _example(chore, prompt, _parts(chore, text))
    item = example.facts["spare"] if kind == "add" else rng.choice(parts)
    prompt = request(rng, phrasing, item=f'"{item}"' if " " in item else item)
    return _example(chore, prompt, [part for part in (*parts, item) if kind == "add" or part != item])


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer spells the word, or ends with the right number after the right steps."""
    chore, parts = example.facts["chore"], example.facts["parts"]
    if chore == "spell":
        letters = re.split(r"\s*[-–, ]\s*", unfenced(answer).lower().strip("\"'`."))
        return letters == [part.lower() for part in parts]
    *steps, conclusion = lines_of(answer) or [""]
    return re.findall(r"\w+", conclusion)[-2:] == [str(len(parts)), chore] and (
        not steps or listings.holds("\n".join(steps), parts, "numbers")
    )


TASK = skill("counting", "Counting and spelling", make, grade, follow_up)
