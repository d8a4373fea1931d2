"""Whatever tab an address names, the lists of all tabs are filled."""

import pytest
from playwright.sync_api import expect

from mars_demo.ui.page import TABS

LISTS = {  # labels of drop-down lists
    "race": ["Model"],
    "mask": ["Show the mask of", "Model"],
    "train": ["Preset", "Data", "Base"],
    "frontier": ["Model", "Tasks"],
    "batch": [],
    "learn": [],  # its first chapter has none
}


@pytest.mark.parametrize("first", TABS)
def test_every_list_of_every_tab_is_filled(visit, first):
    page = visit(f"tab={first}")
    for name in (first, *(tab for tab in TABS if tab != first and LISTS[tab])):
        tab = page.get_by_role("tab", name=name.capitalize(), exact=True)
        if name != first:
            tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        lists = page.locator("input[role=combobox]").locator("visible=true")
        expect(lists).to_have_count(len(LISTS[name]))
        for label, chosen in zip(LISTS[name], lists.all()):
            expect(chosen).to_have_attribute("aria-label", label)
            expect(chosen).not_to_have_value("")
    if first in ("race", "batch"):  # it is filled when its tab is opened, first or later
        page.get_by_role("tab", name="Batch").click()
        expect(page.locator("#trace").get_by_role("radio", checked=True)).to_have_count(1)
