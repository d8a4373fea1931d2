"""The shape of an answer in a real browser: a field list, its URL, other shapes and examples."""

import json
import re

from acts import choose
from playwright.sync_api import Page, expect
from race_tab import dismiss, is_ready, lane, prompt, race_to_the_end, records, run_button, toast, verdict

from mars_demo.core.assets import read_json

EXAMPLE = next(one for one in read_json("prompts.json") if one["id"] == "topic")


def grammar(page: Page):
    return page.locator("#grammar textarea")


def test_answers_follow_a_field_list_which_the_url_restores(visit):
    page = visit("model=mars-tiny&prompt=weekday&mode=mars")
    is_ready(page)
    page.locator("#shaped button").first.click()
    choose(page, "answer-shape", "JSON")
    rows = page.locator("#shape li")
    for left in (1, 0):
        rows.get_by_role("button", name="Remove the field").first.click()
        expect(rows).to_have_count(left)
    page.locator("#shape .add").click()
    page.keyboard.type("is done")
    rows.locator("select").select_option("yes or no")
    expect(grammar(page)).to_have_value(re.compile('"is done": { "type": "boolean" }'))
    race_to_the_end(page)
    runs = records(page)
    assert runs.keys() == {"ar", "mars"}
    for mode, run in runs.items():
        assert [(name, type(value)) for name, value in json.loads(run.text).items()] == [("is done", bool)]
        assert run.sources["forced"]
        expect(lane(page, mode).locator(".token.forced")).to_have_count(run.sources["forced"])
        expect(lane(page, mode).locator(".setting")).to_contain_text("JSON")
    forced = runs["mars"].sources["forced"] / runs["mars"].forwards
    expect(verdict(page)).to_contain_text(f"{forced:.1f} of them forced")
    page.reload()
    expect(page.locator("#shape li input")).to_have_value("is done")
    expect(page.locator("#shape li select")).to_have_value("yes or no")


def test_an_invalid_schema_gets_a_sentence_instead_of_a_race(visit):
    page = visit("model=mars-tiny&prompt=weekday&shape=json")
    is_ready(page)
    grammar(page).fill('{"type": "strin"}')
    sentence = re.compile("not a valid JSON schema: Invalid type: strin")
    expect(page.locator("#shape .problem")).to_have_text(sentence)
    run_button(page).click()
    expect(toast(page)).to_contain_text(sentence)
    dismiss(page)
    grammar(page).fill('{"type": "boolean"}')
    expect(page.locator("#shape .problem")).to_be_hidden()
    expect(page.locator("#shape .other")).to_be_visible()


def test_each_shape_keeps_its_text(visit):
    page = visit("model=mars-tiny&prompt=weekday&shape=choice&grammar=red%0Ablue")
    is_ready(page)
    expect(grammar(page)).to_have_value("red\nblue")
    choose(page, "answer-shape", "A pattern")
    expect(grammar(page)).to_have_value(re.compile(r"\\d"))
    choose(page, "answer-shape", "Any text")
    expect(grammar(page)).to_be_hidden()
    choose(page, "answer-shape", "One of several texts")
    expect(grammar(page)).to_have_value("red\nblue")


def test_an_example_brings_its_shape_and_another_one_takes_it_away(visit):
    page = visit("model=mars-tiny&prompt=topic")
    is_ready(page)
    expect(prompt(page)).to_have_value(EXAMPLE["prompt"])
    expect(grammar(page)).to_have_value(EXAMPLE["grammar"])
    page.wait_for_function("() => location.search.includes('tau=')")
    assert "prompt=topic" in page.url and "shape=" not in page.url
    grammar(page).fill("a payment\na delivery")
    page.wait_for_function("() => location.search.includes('shape=choice')")
    page.locator("#examples").get_by_role("button").first.click()
    expect(grammar(page)).to_be_hidden()
    page.wait_for_function("() => !location.search.includes('shape=')")
