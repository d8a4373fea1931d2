"""The stage alone: putting records on it, and reading what it shows."""

import re

from playwright.sync_api import Locator, Page

PLAYING, PAUSED = re.compile("Pause"), re.compile("Play")

PROJECTOR = {"width": 1280, "height": 720}
MOVING = (".verdict", ".replay", ".caption", ".slots", '[data-lane="ar"]', '[data-lane="mars"] .strip')
# The layout shifts, which the web vital CLS adds up, and what moved.
WATCH_SHIFTS = """() => {
  globalThis.shifts = [];
  const nameOf = ({ node }) => node?.id || node?.className || node?.textContent;
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries())
      globalThis.shifts.push([value, sources.map(nameOf)]);
  }).observe({ type: "layout-shift" });
}"""

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


# ------------------------------------------------------------------------------ on a projector's screen


def on_one_screen(page: Page) -> None:
    """Assert that the parts that move are on the first screen, and both answers whole in their boxes."""
    assert page.evaluate("() => scrollY") == 0
    for part in MOVING:
        box = page.locator(f".stage:visible {part}").first.bounding_box()
        assert box and box["y"] >= 0 and box["y"] + box["height"] <= PROJECTOR["height"], (part, box)
    for name in ("ar", "mars"):
        answer = lane(page, name).locator(".answer")
        assert answer.evaluate("node => node.scrollHeight <= node.clientHeight + 1"), name


def watch_shifts(page: Page) -> None:
    page.evaluate(WATCH_SHIFTS)


def keeps_still(page: Page) -> None:
    """Assert that hardly anything on the page has moved since `watch_shifts`."""
    shifts = page.evaluate("() => globalThis.shifts")
    assert sum(value for value, _ in shifts) < 0.05, shifts
