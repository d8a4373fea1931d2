"""Renaming throughout a piece of Python code."""

import random
import re

from mars_demo.tasks.common import Example, syntax_of
from mars_demo.tasks.skills.common import python, request, same, skill, texts, unfenced

TEXT = texts("renaming")
# Names in angle brackets are filled in, and one is renamed: `f` is a function, `k` a class.
LETTERS, VERBS, NAMES = (text.split() for text in (TEXT.letters, TEXT.verbs, TEXT.names))


def make(rng: random.Random, unseen: bool) -> Example:
    snippet = TEXT.snippets.pick(rng, unseen)
    names: dict[str, str] = {}
    for blank in sorted(set(re.findall(r"<(\w)>", snippet))):
        names[blank] = _name(rng, blank, names)
    renamed = rng.choice(list(names))
    code = _filled(snippet, names)
    material = python(code) if rng.random() < 0.2 else code
    new = _name(rng, renamed, names)
    prompt = request(rng, TEXT.asks.pick(rng, unseen), material, old=names[renamed], new=new)
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
    facts = {"snippet": snippet, "names": after, "renamed": renamed, "old": names[renamed]}
    return Example("renaming", prompt, python(_filled(snippet, after)), facts)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request to rename another name too, or to undo the renaming."""
    facts, names = example.facts, example.facts["names"]
    others = [blank for blank in names if blank != facts["renamed"]]
    if others and rng.random() < 0.7:
        which, renamed = "also", rng.choice(others)
        new = _name(rng, renamed, names)
    else:
        which, renamed, new = "back", facts["renamed"], facts["old"]
    prompt = request(rng, TEXT.follow_ups[which].pick(rng, unseen), old=names[renamed], new=new)
    return _example(prompt, facts["snippet"], names, renamed, new)


def _syntax(answer: str) -> str | None:
    return syntax_of(unfenced(answer))


TASK = skill("renaming", "A name changed in code", make, same(_syntax), follow_up)
