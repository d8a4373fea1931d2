"""The entries of the check of the examples."""

import importlib.util
from pathlib import Path

from benchmarks import documents
from mars_demo.core.assets import read_json
from mars_demo.core.names import BUNDLED

_spec = importlib.util.spec_from_file_location(
    "examples", Path(__file__).parents[2] / ".ci" / "examples.py"
)
examples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(examples)


def test_every_entry_says_what_is_right_and_documents_show_the_further_ones():
    texts = "\n".join((documents.ROOT / name).read_text("utf-8") for name in documents.DOCUMENTS)
    apps = {entry["prompt"] for entry in read_json("prompts.json")}
    for entry in examples.ENTRIES:
        assert ("answer" in entry) != ("includes" in entry), entry["prompt"]
        assert entry.get("answer") or all(entry["includes"])
        assert entry["model"] in BUNDLED
        assert entry["prompt"] in apps or entry["prompt"] in texts
