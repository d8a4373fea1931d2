"""Sweeps: outcomes, and the results of their points."""

import itertools
import json
import random
import statistics
from dataclasses import replace
from itertools import product

import pytest

from mars_demo import tasks
from mars_demo.cli import main
from mars_demo.core.modes import MODES
from mars_demo.core.trace import Pass, Run, Settings, Slot
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import bootstrap, frontier
from mars_demo.evaluation import sweep as sweeps
from mars_demo.evaluation.frontier import AR, Frontier, Graded, Point, Setting
from mars_demo.evaluation.sweep import evaluate, grid, sweep
from mars_demo.evaluation.task_sets import questions
from mars_demo.ui import own_prompts

LOSSLESS = Setting("lossless")
CRITERIA, LOW = ("probability", "margin"), (0.3, 0.05)
LIMIT = 6


@pytest.fixture(scope="module")
def whole(mars_tiny) -> Frontier:
    *_, (frontier, progress) = sweep(mars_tiny, "letters", LIMIT, CRITERIA, LOW, size=4)
    assert "Point 6 of 6: margin, τ = 0.05" in progress and f"{LIMIT} of {LIMIT} prompts" in progress
    return frontier


def test_outcomes_equal_single_runs(mars_tiny, whole):
    examples = tasks.held_out("letters", LIMIT)
    ar_ids = {}
    for point, setting in zip(whole.points, grid(mars_tiny, CRITERIA, LOW), strict=True):
        assert point.setting == setting and point.seconds > 0
        for example, outcome in zip(examples, point.outcomes, strict=True):
            request = Request(setting.mode, setting.tau or 0.95, setting.criterion or "probability")
            run = decode(mars_tiny, example.prompt, request).finish()
            counts = (outcome.tokens, outcome.forwards)
            assert (outcome.text, *counts) == (run.text, run.tokens, run.forwards)
            right = run.stop == "eos" and tasks.TASKS["letters"].grade(example, run.text)
            assert outcome.right == right
            ar = ar_ids.setdefault(outcome.number, run.token_ids)
            pairs = itertools.zip_longest(run.token_ids, ar)
            unlike = [index for index, (token, other) in enumerate(pairs) if token != other]
            assert outcome.leaves == (unlike[0] if unlike else None)
    assert whole.prompts == tuple(example.prompt for example in examples)
    lossy = whole.points[2]
    assert all(one.leaves is None for point in whole.points[:2] for one in point.outcomes)
    assert any(one.leaves is not None for one in lossy.outcomes) and lossy.wrong


def test_the_command_the_tab_and_own_prompts_give_the_same_figures(mars_tiny, tmp_path):
    """The command answers each prompt alone, the Frontier tab in batches; own prompts are raced."""
    examples = tasks.held_out("units", LIMIT)
    pasted = "\n".join(json.dumps({"prompt": one.prompt, "answer": one.answer}) for one in examples)
    *_, (own, _) = own_prompts.races(mars_tiny, own_prompts.parse(pasted))
    taus = [point.setting.tau for point in own.points[2:]]
    *_, (batched, _) = sweep(mars_tiny, "units", LIMIT, [own_prompts.CRITERION], taus, size=4)
    figures = [[point.accuracy, point.tokens_per_forward] for point in batched.points]
    assert figures == [[point.accuracy, point.tokens_per_forward] for point in own.points]
    alone, file = [], tmp_path / "rows.json"
    for mode in ("ar", "lossless", "mars"):
        command = f"evaluate --model mars-tiny --tasks units --limit {LIMIT} --mode {mode} --output {file}"
        assert main([*command.split(), "--taus", ",".join(map(str, taus))]) == 0
        rows = json.loads(file.read_text("utf-8"))["rows"]
        alone += [[row["accuracy"], row["tokens_per_forward"]] for row in rows]
    assert figures == alone and len({speed for _, speed in figures}) > 2


def test_a_truncated_own_answer_is_wrong(mars_tiny):
    prompt = own_prompts.Prompt(prompt="Hello", answer="Vienna.")
    assert [prompt.grade(answered("Vienna.", stop)) for stop in ("eos", "length")] == [True, False]


def test_the_grid_has_the_settings_of_a_mars_model(mars_tiny):
    assert grid(mars_tiny, ["entropy", "entropy"], [0.5, 0.9, 0.5]) == [
        AR,
        LOSSLESS,
        Setting("mars", "entropy", 0.9),
        Setting("mars", "entropy", 0.5),
    ]


# -------------------------------------------------------------------------------------- task sets


def test_tasks_alternate_and_a_smaller_set_begins_a_larger_one():
    prompts = [question.prompt for question in questions("tasks", 26)]
    turns = [example.prompt for example in tasks.mixed(3)]
    assert prompts == turns[:26] and len(set(prompts)) == 26
    for name in tasks.TASKS:
        few, more = ([q.prompt for q in questions(name, count)] for count in (2, 5))
        assert few == more[:2]


def answered(text: str, stop: str) -> Run:
    """Return a run with the given answer."""
    settings = Settings("ar", "m", 1, None, None, "", 1, "cpu", "float32", 9)
    return Run(settings, [Pass(1, None, 1, 1.0, 1, (Slot(5, text, 1.0),), stop)]).finish()


@pytest.mark.parametrize("name", tasks.TASKS)
def test_a_reference_answer_is_right_only_with_its_end_token(name):
    examples = tasks.held_out(name, 3)
    for question, example in zip(questions(name, 3), examples, strict=True):
        assert question.grade(answered(example.answer, "eos"))
        assert not question.grade(answered(example.answer, "length"))
        assert not question.grade(answered("Nothing.", "eos"))


TAUS = (1.0, 0.5)


@pytest.mark.parametrize("mode", [name for name, mode in MODES.items() if not mode.needs_draft])
def test_only_modes_with_a_tau_are_swept(mars_tiny, monkeypatch, mode):
    monkeypatch.setattr(sweeps, "MAX_NEW_TOKENS", 24)
    is_mars = "mars" in MODES[mode].objectives
    checkpoint = mars_tiny if is_mars else replace(mars_tiny, objective=MODES[mode].objectives[0])
    names, measured = zip(*evaluate(checkpoint, Request(mode), TAUS, ["units"], limit=1))
    assert set(names) == {"units"}
    taus = [point.setting.tau for point in measured]
    assert taus == (list(TAUS) if MODES[mode].uses_tau else [None])
    [example] = tasks.held_out("units", 1)
    for tau, point in zip(taus, measured):
        request = Request(mode, 0.95 if tau is None else tau, max_new_tokens=24)
        run = decode(checkpoint, example.prompt, request).finish()
        assert [(one.tokens, one.forwards) for one in point.outcomes] == [(run.tokens, run.forwards)]


COUNT = 40
MADE_UP = [
    AR,
    Setting("lossless"),
    *(Setting("mars", name, tau) for name, tau in product(("entropy", "probability"), (0.5, 0.95))),
]


def point(setting: Setting, seconds: float = 8.0) -> Point:
    """Return a point with made-up outcomes that depend on the setting."""
    rng = random.Random(setting.title)
    outcomes = [
        Graded(number, rng.random() < 0.8, rng.randint(20, 60), rng.randint(5, 20), None, f"<b>{number}")
        for number in range(COUNT)
    ]
    return Point(setting, tuple(outcomes), seconds)


@pytest.fixture(scope="module")
def swept() -> Frontier:
    points = [point(setting, 10.0 - number) for number, setting in enumerate(MADE_UP)]
    prompts = tuple(f"Prompt {number}" for number in range(COUNT))
    return Frontier("a <model>", "units", "Units", 8, "a machine", prompts, tuple(points))


# ------------------------------------------------------------------------------- intervals


def test_an_interval_equals_a_plain_bootstrap():
    rng = random.Random(1)
    tokens = [rng.randint(10, 90) for _ in range(60)]
    forwards = [rng.randint(3, 20) for _ in tokens]
    ratios = []
    for _ in range(4000):
        resampled = rng.choices(range(len(tokens)), k=len(tokens))
        ratios.append(sum(tokens[i] for i in resampled) / sum(forwards[i] for i in resampled))
    cuts = statistics.quantiles(ratios, n=40)
    low, high = bootstrap.interval(tokens, forwards)
    width = cuts[-1] - cuts[0]
    assert low == pytest.approx(cuts[0], abs=0.08 * width)
    assert high == pytest.approx(cuts[-1], abs=0.08 * width)


# -------------------------------------------------------------------------- settings and points


def test_a_grid_is_parsed():
    assert frontier.parse_taus("0.5, 0.95,1,0.5") == [1.0, 0.95, 0.5]
    for text in ("", "a", "0.9;0.8", "0.9,,0.8", "nan", "1e400", "2"):
        with pytest.raises(ValueError, match="0.*1"):
            frontier.parse_taus(text)


# --------------------------------------------------------------------------------------- records


def test_a_record_survives_a_round_trip(swept):
    record = json.loads(json.dumps(swept.record()))
    read = Frontier.read(record)
    assert read.record() == record
    for ours, original in zip(read.points, swept.points, strict=True):
        assert ours.setting == original.setting and ours.seconds == original.seconds
        assert ours.accuracy_interval == original.accuracy_interval
        assert [o.text for o in ours.wrong] == [o.text for o in original.wrong]
        assert all(o.text is None for o in ours.outcomes if o.right)
    bare = Frontier.read(swept.record(texts=False))
    assert all(o.text is None for p in bare.points for o in p.outcomes)
    assert [p.accuracy for p in bare.points] == [p.accuracy for p in swept.points]


def test_the_table_has_a_row_per_point_and_every_column(swept):
    table, point = swept.table(), swept.points[4]
    assert len(table) == len(MADE_UP) and list(table) == list(frontier.COLUMNS)
    shown, (low, high) = table.iloc[4], point.tokens_per_forward_interval
    assert shown["tokens per forward"] == f"{point.tokens_per_forward:.2f} ({low:.2f}–{high:.2f})"
    assert (shown["setting"], shown["faster than AR"]) == ("probability, τ = 0.5", "1.67×")
    assert shown["answers per second"] == f"{COUNT / 6:.2f}"


def test_impossible_sweeps_are_refused(mars_tiny, ar_tiny):
    with pytest.raises(ValueError, match="ar-tiny"):
        grid(ar_tiny, CRITERIA, LOW)
    with pytest.raises(ValueError, match="30.*12"):
        grid(mars_tiny, CRITERIA, [number / 100 for number in range(10, 40)])
    with pytest.raises(ValueError, match="chess.*tasks, word-problems, .*, instructions"):
        next(sweep(mars_tiny, "chess", LIMIT, CRITERIA, LOW, size=4))
