"""Fields of an email, an order, an event or a booking, extracted as JSON."""

from __future__ import annotations

import json
import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, and_list, request, skill, unfenced


def _number(low: int, high: int):
    return lambda rng: rng.randint(low, high)


def _date(rng: random.Random) -> str:
    day = words.date(rng)
    return rng.choice((words.long_date(day), day.isoformat()))


def _one_of(*values: str):
    return lambda rng: rng.choice(values)


# The fields of each document: a function that draws a value, and sentences that state it.
ORDER = {
    "order_id": (
        words.code,
        ("The order number is {}.", "This is about order {}.", "Order {} is confirmed."),
    ),
    "customer": (words.person, ("The customer is {}.", "{} placed the order.", "It was ordered by {}.")),
    "item": (
        _one_of(*words.PRODUCTS),
        ("The article is a {}.", "Please send one more {}.", "It is for a {}."),
    ),
    "quantity": (_number(2, 40), ("The quantity is {}.", "We need {} pieces.", "They want {} of them.")),
    "price": (words.price, ("The price is {}.", "It costs {} in total.", "The total comes to {}.")),
    "city": (_one_of(*words.CITIES), ("Ship it to {}.", "The parcel goes to {}.", "Delivery is to {}.")),
    "date": (_date, ("It was ordered on {}.", "The order is from {}.", "The order date is {}.")),
}
EMAIL = {
    "sender": (words.person, ("Best wishes, {}.", "This is {} writing.", "My name is {}.")),
    "company": (_one_of(*words.COMPANIES), ("I work at {}.", "I write on behalf of {}.", "We are {}.")),
    "email": (words.email, ("Please reply to {}.", "You can reach me at {}.", "My address is {}.")),
    "deadline": (_date, ("We need an answer by {}.", "The deadline is {}.", "Please answer before {}.")),
    "subject": (
        _one_of("the annual report", "a broken printer", "the new contract", "an unpaid invoice",
                "the team lunch", "a lost parcel", "the website redesign", "next week's training"),
        ("I am writing about {}.", "This is about {}.", "It concerns {}."),
    ),
    "phone": (
        lambda rng: f"555-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}",
        ("Call me at {}.", "My phone number is {}.", "The number to call is {}."),
    ),
}  # fmt: skip
EVENT = {
    "title": (
        _one_of("Spring Concert", "Chess Evening", "Book Fair", "Charity Run", "Pottery Workshop",
                "Film Night", "Science Day", "Street Market", "Jazz Brunch", "Open Studio"),
        ("Welcome to the {}!", "The {} is back.", "Come to the {}."),
    ),
    "date": (_date, ("It takes place on {}.", "The date is {}.", "Save the date: {}.")),
    "time": (words.clock, ("Doors open at {}.", "It begins at {}.", "We start at {}.")),
    "place": (words.address, ("The address is {}.", "We meet at {}.", "You will find us at {}.")),
    "city": (_one_of(*words.CITIES), ("The city is {}.", "It all happens in {}.", "It is held in {}.")),
    "host": (words.person, ("Your host is {}.", "{} organizes it.", "It is hosted by {}.")),
    "seats": (_number(12, 300), ("There are {} seats.", "We have room for {}.", "Only {} tickets exist.")),
}  # fmt: skip
BOOKING = {
    "guest": (words.person, ("The guest is {}.", "The room is for {}.", "It is booked by {}.")),
    "hotel": (_one_of("Hotel Aurora", "Lake Inn", "Park Lodge", "Grand Plaza", "Villa Rosa"),
              ("They stay at {}.", "The hotel is {}.", "The booking is with {}.")),
    "arrival": (_date, ("Arrival is on {}.", "They arrive on {}.", "Check-in is on {}.")),
    "nights": (_number(2, 14), ("They stay {} nights.", "It is for {} nights.", "The stay is {} nights.")),
    "room": (_number(101, 560), ("The room number is {}.", "They get room {}.", "Room {} is ready.")),
    "reference": (words.code, ("The reference is {}.", "Quote {} on arrival.", "Mention {}.")),
}  # fmt: skip
PARCEL = {
    "tracking": (words.code, ("The tracking code is {}.", "Track it with {}.", "Its code is {}.")),
    "weight_kg": (
        _number(2, 30),
        ("It weighs {} kilograms.", "The weight is {} kg.", "The scale shows {} kg."),
    ),
    "recipient": (words.person, ("It is addressed to {}.", "The recipient is {}.", "{} will receive it.")),
    "depot": (
        _one_of(*words.CITIES),
        ("It lies in the depot in {}.", "The depot is in {}.", "It left {}."),
    ),
    "arrives": (_date, ("It arrives on {}.", "Expect it on {}.", "Delivery day is {}.")),
}
DOCUMENTS = Kinds(
    seen=(("email", EMAIL), ("order", ORDER), ("event", EVENT)),
    unseen=(("booking", BOOKING), ("parcel note", PARCEL)),
)
ASKS = Kinds(
    seen=(
        "Extract {keys} from this {what} as JSON.",
        "Give me {keys} of this {what} as a JSON object.",
        "Turn the {what} below into JSON with the keys {keys}.",
        "I need {keys} as JSON from the following {what}.",
        "Read this {what} and return JSON with {keys}.",
        "JSON please, with the fields {keys}, from this {what}.",
        "What are {keys} in this {what}? Answer in JSON.",
    ),
    unseen=(
        "Make a JSON object that holds {keys}, taken from this {what}.",
        "Parse the {what} and output only JSON. Keys: {keys}.",
    ),
)


def make(rng: random.Random, unseen: bool) -> Example:
    what, fields = DOCUMENTS.pick(rng, unseen)
    told = rng.sample(list(fields), rng.randint(3, len(fields)))
    values = {key: fields[key][0](rng) for key in told}
    text = " ".join(rng.choice(fields[key][1]).format(values[key]) for key in told)
    wanted = rng.sample(told, rng.randint(2, min(5, len(told))))
    prompt = request(rng, ASKS.pick(rng, unseen).format(what=what, keys=and_list(wanted)), text)
    found = {key: values[key] for key in wanted}
    return Example("extraction", prompt, json.dumps(found, indent=2), {"fields": found})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is a JSON object with these fields alone; numbers may be strings."""
    try:
        found = json.loads(unfenced(answer[:LONGEST]))
    except (ValueError, RecursionError):
        return False
    wanted = example.facts["fields"]
    return isinstance(found, dict) and {k: str(v) for k, v in found.items()} == {
        k: str(v) for k, v in wanted.items()
    }


TASK = skill("extraction", "Fields as JSON", make, grade)
