"""The stage-only page: one opened stage per module, records put on it, and what it drew of them."""

import re
from collections.abc import Iterator

from playwright.sync_api import Locator, Page, expect

SCREEN = {"width": 1280, "height": 900}
PLAYING, PAUSED = re.compile("⏸"), re.compile("▶")

PUT = """texts => {
  document.querySelector(".stage").dispatchEvent(new CustomEvent("record", { detail: texts }));
  return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
}"""


def shared_stage(module_page, url: str) -> Iterator[Page]:
    """Yield the module's page with the stage open on it; a test puts its own record there."""
    page, troubles = module_page
    troubles.clear()
    if not page.url.startswith(url):
        page.set_viewport_size(SCREEN)
        page.emulate_media(reduced_motion="reduce")
        page.goto(url)
        expect(page.locator(".token").first).to_be_attached()  # of a recorded run
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    yield page
    assert not troubles


def put(page: Page, *records: str) -> None:
    """Replace what is on the stage by records, and wait until they are drawn."""
    page.evaluate(PUT, list(records))


def give(page: Page, *records: str) -> None:
    """Choose records as files."""
    page.locator(".file").set_input_files(
        [
            {"name": f"{number}.jsonl", "mimeType": "application/x-ndjson", "buffer": record.encode()}
            for number, record in enumerate(records)
        ]
    )


def says(*facts: object) -> re.Pattern:
    """Match a text that holds every fact, in any order and wording; a number only as a whole."""
    patterns = (re.escape(str(fact)).replace(r"\ ", r"\s") for fact in facts)
    return re.compile("".join(rf"(?=.*(?<![\d.]){pattern}(?!\.?\d))" for pattern in patterns), re.DOTALL)


def lane(page: Page, name: str) -> Locator:
    return page.locator(f'.lane[data-lane="{name}"]')


def shown(page: Page, name: str) -> Locator:
    """Find the forwards of a lane that can be seen."""
    return lane(page, name).locator(".pass:not(.future)")


def token(page: Page, name: str, index: int) -> Locator:
    return lane(page, name).locator(".token").nth(index)


def caption(page: Page) -> Locator:
    return page.locator(".window .caption")
