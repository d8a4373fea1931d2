"""Conversations on the Race tab."""

import pytest
from acts import unanswered
from playwright.sync_api import Page, expect
from race_tab import dismiss, is_ready, lane, prompt, race_to_the_end, records, run_button, toast

from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

KILOMETERS = "How many meters is 14 kilometers?"
SPELL = "How do you spell planet backwards?"


def run(page: Page, text: str | None = None) -> dict[str, Run]:
    """Race, optionally with a new prompt, and return the records."""
    if text is not None:
        prompt(page).fill(text)
    race_to_the_end(page)
    return records(page)


def turns(page: Page):
    return page.locator("#stage .turn")


def roles(page: Page, *expected: str) -> None:
    expect(turns(page)).to_have_count(len(expected))
    for turn, role in zip(turns(page).all(), expected):
        expect(turn).to_have_attribute("data-role", role)


def reply(page: Page, mode: str) -> None:
    lane(page, mode).locator(".reply").click()
    expect(prompt(page)).to_have_value("")
    expect(prompt(page)).to_be_focused()


def conversation(page: Page):
    return page.locator("#stage .conversation")


@pytest.mark.full
def test_turns_continue_from_the_lane_chosen_by_the_visitor(visit, mars_tiny, monkeypatch):
    page = visit(f"prompt={KILOMETERS}&mode=mars&tau=0.5")
    expect(prompt(page)).to_have_value(KILOMETERS)
    first = run(page)
    expect(conversation(page)).to_be_hidden()

    reply(page, "mars")
    roles(page, "user", "assistant")
    expect(turns(page).locator(".said")).to_have_text([KILOMETERS, first["mars"].text])
    run_button(page).click()  # an empty prompt is rejected, and nothing is lost
    expect(toast(page)).to_be_visible()
    dismiss(page)
    expect(turns(page)).to_have_count(2)

    second = run(page, SPELL)
    expect(turns(page)).to_have_count(2)
    expect(page.locator("#stage .prompt")).to_have_text(SPELL)
    history = first["mars"].messages
    for mode, continued in second.items():
        assert continued.settings.messages == history and history[-1]["mode"] == "mars"
        # Both answers start alike, so each lane reuses more than the first prompt.
        assert continued.settings.cached_tokens > first[mode].settings.prompt_tokens
        alone = decode(mars_tiny, SPELL, Request(mode, tau=0.5), messages=history).finish()
        assert continued.token_ids == alone.token_ids
    assert "prompt=" not in page.url and "tau=0.5" in page.url

    reply(page, "ar")
    expect(turns(page)).to_have_count(4)
    lane(page, "ar").locator(".reply").click()  # a second click undoes it
    expect(turns(page)).to_have_count(2)

    monkeypatch.setenv("MARS_DEMO_PROMPT", "20")
    lane(page, "mars").locator(".reply").click()
    expect(toast(page)).to_contain_text("20")  # the maximum of characters


@pytest.mark.full
def test_the_last_of_several_replies_counts(visit):
    page = visit(f"prompt={KILOMETERS}&mode=mars&tau=0.5")
    expect(prompt(page)).to_have_value(KILOMETERS)
    first = run(page)
    with unanswered(page):
        for mode in ("mars", "ar"):
            lane(page, mode).locator(".reply").click()
        expect(lane(page, "ar").locator(".reply")).to_have_attribute("aria-pressed", "true")
    expect(prompt(page)).to_have_value("")
    assert run(page, SPELL)["ar"].settings.messages == first["ar"].messages


@pytest.mark.full
def test_new_conversations_examples_and_recordings_start_over(visit):
    page = visit(f"prompt={KILOMETERS}&mode=mars")
    expect(prompt(page)).to_have_value(KILOMETERS)
    run(page)
    reply(page, "ar")
    page.locator('#stage [data-do="anew"]').click()
    expect(conversation(page)).to_be_hidden()
    expect(page.locator("#stage .lane")).to_have_count(0)
    expect(prompt(page)).to_be_focused()
    assert not run(page, SPELL)["mars"].settings.messages

    reply(page, "mars")
    page.locator("#examples").get_by_text("Sorting").click()
    expect(conversation(page)).to_be_hidden()
    expect(prompt(page)).not_to_have_value("")
    assert not run(page)["mars"].settings.messages

    reply(page, "mars")
    page.locator("#stage .recordings").select_option("story")
    expect(page.locator("#stage .note")).to_be_visible()
    expect(conversation(page)).to_be_hidden()
    expect(prompt(page)).not_to_have_value("")
    assert not run(page)["mars"].settings.messages

    reply(page, "mars")
    page.reload()
    is_ready(page)
    expect(page.locator("#stage .stage")).to_have_attribute("data-state", "empty")
    expect(conversation(page)).to_be_hidden()


@pytest.mark.full
def test_a_system_prompt_comes_first_and_stays_in_the_next_turn(visit, mars_tiny):
    page = visit(f"prompt={SPELL}&mode=mars")
    expect(prompt(page)).to_have_value(SPELL)
    page.locator("#advanced button").click()
    page.locator("#system textarea").fill("Speak <b>softly</b>.")
    system = {"role": "system", "content": "Speak <b>softly</b>."}
    first = run(page)
    assert first["ar"].settings.messages == [system]
    alone = decode(mars_tiny, SPELL, Request("ar"), messages=[system]).finish()
    assert first["ar"].token_ids == alone.token_ids
    expect(turns(page).locator(".said")).to_have_text(["Speak <b>softly</b>."])
    assert "prompt=" not in page.url
    reply(page, "ar")
    assert run(page, KILOMETERS)["mars"].settings.messages == first["ar"].messages
    roles(page, "system", "user", "assistant")
