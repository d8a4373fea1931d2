"""Values that no page of the app sends: texts, JSON, parameters, events and records of runs."""

import json

from hostile import GOOD, NAMES, ODD, PATHS, SCRIPTS, SPECIAL, changed, paths_in, written
from hypothesis import strategies as st

texts = (
    st.sampled_from((*SCRIPTS, *SPECIAL, *NAMES, *PATHS, *ODD))
    | st.text(max_size=40)
    | st.builds("".join, st.lists(st.characters(), max_size=20))  # including lone surrogates
    | st.sampled_from(("word ", "é", "{{", "\u202e")).map(lambda part: part * 30_000)
)
numbers = st.integers() | st.floats() | st.sampled_from((-1, 0, 1, 2**31, 2**63, 10**30, 10**400))


def nested(depth: int, inner: str) -> object:
    value: object = inner
    for level in range(depth):
        value = [value] if level % 2 else {"value": value}
    return value


values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from((*NAMES, "value", "path")), inner, max_size=4)
    ),
    max_leaves=6,
) | st.builds(nested, st.sampled_from((3, 30, 300)), texts)


def body(value: object) -> bytes:
    """Return JSON, including NaN and lone surrogates."""
    return json.dumps(value).encode()


deep = (b"[" * 100_000, b'{"a":' * 30_000, b'{"data": ' + b"[" * 50_000 + b"]" * 50_000 + b"}")
junk = values.map(body) | st.binary(max_size=100) | st.sampled_from(deep)
roles = st.sampled_from(("system", "user", "assistant", "tool"))
messages = st.lists(st.fixed_dictionaries({"role": roles | values, "content": texts | values}), max_size=4)


def mistaken(good: dict[str, object]) -> st.SearchStrategy:
    """Return valid parameters with some values replaced and possibly an unknown one added."""
    wrong = st.fixed_dictionaries({}, optional=dict.fromkeys(good, values))
    unknown = st.dictionaries(st.sampled_from(NAMES), values, max_size=1)
    return st.builds(lambda *parts: {**good, **parts[0], **parts[1]}, wrong, unknown)


# The data of a component event.
events = values | st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("prompt", "tau", "window", "id", "record", "number"), values),
)


@st.composite
def records(draw) -> str:
    """Return a valid record with some lines, values or characters changed."""
    long = (GOOD[0], *[GOOD[1]] * 200, GOOD[3])
    lines = list(draw(st.sampled_from((GOOD, long)) | st.permutations(GOOD)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        path = draw(st.sampled_from(paths_in(lines[at])))
        lines[at] = changed(lines[at], path, draw(values | st.just(...)))
    text = written(lines)
    if draw(st.booleans()):
        return text
    start = draw(st.integers(0, len(text)))
    return text[:start] + draw(st.text(max_size=3)) + text[start + draw(st.integers(0, 9)) :]
