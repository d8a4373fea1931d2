"""What the page says to those who cannot see it, or see it less well: names, roles and contrast."""

import pytest
from contrast import MARKS, TEXTS
from playwright.sync_api import expect

TABS = {
    "Race": "#stage .token",
    "Mask": "#grid [data-cells]",
    "Train": "#train",
    "Batch": "#batch-schedule .cell",
    "Learn": "#lesson-stage .token",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_and_marks_have_the_contrast_that_wcag_asks_for(visit, theme):
    """4.5 for texts and 3 for marks that mean something, on every tab, with a token's card open."""
    page = visit(f"__theme={theme}&run=change&lane=mars&pass=3")
    expect(page.locator("#stage .caption")).to_contain_text("Forward 3:")
    page.locator('.lane[data-lane="mars"] .token').first.click()
    expect(page.locator("#stage .card")).to_be_visible()
    for tab, shown in TABS.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(shown).first).to_be_visible()
        assert page.evaluate(TEXTS) == [], tab
        assert page.evaluate(MARKS) == [], tab


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
