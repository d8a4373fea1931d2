"""The model's own answers as training data."""

import itertools
import json

import pytest

from mars_demo import distillation, tasks
from mars_demo.decoding import decode


def prompts(count: int) -> list[str]:
    return [tasks.held_out(name, 1)[0].prompt for name in itertools.islice(tasks.TASKS, count)]


def test_answers_in_batches_are_the_greedy_answers_one_by_one(mars_tiny):
    asked = prompts(6)
    found = {c["messages"][0]["content"]: c["messages"][1]["content"]
             for c in distillation.answered(mars_tiny, asked, batch=4)}  # fmt: skip
    assert set(found) <= set(asked)
    for prompt in asked:
        run = decode(mars_tiny, prompt, mode="ar").finish()
        assert found.get(prompt) == (run.text if run.stop == "eos" else None)


def test_a_prompt_is_answered_once_however_it_is_written(mars_tiny):
    asked = ["Which city is the capital of Latvia?", "which  city is the capital of latvia? ", " "]
    assert len(list(distillation.answered(mars_tiny, asked))) == 1
    assert not list(distillation.answered(mars_tiny, asked, known=[asked[0].upper()]))


def test_prompts_that_do_not_fit_are_left_out(mars_tiny):
    assert not list(distillation.answered(mars_tiny, ["word " * 600], batch=1))


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("I am going round in circles. " * 3, True),
        ("12, 12, 12, 12, 12, 12", False),  # short repeats are lists and tables
        ("Start. " + "I like it very much indeed. " * 4 + "End.", True),
        ("I like it very much indeed. I like it very much indeed. Do you?", False),
    ],
)
def test_loops_are_noticed(text, loop):
    assert distillation.is_loop(text) == loop


def test_a_cut_file_is_gone_on_with(tmp_path, mars_tiny):
    path = tmp_path / "self.jsonl"
    for count in (3, 5, 5):
        list(distillation.write(path, mars_tiny, prompts(8), count, batch=2))
        assert len(path.read_text().splitlines()) == count
    asked = [json.loads(line)["messages"][0]["content"] for line in path.read_text().splitlines()]
    assert len(set(asked)) == 5


def test_prompts_come_from_text_and_jsonl_files(tmp_path):
    text, lines = tmp_path / "prompts.txt", tmp_path / "talks.jsonl"
    text.write_text("one\n\ntwo\n")
    lines.write_text('{"messages": [{"role": "user", "content": "three"}]}\nbroken\n')
    assert list(distillation.prompts_from(str(text))) == ["one", "two"]
    assert list(distillation.prompts_from(str(lines))) == ["three"]
    text.write_text("\n")
    with pytest.raises(ValueError, match="holds no prompt"):
        distillation.prompts_from(str(text))


def test_the_model_writes_its_own_questions(mars_tiny):
    written = list(itertools.islice(distillation.self_prompts(mars_tiny, batch=8), 3))
    assert all(text and text == text.strip() for text in written)
