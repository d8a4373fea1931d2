"""One-line Python functions, graded by their syntax trees."""

import ast
import random
import re

from mars_demo.tasks.common import TEXTS, Example, Task, ask, in_words, same

_TEXTS = TEXTS["functions"]
# Kinds of one-line functions, each with descriptions, names, the argument, the docstring and the result.
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
        # Without a name in the prompt, the function gets the first name of its kind.
        name = kind["names"][0].format(**blanks)
        prompt = ask(rng, _TEXTS["asks"]["nameless"], does=does)
    code = (
        f"def {name}({kind['argument']}):\n"
        f'    """{kind["doc"].format(**blanks)}"""\n'
        f"    return {kind['result'].format(**blanks)}"
    )
    answer = f"Here is the function:\n```python\n{code}\n```"
    return Example("functions", prompt, answer)


def _syntax(answer: str) -> str:
    block = re.fullmatch(r"[^`]*```python\n([^`]*)\n```\s*", answer)
    # Far longer than any right answer; very deep nesting could exhaust the parser.
    if not block or len(block[1]) > 1000:
        raise ValueError("no short block of code")
    return ast.dump(ast.parse(block[1]))


TASK = Task("functions", "Python functions", make, same(_syntax))
