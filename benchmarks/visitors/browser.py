"""Real browsers among the visitors: headless Chromium that races, and says how long its page was blocked.

Two watchers, both in the page: the browser's own list of long tasks (PerformanceObserver, tasks of 50 ms
and more), and the gaps between two frames (requestAnimationFrame). Both are in time on the wall: where the
processor is shared, they include the time that the browser waited for it.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Error, Page, async_playwright

PAUSE = 3.0  # seconds between two races
PATIENCE = 900_000  # ms

WATCH = """() => {
  window.blocked = { tasks: [], gaps: [] };
  new PerformanceObserver(list => {
    for (const task of list.getEntries()) window.blocked.tasks.push([task.startTime, task.duration]);
  }).observe({ type: "longtask", buffered: true });
  let last = performance.now();
  const frame = now => {
    if (now - last > 50) window.blocked.gaps.push([last, now - last]);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


class Browser:
    """A page in a browser, and what went wrong in it."""

    def __init__(self, page: Page, number: int):
        self.races, self.errors = 0, []
        self._page, self._number = page, number
        self._pressed, self._blocked = 0.0, {"tasks": [], "gaps": []}
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))

    async def open(self, address: str) -> None:
        await self._page.add_init_script(f"({WATCH})()")
        await self._page.goto(address)
        await self._page.wait_for_function("document.querySelector('#model input')?.value")

    async def race_on(self, until: float) -> None:
        """Press Run, move τ in mid-race, and again after a pause, until no more races begin."""
        try:
            self._pressed = await self._page.evaluate("performance.now()")
            while True:
                await self._race()
                if time.monotonic() + PAUSE >= until:
                    break
                await asyncio.sleep(PAUSE)
            self._blocked = await self._page.evaluate("window.blocked")
        except Error as error:
            self.errors.append(str(error).splitlines()[0])

    async def _race(self) -> None:
        prompt = f"How many meters are {2 + self._number + self.races} kilometers?"
        await self._page.locator("#prompt textarea").fill(prompt)
        await self._page.locator("#run").click()
        await self._page.locator("#stop:enabled").wait_for()
        await self._page.locator("#tau input[type=range]").fill("0.9")
        await self._page.locator("#run:enabled").wait_for()
        answered = await self._page.locator("#stage .token").count()
        if not answered:
            self.errors.append(f"No token of {prompt!r} is on the stage.")
        self.races += 1

    def found(self) -> dict:
        """Its races, its errors, and the longest task and gap in ms, while loading and from the first
        press on."""
        found = {"races": self.races, "errors": self.errors}
        for kind, entries in self._blocked.items():
            for when, chosen in (("loading", False), ("racing", True)):
                spans = [ms for began, ms in entries if (began >= self._pressed) == chosen]
                found[f"longest_{kind[:-1]}_{when}"] = round(max(spans, default=0.0))
        return found


@asynccontextmanager
async def pages(address: str, count: int) -> AsyncIterator[list[Browser]]:
    """So many browsers with the app's page; none is started for 0."""
    if not count:
        yield []
        return
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        found = []
        for number in range(count):
            context = await chromium.new_context(viewport={"width": 1280, "height": 900})
            context.set_default_timeout(PATIENCE)
            found.append(Browser(await context.new_page(), number))
            await found[-1].open(address)
        yield found
        await chromium.close()
