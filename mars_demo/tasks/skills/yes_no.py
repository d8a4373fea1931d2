"""Yes or no from a passage, with the sentence that says so."""

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import request, skill, texts
from mars_demo.tasks.skills.passages import passage, values

TEXT = texts("yes-no")  # each topic with openings, and claims that its sentences confirm or deny


def make(rng: random.Random, unseen: bool) -> Example:
    topic = TEXT.topics.pick(rng, unseen)
    claims = rng.sample(topic["claims"], rng.randint(3, 5))
    details = [values(rng) for _ in claims]
    verdicts = [rng.choice(("yes", "no")) for _ in claims]
    sentences = [
        rng.choice(claim[verdict]).format(**slots)
        for claim, verdict, slots in zip(claims, verdicts, details)
    ]
    text = passage(rng, topic["openings"], sentences)
    question = rng.choice(claims[0]["questions"]).format(**details[0])
    prompt = request(rng, TEXT.asks.pick(rng, unseen), text, question=question)
    facts = {"verdict": verdicts[0], "sentence": sentences[0]}
    return Example("yes-no", prompt, f"{verdicts[0].title()}. {sentences[0]}", facts)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the right yes or no, alone or with the right sentence."""
    parts = re.fullmatch(r"(yes|no)\b[.,:;!]?\s*(.*)", answer.strip(), re.IGNORECASE | re.DOTALL)
    if not parts or parts[1].lower() != example.facts["verdict"]:
        return False
    return parts[2].strip('"“”') in ("", example.facts["sentence"])


TASK = skill("yes-no", "Yes or no", make, grade)
