"""Branches in the page: from a token that was clicked, through the tree, an address or a file, and back."""

import json
import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect
from test_stage import give

from mars_demo.decoding.branching import branch, opinion
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run, read_runs
from mars_demo.views import recordings

RUN = "too-low"  # a recorded run of mars-tiny at τ = 0.5


def recorded(mode: str) -> Run:
    runs = read_runs((recordings.FOLDER / f"{RUN}.jsonl").read_text("utf-8").splitlines())
    return next(run for run in runs if run.settings.mode == mode)


def lane(page: Page, name: str):
    return page.locator(f'.lane[data-lane="{name}"]')


def inspect(page: Page, name: str, index: int) -> None:
    """Pin one token of a lane that no forward was given."""
    lane(page, name).locator(".token").nth(index).click()
    expect(page.locator(".inspector")).to_be_visible()


def opened(visit, query: str = f"run={RUN}", **options) -> Page:
    page = visit(query, **options)
    expect(page.locator("#model input")).not_to_have_value("")
    expect(page.locator(".token").first).to_be_attached()
    return page


def arrived(page: Page, count: int) -> None:
    expect(page.locator(".lane")).to_have_count(count)
    expect(page.locator(".stage")).to_have_class(re.compile(r"\bover\b"))
    expect(page.locator("#run")).to_be_enabled()


def answer(page: Page, name: str) -> str:
    return (
        lane(page, name)
        .locator(".answer")
        .evaluate(
            "node => [...node.querySelectorAll('.kept, .token')].map((one) => one.textContent).join('')"
        )
    )


def alone(checkpoint, run: Run, at: int, instead) -> Run:
    """The same branch, decoded without the page."""
    settings = run.settings
    request = Request(settings.mode, tau=0.5, branch=branch(checkpoint, run, at, instead))
    return decode(checkpoint, settings.prompt, request).finish()


def test_a_candidate_goes_on_as_a_new_lane(visit, mars_tiny):
    page, run = opened(visit), recorded("mars")
    inspect(page, "mars", 5)
    expect(page.locator(".candidates .taken")).to_have_text("✓ accepted")
    page.locator(".candidates button").first.click()
    arrived(page, 3)
    slot = next(slot for slot in run.passes[0].slots if slot.id == run.token_ids[5])
    other = next(token for token in slot.candidates if token != slot.id)
    wanted = alone(mars_tiny, run, 5, [other])
    assert answer(page, "mars~2") == wanted.text and answer(page, "mars") == run.text
    expect(lane(page, "mars~2").locator(".instead")).to_have_text(wanted.settings.given[-1][1])
    expect(lane(page, "mars~2").locator('[data-count="forwards"]')).to_have_text(str(wanted.forwards))
    expect(page.locator(".verdict")).to_contain_text("another answer than its origin from token 6 on")
    expect(page.locator(".difference-where")).to_have_text("token 6")
    expect(page.locator(".odds tbody tr")).to_have_count(1)  # no forward chose what was put there
    expect(page.locator(".inspector")).to_be_hidden()


def test_a_typed_text_replaces_the_lane_and_the_tree_leads_back(visit, mars_tiny):
    page, run = opened(visit), recorded("mars")
    inspect(page, "mars", 3)
    page.get_by_label("in place of this one").check()
    page.locator(".instead-text").fill(" <b>tea</b>")
    page.locator(".instead-text").press("Enter")
    arrived(page, 2)
    expect(lane(page, "mars").locator(".given")).to_contain_text("<b>tea</b>")
    first = alone(mars_tiny, run, 3, " <b>tea</b>")
    assert answer(page, "mars") == first.text
    nodes = page.locator(".tree button")
    expect(nodes).to_have_count(2)
    expect(nodes.nth(1)).to_have_attribute("aria-current", "true")
    inspect(page, "mars", 2)  # a branch of the branch
    page.get_by_label("as a new lane").check()
    page.locator(".instead-text").fill(" so")
    page.locator('[data-do="instead"]').click()
    arrived(page, 3)
    expect(nodes).to_have_count(3)
    again = branch(mars_tiny, first, len(first.settings.given) + 2, " so")
    second = decode(mars_tiny, run.settings.prompt, Request("mars", tau=0.5, branch=again)).finish()
    assert answer(page, "mars~2") == second.text
    nodes.first.click()  # back to where it began
    expect(page.locator(".lane")).to_have_count(2)
    assert answer(page, "mars") == run.text
    expect(nodes).to_have_count(3)
    nodes.nth(2).click()
    arrived(page, 3)
    assert answer(page, "mars~2") == second.text


def test_an_address_opens_the_branch_again(visit):
    page = opened(visit)
    inspect(page, "mars", 5)
    page.locator(".candidates button").first.click()
    arrived(page, 3)
    expect(page).to_have_url(re.compile(rf"run={RUN}&branch="))
    text = answer(page, "mars~2")
    again = visit(page.url.split("?", 1)[1])
    arrived(again, 3)
    assert answer(again, "mars~2") == text
    again.reload()
    arrived(again, 3)
    assert answer(again, "mars~2") == text


def test_a_race_of_an_address_branches_when_it_has_run(visit):
    page = opened_settings(visit, "prompt=table&mode=mars&tau=0.6")
    page.locator("#run").click()
    arrived(page, 2)
    inspect(page, "mars", 4)
    page.locator(".instead-text").fill(" no")
    page.locator('[data-do="instead"]').click()
    arrived(page, 3)
    text = answer(page, "mars~2")
    expect(page).to_have_url(re.compile("branch="))
    again = opened_settings(visit, page.url.split("?", 1)[1])
    expect(again.locator(".token")).to_have_count(0)
    again.locator("#run").click()
    arrived(again, 3)
    assert answer(again, "mars~2") == text
    again.locator("#run").click()  # a new race forgets them
    arrived(again, 2)
    expect(again).not_to_have_url(re.compile("branch="))


def opened_settings(visit, query: str) -> Page:
    page = visit(query)
    expect(page.locator("#model input")).not_to_have_value("")
    expect(page.locator("#facts")).to_contain_text("parameters")
    return page


def test_a_file_holds_branches(visit, mars_tiny):
    run = decode(mars_tiny, "Name the capital of Latvia.", Request("mars", tau=0.6)).finish()
    goes_on = alone(mars_tiny, run, 2, " no")
    page = opened(visit)
    give(page, "".join(f"{line}\n" for one in (run, goes_on) for line in one.lines()))
    arrived(page, 2)
    assert [answer(page, name) for name in ("mars", "mars~2")] == [run.text, goes_on.text]
    expect(page.locator(".tree button")).to_have_count(2)
    expect(lane(page, "mars~2").locator(".name")).to_have_text("MARS, from token 3")
    page.locator('[data-do="reply"]').last.click()  # the whole answer is what the next prompt continues
    expect(page.locator(".turn").last).to_contain_text(goes_on.text.strip()[:20])
    with page.expect_download() as download:
        page.locator('[data-do="jsonl"]').click()
    lines = download.value.path().read_text("utf-8").splitlines()
    assert [one.text for one in read_runs(lines)] == [run.text, goes_on.text]


def test_a_branch_that_cannot_be_leaves_the_stage_as_it_is(visit, mars_tiny):
    foreign = replace(recorded("mars").settings, model="<img src=x onerror=alert(1)>")
    page = opened(visit)
    give(
        page, "".join(f"{line}\n" for line in Run(foreign, iter(recorded("mars").passes)).finish().lines())
    )
    inspect(page, "mars", 2)
    page.locator('[data-do="instead"]').click()
    expect(page.locator(".trouble")).to_contain_text("Type the text")
    page.locator(".candidates button").first.click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("Unknown model")
    expect(page.locator("#run")).to_be_enabled()
    expect(page.locator(".lane")).to_have_count(1)


# ------------------------------------------------------------------------------- the inspector


def test_the_inspector_says_what_was_guessed_before_and_what_ar_thinks(visit, mars_tiny):
    page, run = opened(visit), recorded("mars")
    ids, start = run.token_ids, 0
    guesses = {}
    for step in run.passes:
        for k, slot in enumerate(step.slots):
            if k >= step.accepted and start + k < len(ids):
                guesses.setdefault(start + k, []).append((step.number, k + 1, slot.id == ids[start + k]))
        start += step.accepted
    assert any(right for found in guesses.values() for *_, right in found)
    assert not all(right for found in guesses.values() for *_, right in found)
    for at, found in guesses.items():
        inspect(page, "mars", at)
        rows = page.locator(".guesses li")
        expect(rows).to_have_count(len(found))
        for row, (forward, slot, right) in zip(rows.all_inner_texts(), found):
            assert f"forward {forward}, slot {slot}:" in row.replace("\n", " ")
            assert ("did not come true" not in row) == right
    at = len(ids) - 2  # after the first difference: only the model itself can say
    inspect(page, "mars", at)
    page.locator('[data-do="opinion"]').click()
    found = opinion(mars_tiny, run, at)
    expect(page.locator(".opinion p")).to_contain_text(f"{int(found.probability * 1e4) / 100:.2f}%")
    expect(page.locator(".opinion li")).to_have_count(5)
    inspect(page, "mars", 2)  # before it: the lane beside has read the same text
    expect(page.locator(".opinion p")).to_contain_text("It would write the same token.")
    expect(page.locator('[data-do="opinion"]')).to_be_hidden()
    expect(page.locator(".inspector .source")).to_contain_text("at least τ = 0.50")
    inspect(page, "mars", 0)
    expect(page.locator(".inspector .source")).to_contain_text("Slot 1 is always accepted")
    page.keyboard.press("Escape")
    expect(page.locator(".inspector")).to_be_hidden()


def test_where_two_answers_part_both_tokens_stand_with_their_odds(visit):
    page = opened(visit)
    ar, mars = recorded("ar"), recorded("mars")
    at = next(i for i, (a, b) in enumerate(zip(ar.token_ids, mars.token_ids)) if a != b)
    expect(page.locator(".difference-where")).to_have_text(f"token {at + 1}")
    cells = page.locator(".odds tbody td").all_inner_texts()
    odds = dict(zip(ar.passes[at].slots[0].candidates, (p for _, p in ar.passes[at].slots[0].top)))
    wanted = [odds.get(token) for token in (ar.token_ids[at], mars.token_ids[at])]
    assert [None if p is None else f"{int(p * 1e4 + 1e-9) / 100:.2f}%" for p in wanted] == [
        None if text.startswith("less") else text for text in cells[:2]
    ]


# ---------------------------------------------------------------------------- two records, totals


def test_two_files_are_compared_side_by_side(visit):
    page = opened(visit)
    texts = [(recordings.FOLDER / f"{id}.jsonl").read_text("utf-8") for id in (RUN, "table")]
    page.locator(".file").set_input_files(
        [
            {"name": f"{n}.jsonl", "mimeType": "text/plain", "buffer": text.encode()}
            for n, text in enumerate(texts)
        ]
    )
    arrived(page, 4)
    names = page.locator(".lane .name").all_inner_texts()
    assert sorted(names) == sorted(
        f"{mode} ({race})" for race in "AB" for mode in ("One token per forward", "MARS")
    )
    prompts = {json.loads(text.splitlines()[0])["prompt"] for text in texts}
    assert {text.strip() for text in page.locator(".lane-prompt").all_inner_texts()} == prompts
    expect(page.locator(".verdict")).to_contain_text("MARS (A)")
    expect(page.locator(".verdict")).to_contain_text("MARS (B)")


def test_an_address_and_a_dropped_link_compare_recorded_runs(visit):
    page = opened(visit, f"run={RUN}&beside=table")
    arrived(page, 4)
    expect(page.locator(".note")).to_contain_text("Recorded (A)")
    expect(page.locator(".note")).to_contain_text("Recorded (B)")
    expect(page.locator(".beside")).to_have_value("table")
    expect(page).to_have_url(re.compile(rf"run={RUN}&beside=table|beside=table"))
    page.locator(".beside").select_option("")
    expect(page.locator(".lane")).to_have_count(2)
    page.locator(".stage").evaluate(
        """(stage, link) => {
             const data = new DataTransfer();
             data.setData("text/uri-list", link);
             const how = { dataTransfer: data, bubbles: true, cancelable: true };
             stage.dispatchEvent(new DragEvent("drop", how));
           }""",
        page.url.split("?")[0] + "?run=letter",
    )
    arrived(page, 4)
    expect(page.locator(".beside")).to_have_value("letter")


def test_the_same_mode_of_two_records_is_held_against_each_other(visit, mars_tiny):
    def raced(tau: float) -> str:
        runs = [
            decode(mars_tiny, "Could you count the f's in coffee? Thanks!", Request(mode, tau=tau)).finish()
            for mode in ("ar", "mars")
        ]
        return "".join(f"{line}\n" for run in runs for line in run.lines())

    page = opened(visit)
    page.locator(".file").set_input_files(
        [
            {"name": f"{tau}.jsonl", "mimeType": "text/plain", "buffer": raced(tau).encode()}
            for tau in (0.95, 0.3)
        ]
    )
    arrived(page, 4)
    lane(page, "mars~2").locator(".name").click()
    expect(page.locator(".difference h4").first).to_have_text("MARS (A)")
    expect(page.locator(".difference h4").last).to_have_text("MARS (B)")


def test_the_visits_totals_count_each_run_once(visit):
    page = opened(visit)
    expect(page.locator(".totals")).to_be_hidden()  # a recorded run is not of this visit
    inspect(page, "mars", 5)
    page.locator(".candidates button").first.click()
    arrived(page, 3)
    tokens = int(lane(page, "mars~2").locator('[data-count="tokens"]').inner_text())
    forwards = int(lane(page, "mars~2").locator('[data-count="forwards"]').inner_text())
    totals = page.locator(".totals")
    expect(totals).to_contain_text(f"This visit: 1 run, {tokens} tokens in {forwards} forwards")
    page.locator("#run").click()
    arrived(page, 2)
    expect(totals).to_contain_text("This visit: 3 runs")
    expect(totals).to_contain_text("one token at a time would have taken")


@pytest.mark.parametrize("options", [{"viewport": {"width": 390, "height": 844}}, {"color_scheme": "dark"}])
def test_inspector_and_tree_fit_every_screen(visit, options):
    page = opened(visit, **options)
    inspect(page, "mars", 5)
    page.locator(".candidates button").first.click()
    arrived(page, 3)
    inspect(page, "mars~2", 1)
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
