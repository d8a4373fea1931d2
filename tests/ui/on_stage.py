"""The stage alone: putting records on it, and reading what it shows."""

import re

from playwright.sync_api import Locator, Page

PLAYING, PAUSED = re.compile("⏸"), re.compile("▶")

PUT = """texts => {
  document.querySelector(".stage").dispatchEvent(new CustomEvent("record", { detail: texts }));
  return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
}"""


def put(page: Page, *records: str) -> None:
    """Replace the records on the stage, and wait until they are drawn."""
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
    """Return a pattern for texts with all facts, in any order and wording; numbers match as a whole."""
    patterns = (re.escape(str(fact)).replace(r"\ ", r"\s") for fact in facts)
    return re.compile("".join(rf"(?=.*(?<![\d.]){pattern}(?!\.?\d))" for pattern in patterns), re.DOTALL)


def lane(page: Page, name: str) -> Locator:
    return page.locator(f'.lane[data-lane="{name}"]')


def shown(page: Page, name: str) -> Locator:
    """Return the visible forwards of a lane."""
    return lane(page, name).locator(".pass:not(.future)")


def token(page: Page, name: str, index: int) -> Locator:
    return lane(page, name).locator(".token").nth(index)


def caption(page: Page) -> Locator:
    return page.locator(".window .caption")
