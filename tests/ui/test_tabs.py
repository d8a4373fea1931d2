"""Opening tabs: the dropdowns of all are filled, whichever a URL opens, and each shows its top."""

import pytest
from playwright.sync_api import expect

from mars_demo.ui.page import TABS

LISTS = {  # dropdowns of each tab
    "race": 1,  # the model
    "mask": 2,  # the kind of mask and the model
    "train": 3,  # the preset, the data and the base
    "frontier": 2,  # the model and the tasks, besides a choice among the points once they are drawn
    "learn": 0,  # the first chapter has no dropdown
}


@pytest.mark.parametrize("first", [pytest.param(tab, marks=pytest.mark.full) for tab in TABS])
def test_every_list_of_every_tab_is_filled(visit, first):
    page = visit(f"tab={first}")
    for name in (first, *(tab for tab in TABS if tab != first and LISTS[tab])):
        tab = page.get_by_role("tab", name=name.capitalize(), exact=True)
        if name != first:
            page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            page.keyboard.press(str(1 + list(TABS).index(name)))
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(tab).to_be_in_viewport()
        lists = page.locator("input[role=combobox]:not(#frontier-point *)").locator("visible=true")
        expect(lists).to_have_count(LISTS[name])
        for chosen in lists.all():
            expect(chosen).not_to_have_value("")
