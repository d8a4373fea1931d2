"""The stage alone: records put on it, and what it drew of them."""

import re

from playwright.sync_api import Locator, Page

PLAYING, PAUSED = re.compile("⏸"), re.compile("▶")

PUT = """texts => {
  document.querySelector(".stage").dispatchEvent(new CustomEvent("record", { detail: texts }));
  return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
}"""


def put(page: Page, *records: str) -> None:
    """Replace what is on the stage by records, and wait until they are drawn."""
    page.evaluate(PUT, list(records))


def give(page: Page, *records: str) -> None:
    """Choose records as files."""
    page.locator("#stage .file").set_input_files(
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
