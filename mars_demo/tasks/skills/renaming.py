"""Renaming throughout a piece of Python code."""

import random
import re

from mars_demo.tasks.common import Example, syntax_of
from mars_demo.tasks.skills.common import kinds, python, request, skill, texts, unfenced

TEXT, ASKS = texts("renaming"), kinds("renaming")
# Names in angle brackets are filled in, and one is renamed: `f` is a function, `k` a class.
SNIPPETS = kinds("renaming", "snippets")
LETTERS, VERBS, NAMES = (TEXT[key].split() for key in ("letters", "verbs", "names"))


def make(rng: random.Random, unseen: bool) -> Example:
    snippet = SNIPPETS.pick(rng, unseen)
    names: dict[str, str] = {}
    for blank in sorted(set(re.findall(r"<(\w)>", snippet))):
        names[blank] = _name(rng, blank, names)
    renamed = rng.choice(list(names))
    code = _filled(snippet, names)
    material = python(code) if rng.random() < 0.2 else code
    new = _name(rng, renamed, names)
    prompt = request(rng, ASKS.pick(rng, unseen), material, old=names[renamed], new=new)
    return _example(prompt, snippet, names, renamed, new)


def _name(rng: random.Random, blank: str, taken: dict[str, str]) -> str:
    """Return a name for a function, class or variable that no other blank has."""
    noun, other = rng.sample(NAMES, 2)
    match blank:
        case "f":
            name = f"{rng.choice(VERBS)}_{noun}"
        case "k":
            name = noun.title() + rng.choice(("", other.title()))
        case _:
            variables = (noun, f"{noun}_{other}", rng.choice(LETTERS))
            name = rng.choices(variables, (6, 3, 1))[0]
    return _name(rng, blank, taken) if name in taken.values() else name


def _filled(snippet: str, names: dict[str, str]) -> str:
    return re.sub(r"<(\w)>", lambda blank: names[blank[1]], snippet)


def _example(prompt: str, snippet: str, names: dict[str, str], renamed: str, new: str) -> Example:
    """Return an example whose answer is the snippet with one of its names renamed."""
    after = names | {renamed: new}
    code = _filled(snippet, after)
    facts = {"code": code, "snippet": snippet, "names": after, "renamed": renamed, "old": names[renamed]}
    return Example("renaming", prompt, python(code), facts)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request to rename another name too, or to undo the renaming."""
    facts, names = example.facts, example.facts["names"]
    others = [blank for blank in names if blank != facts["renamed"]]
    if others and rng.random() < 0.7:
        which, renamed = "also", rng.choice(others)
        new = _name(rng, renamed, names)
    else:
        which, renamed, new = "back", facts["renamed"], facts["old"]
    prompt = request(rng, TEXT["follow_ups"][which].pick(rng, unseen), old=names[renamed], new=new)
    return _example(prompt, facts["snippet"], names, renamed, new)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has the same syntax tree as the renamed code."""
    return syntax_of(unfenced(answer)) == syntax_of(example.facts["code"])


TASK = skill("renaming", "A name changed in code", make, grade, follow_up=follow_up)
