"""The README's figures, from the results of other benchmarks, and its animation.

    python -m benchmarks.readme assets/runs/dates.jsonl --output assets/screenshots/race.webp

writes a recorded run as an animation: a browser replays a page of `python -m mars_demo page` with a clock
under this program's control.
"""

import argparse
import io
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from PIL import Image, ImageOps
from playwright.sync_api import Page, sync_playwright

from benchmarks import grammar, report, speed
from mars_demo.evaluation import results

FIRST = "one prompt at a time, on a CPU"
METHODS = (speed.AR, speed.MARS, speed.LOSSLESS, speed.LLAMA)
SHAPED = (grammar.AR, "lossless, with the shape")
SIZE = {"width": 1100, "height": 690}
FRAME, LAST = 100, 3000  # milliseconds per frame, and of the last frame
PREVIEW = (1100, 576)  # as wide as links' previews are drawn
MARGIN = 12  # pixels around the heading and the answers
BROWSER = "/usr/bin/chromium"


def table() -> str:
    """Return a row per model and method; the figures of a row are of the same runs."""
    rows, samples = [], []
    for file in (speed.FILE, speed.CHAT_FILE):
        timed = results.read_results(file)
        for method, row in speed.cells(timed, "tokens per forward", "accuracy", "as fast as AR").items():
            if method in METHODS:
                rows.append({FIRST: f"`{timed['model']}`: {method}"} | row)
        samples.append(f"{timed['prompts']} held-out prompts of {timed['tasks']} (`assets/results/{file}`)")
    shaped = results.read_results(grammar.FILE)
    for cell in grammar.cells(shaped):
        if cell["answers"] == "JSON" and cell["method"] in SHAPED:
            own = {"accuracy": cell["right"], "as fast as AR": cell["as fast as AR without it"]}
            own = {"tokens per forward": cell["tokens per forward"]} | own
            rows.append({FIRST: f"`{shaped['model']}`, JSON answers: {cell['method']}"} | own)
    samples.append(f"{shaped['rows'][0]['n']} with JSON answers (`assets/results/{grammar.FILE}`)")
    return report.shown(rows) + f"\n\n<sub>{', '.join(samples)}, {report.rounds(timed)}.</sub>"


def frames(page: Page) -> Iterator[Image.Image]:
    """Yield the frames of the replay, from the first forward to the end."""
    top, lanes = (page.locator(part).bounding_box() for part in (".heading", ".lanes"))
    bottom = lanes["y"] + lanes["height"] + MARGIN
    area = {"x": 0, "y": top["y"] - MARGIN, "width": SIZE["width"], "height": bottom - top["y"] + MARGIN}
    page.keyboard.press("Space")
    for number in count():
        page.clock.run_for(FRAME)
        yield Image.open(io.BytesIO(page.screenshot(clip=area))).convert("RGB")
        if number and "Play" in page.locator(".play").inner_text():
            return


def write(record: Path, output: Path) -> None:
    """Write the replay of a record as an animated WebP, and its middle as a JPEG beside it."""
    from mars_demo.static.standalone.replay import replay_page  # imports Gradio; the table does not need it

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
    ImageOps.pad(rest[len(rest) // 2], PREVIEW, color="white").save(output.with_suffix(".jpg"), quality=85)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a record as an animation.")
    parser.add_argument("record", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    write(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
