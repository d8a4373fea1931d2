"""The check of the examples: which prompts it finds in a document, and what it calls wrong."""

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "examples", Path(__file__).parents[2] / ".ci" / "examples.py"
)
examples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(examples)

CHAT, TINY = "mars-smollm2-135m", "mars-tiny"
DOCUMENT = """
Prose with `mars-demo generate "Not a block"`, `?prompt=bus&tau=0.7&mode=mars` and `?run=bus`.

```sh
mars-demo generate "One" --tau 0.9     # a comment
python -m mars_demo generate "Two" --model mars-tiny
mars-demo generate "Elsewhere" --model copies/mars
mars-demo serve --model mars-tiny
curl /v1 -d '{"model": "mars-tiny", "messages": [{"role": "user", "content": "Three"}], "tau": 0.8}'
```

```python
checkpoint = load_checkpoint("mars-tiny")
run = decode(checkpoint, "Four", Request(tau=0.5))
prompts = ["Five", "Six"]
```

```python
history = [
    {"role": "user", "content": "Before"},
]
run = decode(checkpoint, "Seven", Request(), messages=history)
client.submit(
    "Eight", mode="mars", tau=0.6
)
```
"""


def test_prompts_of_a_document_come_with_their_model_and_tau():
    bus = next(entry["prompt"] for entry in examples.APP if entry["id"] == "bus")
    assert sorted(examples.shown(DOCUMENT)) == sorted(
        [
            (bus, TINY, 0.7, "[]"),
            ("One", CHAT, 0.9, "[]"),
            ("Two", TINY, 0.95, "[]"),
            ("Three", TINY, 0.8, "[]"),
            ("Four", TINY, 0.5, "[]"),
            ("Five", TINY, 0.5, "[]"),
            ("Six", TINY, 0.5, "[]"),
            ("Seven", CHAT, 0.95, '[{"role": "user", "content": "Before"}]'),
            ("Eight", CHAT, 0.6, "[]"),
        ]
    )


@pytest.mark.parametrize(
    ("entry", "answer", "complaint"),
    [
        ({"answer": "4"}, "4", None),
        ({"answer": "4"}, "4.", "is '4.'"),
        ({"includes": ["4", "four"]}, "four: 4", None),
        ({"includes": ["4", "four"]}, "It is 4", "lacks 'four'"),
        ({"includes": ["sea"]}, "The sea is a wide and deep sea. " * 3, "repeats itself"),
    ],
)
def test_an_answer_is_compared_with_its_entry(entry, answer, complaint):
    found = examples.wrong(entry, answer)
    assert found == complaint or found.startswith(complaint)


def test_every_entry_says_what_is_right():
    for entry in (*examples.APP, *examples.FURTHER):
        assert ("answer" in entry) != ("includes" in entry), entry["prompt"]
        assert entry.get("answer") or all(entry["includes"])
        assert entry["model"] in (CHAT, TINY)
