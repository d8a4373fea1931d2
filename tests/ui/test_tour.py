"""The tour of the Race tab: its steps, its keys, leaving it, and its statements about races."""

import re

import pytest
from acts import fits, is_legible, is_open, press
from playwright.sync_api import Page, expect

from mars_demo.assets import read_json

STEPS = read_json("tour.json")
NUMBERED = list(enumerate(STEPS, start=1))
FIRST_RACE, RACE = next((number, step["race"]) for number, step in NUMBERED if "race" in step)
ACCEPTED = 9  # tokens of its first forward
VIEWS = {
    "dark": {"query": "__theme=dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "talk": {"query": "view=talk", "viewport": {"width": 1280, "height": 720}},
}
# Pixels of the element that a step points at that are under the box of the tour, or off the top of the
# screen; infinity while the step points at nothing.
COVERED = """() => {
  const pointed = document.querySelector("[data-pointed]");
  if (!pointed) return Infinity;
  const nodes = [pointed, document.querySelector("#tour .box")];
  const [at, box] = nodes.map((node) => node.getBoundingClientRect());
  const lowest = Math.min(at.bottom, at.top + innerHeight - box.height - 12);
  const beside = Math.min(at.right, box.right) <= Math.max(at.left, box.left);
  return Math.max(beside ? 0 : lowest - box.top, -at.top);
}"""
COUNTS = ("tokens", "forwards")
NUMBER = re.compile(r"\d")


def box(page: Page):
    return page.get_by_role("dialog")


def start(page: Page):
    """Return the button that starts and ends the tour."""
    return page.locator("#tour .start")


def forth(page: Page, steps: int = 1) -> None:
    for _ in range(steps):
        box(page).locator(".next").click()


def choices(page: Page):
    return box(page).locator(".choices button")


def outcome(page: Page):
    """Return the outcome of a prediction; it has numbers after the race has ended."""
    return box(page).locator(".outcome")


def at_step(page: Page, number: int) -> None:
    expect(box(page).locator(".count")).to_have_text(re.compile(rf"\b{number}\D+{len(STEPS)}$"))
    expect(box(page)).to_have_accessible_name(STEPS[number - 1]["title"])
    expect(box(page)).to_have_accessible_description(STEPS[number - 1]["text"])


def predict(page: Page, step: dict) -> None:
    """Select the last choice, and compare the outcome with the stage."""
    expect(choices(page)).to_have_count(len(step["choices"]))
    choices(page).last.click()
    expect(choices(page).last).to_have_attribute("aria-pressed", "true")
    expect(outcome(page)).to_have_text(NUMBER)
    expect(page.locator("#stage .prompt")).to_have_text(step["prompt"])
    expect(page.locator("#prompt textarea")).to_have_value(step["prompt"])
    lane, counts = page.locator(f'#stage .lane[data-lane="{step["mode"]}"]'), {}
    for name in COUNTS:
        counts[name] = int(lane.locator(f"[data-count={name}]").inner_text())
    baseline = page.locator('#stage .lane[data-lane="ar"] [data-count=forwards]').inner_text()
    if step["asks"] == "first":
        first = lane.get_by_role("group").filter(has=page.locator("[data-pass='0']")).locator(".token")
        number = first.count()
        expect(outcome(page)).to_contain_text("".join(first.all_text_contents()).replace("\n", "↵"))
    else:
        number = int(lane.locator(".sources [data-source=copy] b").inner_text())
    for figure in (number, *counts.values(), baseline):
        expect(outcome(page)).to_contain_text(re.compile(rf"\b{figure}\b"))


@pytest.fixture
def tour(visit):
    """Return a function that opens the tour at a step."""

    def open_tour(step: int = 1, query: str = "", **options) -> Page:
        page = visit(query, **options)
        expect(page.locator("#stage .token").first).to_be_attached()
        start(page).click()
        forth(page, step - 1)
        at_step(page, step)
        return page

    return open_tour


@pytest.mark.full
def test_a_prediction_is_compared_with_its_race(visit):
    page = visit()
    expect(page.locator("#stage .token").first).to_be_visible()
    expect(box(page)).to_be_hidden()
    start(page).click()
    at_step(page, 1)
    expect(box(page)).to_be_focused()
    forth(page, FIRST_RACE - 1)
    at_step(page, FIRST_RACE)
    page.wait_for_function(f"({COVERED})() <= 1")
    predict(page, RACE)
    expect(outcome(page)).to_contain_text(f"{ACCEPTED}")
    box(page).locator(".leave").click()
    expect(box(page)).to_be_hidden()
    expect(start(page)).to_be_focused()


# ------------------------------------------------------------------------------------ steps


@pytest.mark.full
@pytest.mark.parametrize("view", VIEWS)
def test_every_step_shows_its_element_and_predictions_beside_outcomes(tour, view):
    page = tour(**VIEWS[view])
    for number, step in NUMBERED:
        at_step(page, number)
        if "race" in step:
            predict(page, step["race"])
        if "at" in step:
            page.wait_for_function(f"({COVERED})() <= 1")
        fits(page)
        is_legible(page)
        expect(box(page).locator(".next")).to_be_in_viewport(ratio=1)
        forth(page)
    expect(box(page)).to_be_hidden()
    expect(page.locator("[data-pointed]")).to_have_count(0)
    assert page.evaluate("document.body.style.paddingBottom") == ""


@pytest.mark.full
def test_a_stopped_race_has_no_outcome_of_the_prediction(tour, gate):
    page = tour(FIRST_RACE)
    choices(page).first.click()
    gate.wait_until_held()
    racing = outcome(page).inner_text()
    expect(page.locator("#stop")).to_be_enabled()
    press(page.locator("#stop"))
    gate.open()
    expect(page.locator("#run")).to_be_enabled()
    expect(outcome(page)).not_to_have_text(racing)
    expect(outcome(page)).not_to_have_text(NUMBER)


@pytest.mark.full
def test_the_last_step_leads_to_the_other_tabs(tour):
    page = tour(len(STEPS))
    leads, tabs = box(page).locator(".tabs-to button"), STEPS[-1]["tabs"]
    expect(leads).to_have_count(len(tabs))
    leads.first.click()
    is_open(page, tabs[0]["tab"])
    expect(page.get_by_role("tab", name=tabs[0]["tab"])).to_be_focused()
    expect(box(page)).to_be_hidden()


# ------------------------------------------------------------------------------------- keys


@pytest.mark.full
def test_the_tour_can_be_taken_with_the_keyboard(tour):
    page = tour()
    keys = page.keyboard
    expect(box(page)).to_be_focused()
    keys.press("Enter")
    at_step(page, 2)
    keys.press("ArrowRight")
    at_step(page, 3)
    keys.press("Tab")  # the first choice
    expect(choices(page).first).to_be_focused()
    keys.press("Space")
    expect(outcome(page)).to_contain_text(f"{ACCEPTED}")
    expect(choices(page).first).to_be_focused()
    keys.press("ArrowLeft")
    at_step(page, 2)
    expect(box(page)).to_be_focused()  # the choice is removed
    for name in ("leave", "back", "next"):
        keys.press("Tab")
        expect(box(page).locator(f".{name}")).to_be_focused()
    keys.press("Enter")
    at_step(page, 3)
    expect(box(page).locator(".next")).to_be_focused()
    keys.press("Tab")  # from the box to the tabs
    assert not page.evaluate("document.querySelector('#tour .box').contains(document.activeElement)")
    keys.press("Shift+Tab")
    keys.press("Escape")
    expect(box(page)).to_be_hidden()
