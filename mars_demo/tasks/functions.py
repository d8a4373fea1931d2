"""Python functions of one line, compared with the right one by their syntax trees."""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass

from mars_demo.tasks.common import Example, Task, ask, in_words


@dataclass(frozen=True)
class Function:
    """A kind of one-line function: what it does in words, what it may be called, its code."""

    does: tuple[str, ...]
    names: tuple[str, ...]
    argument: str
    doc: str
    result: str


FUNCTIONS = (
    Function(
        ("adds {n} to x", "takes x and returns x plus {n}"),
        ("add_{n}", "plus_{n}", "add_{word}", "increase_by_{n}"),
        "x",
        "Return x plus {n}.",
        "x + {n}",
    ),
    Function(
        ("subtracts {n} from x", "takes x and returns x minus {n}"),
        ("subtract_{n}", "minus_{n}", "subtract_{word}", "decrease_by_{n}"),
        "x",
        "Return x minus {n}.",
        "x - {n}",
    ),
    Function(
        ("multiplies x by {n}", "takes x and returns {n} times x"),
        ("multiply_by_{n}", "times_{n}", "times_{word}", "scale_by_{n}"),
        "x",
        "Return x times {n}.",
        "x * {n}",
    ),
    Function(
        ("raises x to the power {n}", "returns x to the power of {n}"),
        ("power_{n}", "to_the_power_{n}", "raise_to_{word}"),
        "x",
        "Return x to the power {n}.",
        "x ** {n}",
    ),
    Function(
        ("checks whether x is divisible by {n}", "tells if x can be divided by {n}"),
        ("is_divisible_by_{n}", "divisible_by_{word}", "check_{n}"),
        "x",
        "Return whether x is divisible by {n}.",
        "x % {n} == 0",
    ),
    Function(
        ("returns the larger of a and b", "gives the maximum of two numbers a and b"),
        ("max_of_two", "larger", "bigger_number", "pick_larger"),
        "a, b",
        "Return the larger of a and b.",
        "max(a, b)",
    ),
    Function(
        ("returns the smaller of a and b", "gives the minimum of two numbers a and b"),
        ("min_of_two", "smaller", "lesser_number", "pick_smaller"),
        "a, b",
        "Return the smaller of a and b.",
        "min(a, b)",
    ),
    Function(
        ("greets a person by name with {greeting}", "says {greeting} to a name"),
        ("greet", "say_hello", "greeting", "greet_person"),
        "name",
        "Return a greeting for name.",
        '"{greeting}, " + name + "!"',
    ),
    Function(
        ("sums a list of numbers", "adds up all numbers in a list"),
        ("sum_list", "total", "add_all", "list_sum"),
        "numbers",
        "Return the sum of numbers.",
        "sum(numbers)",
    ),
    Function(
        ("counts the items greater than {n}", "counts how many items are above {n}"),
        ("count_above_{n}", "count_greater_than_{n}", "count_over_{word}"),
        "items",
        "Return how many items are greater than {n}.",
        "len([item for item in items if item > {n}])",
    ),
    Function(
        ("returns the first {n} items of a list", "takes a list and gives its first {n} items"),
        ("first_{n}", "first_{word}_items", "take_{n}"),
        "items",
        "Return the first {n} items.",
        "items[:{n}]",
    ),
    Function(
        ("reverses a string", "returns a text backwards"),
        ("reverse_string", "backwards", "flip_text", "reverse_text"),
        "text",
        "Return text backwards.",
        "text[::-1]",
    ),
    Function(
        ("repeats a string {n} times", "returns a text {n} times in a row"),
        ("repeat_{n}_times", "repeat_{word}", "repeat_{n}"),
        "text",
        "Return text repeated {n} times.",
        "text * {n}",
    ),
    Function(
        ("converts celsius to fahrenheit", "turns degrees celsius into fahrenheit"),
        ("celsius_to_fahrenheit", "to_fahrenheit", "c_to_f", "convert_celsius"),
        "celsius",
        "Return celsius in degrees fahrenheit.",
        "celsius * 9 / 5 + 32",
    ),
)

GREETINGS = ("Hello", "Hi", "Welcome", "Goodbye", "Thanks", "Congratulations")

NAMED_ASKS = (
    "Write a Python function called {name} that {does}.",
    "Can you write a function {name} in Python that {does}?",
    "I need a Python function named {name}. It {does}.",
    "Please define {name} in Python. It {does}.",
    "python function {name} that {does} pls",
    "Show me a Python function {name} which {does}.",
)
NAMELESS_ASKS = (
    "Write a Python function that {does}.",
    "I need a function in Python that {does}.",
    "How do I write a Python function that {does}?",
)


def make(rng: random.Random) -> Example:
    kind, n = rng.choice(FUNCTIONS), rng.randint(2, 30)
    word, greeting = in_words(n).replace("-", "_"), rng.choice(GREETINGS)
    blanks = {"n": n, "word": word, "greeting": greeting}
    does = rng.choice(kind.does).format(**blanks)
    if rng.random() < 0.75:
        name = rng.choice(kind.names).format(**blanks)
        prompt = ask(rng, NAMED_ASKS, name=name, does=does)
    else:
        # A function that is not given a name gets the first one of its kind.
        name = kind.names[0].format(**blanks)
        prompt = ask(rng, NAMELESS_ASKS, does=does)
    code = (
        f"def {name}({kind.argument}):\n"
        f'    """{kind.doc.format(**blanks)}"""\n'
        f"    return {kind.result.format(**blanks)}"
    )
    answer = f"Here is the function:\n```python\n{code}\n```"
    return Example("functions", prompt, answer, {"code": code})


def grade(example: Example, answer: str) -> bool:
    block = re.fullmatch(r"[^`]*```python\n([^`]*)\n```\s*", answer)
    return block is not None and _syntax(block[1]) == _syntax(example.facts["code"])


def _syntax(code: str) -> str | None:
    """The code's syntax tree as text, None if it has none; the code is read, never run."""
    # Far longer than any right answer; very deep nesting could exhaust the parser.
    if len(code) > 1000:
        return None
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


TASK = Task("functions", "Python functions", make, grade)
