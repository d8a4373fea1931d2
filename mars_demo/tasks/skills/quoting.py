"""The sentence of a passage that says something, quoted."""

from __future__ import annotations

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, request, skill

PLACES = (
    "library", "museum", "bakery", "gym", "campsite", "hostel", "theater", "bookshop", "swimming pool",
    "bike shop", "community garden", "cinema", "aquarium", "ice rink", "pottery studio", "boat rental",
)  # fmt: skip
# For each subject: how a question refers to it, and sentences that state it.
SUBJECTS = Kinds(
    seen=(
        ("when it opens", ("The doors open at {clock} every {day}.", "It opens at {clock} on weekdays.")),
        ("what it costs", ("A ticket costs {number} dollars.", "You pay {number} dollars at the door.")),
        ("who founded it", ("{person} founded it in {year}.", "It was started by {person} in {year}.")),
        ("where it is", ("You find it at {address} in {city}.", "It stands at {address}, near the river.")),
        ("where to park", ("Visitors park behind the {color} gate.", "There is parking at {address}.")),
        ("how to contact it", ("Write to {email} with any question.", "Questions go to {email}.")),
        ("when it is closed", ("It stays closed on {day}s.", "Nobody works there on {day}s in {month}.")),
        ("how many people fit in", ("It has room for {number}.", "At most {number} people may enter.")),
        ("who runs it", ("{person} has run it since {year}.", "Today {person} is the manager.")),
        ("whether dogs may come", ("Dogs are welcome on a leash.", "Dogs have to wait outside.")),
        ("when it was renovated", ("The roof was renewed in {year}.", "Its rooms were painted in {year}.")),
        ("what children pay", ("Children pay {number} dollars.", "Children under {number} enter free.")),
    ),
    unseen=(
        ("what one can eat there", ("The kitchen serves soup until {clock}.", "Cake is sold on {day}s.")),
        ("how to become a member", ("Members sign up at the desk on {day}s.", "To join, ask {person}.")),
        ("which bus goes there", ("Bus {number} stops in front of it.", "Take bus {number} from {city}.")),
        ("what was lost there", ("A {product} was left in the hall.", "Someone forgot a {product} there.")),
        ("what is planned", ("A second hall will open in {month}.", "In {year} it will move to {city}.")),
    ),
)  # fmt: skip
COLORS = ("red", "green", "blue", "white", "yellow", "black", "brown")
ASKS = Kinds(
    seen=(
        "Which sentence says {what}? Quote it.",
        "Quote the sentence that says {what}.",
        "Find the sentence about {what} and copy it word for word.",
        "Copy the sentence of this text that tells {what}.",
        "Where does the text say {what}? Give me the exact sentence.",
        "I want to know {what}. Quote the sentence.",
    ),
    unseen=(
        "Give the line from the passage in which one reads {what}, in quotation marks.",
        "Point me to {what} with a literal quote.",
    ),
)


def make(rng: random.Random, unseen: bool) -> Example:
    place = rng.choice(PLACES)
    asked = SUBJECTS.pick(rng, unseen)
    others = [subject for subject in SUBJECTS.seen if subject is not asked]
    subjects = [asked, *rng.sample(others, rng.randint(2, 5))]
    said = [_filled(rng, rng.choice(sentences)) for _, sentences in subjects]
    rest = said[1:]
    rest.insert(rng.randint(0, len(rest)), said[0])
    opening = rng.choice(
        ("This is about the {} of our town.", "The {} has a long story.", "Our {} in short:")
    )
    passage = " ".join([opening.format(place), *rest])
    prompt = request(rng, ASKS.pick(rng, unseen).format(what=asked[0]), passage)
    return Example("quoting", prompt, f'"{said[0]}"', {"sentence": said[0]})


def _filled(rng: random.Random, sentence: str) -> str:
    return sentence.format(
        clock=words.clock(rng),
        day=rng.choice(words.DAYS),
        number=rng.randint(2, 60),
        person=words.person(rng),
        year=rng.randint(1890, 2024),
        address=words.address(rng),
        city=rng.choice(words.CITIES),
        color=rng.choice(COLORS),
        email=words.email(rng),
        month=rng.choice(words.MONTHS),
        product=rng.choice([product for product in words.PRODUCTS if product[0] not in "aeiou"]),
    )


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the sentence, with or without quotation marks."""
    return answer[:LONGEST].strip().strip('"“”') == example.facts["sentence"]


TASK = skill("quoting", "The sentence that says it", make, grade)
