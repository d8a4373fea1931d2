"""A visitor talks to a model: turns on the page, and code in answers."""

import re

import pytest
from playwright.sync_api import Page, expect
from unanswered import unanswered

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Pass, Run, Settings, Slot, read_runs

KILOMETERS = "How many meters is 14 kilometers?"
SPELL = "How do you spell planet backwards?"


def run(page: Page, prompt: str | None = None) -> dict[str, Run]:
    """Press Run, with another prompt if there is one; the records once all sides have ended."""
    if prompt is not None:
        page.locator("#prompt textarea").fill(prompt)
    page.locator("#run").click()
    expect(page.locator("#run")).to_be_disabled()
    expect(page.locator("#run")).to_be_enabled()
    expect(page.locator(".stage")).to_have_class(re.compile(r"\bover\b"))
    return records(page)


def records(page: Page) -> dict[str, Run]:
    with page.expect_download() as download:
        page.locator('[data-do="jsonl"]').click()
    found = read_runs(download.value.path().read_text("utf-8").splitlines())
    return {run.settings.mode: run for run in found}


def turns(page: Page):
    return page.locator(".turn")


def reply(page: Page, mode: str) -> None:
    page.locator(f'.lane[data-lane="{mode}"] .reply').click()
    expect(page.locator("#prompt textarea")).to_have_value("")
    expect(page.locator("#prompt textarea")).to_be_focused()


def test_a_conversation_that_is_too_long_is_refused_with_a_sentence(visit, monkeypatch):
    page = visit(f"prompt={KILOMETERS}&mode=mars&tau=0.5")
    run(page)
    monkeypatch.setenv("MARS_DEMO_PROMPT", "20")
    page.locator('.lane[data-lane="mars"] .reply').click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("at most 20 are read here")


def test_turns_follow_each_other_from_the_lane_that_the_visitor_picks(visit, mars_tiny):
    page = visit(f"prompt={KILOMETERS}&mode=mars&tau=0.5")
    expect(page.locator("#prompt textarea")).to_have_value(KILOMETERS)
    first = run(page)
    expect(page.locator(".conversation")).to_be_hidden()

    reply(page, "mars")
    expect(turns(page).locator(".said")).to_have_text([KILOMETERS, first["mars"].text])
    expect(turns(page).locator(".who")).to_have_text(["You", "MARS"])
    expect(page.locator(".continues")).to_contain_text("continues from the answer of “MARS”")
    expect(page.locator(".asked")).to_be_hidden()

    page.locator("#run").click()  # nothing to answer: said, and nothing is lost
    expect(page.get_by_text("The prompt is empty")).to_be_visible()
    expect(turns(page)).to_have_count(2)

    second = run(page, SPELL)
    expect(turns(page)).to_have_count(2)
    expect(page.locator(".prompt")).to_have_text(SPELL)
    history = first["mars"].messages
    for mode, found in second.items():
        assert found.settings.messages == history and history[-1]["mode"] == "mars"
        # Both answers began in the same way, so every side reuses more than the first prompt.
        assert found.settings.cached_tokens > first[mode].settings.prompt_tokens
        alone = decode(mars_tiny, SPELL, Request(mode, tau=0.5), messages=history).finish()
        assert found.token_ids == alone.token_ids
    assert "prompt=" not in page.url and "tau=0.5" in page.url
    expect(page.locator(".history .past").first).to_have_text(f"↳ {SPELL}")

    again = run(page, "Why?")  # in place of the second prompt
    assert again["ar"].settings.messages == history
    reply(page, "ar")
    expect(turns(page)).to_have_count(4)
    page.locator('.lane[data-lane="ar"] .reply').click()  # once more takes it back
    expect(turns(page)).to_have_count(2)
    page.locator(".history .past").last.click()  # the first race, which continues nothing
    expect(page.locator(".conversation")).to_be_hidden()
    assert not run(page, SPELL)["ar"].settings.messages


def test_of_replies_in_a_row_the_last_counts(visit):
    page = visit(f"prompt={KILOMETERS}&mode=mars&tau=0.5")
    expect(page.locator("#prompt textarea")).to_have_value(KILOMETERS)
    first = run(page)
    with unanswered(page):
        for mode in ("mars", "ar"):
            page.locator(f'.lane[data-lane="{mode}"] .reply').click()
        expect(page.locator(".continues")).to_contain_text("One token per forward")
    expect(page.locator("#prompt textarea")).to_have_value("")
    assert run(page, SPELL)["ar"].settings.messages == first["ar"].messages


def test_a_new_conversation_an_example_and_a_recording_begin_anew(visit):
    page = visit(f"prompt={KILOMETERS}&mode=mars")
    expect(page.locator("#prompt textarea")).to_have_value(KILOMETERS)
    run(page)
    reply(page, "ar")
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".conversation")).to_be_hidden()
    expect(page.locator(".lane")).to_have_count(0)
    expect(page.locator("#prompt textarea")).to_be_focused()
    assert not run(page, SPELL)["mars"].settings.messages

    reply(page, "mars")
    page.locator("#examples").get_by_text("Sorting").click()
    expect(page.locator(".conversation")).to_be_hidden()
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("numbers"))
    assert not run(page)["mars"].settings.messages

    reply(page, "mars")
    page.locator(".recordings").select_option("story")
    expect(page.locator(".note")).to_be_visible()
    expect(page.locator(".conversation")).to_be_hidden()
    expect(page.locator("#prompt textarea")).to_have_value(re.compile("story"))
    assert not run(page)["mars"].settings.messages

    reply(page, "mars")
    page.reload()
    expect(page.locator(".verdict")).to_contain_text("Press Run")
    expect(page.locator(".conversation")).to_be_hidden()


def test_a_system_prompt_comes_first_and_stays_in_the_next_turn(visit, mars_tiny):
    page = visit(f"prompt={SPELL}&mode=mars")
    expect(page.locator("#prompt textarea")).to_have_value(SPELL)
    page.locator("#advanced button").click()
    page.locator("#system textarea").fill("Speak <b>softly</b>.")
    system = {"role": "system", "content": "Speak <b>softly</b>."}
    first = run(page)
    assert first["ar"].settings.messages == [system]
    assert (
        first["ar"].token_ids
        == decode(mars_tiny, SPELL, Request("ar"), messages=[system]).finish().token_ids
    )
    expect(turns(page).locator(".said")).to_have_text(["Speak <b>softly</b>."])
    assert "prompt=" not in page.url
    reply(page, "ar")
    assert run(page, KILOMETERS)["mars"].settings.messages == first["ar"].messages
    expect(turns(page).locator(".who")).to_have_text(["System prompt", "You", "One token per forward"])


def test_a_stopped_turn_loses_nothing(visit, slow):
    page = visit(f"prompt={KILOMETERS}&mode=mars&tau=1")
    expect(page.locator("#prompt textarea")).to_have_value(KILOMETERS)
    run(page)
    reply(page, "mars")
    page.locator("#prompt textarea").fill("Write a story about a fox.")
    page.locator("#run").click()
    expect(page.locator(".prompt")).to_have_text("Write a story about a fox.")
    expect(page.get_by_role("button", name="New conversation")).to_be_disabled()
    page.locator("#stop").click()
    expect(page.locator("#run")).to_be_enabled()
    expect(turns(page)).to_have_count(2)
    expect(page.get_by_role("button", name="New conversation")).to_be_enabled()
    assert len(run(page, SPELL)["mars"].settings.messages) == 2


# ----------------------------------------------------------------------------------------- code

# Marks split over tokens and forwards, half marks while it streams, marks that are none, and HTML.
ANSWER = [
    ["Use", " `", "print", "(x)", "`", " like"],
    [" this", ":\n\n``"],
    ["`", "python\n", "def"],
    [" f(x):\n", "    ", "return `x`", "\n``"],
    ["`\n", "<b>That</b>", " is all"],
    [": ~~", "`", "not", " code", ".", "\n```\nlast"],
    [" <script>", ""],
]
MESSAGES = [
    {"role": "system", "content": "<b>Be brief.</b>"},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "As `x`:\n```\n<i>1</i>\n```\nSo.", "mode": "mars"},
]


def file(answer: list[list[str]], messages: list) -> dict:
    """A record as a visitor drops it on the stage."""
    settings = Settings(
        "mars", "toy", 6, 8, 0.9, "Say it", 3, "cpu", "float32", 64, run="made-up", messages=messages
    )
    passes = (
        Pass(n, 0.9, 6, 10.0, len(texts), tuple(Slot(7, text, 0.95, ((text, 0.95),)) for text in texts),
             stop="eos" if n == len(answer) else None)
        for n, texts in enumerate(answer, start=1)
    )  # fmt: skip
    text = "".join(f"{line}\n" for line in Run(settings, passes).finish().lines())
    return {"name": "run.jsonl", "mimeType": "application/x-ndjson", "buffer": text.encode()}


def covered(page: Page) -> list[str]:
    """The text of the tokens that each box of code lies below, among those that can be seen."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".code-block")].map((box) => {
          const { top, bottom } = box.getBoundingClientRect();
          const middle = (one) => (one.top + one.bottom) / 2;
          const inside = (token) =>
            [...token.getClientRects()].some((at) => at.width && top < middle(at) && middle(at) < bottom);
          const seen = [...document.querySelectorAll(".pass:not(.future) .token")];
          return seen.filter(inside).map((token) => token.textContent).join("");
        })"""
    )


def test_code_is_shown_as_code_and_its_tokens_keep_what_they_are(visit):
    page = visit()
    expect(page.locator(".token").first).to_be_attached()
    page.locator(".file").set_input_files(file(ANSWER, MESSAGES))
    expect(page.locator(".prompt")).to_have_text("Say it")
    answer = page.locator("#stage .lane .answer")
    assert answer.text_content() == "".join(text for texts in ANSWER for text in texts)
    assert answer.locator("b, script").count() == 0
    expect(answer.locator("code")).to_have_text(["print", "(x)"])
    first, last = covered(page)
    assert first.startswith(":\n\n```python\ndef f(x):") and first.endswith("\n```\n")
    assert last == "\n```\nlast <script>"

    page.get_by_role("tab", name="Learn").click()
    page.locator("#stage .file").set_input_files(file(ANSWER, MESSAGES))  # drawn on a hidden tab
    page.get_by_role("tab", name="Race").click()
    page.wait_for_function("document.querySelector('.code-block').offsetHeight > 20")
    assert covered(page) == [first, last]

    token = answer.locator(".token", has_text="print")
    token.hover()
    expect(page.locator("#stage .card .where")).to_contain_text("Forward 1, slot 3: “print”")
    token.click()
    expect(page.locator("#stage .card")).to_have_class(re.compile("pinned"))
    assert answer.locator(".pass").first.get_attribute("data-hue") == "1"

    said = page.locator("#stage .turn .said")
    expect(said.first).to_have_text("<b>Be brief.</b>")
    expect(said.locator("pre.code")).to_have_text("<i>1</i>")
    expect(said.locator("code.code")).to_have_text("x")
    assert said.locator("b, i").count() == 0


def test_code_grows_with_the_answer(visit):
    page = visit()
    expect(page.locator(".token").first).to_be_attached()
    page.locator(".file").set_input_files(file(ANSWER, []))
    expect(page.locator(".prompt")).to_have_text("Say it")
    page.locator('[data-do="start"]').click()
    for boxes in (0, 0, 1, 1, 1, 2):  # two of three marks are no fence yet
        page.locator('[data-do="step"]').click()
        expect(page.locator(".code-block")).to_have_count(boxes)
    page.locator('[data-do="back"]').click()
    expect(page.locator(".code-block")).to_have_count(1)
    (box,) = covered(page)
    assert box.endswith("\n```\n") and "That" not in box


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ({"role": "user"}, "messages must be a list of at most 1000."),
        (
            [{"role": "user", "content": 7}],
            "messages[0].content must be a text of at most 200000 characters.",
        ),
        (["Hi"], "messages[0] must be an object."),
    ],
)
def test_a_record_whose_messages_are_none_is_refused(visit, messages, sentence):
    page = visit()
    expect(page.locator(".token").first).to_be_attached()
    page.locator(".file").set_input_files(file(ANSWER, messages))
    expect(page.locator(".trouble")).to_contain_text(sentence)
