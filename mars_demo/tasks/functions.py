"""Python functions of one line, compared with the right one by their syntax trees."""

import ast
import random
import re

from mars_demo.tasks.common import TEXTS, Example, Task, ask, in_words

_TEXTS = TEXTS["functions"]
# Kinds of one-line functions: what each does in words, what it may be called, its argument, docstring and
# result.
KINDS = _TEXTS["kinds"]
GREETINGS = _TEXTS["greetings"].split()


def make(rng: random.Random) -> Example:
    kind, n = rng.choice(KINDS), rng.randint(2, 30)
    word, greeting = in_words(n).replace("-", "_"), rng.choice(GREETINGS)
    blanks = {"n": n, "word": word, "greeting": greeting}
    does = rng.choice(kind["does"]).format(**blanks)
    if rng.random() < 0.75:
        name = rng.choice(kind["names"]).format(**blanks)
        prompt = ask(rng, _TEXTS["asks"]["named"], name=name, does=does)
    else:
        # A function that is not given a name gets the first one of its kind.
        name = kind["names"][0].format(**blanks)
        prompt = ask(rng, _TEXTS["asks"]["nameless"], does=does)
    code = (
        f"def {name}({kind['argument']}):\n"
        f'    """{kind["doc"].format(**blanks)}"""\n'
        f"    return {kind['result'].format(**blanks)}"
    )
    answer = f"Here is the function:\n```python\n{code}\n```"
    return Example("functions", prompt, answer, {"code": code})


def grade(example: Example, answer: str) -> bool:
    block = re.fullmatch(r"[^`]*```python\n([^`]*)\n```\s*", answer)
    return block is not None and _syntax(block[1]) == _syntax(example.facts["code"])


def _syntax(code: str) -> str | None:
    """Return the code's syntax tree as text, None if it has none; the code is read, never run."""
    # Far longer than any right answer; very deep nesting could exhaust the parser.
    if len(code) > 1000:
        return None
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


TASK = Task("functions", "Python functions", make, grade)
