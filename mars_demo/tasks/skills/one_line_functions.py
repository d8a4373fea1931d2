"""Small Python functions, graded by their syntax trees."""

import ast
import random
import re
from collections.abc import Callable

from mars_demo.tasks.common import Example, in_words, syntax_tree
from mars_demo.tasks.skills.common import python, request, same, skill, texts, unfenced

TEXT = texts("one-line-functions")
# Kinds of functions, each with descriptions, names, arguments and a body; `*` marks the verbs.
GREETINGS, LETTERS = TEXT.greetings.split(), TEXT.letters.split()


def make(rng: random.Random, unseen: bool) -> Example:
    kind, ask = TEXT.kinds.pick(rng, unseen), TEXT.asks.pick(rng, unseen)
    n, marks = rng.randint(2, 30), rng.choice(list(TEXT.marks))
    blanks = {
        "n": n,
        "word": in_words(n).replace("-", "_"),
        "greeting": rng.choice(GREETINGS),
        "letter": rng.choice(LETTERS),
        "marks": marks,
        "mark": TEXT.marks[marks],
    }
    # Without a name in the request, the function gets the first name of its kind.
    name = (rng.choice(kind["names"]) if "{name}" in ask else kind["names"][0]).format(**blanks)
    does, do, doing = (
        _conjugated(rng.choice(kind["tasks"]).format(**blanks), verb)
        for verb in (_third_person, str, _gerund)
    )
    prompt = request(rng, ask, name=name, args=kind["args"], does=does, do=do, doing=doing)
    code = f"def {name}({kind['args']}):\n    {kind['body'].format(name=name, **blanks)}"
    return Example("one-line-functions", prompt, python(code))


def _conjugated(description: str, conjugate: Callable[[str], str]) -> str:
    return re.sub(r"(\w+)\*", lambda verb: conjugate(verb[1]), description)


def _third_person(verb: str) -> str:
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies"
    return verb + ("es" if verb.endswith(("ch", "sh", "ss")) else "s")


def _gerund(verb: str) -> str:
    if re.fullmatch(r"[^aeiou]+[aeiou][bdgmnpt]", verb):
        return f"{verb}{verb[-1]}ing"
    return f"{verb.removesuffix('e')}ing"


def _syntax(answer: str) -> str | None:
    """Return the syntax tree as text, with variables numbered, without annotations or a docstring.

    Invalid code has none.
    """
    tree = syntax_tree(unfenced(answer))
    if tree is None:
        return None
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                numbers.setdefault(name, f"variable {len(numbers)}")
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(body=body):
                node.returns = None
                node.body = body[1:] if ast.get_docstring(node) is not None and body[1:] else body
            case ast.arg():
                node.arg, node.annotation = numbers[node.arg], None
            case ast.Name():
                node.id = numbers.get(node.id, node.id)
    return ast.dump(tree)


TASK = skill("one-line-functions", "Python functions", make, same(_syntax))
