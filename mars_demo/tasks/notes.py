"""Short invitation letters that must mention every requested detail."""

import random
import re
from collections.abc import Sequence

from mars_demo.tasks.common import NAMES, TEXTS, Example, Task, ask, sentences_of, stripped_lines

_TEXTS = TEXTS["notes"]
# No choice may contain another of its kind, because the grader accepts only the requested one.
DETAILS = _TEXTS["details"]


def make(rng: random.Random) -> Example:
    to, sender = rng.sample(NAMES, 2)
    details = {name: rng.choice(choices) for name, choices in DETAILS.items()}
    facts = {"to": to, "sender": sender, **details}
    if rng.random() < 0.3:
        fields = {"to": to, "from": sender, **details}
        listed = [f"{name}: {value}" for name, value in fields.items()]
        rng.shuffle(listed)
        prompt = ask(rng, _TEXTS["list_asks"], listed="; ".join(listed))
    else:
        prompt = ask(rng, _TEXTS["asks"], **facts)
    middle = [rng.choice(_TEXTS["meetings"]), rng.choice(_TEXTS["requests"])]
    rng.shuffle(middle)
    wishes = rng.sample(_TEXTS["wishes"], rng.randint(0, 2))
    body = " ".join([rng.choice(_TEXTS["invitations"]), *middle, *wishes]).format(**details)
    answer = "\n".join(
        [f"{rng.choice(_TEXTS['greetings'])} {to},", body, rng.choice(_TEXTS["sign_offs"]), sender]
    )
    return Example("notes", prompt, answer, facts)


def grade(example: Example, answer: str) -> bool:
    facts = example.facts
    lines = stripped_lines(answer)
    if len(lines) < 4:
        return False
    greeting, *body_lines, sign_off, sender = lines
    body = " ".join(body_lines)
    return (
        greeting in [f"{word} {facts['to']}," for word in _TEXTS["greetings"]]
        and sign_off in _TEXTS["sign_offs"]
        and sender == facts["sender"]
        and 3 <= len(sentences_of(body)) <= 5
        and all(_mentioned(body, choices) == [facts[name]] for name, choices in DETAILS.items())
    )


def _mentioned(text: str, phrases: Sequence[str]) -> list[str]:
    return [phrase for phrase in phrases if re.search(rf"\b{re.escape(phrase)}\b", text)]


TASK = Task("notes", "Short letters", make, grade)
