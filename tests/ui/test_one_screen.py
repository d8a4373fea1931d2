"""The stage on a projector's screen: what moves is in view, and nothing jumps."""

import pytest
from on_stage import lane
from playwright.sync_api import Page, expect
from race_tab import is_ready, race, to_the_end

PROJECTOR = {"width": 1280, "height": 720}
# The layout shifts without a recent input, which the web vital CLS adds up, and what moved.
WATCH_SHIFTS = """() => {
  globalThis.shifts = [];
  const nameOf = ({ node }) => node?.id || node?.className || node?.textContent;
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries())
      globalThis.shifts.push([value, sources.map(nameOf)]);
  }).observe({ type: "layout-shift" });
}"""
PARTS = (".verdict", ".replay", ".caption", ".slots", '[data-lane="ar"]', '[data-lane="mars"] .strip')


def fits(page: Page) -> None:
    """Assert that the parts that move are on the first screen, and both answers whole in their boxes."""
    page.wait_for_function("scrollY === 0")
    for part in PARTS:
        box = page.locator(f"#stage {part}").first.bounding_box()
        assert box and box["y"] >= 0 and box["y"] + box["height"] <= PROJECTOR["height"], (part, box)
    for name in ("ar", "mars"):
        answer = lane(page, name).locator(".answer")
        assert answer.evaluate("node => node.scrollHeight <= node.clientHeight + 1"), name


@pytest.mark.parametrize("view", ["", "view=talk&"])
def test_a_race_is_on_one_screen_and_nothing_jumps(visit, view):
    page = visit(f"{view}model=mars-tiny&prompt=weekday", viewport=PROJECTOR)
    is_ready(page)
    page.evaluate(WATCH_SHIFTS)
    race(page)
    fits(page)
    to_the_end(page)
    fits(page)
    expect(page.locator("#stage .slot").first).to_be_visible()
    shifts = page.evaluate("globalThis.shifts")
    assert sum(value for value, _ in shifts) < 0.05, shifts


@pytest.mark.parametrize("run", ["table", "bus", "too-low", "lossless-lossy"])
def test_the_stops_of_a_talk_are_on_one_screen(visit, run):
    page = visit(f"view=talk&run={run}", viewport=PROJECTOR)
    expect(lane(page, "mars").locator(".token").last).to_be_attached()
    fits(page)
    lines = page.locator("#stage .verdict").evaluate(
        "node => node.offsetHeight / parseFloat(getComputedStyle(node).lineHeight)"
    )
    assert lines < 2.5
