"""The README's animation: a recorded run, replayed on the page.

    python -m benchmarks.picture assets/runs/appointment.jsonl --output assets/screenshots/race.webp

A browser replays a page of `python -m mars_demo page` with a clock under this program's control.
"""

import argparse
import io
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from mars_demo.ui.standalone.replay import replay_page

SIZE = {"width": 1100, "height": 720}
FRAME, LAST = 100, 3000  # milliseconds per frame, and of the last frame
MARGIN = 12  # pixels around the verdict and the answers
BROWSER = "/usr/bin/chromium"


def frames(page: Page) -> Iterator[Image.Image]:
    """Yield the frames of the replay, from the first forward to the end."""
    boxes = [part.bounding_box() for part in page.locator(".verdict, .lane .token").all()]
    top = min(box["y"] for box in boxes) - MARGIN
    bottom = max(box["y"] + box["height"] for box in boxes) + MARGIN
    area = {"x": 0, "y": top, "width": SIZE["width"], "height": bottom - top}
    page.keyboard.press("Space")
    for number in count():
        page.clock.run_for(FRAME)
        yield Image.open(io.BytesIO(page.screenshot(clip=area))).convert("RGB")
        if number and "Play" in page.locator(".play").inner_text():
            return


def write(record: Path, output: Path) -> None:
    """Write the replay of a record as an animated WebP."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "run.html")
        file.write_text(replay_page(record.read_text("utf-8")), "utf-8")
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        page.clock.install(time=0)
        page.goto(file.as_uri())
        page.locator(".lane .token").first.wait_for()
        page.clock.pause_at(60_000)
        first, *rest = frames(page)
        browser.close()
    times = [FRAME] * len(rest) + [LAST]
    first.save(output, save_all=True, append_images=rest, duration=times, loop=0, quality=75, method=6)


def main() -> None:
    """Parse the arguments and write the animation."""
    parser = argparse.ArgumentParser(description="Write a record as an animation.")
    parser.add_argument("record", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    write(arguments.record, arguments.output)


if __name__ == "__main__":
    main()
