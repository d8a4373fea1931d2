"""Calculations with the numbers of a text, with the numbers copied first, and totals of shopping lists."""

import random
import re

from mars_demo.tasks.common import Example, capitalized, concludes
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, request, skill, texts
from mars_demo.tasks.skills.sums import steps_of

TEXT, RECEIPTS = texts("computing"), texts("receipts")
ASKS = (
    (TEXT.things, "+", TEXT.asks_total_of_things),
    (TEXT.things, "-", TEXT.asks_difference_of_things),
    (TEXT.series, "+", TEXT.asks_total_of_series),
    (TEXT.series, "-", TEXT.asks_difference_of_series),
)
LABELS = words.GROUPS | {"days": words.DAYS, "months": words.MONTHS}


def _calculation(rng: random.Random, unseen: bool) -> Example:
    if rng.random() < 0.25:
        return _cost(rng, unseen)
    sources, sign, asks = rng.choice(ASKS)
    source, phrasing = sources.pick(rng, unseen), asks.pick(rng, unseen)
    labels = LABELS[source["labels"]] if sources is TEXT.series else source["labels"]
    labels = rng.sample(labels, rng.randint(3, min(5, len(labels))))
    counts = dict(zip(labels, rng.sample(range(2, 21), len(labels))))
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
    names = {"item": item, "items": items, "other": other, "others": others}
    order = TEXT.orders.pick(rng, unseen).format(**names, n=n, m=m, p=p, q=q)
    chosen, number, price = rng.choice(((items, n, p), (others, m, q)))
    prompt = request(rng, TEXT.asks_cost.pick(rng, unseen), order, items=chosen)
    return _example(prompt, {chosen: number, "price": price}, "x", [number, price])


def _example(prompt: str, given: dict[str, int], sign: str, numbers: list[int]) -> Example:
    steps, result = steps_of(sign, numbers)
    copied = " ".join(f"{capitalized(label)}: {n}." for label, n in given.items())
    conclusion = f"The answer is {result}."
    facts = {"given": given, "conclusion": conclusion}
    return Example("computing", prompt, f"{copied} {steps} {conclusion}", facts)


def _copies(example: Example, answer: str) -> bool:
    text, facts = answer.strip(), example.facts
    copied = set(re.findall(r"([\w -]+?) ?[:=] ?(\d+)", text.lower()))
    given = {(label.lower(), str(n)) for label, n in facts["given"].items()}
    return text.endswith(facts["conclusion"]) and given <= {(label.strip(), n) for label, n in copied}


def _receipt(rng: random.Random, unseen: bool) -> Example:
    bullet, line = rng.choice(RECEIPTS.bullets), RECEIPTS.lines.pick(rng, unseen)
    currency = rng.choice(RECEIPTS.currencies)
    total, given, bought, steps = 0, [], [], []
    for singular, many in rng.sample(RECEIPTS.goods, rng.randint(2, 3)):
        n, price = rng.randint(1, 6), rng.randint(2, 12)
        items = singular if n == 1 else many
        given.append(bullet + line.format(n=n, item=singular, items=items, price=currency.format(price)))
        bought.append((singular, many, n, price))
        steps.append(f"{items if '{items}' in line else singular}: {n} x {price} = {n * price}.")
        if total:
            steps.append(steps_of("+", [total, n * price])[0])
        total += n * price
    in_a_row = not bullet and not set(line) & set(",;|=\t") and rng.random() < 0.3
    text = and_list(given) if in_a_row else "\n".join(given)
    prompt = request(rng, RECEIPTS.asks.pick(rng, unseen), text)
    conclusion = f"The total is {total}."
    facts = {"bought": bought, "conclusion": conclusion}
    return Example("receipts", prompt, "\n".join([*steps, conclusion]), facts)


def _has_costs(example: Example, answer: str) -> bool:
    """Return whether the answer names each item, has its cost and ends with the total."""
    text = answer.lower()
    equations = set(re.findall(r"(\d+) [x×*] (\d+) = (\d+)", answer))
    return concludes(example, answer) and all(
        (singular.lower() in text or many.lower() in text)
        and {(str(n), str(price), str(n * price)), (str(price), str(n), str(n * price))} & equations
        for singular, many, n, price in example.facts["bought"]
    )


NUMBERS = skill("computing", "Numbers of a text", _calculation, _copies)
TOTALS = skill("receipts", "Totals of receipts", _receipt, _has_costs)
