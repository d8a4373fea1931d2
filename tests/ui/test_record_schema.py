"""The records that visitors bring: page and server read the same ones and say the same of others."""

import json
import re
from random import Random

import jsonschema
import pytest
from on_stage import says, shared_stage
from playwright.sync_api import expect
from records import race

from benchmarks.hostile import records
from benchmarks.hostile.records import GOOD, changed, written
from mars_demo.assets import ASSETS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.record_schema import LINES, MOST_LINES, MOST_SLOTS, checked
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.decoding.trace import read_runs
from mars_demo.limits import LIMITS

HOSTILE = 600
SETTINGS, FIRST, SECOND, LAST = GOOD
SLOT = FIRST["slots"][2]


def with_field(number: int, *path, value=...) -> str:
    """Return the good record with another value at one place of a line; without it by default."""
    lines = [*GOOD]
    lines[number] = changed(lines[number], path, value)
    return written(lines)


# The record, and the facts that are said of it, the number of its line first; none where it is read.
RECORDS = {
    "good": (written(GOOD), []),
    "a race": (race(), []),
    "a window that froze the page": (with_field(0, "window", value=10**9), [1, "window", 256]),
    "the largest window": (with_field(0, "window", value=256), []),
    "just above": (with_field(0, "window", value=257), [1, "window", 256]),
    "no window": (with_field(0, "window"), [1, "window"]),
    "no mode": (with_field(0, "mode", value="guess"), [1, "mode", "lossless"]),
    "a name of every object": (with_field(0, "mode", value="constructor"), [1, "mode", "lossless"]),
    "no slots": (with_field(1, "slots"), [2, "slots"]),
    "no tokens at the end": (with_field(3, "tokens"), [4, "tokens"]),
    "a number as a text": (with_field(1, "ms", value="4.5"), [2, "ms", 0, 10**9]),
    "true as a number": (with_field(1, "tau", value=True), [2, "tau", 0, 1, "null"]),
    "no tau": (with_field(1, "tau", value=None), []),
    "an infinite time": (
        with_field(1, "ms", value=0).replace('"ms": 0', '"ms": 1e999'),
        [2, "ms", 10**9],
    ),
    "not a number": (with_field(1, "ms", value=float("nan")), [2, "JSON"]),
    "no JSON": ("no record at all", [1, "JSON"]),
    "a slot that is none": (with_field(1, "slots", 1, value=7), [2, "slots[1]"]),
    "no score": (with_field(1, "slots", 1, "score"), [2, "slots[1].score"]),
    "a score of another name": (
        written(GOOD).replace('"score"', '"points"'),
        [2, "slots[0]", "points"],
    ),
    "a pair of one": (with_field(1, "slots", 0, "top", 0, value=["It"]), [2, "slots[0].top[0]"]),
    "a field of all objects": (
        with_field(1, "slots", 0, "constructor", value=1),
        [2, "slots[0]", "constructor"],
    ),
    "markup for a number": (with_field(1, "accepted", value="<b>"), [2, "accepted", 0]),
    "half of a character": (with_field(0, "prompt", value="\ud800"), [1, "prompt", 200_000]),
    "a long prompt": (with_field(0, "prompt", value="😀" * 200_000), []),
    "a longer one": (with_field(0, "prompt", value="😀" * 200_001), [1, "prompt", 200_000]),
    "more accepted than slots": (with_field(1, "accepted", value=4), [2, "accepted", "slots"]),
    "drafts alone": (with_field(2, "groups"), [3, "groups"]),
    "the forward first": (written(GOOD[1:]), [1, "settings"]),
    "a deep one": ("[" * 100_000, [1, "JSON"]),
    "another version": (with_field(0, "schema", value=3), [1, "schema", 1, 2]),
    "a line more": (
        written([SETTINGS, *[SECOND] * (MOST_LINES - 1), LAST]),
        [MOST_LINES + 1, MOST_LINES],
    ),
    "more slots": (
        written([SETTINGS, *[FIRST | {"slots": [SLOT] * 500}] * (MOST_SLOTS // 500), FIRST]),
        [MOST_SLOTS // 500 + 2, MOST_SLOTS],
    ),
}


def said(sentence: str | None) -> tuple[str, str] | None:
    """Return the number of the line that a refusal names, and what it says of it."""
    if sentence is None:
        return None
    number, words = re.search(r"\bline (\d+)\b[^:,]*[:,] (.*)", sentence, re.DOTALL).groups()
    return number, words


def said_by_python(text: str) -> str | None:
    try:
        read_runs(text.split("\n"))
    except ValueError as error:
        return str(error)
    return None


SAY = """texts => texts.map(text => {
  const stage = document.querySelector(".stage");
  stage.dispatchEvent(new CustomEvent("record", { detail: text }));
  const trouble = stage.querySelector(".trouble");
  return trouble.hidden ? null : trouble.textContent;
})"""


DRAWN = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"


def said_by_the_page(page, texts: list[str]) -> list[str | None]:
    return page.evaluate(SAY, texts)


@pytest.fixture
def stage(module_page, stage_url):
    """The stage that the tests of this module share."""
    yield from shared_stage(module_page, stage_url)


def test_page_and_server_say_the_same_of_a_record(stage):
    wrong = {}
    for name, (text, facts) in RECORDS.items():
        [page], server = said_by_the_page(stage, [text]), said_by_python(text)
        stage.evaluate(DRAWN)  # none of them stops the page
        right = says(*facts).search(server) if facts and server else not (facts or server)
        if not right or said(page) != said(server) or (facts and said(server)[0] != str(facts[0])):
            wrong[name] = (page, server)
    assert wrong == {}


@pytest.mark.full
def test_the_most_lines_are_drawn(stage):
    text = written([SETTINGS, *[SECOND] * (MOST_LINES - 2), LAST])
    assert said_by_python(text) is None and said_by_the_page(stage, [text]) == [None]
    expect(stage.locator(".pass")).to_have_count(MOST_LINES - 2)


@pytest.mark.parametrize("number", [HOSTILE // 4, pytest.param(HOSTILE, marks=pytest.mark.full)])
def test_page_and_server_say_the_same_of_records_that_are_wrong_by_chance(stage, number):
    made = [records.record(Random(f"record-{seed}")) for seed in range(number)]
    # JSON has one kind of number; Python's counts are not written with a point.
    texts = [text for text in made if "-0.0" not in text]
    page, server = said_by_the_page(stage, texts), [said_by_python(text) for text in texts]
    # The page alone wants a forward to draw, the server reads settings alone.
    rejected = [(ours, theirs) for ours, theirs in zip(page, server) if theirs is not None]
    assert [pair for pair in rejected if pair[0] is None or said(pair[0]) != said(pair[1])] == []
    more = {ours for ours, theirs in zip(page, server) if theirs is None and ours is not None}
    assert len(more) <= 1 and all("no forward" in sentence for sentence in more)
    assert len(rejected) > 0.5 * len(texts)


def test_what_is_accepted_is_what_json_schema_accepts():
    """An independent reading of the table; that texts hold whole characters is not in it."""
    tables = {kind: jsonschema.Draft202012Validator(table) for kind, table in LINES.items()}
    compared = 0
    for number in range(HOSTILE // 4):
        for line in records.record(Random(f"line-{number}")).splitlines():
            try:
                record = json.loads(line)
                line.encode().decode("unicode_escape").encode()
            except (ValueError, RecursionError):
                continue
            kind = isinstance(record, dict) and next((kind for kind in LINES if kind in record), None)
            if not kind or "-0.0" in line or "NaN" in line:
                continue
            valid = tables[kind].is_valid(record)
            if valid and kind == "pass":  # one field limits another one
                valid = record["accepted"] <= len(record["slots"])
            try:
                checked(record)
                accepted = True
            except ValueError:
                accepted = False
            assert accepted == valid, line
            compared += 1
    assert compared > HOSTILE // 4
    for table in LINES.values():
        jsonschema.Draft202012Validator.check_schema(table)


def test_every_size_in_the_table_is_bounded():
    def bounded(schema: dict) -> None:
        kinds = [schema.get("type")] if isinstance(schema.get("type"), str) else schema.get("type", [])
        assert "string" not in kinds or "maxLength" in schema
        assert "array" not in kinds or "maxItems" in schema
        assert not {"number", "integer"} & {*kinds} or {"minimum", "maximum"} <= {*schema}
        assert "object" not in kinds or schema["additionalProperties"] is False
        for inner in (*schema.get("properties", {}).values(), *schema.get("prefixItems", ())):
            bounded(inner)
        if "items" in schema:
            bounded(schema["items"])

    for table in LINES.values():
        bounded(table)


def test_recorded_runs_and_what_every_mode_writes_are_read(mars_tiny, ar_tiny, stage):
    paths = [*(ASSETS / "runs").glob("*.jsonl"), *(ASSETS.parent / "tests" / "ui").glob("schema-1.jsonl")]
    texts = {path.stem: path.read_text("utf-8") for path in paths}
    assert len(texts) > 10
    messages = [{"role": "system", "content": "Be brief."}]
    sampled = Sampling(temperature=0.7, top_p=0.9, seed=3)
    for mode, more in {
        "ar": {},
        "mars": {"sampling": sampled},
        "lossless": {},
        "jacobi": {},
        "speculative": {"draft": ar_tiny},
    }.items():
        run = decode(mars_tiny, "Sort 3 and 1", Request(mode, max_new_tokens=20, **more), messages=messages)
        texts[mode] = "".join(f"{line}\n" for line in run.finish().lines())
    page = said_by_the_page(stage, list(texts.values()))
    refused = {
        name: both for name, *both in zip(texts, page, map(said_by_python, texts.values())) if any(both)
    }
    assert refused == {}


def test_a_record_that_is_too_large_is_refused_before_it_is_read(stage):
    for size, facts in (
        (LIMITS.record << 20, ["line 1", "JSON"]),
        ((LIMITS.record << 20) + 1, [f"{LIMITS.record} MiB"]),
    ):
        text = stage.evaluate_handle("size => 'x'.repeat(size)", size)
        assert says(*facts).search(stage.evaluate(f"text => ({SAY})([text])[0]", text))
        stage.evaluate(
            """text => {
              const data = new DataTransfer();
              data.items.add(new File([text], "run.jsonl"));
              document.querySelector(".trouble").hidden = true;
              document.querySelector(".stage").dispatchEvent(
                new DragEvent("drop", { dataTransfer: data, bubbles: true }),
              );
            }""",
            text,
        )
        expect(stage.locator(".trouble")).to_be_visible()
        expect(stage.locator(".trouble")).to_have_text(says(*facts))
