"""The stage on a projector's screen: what moves is in view, and nothing jumps."""

import pytest
from on_stage import PROJECTOR, keeps_still, lane, on_one_screen, watch_shifts
from playwright.sync_api import expect
from race_tab import is_ready, race, to_the_end

FULL = pytest.mark.full


@pytest.mark.parametrize("view", ["", pytest.param("view=talk&", marks=FULL)])
def test_a_race_is_on_one_screen_and_nothing_jumps(visit, view):
    page = visit(f"{view}model=mars-tiny&prompt=weekday", viewport=PROJECTOR)
    is_ready(page)
    watch_shifts(page)
    race(page)
    on_one_screen(page)
    to_the_end(page)
    on_one_screen(page)
    expect(page.locator("#stage .slot").first).to_be_visible()
    keeps_still(page)


@pytest.mark.parametrize(
    "run", ["table", "lossless-lossy", pytest.param("bus", marks=FULL), pytest.param("too-low", marks=FULL)]
)
def test_the_stops_of_a_talk_are_on_one_screen(visit, run):
    page = visit(f"view=talk&run={run}", viewport=PROJECTOR)
    expect(lane(page, "mars").locator(".token").last).to_be_attached()
    on_one_screen(page)
    lines = page.locator("#stage .verdict").evaluate(
        "node => node.offsetHeight / parseFloat(getComputedStyle(node).lineHeight)"
    )
    assert lines < 2.5
