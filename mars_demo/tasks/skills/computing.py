"""Calculations with numbers of a text: a total, a difference or a cost, with the numbers copied first."""

import random
import re

from mars_demo.tasks.common import Example, capitalized
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, request, skill, texts
from mars_demo.tasks.skills.sums import steps_of

TEXT = texts("computing")
ASKS = (
    (TEXT.things, "+", TEXT.asks_total_of_things),
    (TEXT.things, "-", TEXT.asks_difference_of_things),
    (TEXT.series, "+", TEXT.asks_total_of_series),
    (TEXT.series, "-", TEXT.asks_difference_of_series),
)
LABELS = words.GROUPS | {"days": words.DAYS, "months": words.MONTHS}


def make(rng: random.Random, unseen: bool) -> Example:
    if rng.random() < 0.25:
        return _cost(rng, unseen)
    sources, sign, asks = rng.choice(ASKS)
    source, phrasing = sources.pick(rng, unseen), asks.pick(rng, unseen)
    labels = LABELS[source["labels"]] if sources is TEXT.series else source["labels"]
    labels = rng.sample(labels, rng.randint(3, min(5, len(labels))))
    counts = dict(zip(labels, rng.sample(range(2, 61), len(labels))))
    pair = rng.sample(labels, 2)
    x, y = pair if sign == "+" else sorted(pair, key=counts.get, reverse=True)
    fields = {"x": x, "y": y} | dict(zip("vw", pair))  # of v and w, either may be larger
    prompt = request(rng, phrasing, _text(rng, source, counts), **fields, things=source["things"])
    mentioned = sorted(fields, key=lambda field: phrasing.find(f"{{{field}}}"))[-2:]
    given = {fields[field]: counts[fields[field]] for field in mentioned}
    numbers = [*given.values()] if sign == "+" else [counts[x], counts[y]]
    return _example(prompt, given, sign, numbers)


def _text(rng: random.Random, source: dict, counts: dict[str, int]) -> str:
    """Return a text that states each count, as lines, as sentences or as one list."""
    if rng.random() < 0.35:
        layout = rng.choice(TEXT.layouts)
        case = rng.choice((str, capitalized))
        lines = [layout.format(x=case(label), n=n) for label, n in counts.items()]
        return "\n".join([f"{capitalized(source['things'])}:", *lines])
    if "lists" in source and rng.random() < 0.5:
        listed = and_list([f"{n} {label}" for label, n in counts.items()])
        sentences = [rng.choice(source["lists"]).format(list=listed)]
    else:
        sentences = [rng.choice(source["each"]).format(x=label, n=n) for label, n in counts.items()]
    for extra in rng.sample(TEXT.extras, rng.randint(0, 2)):
        sentences.insert(rng.randint(0, len(sentences)), extra.format(k=rng.randint(2, 12)))
    return rng.choice((" ", " ", " ", "\n")).join(sentences)


def _cost(rng: random.Random, unseen: bool) -> Example:
    (item, items), (other, others) = rng.sample(TEXT.goods, 2)
    (n, m), (p, q) = rng.sample(range(2, 10), 2), rng.sample(range(2, 13), 2)
    order = TEXT.orders.pick(rng, unseen).format(
        item=item, items=items, other=other, others=others, n=n, m=m, p=p, q=q
    )
    chosen, number, price = rng.choice(((items, n, p), (others, m, q)))
    prompt = request(rng, TEXT.asks_cost.pick(rng, unseen), order, items=chosen)
    return _example(prompt, {chosen: number, "price": price}, "x", [number, price])


def _example(prompt: str, given: dict[str, int], sign: str, numbers: list[int]) -> Example:
    steps, result = steps_of(sign, numbers)
    copied = " ".join(f"{capitalized(label)}: {n}." for label, n in given.items())
    conclusion = f"The answer is {result}."
    facts = {"given": given, "conclusion": conclusion}
    return Example("computing", prompt, f"{copied} {steps} {conclusion}", facts)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer copies the two numbers with their labels and ends with the result."""
    text, facts = answer.strip(), example.facts
    copied = set(re.findall(r"([\w -]+?) ?[:=] ?(\d+)", text.lower()))
    given = {(label.lower(), str(n)) for label, n in facts["given"].items()}
    return text.endswith(facts["conclusion"]) and given <= {(label.strip(), n) for label, n in copied}


TASK = skill("computing", "Numbers of a text", make, grade)
