"""The Frontier tab on prompts of a visitor: parsing, measuring, and racing the fastest one."""

import itertools
import json
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from acts import choose, fits, is_open
from greedy import check_tokens, generate
from playwright.sync_api import expect
from race_tab import dismiss, stage, to_the_end, toast

from mars_demo import tasks
from mars_demo.core.grammar import Grammar
from mars_demo.core.limits import LIMITS
from mars_demo.decoding.decode import decode
from mars_demo.evaluation.frontier import AR
from mars_demo.ui import own_prompts
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.own_prompts import JUDGED, MOST, Prompt, parse, races
from mars_demo.ui.tabs import frontier as tab

SORT, SPELL = "Sort 31, 4 and 15", "Can you spell out the number 6778?"
HOSTILE = "<img src=x onerror=alert(1)> **bold** ${1+1}"
LONGEST = 20  # tokens of an answer
COSTS = [(1, 1.0), (5, 6.0), (9, 11.0)]  # steep: narrow windows are faster


def lines(*objects: dict) -> str:
    return "\n".join(map(json.dumps, objects))


@pytest.mark.parametrize(
    "text, prompts",
    [
        (f"{SORT}\r\n\n  {HOSTILE}\n", {1: Prompt(prompt=SORT), 3: Prompt(prompt=HOSTILE)}),
        ('{"a": 1\n3', {1: Prompt(prompt='{"a": 1'), 2: Prompt(prompt="3")}),
        (
            lines({"prompt": SORT, "answer": "4, 15, 31", "id": 7}, {"prompt": "two\nlines"}),
            {1: Prompt(prompt=SORT, answer="4, 15, 31"), 2: Prompt(prompt="two\nlines")},
        ),
    ],
)
def test_a_pasted_text_is_lines_or_json_lines(text, prompts):
    assert parse(text) == prompts


@pytest.mark.parametrize(
    "text, message",
    [
        (" \n", f"1 to {MOST} .*not 0"),
        ("\n".join([SORT] * (MOST + 1)), f"not {MOST + 1}"),
        (f"\n{lines({'prompt': SORT})}\n{SORT}", "Line 3: This is not a JSON object"),
        (lines({"prompt": SORT}, {"answer": "4"}), "Line 2: prompt is missing"),
        (lines({"prompt": SORT}, {"prompt": " "}), "Line 2: prompt must have at least 1 character"),
        (lines({"prompt": SORT, "answer": 4}), "Line 1: answer must be a valid string, not 4"),
        (f"{SORT}\n{'x' * (LIMITS.prompt + 1)}", f"Line 2: .*{LIMITS.prompt}"),
        (f"{SORT}\n{'word ' * 600}", "Line 2: "),  # longer than the model's context
        ("\ud800", "Line 1: "),
    ],
)
def test_a_wrong_line_is_named(mars_tiny, text, message):
    with pytest.raises(ValueError, match=message):
        next(races(mars_tiny, parse(text)))


@pytest.fixture
def short(monkeypatch):
    """Let answers end early."""
    monkeypatch.setattr(own_prompts, "MAX_NEW_TOKENS", LONGEST)


@pytest.mark.usefixtures("short")
def test_figures_are_those_of_races(mars_tiny):
    """Windows follow the costs of forwards, as in a race."""
    checkpoint = replace(mars_tiny, costs=COSTS)
    texts = [example.prompt for example in tasks.held_out("number-words", 2)] + ["a tale of a gardener"]
    right = decode(mars_tiny, texts[0], AR.request(LONGEST)).finish().text
    pasted = [{"prompt": text} for text in texts]
    pasted[0]["answer"], pasted[1]["answer"] = f" {right}\n", "42"
    *_, (frontier, progress) = races(checkpoint, parse(lines(*pasted)))
    assert frontier.prompts == tuple(texts) and progress.startswith("3 of 3")

    ar = [decode(mars_tiny, text, AR.request(LONGEST)).finish() for text in texts]
    for run in ar:
        check_tokens(mars_tiny, run, generate(mars_tiny, run.settings.prompt, LONGEST))
    for point, row in zip(frontier.points, frontier.table().to_dict("records"), strict=True):
        request = point.setting.request(LONGEST)
        runs = [decode(checkpoint, text, replace(request, adaptive=True)).finish() for text in texts]
        assert [(one.text, one.tokens, one.forwards) for one in point.outcomes] == [
            (run.text, run.tokens, run.forwards) for run in runs
        ]
        equal = sum(run.token_ids == other.token_ids for run, other in zip(runs, ar))
        seconds = [sum(one.seconds for one in each.outcomes) for each in (frontier.points[0], point)]
        faster = f"{seconds[0] / seconds[1]:.2f}×"
        assert row["different from AR"] == f"{3 - equal}" and row["faster than AR"].startswith(faster)
        assert [one.right for one in point.outcomes] == [runs[0].text == right, False, None]
        assert row["accuracy"].startswith("50" if runs[0].text == right else "0")
        if point.setting == JUDGED:
            verdict = own_prompts.own_verdict(frontier)
            assert f"{equal} of 3 answers" in verdict and faster in verdict
            wide = [decode(mars_tiny, text, request).finish() for text in texts]
            assert sum(run.forwards for run in runs) > sum(run.forwards for run in wide)


@pytest.mark.usefixtures("short")
def test_prompts_are_answered_with_and_without_the_shape(mars_tiny):
    """Differences are from AR with the same shape, speeds from AR without one."""
    numbers = Grammar("regex", "[0-9]+(, [0-9]+)*")
    *_, (frontier, _) = races(mars_tiny, parse(lines({"prompt": SORT, "answer": "4, 15, 31"})), numbers)
    free, shaped = frontier.points[:5], frontier.points[5:]
    *_, (without, _) = races(mars_tiny, parse(lines({"prompt": SORT, "answer": "4, 15, 31"})))
    assert [(one.setting, one.outcomes[0].text) for one in free] == [
        (one.setting, one.outcomes[0].text) for one in without.points
    ]
    for point, like in zip(shaped, free, strict=True):
        assert point.setting == replace(like.setting, grammar=numbers)
        assert point.setting.title == f"{like.setting.title}, with the shape"
        assert re.fullmatch(numbers.text, point.outcomes[0].text)
    assert shaped[0].outcomes[0].leaves is None and not shaped[1].different
    point = shaped[[one.setting for one in free].index(JUDGED)]
    speed = free[0].seconds / point.seconds
    assert f"With the shape it is {speed:.2f}× as fast as AR" in own_prompts.own_verdict(frontier)


def test_answers_in_json_are_right_by_their_values():
    prompt = Prompt(prompt="Who?", answer='{"name": "Ada", "born": 1815}')
    texts = ['{\n  "born": 1815, "name": "Ada"}\n', '{"name": "Ada"}', "Ada"]
    runs = [SimpleNamespace(text=text, stop="eos") for text in texts]
    assert [prompt.grade(run) for run in runs] == [True, False, False]


def test_a_stopped_measurement_keeps_its_finished_prompts():
    knobs, frontier, message = Knobs(), None, ""
    start = partial(races, prompts=parse(f"{SORT}\n{SPELL}\nhello"))
    for step in tab._swept("mars-tiny", start, knobs):
        if step is not tab.WAITING:
            frontier, message = step[0] or frontier, step[1]
            knobs.stopped = bool(frontier.points)
    assert message == "Stopped. 1 of 3 prompts."
    assert [point.n for point in frontier.points] == [1] * 5


@pytest.mark.usefixtures("short")
def test_a_measurement_ends_at_the_time_limit_of_races(monkeypatch):
    """Let every look at the clock take a second."""
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    for module in ("mars_demo.ui.racing", "mars_demo.ui.hosting.shared_state"):
        monkeypatch.setattr(f"{module}.time", clock)
    monkeypatch.setenv("MARS_DEMO_RACE_SECONDS", "20")
    knobs, looks = Knobs(), clock.monotonic()
    *_, last = tab.measure_here(
        "mars-tiny", own_prompts.NAME, 8, "", [], f"{SORT}\n{SPELL}", "none", "", knobs
    )
    assert last[-1].startswith("Stopped.") and clock.monotonic() - looks < 30
    assert not knobs.stopped


def give_pattern(page, pattern: str) -> None:
    """Let answers match a pattern, after a wrong one."""
    page.locator("#frontier-shaped button").first.click()
    choose(page, "frontier-answer-shape", "A pattern")
    for text, is_wrong in (("[0-9", True), (pattern, False)):
        page.locator("#frontier-grammar textarea").fill(text)
        expect(page.locator("#frontier-shape .problem")).to_be_visible(visible=is_wrong)


@pytest.mark.usefixtures("short")
def test_prompts_are_measured_and_the_fastest_is_raced(visit):
    page = visit("tab=frontier")
    expect(page.locator("#frontier-model input")).to_have_value("mars-tiny")
    choose(page, "frontier-tasks", own_prompts.TITLE)
    expect(page.locator("#frontier-taus")).to_be_hidden()
    pasted, run = page.locator("#frontier-own textarea"), page.locator("#frontier-run")
    wrong = f"{lines({'prompt': SPELL})}\n{SORT}"
    pasted.fill(wrong)
    run.click()
    expect(toast(page)).to_contain_text("Line 2")
    dismiss(page)
    expect(pasted).to_have_value(wrong)
    expect(run).to_be_enabled()
    pasted.fill(f"{SORT}\n{SPELL}\n{HOSTILE}")
    give_pattern(page, "[0-9]+(, [0-9]+)*")
    run.click()
    expect(page.locator("#frontier-said")).to_contain_text("3 of 3")
    expect(page.locator("#frontier-about")).to_contain_text(re.compile(r"On your 3 prompts, .*AR's\."))
    expect(page.locator("#frontier-chart")).to_be_hidden()
    expect(page.locator("#frontier-table .virtual-row")).to_have_count(10)
    fits(page)

    expect(page.locator("#frontier-point input")).to_have_value(JUDGED.title)
    choose(page, "frontier-point", f"{JUDGED.title}, with the shape")
    answers = page.locator("#frontier-answers .virtual-row")
    expect(answers).to_have_count(3)
    cells = [row.locator(".body-cell").all_inner_texts() for row in answers.all()]
    speeds = [float(re.search(r"([\d.]+)×", result)[1]) for *_, result in cells]
    assert speeds == sorted(speeds)
    fastest = cells[-1][0].strip()
    answers.last.locator(".body-cell").first.click()
    expect(page.locator("#frontier-prompt input")).to_have_value(fastest)
    page.locator("#frontier-race-prompt").click()
    is_open(page, "Race")
    expect(stage(page).locator(".prompt")).to_have_text(fastest)
    to_the_end(page)
    expect(page.locator("#prompt textarea")).to_have_value(fastest)
    expect(page.locator("#mode input[name=mars]")).to_be_checked()
    expect(page.locator("#tau input[type=number]")).to_have_value("0.95")
    expect(page.locator("#grammar textarea")).to_have_value("[0-9]+(, [0-9]+)*")
    expect(page).not_to_have_url(re.compile("tab="))
