"""Branches on the page: from a clicked token, a URL or a file, and back."""

import json
import re
from dataclasses import replace

import pytest
from on_stage import give, lane, put, says, token
from playwright.sync_api import Page, expect
from records import file_of, recorded

from mars_demo.core.modes import MODES
from mars_demo.core.trace import Run
from mars_demo.decoding.branching import branch, prediction
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.show import recordings

RUN = "too-low"  # a recorded run of mars-tiny at τ = 0.5
TITLE = MODES["mars"].title


def inspect(page: Page, name: str, index: int) -> None:
    """Pin a token of a lane."""
    token(page, name, index).click()
    expect(page.locator(".inspector")).to_be_visible()


def go_on(page: Page) -> None:
    """Continue the pinned token's run with its first other candidate."""
    page.locator(".candidates button").first.click()


def opened(visit, query: str = f"run={RUN}", **options) -> Page:
    page = visit(query, **options)
    expect(page.locator("#model input")).not_to_have_value("")
    expect(page.locator(".token").first).to_be_attached()
    return page


def arrived(page: Page, count: int) -> None:
    """Wait until a race or a branch has ended with `count` lanes."""
    expect(page.locator(".lane")).to_have_count(count)
    expect(page.locator(".stage")).to_have_class(re.compile(r"\bover\b"))
    if page.locator("#run").count():  # the stage alone has no Run button
        expect(page.locator("#run")).to_be_enabled()


def writes(page: Page, name: str, text: str) -> None:
    """Wait until a lane shows this answer, including the given prefix."""
    page.wait_for_function(
        """([name, text]) => text === [
             ...document.querySelectorAll(`.lane[data-lane="${name}"] :is(.kept, .token)`),
           ].map((one) => one.textContent).join("")""",
        arg=[name, text],
    )


def alone(checkpoint, run: Run, at: int, instead) -> Run:
    """Decode the same branch without the page."""
    settings = run.settings
    request = Request(settings.mode, tau=0.5, branch=branch(checkpoint, run, at, instead))
    return decode(checkpoint, settings.prompt, request).finish()


@pytest.mark.full
def test_a_candidate_continues_in_a_new_lane_and_its_url_reopens_it(visit, mars_tiny):
    page, run = opened(visit), recorded(RUN, "mars")
    inspect(page, "mars", 5)
    expect(page.locator(".candidates .taken")).to_have_count(1)
    go_on(page)
    arrived(page, 3)
    slot = next(slot for slot in run.passes[0].slots if slot.id == run.token_ids[5])
    other = next(token for token in slot.candidates if token != slot.id)
    expected = alone(mars_tiny, run, 5, [other])
    writes(page, "mars~2", expected.text)
    writes(page, "mars", run.text)
    expect(lane(page, "mars~2").locator(".instead")).to_have_text(expected.settings.given[-1][1])
    expect(lane(page, "mars~2").locator('[data-count="forwards"]')).to_have_text(str(expected.forwards))
    expect(page.locator(".verdict")).to_have_text(says("token 6"))  # the first difference from its origin
    expect(page.locator(".inspector")).to_be_hidden()

    expect(page).to_have_url(re.compile(rf"run={RUN}&branch="))
    page.reload()
    arrived(page, 3)
    writes(page, "mars~2", expected.text)
    page.locator("#run").click()  # a new race discards the branch
    arrived(page, 2)
    expect(page).not_to_have_url(re.compile("branch="))


@pytest.mark.full
def test_a_typed_text_replaces_the_lane_and_past_runs_lead_back(visit, mars_tiny):
    page, run = opened(visit), recorded(RUN, "mars")
    inspect(page, "mars", 3)
    page.locator('[name="branch-as"][value="replace"]').check()
    page.locator(".instead-text").fill(" <b>tea</b>")
    page.locator(".instead-text").press("Enter")
    arrived(page, 2)
    expect(lane(page, "mars").locator(".given")).to_contain_text("<b>tea</b>")
    first = alone(mars_tiny, run, 3, " <b>tea</b>")
    writes(page, "mars", first.text)
    past = page.locator(".history .past")
    expect(past).to_have_count(1)
    inspect(page, "mars", 2)  # a branch of the branch
    page.locator('[name="branch-as"][value="lane"]').check()
    page.locator(".instead-text").fill(" so")
    page.locator('[data-do="instead"]').click()
    arrived(page, 3)
    expect(past).to_have_count(2)
    again = branch(mars_tiny, first, len(first.settings.given) + 2, " so")
    second = decode(mars_tiny, run.settings.prompt, Request("mars", tau=0.5, branch=again)).finish()
    writes(page, "mars~2", second.text)
    past.last.click()  # back to the first branch
    expect(page.locator(".lane")).to_have_count(2)
    writes(page, "mars", first.text)
    past.first.click()
    arrived(page, 3)
    writes(page, "mars~2", second.text)


@pytest.mark.full
def test_an_impossible_branch_leaves_the_stage_unchanged(visit):
    foreign = replace(recorded(RUN, "mars").settings, model="<img src=x onerror=alert(1)>")
    page = opened(visit)
    give(page, file_of(Run(foreign, iter(recorded(RUN, "mars").passes)).finish()))
    expect(page.locator(".lane")).to_have_count(1)
    inspect(page, "mars", 2)
    page.locator('[data-do="instead"]').click()
    expect(page.locator(".error")).to_be_visible()  # no text was typed
    go_on(page)
    expect(page.get_by_test_id("toast-body")).to_contain_text("<img src=x")
    expect(page.locator("#run")).to_be_enabled()
    expect(page.locator(".lane")).to_have_count(1)


# ------------------------------------------------------------------------------- the inspector


@pytest.mark.full
def test_the_inspector_shows_earlier_guesses_and_the_ar_probability(visit, mars_tiny):
    page, run = opened(visit), recorded(RUN, "mars")
    ids, start = run.token_ids, 0
    guesses = {}
    for step in run.passes:
        for k, slot in enumerate(step.slots):
            if k >= step.accepted and start + k < len(ids):
                guesses.setdefault(start + k, []).append((step.number, k + 1, slot.id == ids[start + k]))
        start += step.accepted
    outcomes = [right for each in guesses.values() for *_, right in each]
    assert any(outcomes) and not all(outcomes)
    for at, each in guesses.items():
        inspect(page, "mars", at)
        rows = page.locator(".guesses li")
        expect(rows).to_have_text([says(forward, slot) for forward, slot, _ in each])
        expect(rows).to_have_class(["came-true" if right else "did-not" for *_, right in each])
    at = len(ids) - 2  # after the first difference, only the model knows
    inspect(page, "mars", at)
    page.locator('[data-do="prediction"]').click()
    share = int(prediction(mars_tiny, run, at).probability * 1e4) / 100
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


# ---------------------------------------------------------------------- records side by side


@pytest.mark.full
def test_a_file_contains_branches(stage, mars_tiny):
    run = decode(mars_tiny, "Name the capital of Latvia.", Request("mars", tau=0.6)).finish()
    expected = alone(mars_tiny, run, 2, " no")
    put(stage, file_of(run, expected))
    arrived(stage, 2)
    writes(stage, "mars", run.text)
    writes(stage, "mars~2", expected.text)
    expect(lane(stage, "mars~2").locator(".name")).to_have_text(says(TITLE, "token 3"))
    stage.locator('[data-do="reply"]').last.click()  # the next prompt continues the whole answer
    expect(stage.locator(".turn").last).to_contain_text(expected.text.strip()[:20])


def test_two_files_are_compared_side_by_side(stage):
    texts = [(recordings.FOLDER / f"{name}.jsonl").read_text("utf-8") for name in (RUN, "table")]
    give(stage, *texts)
    arrived(stage, 4)
    names = [f"{MODES[mode].title} ({race})" for mode in ("ar", "mars") for race in "AB"]
    expect(stage.locator(".lane .name")).to_have_text(names)
    prompts = [json.loads(text.splitlines()[0])["prompt"] for text in texts]
    expect(stage.locator(".lane-prompt")).to_have_text(prompts * 2)
    expect(stage.locator(".verdict")).to_have_text(says(f"{TITLE} (A)", f"{TITLE} (B)"))


@pytest.mark.full
def test_a_url_and_a_list_compare_recorded_runs(visit, stage_url):
    page = visit(f"run={RUN}&beside=table", stage_url)
    arrived(page, 4)
    expect(page.locator(".note")).to_have_text(says("(A)", "(B)"))
    expect(page.locator(".beside")).to_have_value("table")
    expect(page).to_have_url(re.compile(rf"(?=.*run={RUN})(?=.*beside=table)"))
    page.locator(".beside").select_option("")
    expect(page.locator(".lane")).to_have_count(2)
    page.locator(".beside").select_option("letter")
    arrived(page, 4)
