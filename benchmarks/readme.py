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
from statistics import median

from PIL import Image, ImageOps
from playwright.sync_api import Page, sync_playwright

from benchmarks import frontier, report, speed
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Setting

MODELS = {"mars-tiny": speed.FILE, "mars-smollm2-135m": speed.CHAT_FILE}  # with the file of its times
SIZE = {"width": 1100, "height": 690}
FRAME, LAST = 100, 3000  # milliseconds per frame, and of the last frame
PREVIEW = (1100, 576)  # as wide as links' previews are drawn
MARGIN = 12  # pixels around the heading and the answers
BROWSER = "/usr/bin/chromium"


def table() -> str:
    """Return a row per figure and a column per model."""
    sweeps = map(Frontier.read, results.read(frontier.FILE)["sweeps"])
    columns = {f"`{one.model}`, {one.title}": column(one, MODELS[one.model]) for one in sweeps}
    rows = [
        {"one prompt at a time, on a CPU": row} | {title: cells[row] for title, cells in columns.items()}
        for row in next(iter(columns.values()))
    ]
    files = ", ".join(f"`assets/results/{name}`" for name in (frontier.FILE, *MODELS.values()))
    return report.shown(rows) + (
        f"\n\n<sub>From {files}, which name their commands, machines and sample sizes. In parentheses: the "
        "smallest and the largest value over several rounds.</sub>"
    )


def column(sweep: Frontier, file: str) -> dict[str, str]:
    """Return the cells of a model by row."""
    settings = (AR, Setting("mars", "probability", 0.95), Setting("lossless"))
    ar, mars, lossless = (sweep.find(setting) for setting in settings)
    equal = sum(outcome.leaves is None for outcome in lossless.outcomes)
    seconds = {row["method"]: row["seconds"] for row in results.read(file)["rows"]}
    baseline = next(times for name, times in seconds.items() if name.partition(",")[0] == "ar")

    def faster(mode: str) -> str:
        return report.faster(min((seconds[name] for name in seconds if mode in name), key=median), baseline)

    return {
        "AR: accuracy": f"{ar.accuracy:.1%}",
        "MARS, τ = 0.95: tokens per forward": f"{mars.tokens_per_forward:.2f}",
        "MARS, τ = 0.95: accuracy": f"{mars.accuracy:.1%}",
        "MARS, τ = 0.95: as fast as AR": faster("mars τ = 0.95"),
        "lossless: tokens per forward": f"{lossless.tokens_per_forward:.2f}",
        "lossless: answers equal to AR's": f"{equal} of {lossless.n}",
        "lossless: as fast as AR": faster("lossless"),
    }


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
