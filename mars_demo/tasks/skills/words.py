"""Names, things and numbers to fill requests with."""

from __future__ import annotations

import datetime
import random

FIRST_NAMES = """
    Aisha Amir Anna Boris Carla Chen Clara Daniel Diego Elena Emil Farah Felix Grace Hana Henry Ines Isaac
    Jana Jonas Julia Karim Kofi Lara Liam Lucas Maria Mateo Mei Milan Nadia Nora Olga Oscar Paula Pedro
    Priya Rafael Rosa Samir Sofia Stefan Tara Theo Tina Uma Victor Wei Yara Yusuf
""".split()
LAST_NAMES = """
    Adams Baker Becker Brooks Castro Costa Diaz Evans Fischer Garcia Hansen Hughes Ito Jensen Kaya Keller
    Khan Kim Larsen Lopez Marino Meyer Mills Moreno Novak Okafor Olsen Park Patel Perez Quinn Reed Rossi
    Santos Sato Silva Singh Stone Tanaka Turner Vogel Walsh Weber Young Zhang
""".split()
CITIES = """
    Athens Austin Berlin Boston Bristol Cairo Chicago Cork Dallas Denver Dublin Geneva Hamburg Hanoi
    Helsinki Kyoto Leeds Lima Lisbon London Lyon Madrid Milan Montreal Munich Nairobi Oslo Paris Porto
    Prague Quito Rome Seattle Seoul Toronto Turin Vienna Warsaw Zurich
""".split()
STREETS = """
    Bridge Castle Cedar Chapel Church Elm Garden Harbor High Hill King Lake Maple Market Mill North Oak
    Orchard Park Pine Queen River School Spring Station Sunset Valley Water Willow
""".split()
PRODUCTS = (
    "desk lamp", "office chair", "water bottle", "coffee grinder", "yoga mat", "phone case", "backpack",
    "keyboard", "rain jacket", "tea kettle", "notebook", "bike helmet", "garden hose", "wall clock",
    "sleeping bag", "picture frame", "wool blanket", "USB cable", "tool box", "camping stove", "headphones",
    "running shoes", "cutting board", "table fan", "travel mug", "bookshelf", "monitor stand", "paint set",
)  # fmt: skip
COMPANIES = (
    "Bluebird Books", "Cedar Foods", "Delta Tools", "Evergreen Garden", "Fairway Travel", "Granite Bank",
    "Harbor Coffee", "Ironwood Design", "Juniper Health", "Kestrel Labs", "Lakeside Dental", "Maple Press",
    "Northwind Energy", "Orchid Hotels", "Pioneer Parts", "Quartz Media", "Redwood Law", "Summit Sports",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
GROUPS = {
    "fruits": "apples apricots bananas blueberries cherries figs grapes kiwis lemons limes mangoes melons "
    "nectarines oranges papayas peaches pears plums raspberries strawberries",
    "tools": "axe chisel clamp drill file hammer knife ladder level mallet pliers plunger ruler sander saw "
    "screwdriver shovel tape trowel wrench",
    "animals": "badger bear cat cow deer dog dolphin eagle fox goat hamster horse lion mouse otter owl "
    "panda rabbit seal tiger turtle wolf zebra",
    "groceries": "bread butter cheese coffee eggs flour garlic honey jam milk mustard noodles oats oil "
    "onions pasta pepper rice salt sugar tea tomatoes vinegar yogurt",
    "sports": "archery badminton baseball boxing climbing cricket cycling diving fencing golf hockey judo "
    "rowing rugby running sailing skiing soccer surfing swimming tennis volleyball",
    "cities": " ".join(CITIES),
    "names": " ".join(FIRST_NAMES),
}


def person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"


def email(rng: random.Random) -> str:
    first, last = rng.choice(FIRST_NAMES).lower(), rng.choice(LAST_NAMES).lower()
    return f"{first}{rng.choice(('.', '_', ''))}{last}@example.{rng.choice(('com', 'org', 'net'))}"


def date(rng: random.Random) -> datetime.date:
    return datetime.date(2015, 1, 1) + datetime.timedelta(days=rng.randrange(365 * 20))


def long_date(day: datetime.date) -> str:
    return f"{MONTHS[day.month - 1]} {day.day}, {day.year}"


def clock(rng: random.Random) -> str:
    return f"{rng.randint(7, 21)}:{rng.choice(('00', '15', '30', '45'))}"


def address(rng: random.Random) -> str:
    return f"{rng.randint(1, 99)} {rng.choice(STREETS)} {rng.choice(('Street', 'Road', 'Lane', 'Avenue'))}"


def code(rng: random.Random) -> str:
    return f"{rng.choice('ABCDEFGHKLMNPRST')}{rng.choice('ABCDEFGHKLMNPRST')}-{rng.randint(1000, 9999)}"


def price(rng: random.Random) -> str:
    return f"{rng.randint(3, 199)}.{rng.choice(('00', '20', '50', '75', '90', '99'))}"
