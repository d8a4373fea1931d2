"""Small Python functions to write, and names to change in code, graded by syntax trees."""

import ast
import random
import re
from collections.abc import Callable

from mars_demo.tasks.common import Example, in_words, same
from mars_demo.tasks.skills.common import python, request, skill, texts, unfenced

FUNCTIONS = texts("one-line-functions")  # `*` marks the verbs in the tasks of its kinds
GREETINGS, LETTERS = FUNCTIONS.greetings.split(), FUNCTIONS.letters.split()
# Names in angle brackets in its snippets are filled in, and one is renamed: `f` is a function, `k` a class.
RENAMING = texts("renaming")
VARIABLES, VERBS, NOUNS = RENAMING.letters.split(), RENAMING.verbs.split(), RENAMING.names.split()


def _function(rng: random.Random, unseen: bool) -> Example:
    kind, ask = FUNCTIONS.kinds.pick(rng, unseen), FUNCTIONS.asks.pick(rng, unseen)
    n, marks = rng.randint(2, 30), rng.choice(list(FUNCTIONS.marks))
    blanks = {
        "n": n,
        "word": in_words(n).replace("-", "_"),
        "greeting": rng.choice(GREETINGS),
        "letter": rng.choice(LETTERS),
        "marks": marks,
        "mark": FUNCTIONS.marks[marks],
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


def _anonymous_syntax(answer: str) -> str:
    """Return the syntax tree as text, with variables numbered, without annotations or a docstring."""
    tree = ast.parse(unfenced(answer))
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


def _renaming(rng: random.Random, unseen: bool) -> Example:
    snippet = RENAMING.snippets.pick(rng, unseen)
    names: dict[str, str] = {}
    for blank in sorted(set(re.findall(r"<(\w)>", snippet))):
        names[blank] = _name(rng, blank, names)
    renamed = rng.choice(list(names))
    code = _filled(snippet, names)
    material = python(code) if rng.random() < 0.2 else code
    new = _name(rng, renamed, names)
    prompt = request(rng, RENAMING.asks.pick(rng, unseen), material, old=names[renamed], new=new)
    return _renamed(prompt, snippet, names, renamed, new)


def _name(rng: random.Random, blank: str, taken: dict[str, str]) -> str:
    """Return a name for a function, class or variable that no other blank has."""
    noun, other = rng.sample(NOUNS, 2)
    match blank:
        case "f":
            name = f"{rng.choice(VERBS)}_{noun}"
        case "k":
            name = noun.title() + rng.choice(("", other.title()))
        case _:
            variables = (noun, f"{noun}_{other}", rng.choice(VARIABLES))
            name = rng.choices(variables, (6, 3, 1))[0]
    return _name(rng, blank, taken) if name in taken.values() else name


def _filled(snippet: str, names: dict[str, str]) -> str:
    return re.sub(r"<(\w)>", lambda blank: names[blank[1]], snippet)


def _renamed(prompt: str, snippet: str, names: dict[str, str], renamed: str, new: str) -> Example:
    after = names | {renamed: new}
    facts = {"snippet": snippet, "names": after, "renamed": renamed, "old": names[renamed]}
    return Example("renaming", prompt, python(_filled(snippet, after)), facts)


def _further_renaming(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request to rename another name too, or to undo the renaming."""
    facts, names = example.facts, example.facts["names"]
    others = [blank for blank in names if blank != facts["renamed"]]
    if others and rng.random() < 0.7:
        which, renamed = "also", rng.choice(others)
        new = _name(rng, renamed, names)
    else:
        which, renamed, new = "back", facts["renamed"], facts["old"]
    prompt = request(rng, RENAMING.follow_ups[which].pick(rng, unseen), old=names[renamed], new=new)
    return _renamed(prompt, facts["snippet"], names, renamed, new)


def _syntax(answer: str) -> str:
    return ast.dump(ast.parse(unfenced(answer)))


WRITTEN = skill("one-line-functions", "Python functions", _function, same(_anonymous_syntax))
RENAMED = skill("renaming", "A name changed in code", _renaming, same(_syntax), _further_renaming)
