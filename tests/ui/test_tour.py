"""The tour over the Race tab: when it comes, how it is left, its keys, and what it says of the races."""

import re

import pytest
from playwright.sync_api import Page, expect

from mars_demo.assets import read_json
from mars_demo.ui import controls

STEPS = read_json("tour.json")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
VIEWS = {
    "desktop": {"first": True},
    "phone": {"first": True, **PHONE},
    "dark": {"first": True, "query": "__theme=dark"},
    "talk": {"query": "view=talk", "viewport": {"width": 1280, "height": 720}},
}
# How much of what a step points at lies under its box, or of its top outside of the screen, in pixels;
# infinitely much while it points at nothing.
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
STORAGE = "() => localStorage.getItem('mars-demo-tour')"


def box(page: Page):
    return page.get_by_role("dialog")


def press(page: Page, name: str) -> None:
    box(page).get_by_role("button", name=name, exact=True).click()


def at_step(page: Page, number: int) -> None:
    expect(box(page).locator(".count")).to_have_text(f"Step {number} of {len(STEPS)}")
    expect(box(page)).to_have_accessible_name(STEPS[number - 1]["title"])
    expect(box(page)).to_have_accessible_description(STEPS[number - 1]["text"])


def raced(page: Page, mode: str) -> dict:
    """What the stage shows of a run: tokens and forwards by its counters, and its first forward."""
    lane = page.locator(f'#stage .lane[data-lane="{mode}"]')
    count = {name: int(lane.locator(f"[data-count={name}]").inner_text()) for name in COUNTS}
    first = lane.get_by_role("group", name="Forward 1", exact=True).locator(".token")
    return count | {"first": first.count(), "text": "".join(first.all_text_contents())}


# ---------------------------------------------------------------------------- when it comes


def test_a_first_visit_finds_the_tour_and_a_second_one_does_not(visit):
    page = visit(first=True)
    at_step(page, 1)
    expect(box(page)).to_be_focused()
    press(page, "Close tour")
    expect(box(page)).to_be_hidden()
    expect(page.get_by_role("button", name="Tour", exact=True)).to_be_focused()
    page.reload()
    expect(page.locator("#stage .token").first).to_be_visible()
    expect(box(page)).to_be_hidden()
    page.get_by_role("button", name="Tour", exact=True).click()  # starts again
    at_step(page, 1)


@pytest.mark.parametrize("query", ["run=table", "prompt=bus", "tab=learn", "view=talk", "tau=0.5"])
def test_an_address_that_names_something_opens_that(visit, query):
    page = visit(query, first=True)
    expect(page.locator("#stage .verdict span, #lesson-stage .token").first).to_be_attached()
    expect(page.get_by_role("button", name="Tour", exact=True)).to_be_visible()
    expect(box(page)).to_be_hidden()


def test_a_page_in_somebody_elses_page_opens_without_the_tour(visit, url, stage_url):
    page = visit(first=True, address=stage_url)
    expect(page.locator("#stage .token").first).to_be_visible()
    page.evaluate(
        "url => { document.body.innerHTML = '<iframe id=app>'; document.querySelector('#app').src = url; }",
        url,
    )
    inner = page.frame_locator("#app")
    expect(inner.locator("#stage .token").first).to_be_visible()
    expect(inner.get_by_role("dialog")).to_be_hidden()
    inner.get_by_role("button", name="Tour", exact=True).click()
    expect(inner.get_by_role("dialog")).to_be_visible()


def test_storage_that_is_blocked_only_forgets(visit, browser, url):
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(60_000)
    context.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('blocked'); } });"
    )
    page = context.new_page()
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(url)
    at_step(page, 1)
    page.keyboard.press("Escape")
    expect(box(page)).to_be_hidden()
    assert not [trouble for trouble in troubles if "tour" in trouble]
    context.close()


def test_whoever_types_already_keeps_the_focus(visit):
    """The page is used while the tour is open, and no control is out of reach."""
    page = visit(first=True)
    at_step(page, 1)
    page.locator("#prompt textarea").fill("Which city is the capital of Latvia?")
    page.locator("#run").click()
    expect(page.locator("#stage .verdict")).to_contain_text("same answer")
    at_step(page, 1)
    page.get_by_role("tab", name="Mask").click()
    expect(box(page)).to_be_hidden()
    page.get_by_role("tab", name="Race").click()
    at_step(page, 1)


# -------------------------------------------------------------------------------- its steps


@pytest.mark.parametrize("view", VIEWS)
def test_every_step_shows_what_it_points_at_and_what_was_predicted_beside_what_happened(visit, view):
    options = dict(VIEWS[view])
    page = visit(options.pop("query", ""), **options)
    if view == "talk":
        expect(page.locator("#stage .token").first).to_be_attached()
        page.get_by_role("button", name="Tour", exact=True).click()
    for number, step in enumerate(STEPS, start=1):
        at_step(page, number)
        if "race" in step:
            predict(page, step["race"])
        if "at" in step:
            page.wait_for_function(f"({COVERED})() <= 1")
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        next_one = box(page).locator(".next")
        expect(next_one).to_be_in_viewport(ratio=1)
        next_one.click()
    expect(box(page)).to_be_hidden()
    assert page.evaluate(STORAGE) == "seen"
    assert page.locator("[data-pointed]").count() == 0
    assert page.evaluate("document.body.style.paddingBottom") == ""


def test_what_the_page_makes_anew_is_pointed_at_again(visit):
    page = visit(first=True)
    number, step = next((number, step) for number, step in enumerate(STEPS, start=1) if "at" in step)
    for _ in range(1, number):
        box(page).locator(".next").click()
    at_step(page, number)
    pointed = page.locator("[data-pointed]")
    expect(pointed).to_have_count(1)
    pointed.evaluate(
        """node => {
          const copy = node.cloneNode(true);
          copy.removeAttribute("data-pointed");
          copy.id = "made-anew";
          node.replaceWith(copy);
        }"""
    )
    expect(page.locator("#made-anew[data-pointed]")).to_have_count(1)


def predict(page: Page, race: dict) -> None:
    """The last choice; what is then said is compared with what the stage shows."""
    choices = box(page).locator(".choices button")
    assert choices.count() == len(race["choices"])
    choices.last.click()
    expect(choices.last).to_have_attribute("aria-pressed", "true")
    said = box(page).locator(".outcome")
    expect(said).to_contain_text("You predicted 6 or more; it was")
    run, baseline = raced(page, race["mode"]), raced(page, "ar")
    expect(page.locator("#stage .prompt")).to_have_text(race["prompt"])
    expect(page.locator("#prompt textarea")).to_have_value(race["prompt"])
    if race["asks"] == "first":
        number = run["first"]
        expect(said).to_contain_text(f"accepted {number} token")
        expect(said).to_contain_text(f"“{run['text']}”")
    else:
        copied = page.locator(f'.lane[data-lane="{race["mode"]}"] .sources .copied')
        number = int(copied.locator("xpath=preceding-sibling::b").inner_text())
        expect(said).to_contain_text(f"copied {number} of {run['tokens']} tokens")
    expect(said).to_contain_text(f"it was {number}{', as you said' if number >= 6 else ''}.")
    expect(said).to_contain_text(f"{run['tokens']} tokens in {run['forwards']} forwards")
    expect(said).to_contain_text(f"one token at a time took {baseline['forwards']}.")


def test_a_race_that_was_stopped_says_nothing_of_the_prediction(visit, slow):
    page = visit(first=True)
    press(page, "Next")
    press(page, "Next")
    box(page).locator(".choices button").first.click()
    expect(page.locator("#stop")).to_be_enabled()
    page.locator("#stop").click()
    expect(box(page).locator(".outcome")).to_contain_text("stopped before its end")


def test_a_race_of_the_tour_waits_for_the_one_that_runs(visit):
    page = visit(first=True)
    wait = page.locator("#wait input[type=range]")
    setting = page.locator('.lane[data-lane="mars"] .setting')
    page.locator("#prompt textarea").fill(STEPS[2]["race"]["prompt"])  # the same as the tour's
    page.locator("#tau input[type=range]").fill("0.5")
    wait.fill("1000")  # it does not end by itself before it is stopped
    page.locator("#run").click()
    expect(setting).to_contain_text("τ 0.50")
    press(page, "Next")
    press(page, "Next")
    box(page).locator(".choices button").last.click()
    said = box(page).locator(".outcome")
    expect(said).to_contain_text("Another race is running.")
    page.locator("#stop").click()
    expect(said).to_contain_text("Racing")
    expect(setting).to_contain_text("τ 0.95")  # it has begun, with the pause of before
    wait.fill("0")
    expect(said).to_contain_text("it was 9, as you said.")


def test_a_race_that_is_refused_can_be_chosen_again(visit, monkeypatch):
    page = visit(first=True)
    press(page, "Next")
    press(page, "Next")
    choice, said = box(page).locator(".choices button").last, box(page).locator(".outcome")
    with monkeypatch.context() as crowd:
        crowd.setattr(controls, "LIMITS", type("Limits", (), {"waiting": 0})())
        choice.click()
        expect(said).to_contain_text("The race did not begin.")
    choice.click()
    expect(said).to_contain_text("it was 9, as you said.")


def test_the_last_step_leads_to_the_other_tabs(visit):
    page = visit(first=True)
    for _ in STEPS[1:]:
        press(page, "Next")
    leads = box(page).locator(".tabs-to button")
    assert leads.count() == len(STEPS[-1]["tabs"])
    leads.first.click()
    expect(page.get_by_role("tab", name="Learn")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tab", name="Learn")).to_be_focused()
    expect(box(page)).to_be_hidden()


# --------------------------------------------------------------------------------- the keys


def test_it_can_be_walked_through_with_the_keyboard_alone(visit):
    page = visit(first=True)
    keys = page.keyboard
    at_step(page, 1)
    expect(box(page)).to_be_focused()
    keys.press("Enter")
    at_step(page, 2)
    keys.press("ArrowRight")
    at_step(page, 3)
    keys.press("Tab")  # the first choice
    expect(box(page).locator(".choices button").first).to_be_focused()
    keys.press("Space")
    expect(box(page).locator(".outcome")).to_contain_text("You predicted 1; it was 9.")
    expect(box(page).locator(".choices button").first).to_be_focused()
    keys.press("ArrowLeft")
    at_step(page, 2)
    expect(box(page)).to_be_focused()  # the choice is gone
    for name in ("Close tour", "Back", "Next"):
        keys.press("Tab")
        expect(box(page).get_by_role("button", name=name)).to_be_focused()
    keys.press("Enter")
    at_step(page, 3)
    expect(box(page).get_by_role("button", name="Next")).to_be_focused()
    keys.press("Tab")  # out of the box, to the tabs
    assert not page.evaluate("document.querySelector('#tour .box').contains(document.activeElement)")
    keys.press("Shift+Tab")
    keys.press("Escape")
    expect(box(page)).to_be_hidden()
    assert page.evaluate(STORAGE) == "seen"


def test_the_stage_has_its_keys_outside_of_the_box_only(visit):
    page = visit("run=table")
    shown = page.locator("#stage .caption")
    expect(shown).to_contain_text("Forward 12:")
    page.get_by_role("button", name="Tour", exact=True).click()
    page.keyboard.press("ArrowRight")
    at_step(page, 2)
    page.keyboard.press("ArrowLeft")
    at_step(page, 1)
    expect(shown).to_contain_text("Forward 12:")
    page.locator("#stage .verdict").click()  # no control
    page.keyboard.press("ArrowLeft")
    expect(shown).to_contain_text("Forward 11:")
    at_step(page, 1)
    page.keyboard.press("Escape")
    expect(box(page)).to_be_hidden()


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_every_step_can_be_left_by_escape(visit, number):
    page = visit("view=talk&run=table")
    start = page.get_by_role("button", name="Tour", exact=True)
    start.click()
    for _ in range(number - 1):
        page.keyboard.press("ArrowRight")
    at_step(page, number)
    page.keyboard.press("Escape")
    expect(box(page)).to_be_hidden()
    expect(start).to_be_focused()
    expect(page).to_have_url(re.compile("view=talk"))  # the next Escape leaves that
    assert page.locator("[data-pointed]").count() == 0


def test_the_box_is_legible_in_both_themes(visit):
    from test_accessibility import LEGIBLE

    for theme in ("light", "dark"):
        page = visit(f"__theme={theme}", first=True)
        at_step(page, 1)
        for number in range(2, len(STEPS) + 1):
            legible = page.evaluate(LEGIBLE)
            assert (legible["texts"], legible["marks"]) == ([], [])
            press(page, "Next")
            at_step(page, number)
