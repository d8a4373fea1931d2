"""The inspector of a token, and records side by side."""

import json
import re

import pytest
from on_stage import give, says, token
from playwright.sync_api import Page, expect
from records import recorded

from mars_demo.core.modes import MODES
from mars_demo.decoding.prediction import predict
from mars_demo.show import recordings

RUN = "too-low"  # a recorded run of mars-tiny at τ = 0.5
TITLE = MODES["mars"].title


def inspect(page: Page, name: str, index: int) -> None:
    """Pin a token of a lane."""
    token(page, name, index).click()
    expect(page.locator(".inspector")).to_be_visible()


@pytest.mark.full
def test_the_inspector_shows_earlier_guesses_and_the_ar_probability(visit, mars_tiny):
    page, run = visit(f"run={RUN}"), recorded(RUN, "mars")
    expect(page.locator("#model input")).not_to_have_value("")
    first, second = run.passes[:2]
    ids, at = run.token_ids, first.accepted + second.accepted  # a token that forward 2 guessed
    inspect(page, "mars", at)
    guess = second.slots[second.accepted]
    rows = page.locator(".guesses li")
    expect(rows).to_have_text([says(2, second.accepted + 1)])
    expect(rows).to_have_class(["came-true" if guess.id == ids[at] else "did-not"])
    at = len(ids) - 2  # after the first difference, only the model knows
    inspect(page, "mars", at)
    page.locator('[data-do="prediction"]').click()
    share = int(predict(mars_tiny, run, at).probability * 1e4) / 100
    expect(page.locator(".prediction p")).to_have_text(says(f"{share:.2f}%"))
    expect(page.locator(".prediction li")).to_have_count(5)
    inspect(page, "mars", 2)  # before it, the other lane has the same text
    expect(page.locator(".prediction p")).to_have_text(re.compile(r"\d\.\d\d%"))
    expect(page.locator('[data-do="prediction"]')).to_be_hidden()
    expect(page.locator(".inspector .source")).to_have_text(says("0.50"))  # its score reaches τ
    inspect(page, "mars", 0)
    expect(page.locator(".inspector .source")).to_have_text(says(1))  # slot 1
    page.keyboard.press("Escape")
    expect(page.locator(".inspector")).to_be_hidden()


def test_two_files_are_compared_side_by_side(stage):
    texts = [(recordings.FOLDER / f"{name}.jsonl").read_text("utf-8") for name in (RUN, "table")]
    give(stage, *texts)
    expect(stage.locator(".lane")).to_have_count(4)
    names = [f"{MODES[mode].title} ({race})" for mode in ("ar", "mars") for race in "AB"]
    expect(stage.locator(".lane .name")).to_have_text(names)
    prompts = [json.loads(text.splitlines()[0])["prompt"] for text in texts]
    expect(stage.locator(".lane-prompt")).to_have_text(prompts * 2)
    expect(stage.locator(".verdict")).to_have_text(says(f"{TITLE} (A)", f"{TITLE} (B)"))


@pytest.mark.full
def test_a_url_and_a_list_compare_recorded_runs(visit, stage_url):
    page = visit(f"run={RUN}&beside=table", stage_url)
    expect(page.locator(".lane")).to_have_count(4)
    expect(page.locator(".note")).to_have_text(says("(A)", "(B)"))
    expect(page.locator(".beside")).to_have_value("table")
    expect(page).to_have_url(re.compile(rf"(?=.*run={RUN})(?=.*beside=table)"))
    page.locator(".beside").select_option("")
    expect(page.locator(".lane")).to_have_count(2)
    page.locator(".beside").select_option("letter")
    expect(page.locator(".lane")).to_have_count(4)
