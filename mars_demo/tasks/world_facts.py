"""Facts from small tables: countries, chemical elements, young animals and planets."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mars_demo.tasks.common import Example, Task, ask, concludes, concluding

COUNTRIES = """
    France|Paris|Europe|French|euro
    Germany|Berlin|Europe|German|euro
    Italy|Rome|Europe|Italian|euro
    Spain|Madrid|Europe|Spanish|euro
    Portugal|Lisbon|Europe|Portuguese|euro
    Greece|Athens|Europe|Greek|euro
    Austria|Vienna|Europe|German|euro
    Finland|Helsinki|Europe|Finnish|euro
    Estonia|Tallinn|Europe|Estonian|euro
    Latvia|Riga|Europe|Latvian|euro
    Lithuania|Vilnius|Europe|Lithuanian|euro
    Slovakia|Bratislava|Europe|Slovak|euro
    Croatia|Zagreb|Europe|Croatian|euro
    Sweden|Stockholm|Europe|Swedish|Swedish krona
    Norway|Oslo|Europe|Norwegian|Norwegian krone
    Denmark|Copenhagen|Europe|Danish|Danish krone
    Iceland|Reykjavik|Europe|Icelandic|Icelandic krona
    Poland|Warsaw|Europe|Polish|zloty
    Hungary|Budapest|Europe|Hungarian|forint
    Romania|Bucharest|Europe|Romanian|leu
    Albania|Tirana|Europe|Albanian|lek
    Egypt|Cairo|Africa|Arabic|Egyptian pound
    Morocco|Rabat|Africa|Arabic|Moroccan dirham
    Tunisia|Tunis|Africa|Arabic|Tunisian dinar
    Kenya|Nairobi|Africa|Swahili|Kenyan shilling
    Ghana|Accra|Africa|English|cedi
    Nigeria|Abuja|Africa|English|naira
    Angola|Luanda|Africa|Portuguese|kwanza
    Mozambique|Maputo|Africa|Portuguese|metical
    Japan|Tokyo|Asia|Japanese|yen
    China|Beijing|Asia|Chinese|yuan
    South Korea|Seoul|Asia|Korean|won
    Thailand|Bangkok|Asia|Thai|baht
    Vietnam|Hanoi|Asia|Vietnamese|dong
    Cambodia|Phnom Penh|Asia|Khmer|riel
    Nepal|Kathmandu|Asia|Nepali|Nepalese rupee
    Bangladesh|Dhaka|Asia|Bengali|taka
    Mongolia|Ulaanbaatar|Asia|Mongolian|tugrik
    Jordan|Amman|Asia|Arabic|Jordanian dinar
    Mexico|Mexico City|North America|Spanish|Mexican peso
    Cuba|Havana|North America|Spanish|Cuban peso
    Jamaica|Kingston|North America|English|Jamaican dollar
    Brazil|Brasilia|South America|Portuguese|real
    Argentina|Buenos Aires|South America|Spanish|Argentine peso
    Chile|Santiago|South America|Spanish|Chilean peso
    Colombia|Bogota|South America|Spanish|Colombian peso
    Uruguay|Montevideo|South America|Spanish|Uruguayan peso
    Peru|Lima|South America|Spanish|sol
    Australia|Canberra|Oceania|English|Australian dollar
    New Zealand|Wellington|Oceania|English|New Zealand dollar
"""

ELEMENTS = """
    gold|Au
    silver|Ag
    iron|Fe
    copper|Cu
    lead|Pb
    tin|Sn
    oxygen|O
    hydrogen|H
    carbon|C
    nitrogen|N
    helium|He
    sodium|Na
"""

YOUNG = """
    dog|puppy
    cat|kitten
    cow|calf
    sheep|lamb
    horse|foal
    goat|kid
    duck|duckling
    goose|gosling
    swan|cygnet
    frog|tadpole
    bear|cub
    kangaroo|joey
"""

PLANETS = """
    first|Mercury
    second|Venus
    third|Earth
    fourth|Mars
    fifth|Jupiter
    sixth|Saturn
    seventh|Uranus
    eighth|Neptune
"""


@dataclass(frozen=True)
class Relation:
    """Phrasings of a question about one column of a table, and the sentence that answers it."""

    table: str
    column: int
    asks: tuple[str, ...]
    says: str

    def rows(self) -> list[tuple[str, str]]:
        cells = (line.strip().split("|") for line in self.table.strip().splitlines())
        return [(row[0], row[self.column]) for row in cells]


RELATIONS = (
    Relation(
        COUNTRIES,
        1,
        (
            "What is the capital of {key}?",
            "Which city is the capital of {key}?",
            "Tell me the capital of {key}.",
            "What's the capital city of {key}?",
            "Do you know the capital of {key}?",
            "{key}: what is the capital?",
        ),
        "The capital of {key} is {value}.",
    ),
    Relation(
        COUNTRIES,
        2,
        (
            "Which continent is {key} in?",
            "What continent is {key} on?",
            "On which continent is {key}?",
            "Tell me the continent of {key}.",
            "Do you know what continent {key} is part of?",
        ),
        "{key} is in {value}.",
    ),
    Relation(
        COUNTRIES,
        3,
        (
            "What language is spoken in {key}?",
            "What is the main language of {key}?",
            "Which language do people speak in {key}?",
            "Tell me the main language in {key}.",
            "What language do they speak in {key}?",
        ),
        "The main language of {key} is {value}.",
    ),
    Relation(
        COUNTRIES,
        4,
        (
            "What is the currency of {key}?",
            "Which currency is used in {key}?",
            "What money do people use in {key}?",
            "Tell me the currency of {key}.",
            "What do people pay with in {key}?",
        ),
        "The currency of {key} is the {value}.",
    ),
    Relation(
        ELEMENTS,
        1,
        (
            "What is the chemical symbol for {key}?",
            "What's the symbol for {key}?",
            "Which chemical symbol stands for {key}?",
            "Tell me the chemical symbol of {key}.",
            "How is {key} written in chemistry?",
        ),
        "The chemical symbol for {key} is {value}.",
    ),
    Relation(
        YOUNG,
        1,
        (
            "What is a baby {key} called?",
            "What do you call a baby {key}?",
            "What's the word for a young {key}?",
            "Tell me the name for a baby {key}.",
            "Do you know what a young {key} is called?",
        ),
        "A young {key} is called a {value}.",
    ),
    Relation(
        PLANETS,
        1,
        (
            "Which planet is {key} from the Sun?",
            "What is the {key} planet from the Sun?",
            "Tell me the {key} planet from the Sun.",
            "Name the {key} planet of the solar system.",
            "Which one is the {key} planet, counting from the Sun?",
        ),
        "The {key} planet from the Sun is {value}.",
    ),
)

FACTS = tuple((relation, *row) for relation in RELATIONS for row in relation.rows())


def make(rng: random.Random) -> Example:
    relation, key, value = rng.choice(FACTS)
    prompt = ask(rng, relation.asks, key=key)
    return concluding("world-facts", prompt, "", relation.says.format(key=key, value=value))


TASK = Task("world-facts", "Facts about the world", make, concludes, 1.25)
