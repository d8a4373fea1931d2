"""Short letters of invitation that must mention every detail that was asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from mars_demo.tasks.common import DAYS, NAMES, Example, Task, ask, sentences_of

# No choice may contain another of its kind: the grader checks that only the asked one is there.
DETAILS = {
    "occasion": (
        "a picnic", "a birthday party", "a game night", "a movie night", "a barbecue",
        "a concert", "a garden party", "a book club", "a dance", "a farewell dinner",
        "a bake sale", "a chess evening", "a tea party", "a school play", "a quiz night",
    ),
    "day": DAYS,
    "time": ("9 am", "10 am", "11 am", "1 pm", "2 pm", "3 pm", "4 pm", "5 pm", "6 pm", "7 pm"),
    "place": (
        "in the park", "at the library", "in the garden", "by the lake", "at the town hall",
        "on the beach", "at the school", "in the old barn", "at the bakery", "by the river",
        "at the cafe", "on the roof",
    ),
    "bring": (
        "a cake", "some juice", "a blanket", "a camera", "a guitar", "a salad", "some cups",
        "a board game", "warm socks", "an umbrella", "some music", "a pencil", "fresh bread",
        "a chair", "some fruit",
    ),
}  # fmt: skip

GREETINGS = ("Dear", "Hello", "Hi")
SIGN_OFFS = ("Best wishes,", "Love,", "Warmly,", "Your friend,", "See you soon,")
INVITATIONS = (
    "I would like to invite you to {occasion} on {day} at {time}.",
    "Please come to {occasion} on {day} at {time}.",
    "You are invited to {occasion} on {day} at {time}.",
    "There will be {occasion} on {day} at {time}.",
)
MEETINGS = (
    "We will meet {place}.",
    "It will be {place}.",
    "You can find us {place}.",
    "It takes place {place}.",
)
REQUESTS = (
    "Please bring {bring}.",
    "Could you bring {bring}?",
    "It would be great if you could bring {bring}.",
    "Do not forget to bring {bring}.",
)
WISHES = (
    "I look forward to seeing you.",
    "I hope you can come.",
    "It will be fun.",
    "Let me know if you can make it.",
    "We have not met for far too long.",
    "I am sure you will like it.",
)

ASKS = (
    "Write a short letter to {to} from {sender}. Invite {to} to {occasion} on {day} at {time} "
    "{place}, and ask for {bring}.",
    "Can you write a note from {sender} to {to}? It is about {occasion} {place} on {day} at "
    "{time}. {to} should bring {bring}.",
    "I am {sender}. Please write {to} an invitation to {occasion} on {day}, {time}, {place}. "
    "{to} should bring {bring}.",
    "pls write a note to {to}: {occasion}, {day} at {time}, {place}, bring {bring}, signed {sender}",
    "{sender} invites {to} to {occasion} {place}. It is on {day} at {time} and {to} should "
    "bring {bring}. Write the letter.",
)
LIST_ASKS = (
    "Write a short letter with these details: {listed}",
    "Please write a note for me. {listed}",
    "Write an invitation ({listed}).",
    "Can you turn this into a letter? {listed}",
)


def make(rng: random.Random) -> Example:
    to, sender = rng.sample(NAMES, 2)
    details = {name: rng.choice(choices) for name, choices in DETAILS.items()}
    facts = {"to": to, "sender": sender, **details}
    if rng.random() < 0.3:
        fields = {"to": to, "from": sender, **details}
        listed = [f"{name}: {value}" for name, value in fields.items()]
        rng.shuffle(listed)
        prompt = ask(rng, LIST_ASKS, listed="; ".join(listed))
    else:
        prompt = ask(rng, ASKS, **facts)
    middle = [rng.choice(MEETINGS), rng.choice(REQUESTS)]
    rng.shuffle(middle)
    wishes = rng.sample(WISHES, rng.randint(0, 2))
    body = " ".join([rng.choice(INVITATIONS), *middle, *wishes]).format(**details)
    answer = f"{rng.choice(GREETINGS)} {to},\n{body}\n{rng.choice(SIGN_OFFS)}\n{sender}"
    return Example("notes", prompt, answer, facts)


def grade(example: Example, answer: str) -> bool:
    facts = example.facts
    lines = [line.strip() for line in answer.strip().splitlines() if line.strip()]
    if len(lines) < 4:
        return False
    greeting, *body_lines, sign_off, sender = lines
    body = " ".join(body_lines)
    return (
        greeting in [f"{word} {facts['to']}," for word in GREETINGS]
        and sign_off in SIGN_OFFS
        and sender == facts["sender"]
        and 3 <= len(sentences_of(body)) <= 5
        and all(_mentioned(body, choices) == [facts[name]] for name, choices in DETAILS.items())
    )


def _mentioned(text: str, phrases: Sequence[str]) -> list[str]:
    return [phrase for phrase in phrases if re.search(rf"\b{re.escape(phrase)}\b", text)]


TASK = Task("notes", "Short letters", make, grade)
