"""Texts of greeting cards for an occasion, in a tone, with the details of the request."""

import random
import re
from collections.abc import Mapping, Sequence

from mars_demo.tasks.common import Example, article, ordinal, sentences_of, stripped_lines
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, request, skill, texts
from mars_demo.tasks.skills.messages import PLACEHOLDER, draw_fields, fill_sentences, invents

TEXT = texts("cards")
DETAILS = words.drawings(TEXT.fields)  # the generator of each detail of a card, apart from ages


def make(rng: random.Random, unseen: bool) -> Example:
    occasion, card = rng.choice(list(TEXT.occasions.of(unseen).items()))
    phrasing = TEXT.asks.pick(rng, unseen)
    tones = TEXT.tones.of(unseen)
    tone, word = rng.choice([(tone, word) for tone in tones for word in tones[tone]])
    if "{tone}" not in phrasing and rng.random() < 0.5:
        tone, word = "plain", ""
    fields, stated = _details(rng, card, "{material}" in phrasing)
    kind = f"{word} {occasion}".strip()
    for what, value in (("tone", word), ("occasion", occasion)):
        phrasing = re.sub(rf"\ba \{{{what}\}}", f"{article(value)} {{{what}}}", phrasing)
    prompt = request(
        rng,
        phrasing,
        _notes(rng, phrasing, stated, fields),
        card=f"{article(kind)} {kind} card",
        kind=kind,
        occasion=occasion,
        tone=word,
        to=fields["to"],
    )
    added = [TEXT.added[field] for field in stated if field in TEXT.added]
    body = fill_sentences([*card[tone], *added], fields)
    answer = f"Dear {fields['to']},\n\n{body}\n\nBest wishes,\n{fields.get('sender', PLACEHOLDER)}"
    avoided = [card[other][-1] for other in TEXT.tones.seen if other != tone]
    facts = {"fields": fields, "about": card["about"], "avoided": avoided, "source": prompt}
    return Example("cards", prompt, answer, facts)


def _details(rng: random.Random, card: dict, any_stated: bool) -> tuple[dict[str, str], list[str]]:
    """Return the details of a card by field, and the fields that its request states besides the name."""
    possible = [*card["details"], "sender"] if any_stated else []
    stated = [field for field in possible if rng.random() < 0.6] or possible[-1:]
    fields = draw_fields(rng, [field for field in stated if field in DETAILS], DETAILS)
    names = rng.sample([name for name in words.FIRST_NAMES if name not in fields.values()], 2)
    related = card["who"] == "one" and rng.random() < 0.3
    relative = rng.choice(TEXT.relatives).format(last=rng.choice(words.LAST_NAMES))
    to = relative if related else names[0] if card["who"] == "one" else and_list(names)
    if {"age", "years"} & set(stated):
        ages = range(60, 96) if related else (rng.randint(5, 70), rng.randrange(10, 71, 10))
        age = rng.choice(ages)
        fields |= {"age": str(age), "nth": ordinal(age)}
    return fields | {"to": to}, stated


def _notes(rng: random.Random, phrasing: str, stated: Sequence[str], fields: Mapping[str, str]) -> str:
    """Return the stated details as sentences or, after a comma or the like, as fragments."""
    is_row = re.search(r"[,;-] \{material\}|=", phrasing)
    forms = TEXT.details["fragments" if is_row else "sentences"]
    patterns = [rng.choice(forms[field]) for field in rng.sample(stated, len(stated))]
    return (", " if is_row else " ").join(patterns).format(**fields)


def grade(example: Example, answer: str) -> bool:
    """Return whether the card fits occasion and tone, has all details of the request, and invents none."""
    facts, fields, lines = example.facts, example.facts["fields"], stripped_lines(answer)
    if len(lines) < 4 or lines[0] != f"Dear {fields['to']}," or not lines[-2].endswith((",", "!")):
        return False
    body = " ".join(lines[1:-2])
    sentences = sentences_of(body)
    details = [value for field, value in fields.items() if field not in ("to", "sender", "nth")]
    return (
        lines[-1] == fields.get("sender", PLACEHOLDER)
        and len(set(sentences)) == len(sentences) > 1
        and len(body.split()) <= 60
        and all(re.search(rf"(?<!\w){re.escape(detail)}", body) for detail in details)
        and re.search(facts["about"], body) is not None
        and not any(sentence in body for sentence in facts["avoided"])
        and not invents(answer, facts["source"])
        and all(detail in facts["source"] for detail in _DETAIL.findall(body))
    )


# Details that a card may have only if its request has them.
_DETAILS = TEXT.fields["hobby"] + words.COMPANIES + words.CITIES + words.ONE_GIFT
_DETAIL = re.compile(rf"\b(?:{'|'.join(map(re.escape, _DETAILS))})\b")


TASK = skill("cards", "Greeting cards", make, grade)
