"""Sweeps: answers as prompts get alone, each computed once, and resuming."""

import itertools
import json
from dataclasses import replace

import pytest
import torch
from random_models import random_model

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Pass, Run, Settings, Slot
from mars_demo.evaluation.accuracy import MAX_NEW_TOKENS, evaluate
from mars_demo.evaluation.frontier import AR, Frontier, Setting
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.evaluation.task_sets import task_set
from mars_demo.models.checkpoint import wrap
from mars_demo.modes import MODES
from mars_demo.serving.cache import CursorCache

LOSSLESS = Setting("lossless")
SETTINGS = [AR, LOSSLESS, Setting("mars", "probability", 0.3), Setting("mars", "margin", 0.05)]
LIMIT = 6


def outcomes(frontier: Frontier) -> list[tuple]:
    """Return what does not depend on a clock."""
    return [(point.setting, point.outcomes) for point in frontier.points]


@pytest.fixture(scope="module")
def whole(mars_tiny) -> Frontier:
    return Sweep(mars_tiny, "letters", LIMIT, SETTINGS, size=4).finish()


def test_outcomes_are_those_of_prompts_decoded_alone(mars_tiny, whole):
    examples = tasks.held_out("letters", LIMIT)
    own = {}
    for point, setting in zip(whole.points, SETTINGS, strict=True):
        assert point.setting == setting and point.seconds > 0
        for example, outcome in zip(examples, point.outcomes, strict=True):
            request = Request(setting.mode, setting.tau or 0.95, setting.criterion or "probability")
            run = decode(mars_tiny, example.prompt, request).finish()
            assert outcome.ids == tuple(run.token_ids) and outcome.text == run.text
            assert (outcome.tokens, outcome.forwards) == (run.tokens, run.forwards)
            right = run.stop == "eos" and tasks.TASKS["letters"].grade(example, run.text)
            assert outcome.right == right
            ar = own.setdefault(outcome.number, run.token_ids)
            pairs = itertools.zip_longest(run.token_ids, ar)
            unlike = [index for index, (token, other) in enumerate(pairs) if token != other]
            assert outcome.leaves == (unlike[0] if unlike else None)
    assert whole.prompts == tuple(example.prompt for example in examples)
    lossy = whole.points[2]
    assert all(one.leaves is None for point in whole.points[:2] for one in point.outcomes)
    assert any(one.leaves is not None for one in lossy.outcomes) and lossy.wrong


def test_an_interrupted_sweep_resumes_also_with_more_settings(mars_tiny, whole, tmp_path, monkeypatch):
    cut = iter(Sweep(mars_tiny, "letters", LIMIT, SETTINGS[:2], size=4, folder=tmp_path))
    for _ in range(40):
        next(cut)
    cut.close()
    [file] = tmp_path.iterdir()
    known = file.read_text().splitlines()
    assert 0 < len(known) < 2 * LIMIT
    again = Sweep(mars_tiny, "letters", LIMIT, SETTINGS, size=4, folder=tmp_path)
    first = again.finish()
    assert outcomes(first) == outcomes(whole)
    lines = file.read_text().splitlines()
    assert lines[: len(known)] == known and len(lines) == LIMIT * len(SETTINGS)
    monkeypatch.setattr(CursorCache, "forward", None)  # nothing can be computed from here on
    assert again.finish() == first
    assert Sweep(mars_tiny, "letters", LIMIT, SETTINGS, size=4, folder=tmp_path).finish() == first


def test_a_torn_line_is_dropped(mars_tiny, tmp_path):
    full = Sweep(mars_tiny, "letters", 3, [AR], size=4, folder=tmp_path).finish()
    [file] = tmp_path.iterdir()
    content = file.read_bytes()
    lines = content.splitlines(keepends=True)
    for torn in (
        content[:-1],
        content[: len(lines[0]) + 20],
        lines[0],
        lines[0][:50],
        b"",
        content + b'{"setting": {"mo',
        content + b'{"setting": 3}\n',
        content + b"\xff\xfe\n",
    ):
        file.write_bytes(torn)
        again = Sweep(mars_tiny, "letters", 3, [AR], size=4, folder=tmp_path).finish()
        assert outcomes(again) == outcomes(full)
        kept = [json.loads(line) for line in file.read_text().splitlines()]
        assert sorted(line["outcome"]["number"] for line in kept) == [0, 1, 2]


def test_different_sweeps_have_different_files(mars_tiny, tokenizer, tmp_path):
    def number(checkpoint, tasks="letters", limit=2, size=4) -> int:
        Sweep(checkpoint, tasks, limit, [AR], size=size, folder=tmp_path)
        return len(list(tmp_path.iterdir()))

    trained = wrap("mars-tiny", random_model("llama", tokenizer), tokenizer)
    counts = [number(mars_tiny), number(mars_tiny), number(mars_tiny, "units"), number(mars_tiny, limit=3)]
    counts += [number(mars_tiny, size=5), number(trained)]
    with torch.no_grad():  # the same name and shapes, other values
        trained.model.lm_head.weight.mul_(1.5)
    counts += [number(trained), number(trained)]
    assert counts == [1, 1, 2, 3, 4, 5, 6, 6]


def test_the_grid_has_the_settings_of_a_mars_model(mars_tiny):
    assert grid(mars_tiny, ["entropy", "entropy"], [0.5, 0.9, 0.5]) == [
        AR,
        LOSSLESS,
        Setting("mars", "entropy", 0.9),
        Setting("mars", "entropy", 0.5),
    ]
    assert len(grid(mars_tiny)) == 2 + 3 * 7


# -------------------------------------------------------------------------------------- task sets


def test_tasks_alternate_and_a_smaller_set_begins_a_larger_one():
    prompts = [question.prompt for question in task_set("worlds").questions(26)]
    turns = [example.prompt for example in tasks.mixed(3)]
    assert prompts == turns[:26] and len(set(prompts)) == 26
    for name in tasks.TASKS:
        few, more = ([q.prompt for q in task_set(name).questions(count)] for count in (2, 5))
        assert few == more[:2]


def answered(text: str, stop: str) -> Run:
    """Return a run with that answer."""
    settings = Settings("ar", "m", 1, None, None, "", 1, "cpu", "float32", 9)
    return Run(settings, [Pass(1, None, 1, 1.0, 1, (Slot(5, text, 1.0),), stop)]).finish()


@pytest.mark.parametrize("name", tasks.TASKS)
def test_a_reference_answer_is_right_only_with_its_end_token(name):
    examples = tasks.held_out(name, 3)
    for question, example in zip(task_set(name).questions(3), examples, strict=True):
        assert question.grade(answered(example.answer, "eos"))
        assert not question.grade(answered(example.answer, "length"))
        assert not question.grade(answered("Nothing.", "eos"))


TAUS = (1.0, 0.5)


@pytest.mark.parametrize("mode", [name for name, mode in MODES.items() if not mode.needs_draft])
def test_every_mode_that_has_a_tau_is_swept_and_no_other(mars_tiny, mode):
    own = "mars" in MODES[mode].objectives
    checkpoint = mars_tiny if own else replace(mars_tiny, objective=MODES[mode].objectives[0])
    rows = list(evaluate(checkpoint, Request(mode), TAUS, ["units"], limit=1))
    assert [row.tau for row in rows] == (list(TAUS) if MODES[mode].uses_tau else [None])
    [example] = tasks.held_out("units", 1)
    for row in rows:
        request = Request(mode, 0.95 if row.tau is None else row.tau, max_new_tokens=MAX_NEW_TOKENS)
        run = decode(checkpoint, example.prompt, request).finish()
        assert (row.tokens, row.forwards) == (run.tokens, run.forwards)
