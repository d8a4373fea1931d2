"""A run as one HTML file: it replays from disk, and untrusted text in it stays text."""

import json
import re
from pathlib import Path

import pytest
from acts import is_legible, saved
from hostile import SCRIPTS, with_texts
from on_stage import PLAYING, caption, give, lane, says
from playwright.sync_api import Page, expect
from records import race, slowed

from mars_demo.core.modes import MODES
from mars_demo.core.trace import read_runs
from mars_demo.show import recordings
from mars_demo.show.scripts import style
from mars_demo.static.standalone.replay import replay_page

RECORDED = recordings.index()
MOST = 1_000_000  # bytes
# Ends of scripts, starts of other languages, and line separators that JSON does not escape.
BREAKING = "</script> <!--<script> ]]> --></title></head> \u2028\u2029 &lt;b&gt;&amp; \\ '\"`".split(" ")


@pytest.fixture
def write(tmp_path):
    """Write a record to a file as a page."""

    def write_page(record: str) -> Path:
        path = tmp_path / "run.html"
        path.write_text(replay_page(record), encoding="utf-8")
        return path

    return write_page


def answers(page: Page) -> dict[str, str]:
    """Return the answers of the lanes by title."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".lane")].map((lane) => [
          lane.querySelector(".name").textContent,
          [...lane.querySelectorAll(".token")].map((token) => token.textContent).join(""),
        ]))"""
    )


def recorded(record: str) -> dict[str, str]:
    return {MODES[run.settings.mode].title: run.text for run in read_runs(record.split("\n"))}


def test_a_saved_page_replays_by_keys_and_buttons(visit_file, write):
    page = visit_file(write(slowed(race())))
    mars = lane(page, "mars").locator(".pass:not(.future)")
    expect(mars).to_have_count(4)
    page.keyboard.press("Home")
    expect(mars).to_have_count(0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(mars).to_have_count(2)
    expect(caption(page)).to_have_text(says(2, 3, 4))  # forward 2: 3 of 4 slots
    page.keyboard.press("ArrowLeft")
    expect(mars).to_have_count(1)
    page.keyboard.press("Space")
    expect(page.locator(".play")).to_have_text(PLAYING)
    page.keyboard.press("End")
    expect(mars).to_have_count(4)
    page.locator('[data-do="start"]').click()
    expect(mars).to_have_count(0)
    page.locator(".play").click()
    expect(page.locator(".play")).to_have_text(PLAYING)
    page.locator('[data-do="end"]').click()
    mars.first.locator(".token").first.click()
    expect(page.locator(".card .where")).to_have_text(says(1, "␣the"))
    expect(page.locator(".share")).to_be_hidden()  # a page on a disk has no link


def test_the_policy_of_a_saved_page_allows_only_its_own_content(browser, write):
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(write(race()).as_uri())
        page.evaluate(
            """() => {
              window.__found = new Set();
              addEventListener("securitypolicyviolation", (event) => __found.add(event.effectiveDirective));
              const add = (tag, properties) =>
                document.body.append(Object.assign(document.createElement(tag), properties));
              add("script", { textContent: "window.__hit = 1" });
              add("style", { textContent: "body { display: none }" });
              add("img", { src: "https://example.org/a.png" });
              add("iframe", { src: "https://example.org/" });
              document.body.insertAdjacentHTML("beforeend", "<b onclick='window.__hit = 1'>b</b>");
              document.body.lastChild.click();
              fetch("https://example.org/").catch(() => {});
            }"""
        )
        forbidden = "connect-src frame-src img-src script-src-attr script-src-elem style-src-elem"
        page.wait_for_function("__found.size >= 6")
        assert page.evaluate("[...__found].sort()") == forbidden.split()
        assert page.evaluate("window.__hit") is None
    finally:
        context.close()


def test_texts_of_a_record_are_shown_unchanged(visit_file, write):
    texts = "".join((*SCRIPTS, *BREAKING, "\x01\u202eabc\u202c"))
    lines = [json.loads(line) for line in with_texts(texts).splitlines()]
    path = write("\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    page = visit_file(path)
    page.wait_for_function("document.querySelector('.prompt').textContent")
    assert page.locator(".prompt").evaluate("node => node.textContent") == texts
    assert page.locator(".token").first.evaluate("node => node.textContent") == texts
    assert page.locator(".note").evaluate("node => node.textContent").count(texts) == 2  # title and note
    page.locator(".token").first.dispatch_event("click")  # the card of a token
    expect(page.locator(".card .alternatives .candidate").first).to_be_attached()
    assert page.evaluate("window.__hit") is None
    expect(page.locator(".figure img, iframe, [onerror], [onload]")).to_have_count(0)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_colours_of_a_saved_page_are_those_of_the_app(visit, visit_file, stage_url, write, mode):
    theme = sorted(set(re.findall(r"var\((--(?:body|background|border|font)-[a-z-]+)", style())))
    assert len(theme) > 4
    # Compare computed colours, because Gradio has its own variable names.
    read = """names => names.map((name) => {
      const probe = document.createElement("i");
      document.querySelector(".stage").append(probe);
      probe.style[name.includes("font") ? "fontFamily" : "color"] = `var(${name})`;
      const { color, fontFamily } = getComputedStyle(probe);
      return name.includes("font") ? fontFamily.replaceAll(/['"]/g, "") : color;
    })"""
    app = visit(f"__theme={mode}", stage_url)
    expect(app.locator(".token").first).to_be_attached()
    page = visit_file(write(race()), color_scheme=mode)
    expect(page.locator(".token").first).to_be_attached()
    assert dict(zip(theme, page.evaluate(read, theme))) == dict(zip(theme, app.evaluate(read, theme)))


@pytest.mark.full
@pytest.mark.parametrize("ending", ["?view=talk", "#talk"])
def test_a_talk_has_no_small_text(visit_file, write, ending):
    page = visit_file(write(recordings.recording("bus")), ending, viewport={"width": 1920, "height": 1080})
    expect(page.locator(".token").first).to_be_visible()
    is_legible(page, smallest=15)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1920
    expect(page.locator(".replay")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


# ----------------------------------------------------------------------------- saving from the app


@pytest.mark.full
def test_the_stage_gives_its_record_as_a_page(visit, visit_file, stage_url, tmp_path):
    page = visit("run=bus", stage_url)
    expect(page.locator(".token").first).to_be_attached()
    path = saved(page, "html").rename(tmp_path / "bus.html")
    assert path.stat().st_size < MOST
    opened = visit_file(path)
    title = next(entry["title"] for entry in RECORDED if entry["id"] == "bus")
    expect(opened.locator(".note")).to_contain_text(title)
    expect(opened.locator(".lane")).to_have_count(3)
    assert answers(opened) == answers(page) == recorded(recordings.recording("bus"))

    hostile = with_texts("".join((*SCRIPTS, *BREAKING)))
    give(page, hostile)
    expect(page.locator(".prompt")).to_contain_text("onerror")
    opened = visit_file(saved(page, "html").rename(tmp_path / "dropped.html"))
    expect(opened.locator(".prompt")).to_contain_text("onerror")
    assert answers(opened) == answers(page)
    assert opened.evaluate("window.__hit") is None
