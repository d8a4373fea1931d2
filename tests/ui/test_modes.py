"""Records of every mode, criterion and schema on the stage, made by a small random model."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from random_models import random_model

from benchmarks.speculative import truncated
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.models.checkpoint import wrap
from mars_demo.modes import MODES
from mars_demo.ui.components.stage import BASELINE, Stage, drawn_modes
from mars_demo.ui.page import App

HAND_OVER = "(stage, detail) => stage.dispatchEvent(new CustomEvent('record', { detail }))"
# The states of slots behind the accepted ones, by how a mode treats them.
BEYOND = {"unread": {"rejected"}, "draft": {"draft"}, "filled": {"filled", "unread"}}
TAU = 0.02  # a random model has no confidence


@pytest.fixture(scope="module")
def stage_url():
    with App() as demo:
        Stage(shelf=False)
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    yield address
    demo.close()


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    return wrap("random", random_model("llama", tokenizer), tokenizer)


@pytest.fixture(scope="module")
def stage_page(browser, stage_url):
    """One page for all records, as a visitor opens one after the other."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(stage_url)
    expect(page.locator(".stage[data-state]")).to_be_attached()
    yield page
    page.close()
    assert not troubles


@pytest.fixture
def open_record(stage_page):
    """The stage with these runs, the way other components of a page hand them over."""

    def open_it(text: str) -> Page:
        stage_page.mouse.move(0, 0)
        stage_page.locator(".stage").evaluate(HAND_OVER, text)
        expect(stage_page.locator(".trouble")).to_be_hidden()
        run = json.loads(text.splitlines()[0]).get("run", "")
        expect(stage_page.locator(".stage")).to_have_attribute("data-run", run)
        expect(stage_page.locator(".token").first).to_be_attached()
        return stage_page

    return open_it


def made(checkpoint, mode: str, **settings) -> Run:
    if mode in MODES["block-diffusion"].objectives:
        checkpoint = replace(checkpoint, objective=mode)
    if MODES[mode].needs_draft:
        settings["draft"] = truncated(checkpoint, 1)
    settings = {"tau": TAU, "max_new_tokens": 24} | settings
    return decode(checkpoint, "How many apples?", Request(mode, **settings)).finish()


def lane(page: Page, mode: str) -> Locator:
    return page.locator(f'.lane[data-lane="{mode}"]')


def test_the_lanes_follow_the_table_of_modes():
    names = [mode["name"] for mode in drawn_modes()]
    assert names == [BASELINE, *(name for name in MODES if name != BASELINE)]


def states(page: Page, number: int) -> list[str]:
    """Select a forward, and return the states of its slots."""
    column = page.locator(".heat g").nth(number)
    column.locator("rect").first.click()
    expect(column).to_have_class(re.compile(r"\blit\b"))  # drawn after the slots
    return page.locator(".slot:visible").evaluate_all("rows => rows.map((row) => row.dataset.state)")


@pytest.mark.parametrize("mode", MODES)
def test_a_record_of_every_mode_is_drawn(open_record, checkpoint, mode):
    run = made(checkpoint, mode)
    page = open_record("\n".join(run.lines()))
    expect(page.locator(".lane")).to_have_count(1)
    expect(lane(page, mode).locator(".name")).to_have_text(MODES[mode].title)
    assert lane(page, mode).locator(".answer").text_content() == run.text
    expect(page.locator(".verdict")).to_contain_text(MODES[mode].title)
    expect(page.locator(".verdict")).to_contain_text(str(run.tokens))
    expect(page.locator(".heat [data-level]")).to_have_count(sum(len(step.slots) for step in run.passes))
    for number in sorted({0, 1, run.forwards // 2, run.forwards - 1}):
        step, shown = run.passes[number], states(page, number)
        assert len(shown) >= len(step.slots)
        assert shown.count("accepted") == step.accepted
        if not step.stop and step.accepted < len(step.slots):
            assert set(shown) & BEYOND[MODES[mode].beyond]

    # "What if" is for modes in which τ decides from left to right.
    asks = MODES[mode].uses_tau and MODES[mode].beyond == "unread"
    expect(page.locator(".ghost")).to_be_visible(visible=asks)
    if asks:
        page.locator(".ghost-range").fill("1")
        strict = [(step.verified or 0) + 1 for step in run.passes]
        differ = sum(max(1, one) < step.accepted for one, step in zip(strict, run.passes))
        assert differ
        expect(page.locator(".ghost-words")).to_contain_text(
            re.compile(rf"\b{differ}\b.*\b{run.forwards}\b")
        )
        expect(page.locator(".ghost-bar")).to_have_count(differ)


def test_what_block_diffusion_has_filled_stays_filled(open_record, checkpoint):
    """At τ = 1, each forward fills one slot, the most confident one, wherever it is."""
    run = made(checkpoint, "block-diffusion", tau=1.0, window=6)
    page = open_record("\n".join(run.lines()))
    filled = []
    for number, step in enumerate(run.passes):
        shown = states(page, number)
        filled.append(len(shown) - shown.count("unread") + sum(p.accepted for p in run.passes[:number]))
        if step.stop:
            break
    assert filled[:-1] == list(range(1, run.forwards))


def test_a_record_of_schema_1_opens_as_it_did(open_record):
    text = Path(__file__).with_name("schema-1.jsonl").read_text("utf-8")
    first, step = map(json.loads, text.splitlines()[:2])
    assert first["schema"] == 1 and "confidence" in step["slots"][0]
    page = open_record(text)
    lane(page, "ar").locator(".token").first.hover()
    share = int(step["slots"][0]["confidence"] * 1e4) / 100
    expect(page.locator(".card .where")).to_contain_text("The")
    expect(page.locator(".card .where")).to_contain_text(f"{share:.2f}%")


def test_a_record_of_another_criterion_names_it_beside_its_scores(open_record, checkpoint):
    run = made(checkpoint, "mars", criterion="entropy")
    page = open_record("\n".join(run.lines()))
    expect(page.locator(".whole h3")).to_contain_text("entropy")
    expect(lane(page, "mars").locator(".setting")).to_contain_text("entropy")
    score = f"{int(run.passes[0].slots[0].score * 1e4) / 1e4:.4f}"
    lane(page, "mars").locator(".token").first.hover()
    expect(page.locator(".card .where")).to_contain_text(score)
    expect(page.locator(".slot:visible .score").first).to_have_text(score)
