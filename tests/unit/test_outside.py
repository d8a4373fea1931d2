"""Whether a prompt is outside what the tiny model was trained on, and the recorded measure of that."""

import json

import pytest

from mars_demo import tasks
from mars_demo.assets import ASSETS, read_json
from mars_demo.evaluation import outside
from mars_demo.models.names import BUNDLED
from mars_demo.views import recordings


def advice(model, prompt):
    return outside.advice({"model": model, "prompt": prompt, "mode": "ar"})


MEASURED = read_json("results", "outside.json")
EXAMPLES = [
    e for e in json.loads((ASSETS / "prompts.json").read_text("utf-8")) if e["model"] == "mars-tiny"
]


def test_pairs_of_words_and_signs_where_every_number_is_the_same():
    assert outside.pairs("Write 31, please!") == [
        ("", "write"),
        ("write", "0"),
        ("0", ","),
        (",", "please"),
        ("please", "!"),
        ("!", ""),
    ]
    assert outside.pairs("write 7 , PLEASE !") == outside.pairs("Write 31, please!")
    assert outside.pairs("") == [("", "")]


def test_familiarity_is_the_share_of_pairs_that_are_known():
    known = outside.followers(["sort the words", "sort it"])
    assert known == {"": ["sort"], "it": [""], "sort": ["it", "the"], "the": ["words"], "words": [""]}
    assert outside.familiarity("Sort the words", known, 3) == 1
    assert outside.familiarity("sort the it", known, 3) == 3 / 4
    assert outside.familiarity("sort it", known, 3) == 1
    assert outside.familiarity("it", known, 3) == 1 / 3  # its end is known, its start is not; too short


def test_no_more_than_one_held_out_prompt_in_fifty_is_called_outside():
    """On other prompts than the threshold was chosen on."""
    prompts = [e.prompt for task in tasks.TASKS for e in tasks.held_out(task, 30, seed=11)]
    called = [prompt for prompt in prompts if advice("mars-tiny", prompt)]
    assert len(called) <= len(prompts) / 50, called


@pytest.mark.parametrize("prompt", ["hello", "Who wrote Hamlet?", "Wie geht es dir?", "", "🙂", "?" * 1000])
def test_a_prompt_from_outside_gets_an_example(prompt):
    assert advice("mars-tiny", prompt) in [{k: e[k] for k in ("title", "prompt")} for e in EXAMPLES]


def test_the_example_is_the_one_with_most_words_in_common():
    assert "capital" in advice("mars-tiny", "What is the capital city of Mars and Venus?")["prompt"]
    assert "Python" in advice("mars-tiny", "Write a Python class for a bank account.")["prompt"]


def test_what_the_page_offers_is_inside_and_other_models_are_left_alone():
    recorded = [entry for entry in recordings.index() if entry["model"] == "mars-tiny"]
    for entry in (*EXAMPLES, *recorded):
        assert advice("mars-tiny", entry["prompt"]) is None, entry["id"]
    for model in (BUNDLED[0], "trained-here", None):
        assert advice(model, "hello") is None
    assert advice("mars-tiny", {"no": "text"}) is None


def test_the_measured_share_of_outside_prompts_is_what_the_page_finds():
    listed = json.loads((ASSETS / "outside.json").read_text("utf-8"))
    prompts = [prompt for kind in listed.values() for prompt in kind]
    *_, row = MEASURED["signals"]
    counted = dict(
        zip(listed, (sum(advice("mars-tiny", p) is not None for p in k) for k in listed.values()))
    )
    for kind, found in counted.items():
        assert row["called_outside"][kind] == f"{found} of {len(listed[kind])}"
    assert row["below"] == MEASURED["inside_from"] and row["wrong"] <= 0.02
    assert len(prompts) >= 60
