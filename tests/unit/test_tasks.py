"""The tasks of mars-tiny: reference answers pass, corrupted ones fail, splits are disjoint."""

import itertools
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mars_demo.tasks import TASKS, examples, held_out, mixed, split_of
from mars_demo.tasks.common import Example, Task, in_words
from mars_demo.tasks.weekdays import MONTHS

ROOT = Path(__file__).parents[2]
EVERY_TASK = pytest.mark.parametrize("name", TASKS)


def drawn(name: str, count: int, seed: int = 0) -> list[Example]:
    rng = random.Random(seed)
    return [TASKS[name].make(rng) for _ in range(count)]


def taken(count: int, *arguments) -> list[Example]:
    return list(itertools.islice(examples(*arguments), count))


def grade(example: Example, answer: str) -> bool:
    return TASKS[example.task].grade(example, answer)


@EVERY_TASK
def test_reference_answers_are_right(name):
    for example in drawn(name, 300):
        assert example.task == name
        assert grade(example, example.answer), example
        assert grade(example, example.answer + " \n\n"), example


@EVERY_TASK
def test_answers_to_other_prompts_are_wrong(name):
    pairs = itertools.pairwise(drawn(name, 300))
    for example, other in pairs:
        if example.facts != other.facts:
            assert not grade(example, other.answer), (example, other)


@EVERY_TASK
def test_truncated_or_empty_answers_are_wrong(name):
    for example in drawn(name, 100):
        assert not grade(example, "")
        assert not grade(example, "   \n")
        assert not grade(example, example.answer[: len(example.answer) // 2])
        assert not grade(example, example.answer[:-1])
        assert not grade(example, example.answer + " nonsense")


@pytest.mark.parametrize("name", ["word-problems", "units", "tables", "letters"])
def test_a_changed_final_number_is_wrong(name):
    for example in drawn(name, 100):
        changed = re.sub(r"\d(?=\D*$)", lambda d: str((int(d[0]) + 1) % 10), example.answer)
        assert changed != example.answer
        assert not grade(example, changed)


@pytest.mark.parametrize("name", ["sorting", "reversing"])
def test_swapped_items_are_wrong(name):
    for example in drawn(name, 100):
        if "Backwards" not in example.answer:
            start, last = example.answer.rsplit(": ", 1)
            first, second, *rest = last.rstrip(".").split(", ")
            assert not grade(example, f"{start}: {', '.join([second, first, *rest])}.")


def test_a_letter_without_a_detail_or_with_another_one_is_wrong():
    for example in drawn("notes", 100):
        for detail in example.facts.values():
            assert not grade(example, example.answer.replace(detail, ""))
        for day in {"Monday", "Friday"} - {example.facts["day"]}:
            assert not grade(example, example.answer.replace("at", f"or {day} at", 1))
        assert not grade(example, example.answer.replace("\n", " "))


def test_a_story_needs_its_cast_three_sentences_and_known_words():
    for example in drawn("stories", 100):
        first, second, third = re.split(r"(?<=\.) ", example.answer)
        assert not grade(example, f"{first} {second}")
        assert not grade(example, f"{first} {second} {third} {third}")
        assert not grade(example, example.answer.replace(example.facts["object"], "river"))
        assert not grade(example, f"{first} {second} Glorp sang.")
        assert not grade(example, f"{first} {second} . .")


def test_functions_are_compared_by_syntax():
    example = drawn("functions", 1)[0]
    respaced = example.answer.replace("\n```", "  # same\n\n```")
    assert grade(example, respaced)
    assert not grade(example, example.answer.replace("return", "yield"))
    assert not grade(example, example.answer * 2)
    assert not grade(example, example.facts["code"])


@EVERY_TASK
@pytest.mark.parametrize("depth", ["", "-" * 900, "(" * 400, "\0"])
def test_model_code_is_never_run(name, depth, tmp_path):
    trace = tmp_path / "trace"
    code = f"{depth}__import__('os').system('touch {trace}')"
    for answer in (code, f"```python\n{code}\n```"):
        assert TASKS[name].grade(drawn(name, 1)[0], answer) is False
    assert not trace.exists()


@EVERY_TASK
def test_lengths_are_bounded(name):
    for example in drawn(name, 300):
        assert 0 < len(example.prompt) <= 250
        assert 0 < len(example.answer) <= 350
        assert example.prompt == example.prompt.strip()
        assert example.answer == example.answer.strip()
        assert "{" not in example.prompt + example.answer


@EVERY_TASK
def test_prompts_are_many_and_sometimes_sloppy(name):
    prompts = {example.prompt for example in drawn(name, 3000)}
    assert len(prompts) > 1000
    assert any(prompt[0].islower() and prompt[-1] not in ".?!" for prompt in prompts)


@EVERY_TASK
def test_held_out_prompts_differ_and_are_never_trained_on(name):
    kept = {example.prompt for example in held_out(name, 100)}
    assert len(kept) == 100
    assert all(split_of(prompt) == "held-out" for prompt in kept)
    assert kept.isdisjoint(example.prompt for example in taken(500, [name], "train", 0))


def test_seeds_reproduce():
    assert taken(100, None, "train", 3) == taken(100, None, "train", 3)
    assert taken(100, None, "train", 3) != taken(100, None, "train", 4)
    assert held_out("notes", 20, seed=1) == held_out("notes", 20, seed=1)
    assert held_out("notes", 20, seed=1) != held_out("notes", 20, seed=2)


def test_examples_do_not_depend_on_the_hash_seed():
    script = (
        "import itertools; from mars_demo.tasks import examples;"
        "print(list(itertools.islice(examples(None, 'held-out', 5), 100)))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_all_tasks_are_drawn_unless_named():
    assert {example.task for example in taken(500, None, "train", 0)} == set(TASKS)
    assert {e.task for e in taken(50, ["units", "notes"], "train", 0)} == {"units", "notes"}


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="chess.*word-problems.*tables"):
        examples(["chess"], "train", 0)
    with pytest.raises(ValueError, match="chess"):
        held_out("chess", 1)
    with pytest.raises(ValueError, match="test.*train, held-out"):
        examples(None, "test", 0)
    with pytest.raises(ValueError, match="task"):
        examples([], "train", 0)


def test_too_many_held_out_prompts_are_refused(monkeypatch):
    def make(rng):
        return Example("small", f"Say {rng.randrange(100)}.", "Yes.", {})

    monkeypatch.setitem(TASKS, "small", Task("small", "Small", make, lambda *_: True))
    with pytest.raises(ValueError, match="50"):
        held_out("small", 50)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (100, "one hundred"),
        (121, "one hundred and twenty-one"),
        (1000, "one thousand"),
        (1005, "one thousand and five"),
        (1300, "one thousand three hundred"),
        (4203, "four thousand two hundred and three"),
    ],
)
def test_numbers_in_words(number, words):
    assert in_words(number) == words


def test_arithmetic_shown_is_true():
    sums = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__, "/": int.__floordiv__}
    for name in ("word-problems", "units", "tables"):
        for example in drawn(name, 300):
            answer = example.answer.replace(",", "")
            for left, sign, right, result in re.findall(
                r"(?<![x+] )\b(\d+) ([-+x/]) (\d+) = (\d+)\b(?! x)", answer
            ):
                assert sums[sign](int(left), int(right)) == int(result), example


def test_a_year_has_365_days():
    assert sum(length for _, length in MONTHS) == 365


def test_mixed_examples_take_the_tasks_in_turn():
    examples = mixed(3)
    assert [example.task for example in examples] == [*TASKS] * 3
    assert examples[:: len(TASKS)] == held_out(next(iter(TASKS)), 3)
