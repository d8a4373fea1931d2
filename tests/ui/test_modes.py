"""Records of every mode, criterion and schema on the stage, made by a small random model."""

import re

import pytest
from draft_models import trained_for, truncated
from on_stage import lane, put
from playwright.sync_api import Page, expect
from random_models import random_model
from records import file_of

from mars_demo.core.modes import MODES
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import wrap
from mars_demo.show.components.stage import BASELINE, drawn_modes

# States of the slots after the accepted ones, by kind of mode.
BEYOND = {"unread": {"rejected"}, "draft": {"draft"}, "filled": {"filled", "unread"}}
TAU = 0.02  # a random model is never confident


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    return wrap("random", random_model("llama", tokenizer), tokenizer)


def made(checkpoint, mode: str, **settings) -> Run:
    checkpoint = trained_for(checkpoint, mode)
    if MODES[mode].needs_draft:
        settings["draft"] = truncated(checkpoint, 1)
    settings = {"tau": TAU, "max_new_tokens": 24} | settings
    return decode(checkpoint, "How many apples?", Request(mode, **settings)).finish()


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
def test_a_record_of_every_mode_is_drawn(stage, checkpoint, mode):
    run = made(checkpoint, mode)
    put(stage, file_of(run))
    expect(stage.locator(".lane")).to_have_count(1)
    expect(lane(stage, mode).locator(".name")).to_have_text(MODES[mode].title)
    assert lane(stage, mode).locator(".answer").text_content() == run.text
    expect(stage.locator(".verdict")).to_contain_text(MODES[mode].title)
    expect(lane(stage, mode).locator("[data-count=tokens]")).to_have_text(str(run.tokens))
    expect(stage.locator(".heat [data-level]")).to_have_count(sum(len(step.slots) for step in run.passes))
    for number in sorted({0, 1, run.forwards // 2, run.forwards - 1}):
        step, shown = run.passes[number], states(stage, number)
        assert len(shown) >= len(step.slots)
        assert shown.count("accepted") == step.accepted
        if not step.stop and step.accepted < len(step.slots):
            assert set(shown) & BEYOND[MODES[mode].beyond]

    # "What if" exists for modes that accept by τ from left to right.
    asks = MODES[mode].uses_tau and MODES[mode].beyond == "unread"
    expect(stage.locator(".ghost")).to_be_visible(visible=asks)
    if asks:
        stage.locator(".ghost-range").fill("1")
        strict = [(step.verified or 0) + 1 for step in run.passes]
        differ = sum(max(1, one) < step.accepted for one, step in zip(strict, run.passes))
        assert differ
        expect(stage.locator(".ghost-words")).to_contain_text(
            re.compile(rf"\b{differ}\b.*\b{run.forwards}\b")
        )
        expect(stage.locator(".ghost-bar")).to_have_count(differ)


def test_a_record_of_another_criterion_names_it_beside_its_scores(stage, checkpoint):
    run = made(checkpoint, "mars", criterion="entropy")
    put(stage, file_of(run))
    expect(stage.locator(".whole h3")).to_contain_text("entropy")
    expect(lane(stage, "mars").locator(".setting")).to_contain_text("entropy")
    score = f"{int(run.passes[0].slots[0].score * 1e4) / 1e4:.4f}"
    lane(stage, "mars").locator(".token").first.hover()
    expect(stage.locator(".card .where")).to_contain_text(score)
    expect(stage.locator(".slot:visible .score").first).to_have_text(score)
