"""What the page says to those who cannot see it, or see it less well: names, roles and contrast."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

LEGIBLE = (Path(__file__).parent / "legible.js").read_text("utf-8")

TABS = {
    "Race": "#stage .token",
    "Mask": "#grid [data-cells]",
    "Train": "#train",
    "Frontier": "#frontier-run",
    "Batch": "#batch-schedule .cell",
    "Learn": "#lesson-stage .token",
}


def each_tab(page: Page):
    """Open one tab after the other and read off how legible it is."""
    for tab, shown in TABS.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(shown).first).to_be_visible()
        yield tab, page.evaluate(LEGIBLE)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_and_marks_have_the_contrast_that_wcag_asks_for(visit, theme):
    """4.5 for texts and 3 for marks that mean something, on every tab, with a token's card open."""
    page = visit(f"__theme={theme}&run=change&lane=mars&pass=3")
    expect(page.locator("#stage .caption")).to_contain_text("Forward 3:")
    page.locator('.lane[data-lane="mars"] .token').first.click()
    expect(page.locator("#stage .card")).to_be_visible()
    for tab, legible in each_tab(page):
        assert (legible["texts"], legible["marks"]) == ([], []), tab


def test_tokens_are_options_of_an_answer_grouped_by_forward(visit):
    page = visit("run=bus")
    answer = page.get_by_role("listbox", name="Answer, MARS", exact=True)
    first = answer.get_by_role("group", name="Forward 1", exact=True)
    assert first.get_by_role("option").all_text_contents() == first.locator(".token").all_text_contents()
    token = first.get_by_role("option", name="bus", exact=True)
    expect(token).to_have_text(" bus")
    token.click()
    expect(first.get_by_role("option", selected=True)).to_have_text(" bus")
    expect(token).to_have_accessible_description(page.locator("#stage .card").inner_text())
    page.keyboard.press("Escape")
    expect(answer.get_by_role("option", selected=True)).to_have_count(0)
    names = answer.get_by_role("option", name="end", exact=True)
    expect(names).to_have_text("")  # what has no text of its own has a name


def test_every_control_of_the_stage_has_a_name(visit):
    page = visit("run=table")
    expect(page.get_by_role("slider", name="What if τ had been", exact=True)).to_be_visible()
    controls = page.locator("#stage").locator("button, select, input, [role=slider], [role=listbox]")
    controls = controls.locator("visible=true")
    assert controls.count() > 20
    for control in controls.all():
        expect(control).not_to_have_accessible_name("")


# ------------------------------------------------------------------------------------- a talk


def test_a_talk_has_nothing_small_and_is_led_by_keys(visit):
    page = visit("view=talk", viewport={"width": 1920, "height": 1080})
    expect(page.locator("#stage .token").first).to_be_visible()
    for tab, legible in each_tab(page):
        assert legible["smallest"] >= 18, tab  # pixels, half of what is read most
    assert page.evaluate("document.documentElement.scrollWidth") <= 1920
    for number, tab in enumerate(TABS, start=1):
        page.keyboard.press(str(number))
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tab", name=tab)).to_be_in_viewport()
    expect(page.get_by_role("button", name="next recording")).to_be_hidden()  # Learn has no recordings

    page.keyboard.press("1")
    shown = page.locator("#stage .recordings")
    page.keyboard.press("n")
    expect(shown).to_have_value("table")
    page.get_by_role("button", name="next recording").click()
    expect(shown).to_have_value("function")
    page.keyboard.press("Space")  # goes to the stage, not to the button
    expect(page.locator("#stage .play")).to_have_text("⏸ Pause")
    expect(shown).to_have_value("function")

    page.locator("#prompt textarea").press_sequentially("25n")
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("25n$"))
    page.locator("#tau input[type=range]").focus()
    page.keyboard.press("2")  # a slider is no text
    expect(page.get_by_role("tab", name="Mask")).to_have_attribute("aria-selected", "true")


def test_a_talk_is_left_by_escape_or_a_button(visit):
    page = visit("view=talk&run=table")
    row = page.locator("#talk-row")
    expect(row).to_be_visible()
    page.locator("#stage .token").first.click()
    page.keyboard.press("Escape")  # lets go of the token
    expect(page.locator("#stage .card")).to_be_hidden()
    expect(row).to_be_visible()
    page.keyboard.press("Escape")
    expect(row).to_be_hidden()
    expect(page.locator("#title")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?(?!.*view=).*run=table"))
    page.keyboard.press("2")  # the keys go on
    expect(page.get_by_role("tab", name="Mask")).to_have_attribute("aria-selected", "true")
    page.goto(f"{page.url}&view=talk")
    page.get_by_role("button", name="leave talk view").click()
    expect(row).to_be_hidden()
