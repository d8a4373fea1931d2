"""The parts of the Race tab, and the steps of a race."""

from acts import saved, set_slider
from playwright.sync_api import Locator, Page, expect

from mars_demo.core.assets import read_json
from mars_demo.core.trace import Run, read_runs

# A run that is neither recorded nor from before, and its first token.
HAS_BEGUN = """before => {
  const stage = document.querySelector("#stage .stage");
  const { run } = stage.dataset;
  const isRecorded = stage.querySelector(".note").textContent !== "";
  return run && run !== before && !isRecorded && stage.querySelector(".token");
}"""

EXAMPLES = {example["id"]: example["prompt"] for example in read_json("prompts.json")}
IS_FILLED = """examples => {
  const value = (selector) => document.querySelector(selector)?.value ?? "";
  const url = new URLSearchParams(location.search);
  const prompt = url.get("prompt");
  if (prompt && value("#prompt textarea") !== (examples[prompt] ?? prompt)) return false;
  const tau = Number.parseFloat(url.get("tau"));
  if (Number.isFinite(tau) && Number(value("#tau input[type=number]")) !== tau) return false;
  const watch = url.get("watch");
  if (watch && document.querySelector("#watch input")?.checked !== (watch === "1")) return false;
  return value("#model input") !== "";
}"""


def stage(page: Page) -> Locator:
    return page.locator("#stage .stage")


def lane(page: Page, name: str) -> Locator:
    return page.locator(f'#stage .lane[data-lane="{name}"]')


def count(page: Page, name: str, figure: str) -> Locator:
    """Return a number of a lane: `tokens`, `forwards`, `perForward` or `perSecond`."""
    return lane(page, name).locator(f'[data-count="{figure}"]')


def verdict(page: Page) -> Locator:
    return page.locator("#stage .verdict")


def prompt(page: Page) -> Locator:
    return page.locator("#prompt textarea")


def run_button(page: Page) -> Locator:
    return page.locator("#run")


def toast(page: Page) -> Locator:
    return page.get_by_test_id("toast-body")


def dismiss(page: Page) -> None:
    page.get_by_test_id("toast-close").click()
    expect(toast(page)).to_have_count(0)


def is_ready(page: Page) -> None:
    """Wait until the server has filled the controls: the models, and values of the URL."""
    page.wait_for_function(IS_FILLED, arg=EXAMPLES)


def race(page: Page, press: str | None = None) -> None:
    """Start a race with the button, or with a key in the prompt, and wait for its first token."""
    is_ready(page)
    before = stage(page).get_attribute("data-run") or ""
    if press:
        prompt(page).press(press)
    else:
        run_button(page).click()
    page.wait_for_function(HAS_BEGUN, arg=before)


def to_the_end(page: Page, state: str = "done") -> None:
    """Wait until the race is over and another one may start."""
    expect(stage(page)).to_have_attribute("data-state", state)
    expect(run_button(page)).to_be_enabled()
    expect(page.locator("#stop")).to_be_disabled()


def race_to_the_end(page: Page) -> None:
    race(page)
    to_the_end(page)


def stop(page: Page) -> None:
    page.locator("#stop").click()
    to_the_end(page, "stopped")


def set_tau(page: Page, tau: float) -> None:
    set_slider(page, "tau", tau)


def records(page: Page) -> dict[str, Run]:
    """Return the runs on the stage by mode, as the page saves them in a file."""
    runs = read_runs(saved(page, "jsonl").read_text("utf-8").splitlines())
    return {run.settings.mode: run for run in runs}


def taus(run: Run) -> list[float]:
    return [step.tau for step in run.passes]
