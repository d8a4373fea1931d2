"""Accessibility: names, roles and contrast, and the talk view."""

import re

import pytest
from acts import LEGIBLE, SMALLEST, fits, is_open, open_tab
from playwright.sync_api import Page, expect

TABS = {
    "Race": "#stage .token",
    "Mask": "#grid [data-cells]",
    "Train": "#train-run",
    "Frontier": "#frontier-run",
    "Learn": "#lesson-stage .token",
}


def each_tab(page: Page):
    """Open the tabs one after the other, with their lists filled, and read how legible each one is."""
    for tab, shown in TABS.items():
        open_tab(page, tab)
        expect(page.locator(shown).first).to_be_visible()
        for chosen in page.locator("input[role=combobox]:not(#frontier-point *) >> visible=true").all():
            expect(chosen).not_to_have_value("")
        yield tab, page.evaluate(LEGIBLE)


@pytest.mark.parametrize(
    "theme, width", [("light", 1280), pytest.param("dark", 390, marks=pytest.mark.full)]
)
def test_texts_are_large_enough_and_have_the_contrast_required_by_wcag(visit, theme, width):
    """Require 4.5 for texts and 3 for meaningful marks, on every tab and with an open token card."""
    query = f"__theme={theme}&run=change&lane=mars&pass=3"
    page = visit(query, viewport={"width": width, "height": 844})
    expect(page.locator("#stage .heat g").nth(2)).to_have_class(re.compile(r"\blit\b"))
    page.locator('.lane[data-lane="mars"] .token').first.click()
    expect(page.locator("#stage .card")).to_be_visible()
    for tab, legible in each_tab(page):
        assert (legible["texts"], legible["marks"]) == ([], []), tab
        assert legible["smallest"] >= [SMALLEST], tab
        fits(page)


def test_tokens_are_options_by_forward_and_every_control_has_a_name(visit, stage_url):
    page = visit("run=bus", stage_url)
    answer = page.locator('#stage .lane[data-lane="mars"]').get_by_role("listbox")
    expect(answer).not_to_have_accessible_name("")
    first = answer.get_by_role("group").first
    token = first.get_by_role("option", name="bus", exact=True)
    expect(token).to_have_text(" bus")
    expect(first).to_have_accessible_name(re.compile(r"\b1\b"))
    expect(first.get_by_role("option")).to_have_count(first.locator(".token").count())
    token.click()
    expect(first.get_by_role("option", selected=True)).to_have_text(" bus")
    expect(page.locator("#stage .card")).to_be_visible()
    expect(token).to_have_accessible_description(page.locator("#stage .card").inner_text())
    page.keyboard.press("Escape")
    expect(answer.get_by_role("option", selected=True)).to_have_count(0)
    last = answer.get_by_role("option").last
    expect(last).to_have_text("")  # the end token has no text, but a name
    expect(last).not_to_have_accessible_name("")

    controls = page.locator("#stage").locator("button, select, input, [role=slider], [role=listbox]")
    controls = controls.locator("visible=true")
    expect(controls.nth(20)).to_be_visible()
    for control in controls.all():
        expect(control).not_to_have_accessible_name("")


# ------------------------------------------------------------------------------ the talk view


@pytest.mark.full
def test_a_talk_has_no_small_text_and_is_controlled_by_keys(visit):
    page = visit("view=talk", viewport={"width": 1920, "height": 1080})
    expect(page.locator("#stage .token").first).to_be_visible()
    for tab, legible in each_tab(page):
        assert legible["smallest"] >= [18], tab  # pixels, half the size of the main texts
    fits(page)
    for number, tab in enumerate(TABS, start=1):
        page.keyboard.press(str(number))
        is_open(page, tab)
        expect(page.get_by_role("tab", name=tab)).to_be_in_viewport()
    expect(page.locator("#talk-row button[data-key=n]")).to_be_hidden()  # Learn has no recordings

    page.keyboard.press("1")
    shown = page.locator("#stage .recordings")
    page.keyboard.press("n")
    expect(shown).to_have_value("table")
    page.locator("#talk-row button[data-key=n]").click()
    expect(shown).to_have_value("function")
    page.keyboard.press("Space")  # the stage handles the key, not the button
    expect(page.locator("#stage .play")).to_contain_text("Pause")
    expect(shown).to_have_value("function")

    page.locator("#prompt textarea").press_sequentially("25n")
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("25n$"))
    page.locator("#tau input[type=range]").focus()
    page.keyboard.press("2")  # a slider does not take text
    is_open(page, "Mask")


@pytest.mark.full
def test_a_talk_is_left_by_escape_or_a_button(visit):
    page = visit("view=talk&run=table")
    row = page.locator("#talk-row")
    expect(row).to_be_visible()
    page.locator("#stage .token").first.click()
    page.keyboard.press("Escape")  # unpins the token
    expect(page.locator("#stage .card")).to_be_hidden()
    expect(row).to_be_visible()
    page.keyboard.press("Escape")
    expect(row).to_be_hidden()
    expect(page.locator("#title")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?(?!.*view=).*run=table"))
    page.keyboard.press("2")  # keys continue to work
    is_open(page, "Mask")
    page.goto(f"{page.url}&view=talk")
    page.locator("#talk-row button[data-key=Escape]").click()
    expect(row).to_be_hidden()
