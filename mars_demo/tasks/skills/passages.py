"""Skills that need a passage: answers to questions, the sentence that says something, and yes or no."""

import random
import re
from collections.abc import Sequence

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import request, skill, texts, unquoted

# The drawing of each slot of a sentence. A thing has the article "a".
SLOTS = words.drawings(
    texts("passages").slots, thing=words.one_of([gift for gift in words.ONE_GIFT if gift.islower()])
)
ANSWERING = texts("answering")  # each topic with openings, and facts that its sentences state
QUOTING = texts("quoting")  # each subject as a question names it, with sentences that state it
YES_NO = texts("yes-no")  # each topic with openings, and claims that its sentences confirm or deny


def values(rng: random.Random) -> dict[str, str]:
    """Return a value for each slot, and another one for the slot with a 2 after its name."""
    drawn = {}
    for slot, draw in SLOTS.items():
        drawn[slot] = other = draw(rng)
        while other == drawn[slot]:
            other = draw(rng)
        drawn[f"{slot}2"] = other
    return drawn


def fill_sentence(rng: random.Random, sentence: str) -> str:
    """Return a sentence with a value in each slot."""
    return sentence.format(**values(rng))


def _passage(rng: random.Random, openings: Sequence[str], sentences: Sequence[str]) -> str:
    """Return an opening and the sentences in any order, at times each on its own line."""
    opening = fill_sentence(rng, rng.choice(openings))
    return rng.choice((" ", " ", " ", "\n")).join([opening, *rng.sample(sentences, len(sentences))])


def _question(rng: random.Random, unseen: bool) -> Example:
    topic = ANSWERING.topics.pick(rng, unseen)
    questions, sentences = [], []
    for fact in rng.sample(topic["facts"], rng.randint(4, 6)):
        value = fill_sentence(rng, fact["value"])
        sentences.append(rng.choice(fact["sentences"]).format(value))
        questions.append({"question": rng.choice(fact["questions"]), "what": fact["what"], "value": value})
    text = _passage(rng, topic["openings"], sentences)
    return _asked(rng, ANSWERING.asks.pick(rng, unseen), questions, text)


def _asked(rng: random.Random, phrasing: str, questions: list[dict], text: str = "") -> Example:
    """Return an example that asks the first question; the others are for follow-ups."""
    first, *others = questions
    return Example("answering", request(rng, phrasing, text, **first), first["value"], {"others": others})


def _other_question(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    others = example.facts["others"]
    if not others:
        return None
    return _asked(rng, ANSWERING.follow_ups.pick(rng, unseen), rng.sample(others, len(others)))


def _has_value(example: Example, answer: str) -> bool:
    """Return whether the answer is the right value, at most with a preposition or an article."""
    right = rf"((at|on|in|to|by|from|until|the|an?) )*{re.escape(example.answer)}[.!]?"
    return bool(re.fullmatch(right, unquoted(answer), re.IGNORECASE))


def _quotation(rng: random.Random, unseen: bool) -> Example:
    target = QUOTING.subjects.pick(rng, unseen)
    others = [subject for subject in QUOTING.subjects.seen if subject is not target]
    subjects = [target, *rng.sample(others, rng.randint(2, 5))]
    stated = [fill_sentence(rng, rng.choice(sentences)) for _, sentences in subjects]
    phrasing = QUOTING.asks.pick(rng, unseen)
    prompt = request(rng, phrasing, _passage(rng, QUOTING.openings, stated), what=target[0])
    return Example("quoting", prompt, f'"{stated[0]}"')


def _claim(rng: random.Random, unseen: bool) -> Example:
    topic = YES_NO.topics.pick(rng, unseen)
    claims = rng.sample(topic["claims"], rng.randint(3, 5))
    details = [values(rng) for _ in claims]
    verdicts = [rng.choice(("yes", "no")) for _ in claims]
    sentences = [
        rng.choice(claim[verdict]).format(**slots)
        for claim, verdict, slots in zip(claims, verdicts, details)
    ]
    text = _passage(rng, topic["openings"], sentences)
    question = rng.choice(claims[0]["questions"]).format(**details[0])
    prompt = request(rng, YES_NO.asks.pick(rng, unseen), text, question=question)
    facts = {"verdict": verdicts[0], "sentence": sentences[0]}
    return Example("yes-no", prompt, f"{verdicts[0].title()}. {sentences[0]}", facts)


def _has_verdict(example: Example, answer: str) -> bool:
    """Return whether the answer is the right yes or no, alone or with the right sentence."""
    parts = re.fullmatch(r"(yes|no)\b[.,:;!]?\s*(.*)", answer.strip(), re.IGNORECASE | re.DOTALL)
    if not parts or parts[1].lower() != example.facts["verdict"]:
        return False
    return parts[2].strip('"“”') in ("", example.facts["sentence"])


ANSWERS = skill("answering", "Questions about a text", _question, _has_value, _other_question)
QUOTATIONS = skill("quoting", "The sentence that says it", _quotation, same(unquoted))
VERDICTS = skill("yes-no", "Yes or no", _claim, _has_verdict)
