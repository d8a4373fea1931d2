"""The tasks of mars-tiny: reference answers pass, corrupted ones fail, splits are disjoint."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from task_examples import ALL, examples_of

from mars_demo.tasks import TASKS, examples, held_out, instructions, split_of
from mars_demo.tasks.common import Example, Task
from mars_demo.tasks.skills import SKILLS

ROOT = Path(__file__).parents[2]
EVERY_TASK = pytest.mark.parametrize("name", ALL)


def taken(count: int, *arguments) -> list[Example]:
    return list(itertools.islice(examples(*arguments), count))


def grade(example: Example, answer: str) -> bool:
    return ALL[example.task].grade(example, answer)


@EVERY_TASK
def test_reference_answers_are_right_and_answers_to_other_prompts_are_wrong(name):
    for example, other in itertools.pairwise(examples_of(name)):
        assert example.task == name
        assert grade(example, example.answer), example
        assert grade(example, example.answer + " \n\n"), example
        if example.answer != other.answer and (example.facts != other.facts or not example.facts):
            assert not grade(example, other.answer), (example, other)


@EVERY_TASK
def test_truncated_continued_or_empty_answers_are_wrong(name):
    for example in examples_of(name, 6):
        half = example.answer[: len(example.answer) // 2]
        for answer in ("", "   \n", half, example.answer + "\nnonsense"):
            assert not grade(example, answer), (example, answer)


@pytest.mark.parametrize("name", ["sorting", "reversing"])
def test_swapped_items_are_wrong(name):
    for example in examples_of(name, 100):
        if "Backwards" not in example.answer:
            start, last = example.answer.rsplit(": ", 1)
            first, second, *rest = last.rstrip(".").split(", ")
            assert not grade(example, f"{start}: {', '.join([second, first, *rest])}.")


def test_a_letter_without_a_detail_or_with_another_one_is_wrong():
    for example in examples_of("notes", 100):
        for detail in example.facts.values():
            assert not grade(example, example.answer.replace(detail, ""))
        for day in {"Monday", "Friday"} - {example.facts["day"]}:
            assert not grade(example, example.answer.replace("at", f"or {day} at", 1))
        assert not grade(example, example.answer.replace("\n", " "))


def test_a_story_needs_its_cast_three_sentences_and_known_words():
    for example in examples_of("stories", 100):
        first, second, third = re.split(r"(?<=\.) ", example.answer)
        assert not grade(example, f"{first} {second}")
        assert not grade(example, f"{first} {second} {third} {third}")
        assert not grade(example, example.answer.replace(example.facts["object"], "river"))
        assert not grade(example, f"{first} {second} Glorp sang.")
        assert not grade(example, f"{first} {second} . .")


def test_functions_are_compared_by_syntax():
    example = examples_of("functions", 1)[0]
    respaced = example.answer.replace("\n```", "  # same\n\n```")
    assert grade(example, respaced)
    assert not grade(example, example.answer.replace("return", "yield"))
    assert not grade(example, example.answer * 2)
    assert not grade(example, example.answer.replace("`", ""))


@EVERY_TASK
@pytest.mark.parametrize("depth", ["", "-" * 900, "(" * 400, "\0", "[" * 3000])
def test_model_code_is_never_run(name, depth, tmp_path):
    trace = tmp_path / "trace"
    code = f"{depth}__import__('os').system('touch {trace}')"
    for answer in (code, f"```python\n{code}\n```"):
        assert ALL[name].grade(examples_of(name, 1)[0], answer) is False
    assert not trace.exists()


@EVERY_TASK
def test_examples_are_reproducible_and_fit(name):
    assert examples_of(name, 20) == examples_of(name, 20) != examples_of(name, 20, seed=1)
    for example in examples_of(name, 200):
        assert 0 < len(example.prompt) + len(example.answer) < (600 if name in TASKS else 1000)
        assert example.prompt == example.prompt.strip() and example.answer == example.answer.strip()


@pytest.mark.parametrize("name", TASKS)
def test_prompts_are_many_and_sometimes_sloppy(name):
    prompts = {example.prompt for example in examples_of(name, 3000)}
    assert len(prompts) > 1000 and not any("{" in prompt for prompt in prompts)
    assert any(prompt[0].islower() and prompt[-1] not in ".?!" for prompt in prompts)


@EVERY_TASK
def test_held_out_prompts_differ_and_are_never_trained_on(name):
    examples = held_out(name, 40)
    assert len({example.prompt for example in examples}) == 40
    assert all(example.unseen or split_of(example.prompt) == "held-out" for example in examples)
    assert {example.unseen for example in examples} == ({True, False} if name in SKILLS else {False})
    trained = taken(400, [name], "train", 0)
    assert not any(example.unseen for example in trained)
    assert {example.prompt for example in examples}.isdisjoint(example.prompt for example in trained)


def test_examples_depend_on_their_seed_but_not_on_the_hash_seed():
    assert taken(100, TASKS, "train", 3) != taken(100, TASKS, "train", 4)
    assert held_out("notes", 20, seed=1) != held_out("notes", 20, seed=2)
    script = (
        "import itertools; from mars_demo.tasks import TASKS, examples;"
        "print(list(itertools.islice(examples(TASKS, 'held-out', 5), 100)))"
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


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="chess.*word-problems.*tables"):
        examples(["chess"], "train", 0)
    with pytest.raises(ValueError, match="test.*train, held-out"):
        examples(TASKS, "test", 0)


def test_too_many_held_out_prompts_are_refused(monkeypatch):
    def make(rng):
        return Example("small", f"Say {rng.randrange(100)}.", "Yes.", {})

    monkeypatch.setitem(TASKS, "small", Task("small", "Small", make, lambda *_: True))
    with pytest.raises(ValueError, match="50"):
        held_out("small", 50)


def test_shown_arithmetic_is_right():
    sums = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__, "/": int.__floordiv__}
    for name in ("word-problems", "units", "tables"):
        for example in examples_of(name, 300):
            answer = example.answer.replace(",", "")
            for left, sign, right, result in re.findall(
                r"(?<![x+] )\b(\d+) ([-+x/]) (\d+) = (\d+)\b(?! x)", answer
            ):
                assert sums[sign](int(left), int(right)) == int(result), example


def test_there_are_enough_instructions_and_all_checks_exist():
    bundled = instructions.instructions()
    assert len(bundled) >= 150
    assert len({instruction.prompt for instruction in bundled}) == len(bundled)
    for instruction in bundled:
        assert instruction.checks and set(instruction.checks) <= set(instructions.CHECKS)
        assert not instruction.holds("")


@pytest.mark.parametrize(
    ("name", "value", "right", "wrong"),
    [
        ("includes", ["8"], "You have 8 apples.", "You have 18 apples, or 8.5."),
        ("includes", ["Paris"], "It is paris, of course.", "It is London."),
        ("includes", ["def", "+"], "def f(a, b): return a + b", "def f(a, b): return a - b"),
        ("includes_exact", ["HELLO"], "HELLO", "Hello"),
        ("excludes", ["big"], "An elephant is bigger than a cow.", "A big elephant."),
        ("one_of", ["7", "seven"], "There are seven.", "There are 17."),
        ("max_words", 3, "Well, it's positive", "It is a positive review"),
        ("min_words", 4, "one two three four", "one two three"),
        ("max_sentences", 1, "The sun is 4.6 billion years old.", "It is hot. It shines."),
        ("items", 3, "Sure:\n1. a\n2. b\n3. c", "- a\n- b"),
        ("starts_with", "Dear", "  Dear Ann, thanks.", "Hello, dear."),
    ],
)
def test_each_check_passes_right_answers_and_fails_wrong_ones(name, value, right, wrong):
    assert instructions.CHECKS[name](right, value)
    assert not instructions.CHECKS[name](wrong, value)
