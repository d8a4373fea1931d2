"""The panel "Why this speed?" in a real browser; `speed.test.js` tests its numbers for recorded runs."""

import re
from dataclasses import replace

import pytest
from on_stage import lane, put, says
from playwright.sync_api import Page, expect
from records import file_of, run

from mars_demo.core.modes import MODES
from mars_demo.core.trace import Run

WORDS = [f"word{n}" for n in range(60)]
# Of 4 slots; each forward has 3 masks and the tokens accepted before: 5, 7, 6, 7, 7, 4 and 7 positions.
ACCEPTED = [2, 4, 3, 4, 4, 1, 4, 4]


def timed(made: Run, per_position: float, slower: float = 1.0, **settings) -> Run:
    """Return the run with a prefill of 30 ms, and forwards of 10 ms that grow with their positions."""
    steps, new = [], 40
    for step in made.passes:
        positions = new + len(step.slots) - 1
        ms = slower * (10 + per_position * (positions - 1)) if steps else 30.0
        steps.append(replace(step, positions=positions, ms=ms))
        new = step.accepted
    return Run(replace(made.settings, **settings), iter(steps)).finish()


def mars(per_position: float = 0.5, accepted=ACCEPTED, slower: float = 1.0, with_costs: bool = True) -> Run:
    made = run("mars", accepted, [0.6] * len(accepted), words=WORDS, window=4)
    costs = [[k, 10 + per_position * (k - 1)] for k in (1, 5, 9)]
    return timed(made, per_position, slower, costs=costs if with_costs else None)


def ar(tokens: int) -> Run:
    return timed(run("ar", [1] * tokens, words=WORDS), 0)


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


def test_the_speed_up_is_tokens_per_forward_divided_by_what_a_forward_costs(look):
    """Expect 12.57 ms for 43/7 positions, and a measured 26 tokens in 126.8 ms against 30 in 320 ms."""
    page = look(ar(30), mars(slower=1.1))
    expect(sentences(page)).to_have_count(2)
    expect(sentences(page).nth(0)).to_have_text(says("6.1", "3.25 ÷ 1.26 = 2.6"))
    expect(sentences(page).nth(1)).to_have_text(says("2.6×", "2.2×"))
    expect(page.locator(".verdict")).to_have_text(says("2.2×"))
    lane(page, "ar").locator(".name").click()
    expect(page.locator(".why-whose")).to_have_text(MODES["ar"].title)


def test_a_run_alone_is_predicted_from_its_costs_and_not_measured(look):
    page = look(mars(with_costs=False))
    expect(sentences(page)).to_have_count(1)
    expect(sentences(page)).not_to_have_text(re.compile(r"\d"))  # no number without a cost
    expect(page.locator(".cost .row")).not_to_have_count(0)
    page = look(mars())
    expect(sentences(page)).to_have_count(2)
    expect(sentences(page).nth(1)).to_have_text(re.compile(r"^[^×]*×[^×]*$"))  # only predicted


def test_pictures_show_costs_slots_and_times(look):
    page = look(mars())
    sizes = ["4 positions11.5 ms (1×)", "5 positions12.0 ms (1×)", "6 positions12.5 ms (1×)"]
    expect(page.locator(".cost .row")).to_have_text([*sizes, "7 positions13.0 ms (4×)"])
    slots = ["100% (8 of 8)", "88% (7 of 8)", "75% (6 of 8)", "62% (5 of 8)"]
    expect(page.locator(".by-slot .part")).to_have_text(slots)
    expect(page.locator(".times .part")).to_have_text(["25% (30 ms)", "75% (88 ms)"])


def test_another_tau_is_tried_on_the_side_in_focus_only(look):
    """Choose another side by its name and by one of its tokens: no mark of the tried τ remains."""
    marks = ".ghost-bar, .ghost-cells"
    page = look(ar(26), mars(), mars(8.5))
    for choose in (".name", ".token"):
        lane(page, "mars").locator(".name").click()
        expect(lane(page, "mars")).to_have_class(re.compile("focused"))  # a new side forgets a tried τ
        page.locator(".ghost-range").fill("0.9")
        expect(page.locator(marks)).not_to_have_count(0)
        lane(page, "mars~2").locator(choose).first.click()
        expect(lane(page, "mars~2")).to_have_class(re.compile("focused"))
        expect(page.locator(marks)).to_have_count(0)
        expect(page.locator(".ghost-tau")).to_have_text("0.60")
