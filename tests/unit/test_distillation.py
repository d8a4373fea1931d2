"""The model's own answers as training data."""

import itertools
import json

import pytest
import torch
from greedy import generate

from mars_demo import cli, tasks
from mars_demo.core.loops import is_loop
from mars_demo.core.names import CHAT
from mars_demo.models.chat import encode_prompt
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import distillation, smollm
from mars_demo.training import corpus


def prompts(count: int) -> list[str]:
    return [tasks.held_out(name, 1)[0].prompt for name in itertools.islice(tasks.TASKS, count)]


def test_greedy_answers_equal_transformers(mars_tiny):
    """Answer prompts of different lengths in fewer batch slots, which finished sequences free."""
    encoded = [encode_prompt(mars_tiny.tokenizer, prompt) for prompt in prompts(8)]
    answers = [generate(mars_tiny, ids, 48) for ids in encoded]
    texts = mars_tiny.tokenizer.batch_decode(answers, skip_special_tokens=True)
    expected = [(text, ids[-1] in mars_tiny.end_ids) for text, ids in zip(texts, answers)]
    assert mars_tiny.model.dtype == torch.float32 and {ended for _, ended in expected} == {True, False}
    assert distillation.continuations(mars_tiny, encoded, 48, batch=3) == expected


@pytest.mark.full
def test_sampled_prompts_are_many_and_repeat_for_a_seed(mars_tiny):
    first, again, other = (
        list(itertools.islice(distillation.self_prompts(mars_tiny, 4, seed), 4)) for seed in (1, 1, 2)
    )
    assert first == again != other and len(set(first)) > 1


def test_a_truncated_answer_is_marked_and_trained_without_an_end_token(mars_tiny):
    prompt = "Tell me a short story about a lantern and a wizard."
    whole = next(distillation.answered(mars_tiny, [prompt]))
    cut = next(distillation.answered(mars_tiny, [prompt], max_new_tokens=12))
    assert "cut" not in whole["messages"][-1] and cut["messages"][-1]["cut"]
    [[one], [two]] = [corpus.encode(mars_tiny.tokenizer, corpus.messages_of(c)) for c in (whole, cut)]
    assert one.ids[-1] == mars_tiny.tokenizer.eos_token_id and one.response[-1]
    assert two.ids == one.ids[: len(two.ids)] and sum(two.response) == 12
    [[*first, again]] = distillation.follow_ups([whole, cut])
    assert first == whole["messages"] and again["role"] == "user"


def test_a_prompt_is_answered_once_whatever_its_case_and_spaces(mars_tiny):
    spellings = ["Which city is the capital of Latvia?", "which  city is the capital of latvia? ", " "]
    assert len(list(distillation.answered(mars_tiny, spellings))) == 1
    assert not list(distillation.answered(mars_tiny, spellings, excluded=[spellings[0].upper()]))


def test_a_truncated_file_is_continued(tmp_path, mars_tiny):
    path = tmp_path / "self.jsonl"
    for count in (3, 5, 5):
        distillation.write_answers(path, mars_tiny, prompts(8), count, batch=2)
        assert len(path.read_text().splitlines()) == count
        path.write_text(path.read_text() + '{"messages": [{"role": "us')  # truncated while being written
    distillation.write_answers(path, mars_tiny, [], 5)
    answered = [json.loads(line)["messages"][0]["content"] for line in path.read_text().splitlines()]
    assert len(set(answered)) == 5


def test_prompts_come_from_text_and_jsonl_files(tmp_path):
    text, lines = tmp_path / "prompts.txt", tmp_path / "talks.jsonl"
    text.write_text("one\n\ntwo\n")
    lines.write_text('{"messages": [{"role": "user", "content": "three"}]}\nbroken\n')
    assert list(distillation.prompts_from(str(text))) == ["one", "two"]
    assert list(distillation.prompts_from(str(lines))) == ["three"]
    text.write_text("\n")
    with pytest.raises(ValueError, match="prompts.txt"):
        distillation.prompts_from(str(text))


def test_held_out_prompts_are_avoided(tmp_path, mars_tiny):
    held_out, rest = tmp_path / "held-out.jsonl", tmp_path / "train.jsonl"
    distillation.write_answers(held_out, mars_tiny, prompts(3), 3)
    distillation.write_answers(rest, mars_tiny, prompts(6), 6, avoid=held_out)
    answered = [
        {json.loads(line)["messages"][0]["content"] for line in path.read_text().splitlines()}
        for path in (held_out, rest)
    ]
    assert answered[1] and not answered[0] & answered[1]


@pytest.mark.full
def test_the_chat_recipe_runs_at_a_small_scale_and_resumes(tmp_path, monkeypatch):
    settings = {"batch_tokens": 1024, "save_steps": 2, "compile": False}
    monkeypatch.setitem(smollm.SCALES, "test", smollm.Scale(4, 12, 4, 4, 32, (2, 3), settings))
    command = ["recipe", "smollm", "--base", "ar-tiny", "--output", str(tmp_path), "--scale", "test"]
    monkeypatch.setattr(smollm, "_mixed", lambda *_: distillation.prompts_from("tasks"))
    for _ in range(2):
        assert cli.main(command) == 0
    trained = load_checkpoint(str(tmp_path / CHAT), device="cpu")
    assert (trained.block_size, trained.objective) == (8, "mars")
    talks = [json.loads(line)["messages"] for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert 12 <= len(talks) <= 16
    bundle = tmp_path / "bundle" / CHAT
    quantized = load_checkpoint(str(bundle), device="cpu")
    assert (quantized.block_size, quantized.precision) == (8, "int8")
    assert len(list(distillation.prompts_from(str(bundle / "held-out.jsonl")))) == 4
    assert (bundle / "custom_generate" / "generate.py").exists()
    card = (bundle / "README.md").read_text()
    first, last = json.loads((bundle / "recipe.json").read_text())["trainings"]
    assert (first["objective"], last["objective"]) == ("ar", "mars")
    assert min(first["tokens"], last["tokens"]) > 0
    assert smollm.BASE in card and "apache-2.0" in card and (bundle / "LICENSE").exists()


def test_looping_answers_are_recognized():
    assert is_loop("Start. " + "I like it very much indeed. " * 3 + "End.")
    assert not is_loop("I like it very much indeed. I like it very much indeed. Do you?")
    assert not is_loop("12, 12, 12, 12, 12, 12")  # short repeats occur in lists and tables


def test_made_prompts_are_many_and_whole():
    made = list(itertools.islice(distillation.made_prompts(), 3000))
    assert len(set(made)) > 2500
    assert not [prompt for prompt in made if "{" in prompt or not prompt.strip()]
