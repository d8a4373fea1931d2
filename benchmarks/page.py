"""What the page costs a run: 500 tokens in 200 forwards of 20 ms, streamed to headless Chromium.

    python -m benchmarks.page [--runs 6] [--output FILE]

Nothing is computed, the run only waits, so all time above 4 s is that of the page and its connection.
"""

import argparse
import random
import shutil
import time
from pathlib import Path

import gradio as gr
from playwright.sync_api import sync_playwright

from mars_demo.decoding.trace import Pass, Run, Settings, Slot
from mars_demo.evaluation import results
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.page import LOOK
from mars_demo.ui.racing import growing, record

FORWARDS, TOKENS, SECONDS = 200, 500, 0.02

OBSERVE = """() => {
  window.long = [];
  new PerformanceObserver(list => window.long.push(...list.getEntries().map(entry => entry.duration)))
    .observe({ entryTypes: ["longtask"] });
}"""


def made_up() -> Run:
    """A run of nine slots with five alternatives each that only waits."""
    rng = random.Random(0)
    settings = Settings("mars", "made-up", 9, 8, 0.9, "Anything", 8, "cpu", "float32", TOKENS)

    def passes():
        for number in range(1, FORWARDS + 1):
            time.sleep(SECONDS)
            accepted = 2 + number % 2  # 2.5 on average
            slots = []
            for _ in range(9):
                words = [f" w{rng.randrange(4000)}" for _ in range(5)]
                slots.append(Slot(rng.randrange(4000), words[0], 0.9, tuple((word, 0.1) for word in words)))
            stop = "length" if number == FORWARDS else None
            yield Pass(number, 0.9, 12, 1000 * SECONDS, accepted, tuple(slots), stop)

    return Run(settings, passes())


def stream():
    yield from growing(record({"mars": made_up()}, lambda: False))


def measure(page, browser_session) -> tuple[float, float, list[float]]:
    """Seconds from the press to the last token, busy seconds of the main thread, its long tasks in ms."""

    def busy() -> float:
        metrics = browser_session.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    page.evaluate(OBSERVE)
    before, started = busy(), time.perf_counter()
    page.locator("#run").click()
    page.locator(f'.token[data-pass="{FORWARDS - 1}"]').first.wait_for(state="attached", timeout=120_000)
    wall = time.perf_counter() - started
    return wall, busy() - before, page.evaluate("window.long")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with gr.Blocks() as demo:
        run = gr.Button("Run", elem_id="run")
        run.click(stream, None, Stage(), show_progress="hidden")
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **LOOK)
    best = FORWARDS * SECONDS
    print(
        f"{TOKENS} tokens in {FORWARDS} forwards of {1000 * SECONDS:.0f} ms: {best:.1f} s without a page\n"
    )
    print("| run | wall | lost | main thread busy | long tasks | longest |\n|---|---|---|---|---|---|")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        runs = []
        for number in range(1, arguments.runs + 1):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            page.goto(address)
            page.locator(".token").first.wait_for()
            wall, busy, long = measure(page, session)
            print(
                f"| {number} | {wall:.2f} s | {100 * (wall / best - 1):.0f} % | {busy:.2f} s "
                f"| {len(long)} | {max(long, default=0):.0f} ms |"
            )
            runs.append({"wall": wall, "lost": wall / best - 1, "busy": busy, "long_tasks_ms": long})
            page.context.close()
        browser.close()
    demo.close()
    if arguments.output:
        record = {"tokens": TOKENS, "forwards": FORWARDS, "seconds": best, "runs": runs}
        results.write(arguments.output, results.machine(), record)


if __name__ == "__main__":
    main()
