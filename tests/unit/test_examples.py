"""The check of the examples: what it calls wrong, and its entries."""

import importlib.util
from pathlib import Path

import pytest

from benchmarks import documents
from mars_demo.core.assets import read_json
from mars_demo.core.names import BUNDLED

_spec = importlib.util.spec_from_file_location(
    "examples", Path(__file__).parents[2] / ".ci" / "examples.py"
)
examples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(examples)


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


def test_every_entry_says_what_is_right_and_documents_show_the_further_ones():
    texts = "\n".join((documents.ROOT / name).read_text("utf-8") for name in documents.DOCUMENTS)
    apps = {entry["prompt"] for entry in read_json("prompts.json")}
    for entry in examples.ENTRIES:
        assert ("answer" in entry) != ("includes" in entry), entry["prompt"]
        assert entry.get("answer") or all(entry["includes"])
        assert entry["model"] in BUNDLED
        assert entry["prompt"] in apps or entry["prompt"] in texts
