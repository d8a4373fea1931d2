"""The panel "Why this speed?" in a real browser, with expected values computed from the records."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import pytest
from on_stage import lane, put, says
from playwright.sync_api import Page, expect
from records import file_of, run

from mars_demo.core.modes import MODES
from mars_demo.core.trace import Run

Costs = Callable[[float], float]  # milliseconds of a forward by its positions
MEASURED = (1, 5, 9)  # positions
WORDS = [f"word{n}" for n in range(60)]
PREFILL = 30.0  # ms
WINDOW = 4
ACCEPTED = [2, 4, 3, 4, 4, 1, 4, 4]  # slot scores fall from 0.99 in steps of 0.1; the last window is full


def line(per_position: float) -> Costs:
    return lambda k: 10 + per_position * (k - 1)


CHEAP, DEAR = line(0.5), line(8.5)


def timed(made: Run, ms: Callable[[int], float], **settings) -> Run:
    """Return the run with the positions of its forwards and with their times."""
    steps, new = [], 40
    for step in made.passes:
        positions = new + len(step.slots) - 1
        steps.append(replace(step, positions=positions, ms=PREFILL if new == 40 else ms(positions)))
        new = step.accepted
    return Run(replace(made.settings, **settings), iter(steps)).finish()


def mars(costs: Costs, accepted=ACCEPTED, slower: float = 1.0, with_costs: bool = True) -> Run:
    made = run("mars", accepted, [0.6] * len(accepted), words=WORDS, window=WINDOW)
    points = [[k, costs(k)] for k in MEASURED] if with_costs else None
    return timed(made, lambda k: slower * costs(k), costs=points)


def ar(tokens: int, ms: float = 10.0) -> Run:
    return timed(run("ar", [1] * tokens, words=WORDS), lambda _: ms)


def speed_up(accepted: list[int], window: int, costs: Callable[[int], float]) -> float:
    """Return the speed-up of a window, from the accepted slots that fit it."""
    fitting = [min(count, window) for count in accepted]
    return fmean(fitting) / fmean(costs(count + window - 1) for count in fitting) * costs(1)


def written(factor: float) -> str:
    return f"{factor:.{2 if factor < 1.95 else 1}f}"


def sentences(page: Page):
    return page.locator(".reasons p")


@pytest.fixture
def look(stage):
    """Put runs on the shared stage."""

    def on_stage(*runs: Run) -> Page:
        put(stage, file_of(*runs))
        expect(stage.locator(".why")).to_be_visible()
        return stage

    return on_stage


# ------------------------------------------------------------------------------------ predictions


def predicted(single: Run, costs: Callable[[int], float]) -> tuple[float, float, float]:
    """Return the mean positions per forward after the prefill, their relative cost, and the speed-up."""
    sizes = [step.positions for step in single.passes[1:]]
    ratio = fmean(map(costs, sizes)) / costs(1)
    return fmean(sizes), ratio, single.tokens_per_forward / ratio


def test_the_speed_up_is_tokens_per_forward_divided_by_what_a_forward_costs(look):
    baseline, single = ar(30), mars(CHEAP, slower=1.1)
    size, ratio, factor = predicted(single, CHEAP)
    measured = (single.tokens / single.seconds) / (baseline.tokens / baseline.seconds)
    page = look(baseline, single)
    division = f"{single.tokens_per_forward:.2f} ÷ {ratio:.2f} = {written(factor)}"
    expect(sentences(page)).to_have_count(3)
    expect(sentences(page).nth(0)).to_have_text(says(f"{size:.1f}", division))
    expect(sentences(page).nth(1)).to_have_text(says(f"{written(factor)}×", f"{written(measured)}×"))
    expect(page.locator(".verdict")).to_have_text(says(f"{measured:.1f}×"))
    lane(page, "ar").locator(".name").click()
    expect(page.locator(".why-whose")).to_have_text(MODES["ar"].title)


def test_a_run_alone_is_predicted_from_its_costs_and_not_measured(look):
    page = look(mars(CHEAP, with_costs=False))
    expect(sentences(page)).to_have_count(1)
    expect(sentences(page)).not_to_have_text(re.compile(r"\d"))  # no number without a cost
    expect(page.locator(".cost .row")).not_to_have_count(0)
    page = look(mars(CHEAP))
    expect(sentences(page)).to_have_count(3)
    expect(sentences(page).nth(1)).to_have_text(re.compile(r"^[^×]*×[^×]*$"))  # only predicted


# ------------------------------------------------------------------------------- windows and slots


def test_the_best_window_is_the_one_that_would_have_been_fastest(look):
    accepted, costs = [2, 1, 2, 2, 1, 3, 2, 2, 1, 2, 2, 4], line(1.5)
    factors = {window: speed_up(accepted, window, costs) for window in range(1, WINDOW + 1)}
    best = max(factors, key=factors.get)
    assert 1 < best < WINDOW
    page = look(ar(24), mars(costs, accepted))
    expect(sentences(page).last).to_have_text(
        says(f"{best} slots", f"{written(factors[best])}×", 4, f"{written(factors[4])}×")
    )


def test_pictures_show_costs_slots_and_times(look):
    single = mars(CHEAP)
    others = single.seconds * 1e3 - PREFILL
    page = look(single)
    sizes = Counter(step.positions for step in single.passes[1:])
    rows = [f"{k} positions{CHEAP(k):.1f} ms ({count}×)" for k, count in sorted(sizes.items())]
    expect(page.locator(".cost .row")).to_have_text(rows)
    expect(page.locator(".by-slot .part")).to_have_text(
        ["100% (8 of 8)", "88% (7 of 8)", "75% (6 of 8)", "63% (5 of 8)"]
    )
    expect(page.locator(".times .part")).to_have_text([part(single, ms) for ms in (PREFILL, others)])
    steps = [replace(step, model_ms=0.7 * step.ms, read_ms=0.2 * step.ms) for step in single.passes]
    page = look(Run(single.settings, iter(steps)).finish())
    split = (PREFILL, 0.7 * others, 0.2 * others, 0.1 * others)  # prefill, model, reading logits, other
    expect(page.locator(".times .part")).to_have_text([part(single, ms) for ms in split])


def part(single: Run, ms: float) -> str:
    """Format a part of a run's time as its share and milliseconds."""
    return f"{100 * ms / (single.seconds * 1e3):.0f}% ({ms:.0f} ms)"


# ------------------------------------------------------------------------------------- another τ


def test_another_tau_is_tried_on_the_side_in_focus_only(look):
    """Choose another side by its name and by one of its tokens: no mark of the tried τ remains."""
    marks = ".ghost-bar, .ghost-cells"
    page = look(ar(26), mars(CHEAP), mars(DEAR))
    for choose in (".name", ".token"):
        lane(page, "mars").locator(".name").click()
        expect(lane(page, "mars")).to_have_class(re.compile("focused"))  # a new side forgets a tried τ
        page.locator(".ghost-range").fill("0.9")
        expect(page.locator(marks)).not_to_have_count(0)
        lane(page, "mars~2").locator(choose).first.click()
        expect(lane(page, "mars~2")).to_have_class(re.compile("focused"))
        expect(page.locator(marks)).to_have_count(0)
        expect(page.locator(".ghost-tau")).to_have_text("0.60")
