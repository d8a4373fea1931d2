"""Actions of a visitor that the tests of several tabs share."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect

SMALLEST = 11  # pixels of any text
LEGIBLE = (Path(__file__).parent / "legible.js").read_text("utf-8")
CALLS = re.compile("gradio_api/(run|queue/join)")


def set_slider(page: Page, name: str, value: float) -> None:
    page.locator(f"#{name} input[type=range]").fill(f"{value:g}")


def choose(page: Page, name: str, option: str) -> None:
    """Choose an option of a dropdown by its text."""
    page.locator(f"#{name} input").click()
    page.get_by_role("option", name=option, exact=True).click()


def saved(page: Page, kind: str) -> Path:
    """Return the file that a visible stage (`html`, `jsonl`) or mask (`png`, `svg`) saves."""
    with page.expect_download() as download:
        page.locator(f'[data-do="{kind}"] >> visible=true').click()
    return download.value.path()


def open_tab(page: Page, name: str) -> None:
    """Open a tab, which on a phone may be in Gradio's menu of further tabs."""
    tab = page.get_by_role("tab", name=name, exact=True)
    if not tab.is_visible():
        page.get_by_role("button", name="More tabs").click()
        tab = page.locator(".overflow-dropdown").get_by_text(name, exact=True)
    tab.click()


def is_open(page: Page, tab: str) -> None:
    expect(page.get_by_role("tab", name=tab, exact=True)).to_have_attribute("aria-selected", "true")


def fits(page: Page) -> None:
    """Assert that nothing needs horizontal scrolling, and that Gradio's container hides nothing."""
    width = page.viewport_size["width"]
    whole = "[...document.querySelectorAll('html, .gradio-container')]"
    page.wait_for_function(f"{whole}.every((node) => node.scrollWidth <= {width})")


def is_legible(page: Page, smallest: float = SMALLEST) -> None:
    """Assert sufficient contrasts and the size of the smallest text."""
    legible = page.evaluate(LEGIBLE)
    assert (legible["texts"], legible["marks"]) == ([], [])
    assert legible["smallest"] >= [smallest], legible["smallest"]


@contextmanager
def unanswered(page: Page) -> Iterator[None]:
    """Hold requests of the page to its handlers, and send them at the end in reverse order."""
    waiting = []
    page.route(CALLS, lambda route: waiting.append(route))
    yield
    for route in reversed(waiting):
        route.continue_()
    page.unroute(CALLS)
