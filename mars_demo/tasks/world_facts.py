"""Facts from small tables: countries, chemical elements, young animals and planets."""

import random

from mars_demo.tasks.common import TEXTS, Example, Task, ask, concludes, concluding

RELATIONS = TEXTS["world-facts"]["relations"]  # each with questions about one column of a table
TABLES = {
    name: [line.split("|") for line in lines] for name, lines in TEXTS["world-facts"]["tables"].items()
}
FACTS = [
    (relation, row[0], row[relation["column"]])
    for relation in RELATIONS
    for row in TABLES[relation["table"]]
]


def make(rng: random.Random) -> Example:
    relation, key, value = rng.choice(FACTS)
    prompt = ask(rng, relation["asks"], key=key)
    return concluding("world-facts", prompt, "", relation["says"].format(key=key, value=value))


TASK = Task("world-facts", "Facts about the world", make, concludes, 1.25)
