"""The records that visitors bring: page and server read the same ones and say the same of others."""

import json
import re
import time
from random import Random

import jsonschema
import pytest
from playwright.sync_api import expect
from records import race

from benchmarks.hostile import records
from benchmarks.hostile.records import GOOD, changed, written
from mars_demo.assets import ASSETS
from mars_demo.decoding import record_schema
from mars_demo.decoding.decode import decode
from mars_demo.decoding.record_schema import LINES, MOST_LINES, MOST_SLOTS, checked
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.decoding.trace import read_runs

HOSTILE = 600
SETTINGS, FIRST, SECOND, LAST = GOOD
SLOT = FIRST["slots"][2]


def with_field(number: int, *path, value=...) -> str:
    """The good record with another value at that place of a line; without it by default."""
    lines = [*GOOD]
    lines[number] = changed(lines[number], path, value)
    return written(lines)


# The record, and what is said of it; None where it is read.
RECORDS = {
    "good": (written(GOOD), None),
    "a race": (race(), None),
    "a window that froze the page": (
        with_field(0, "window", value=10**9),
        "1: window must be a whole number from 1 to 256.",
    ),
    "the largest window": (with_field(0, "window", value=256), None),
    "just above": (with_field(0, "window", value=257), "1: window must be a whole number from 1 to 256."),
    "no window": (with_field(0, "window"), "1: window is missing."),
    "a name of every object": (
        with_field(0, "mode", value="constructor"),
        f"1: mode must be {LINES['run']['properties']['mode']['description']}.",
    ),
    "no slots": (with_field(1, "slots"), "2: slots is missing."),
    "no tokens at the end": (with_field(3, "tokens"), "4: tokens is missing."),
    "a number as a text": (
        with_field(1, "ms", value="4.5"),
        "2: ms must be a number from 0 to 1000000000.",
    ),
    "true as a number": (with_field(1, "tau", value=True), "2: tau must be a number from 0 to 1 or null."),
    "no tau": (with_field(1, "tau", value=None), None),
    "an infinite time": (
        with_field(1, "ms", value=0).replace('"ms": 0', '"ms": 1e999'),
        "2: ms must be a number from 0 to 1000000000.",
    ),
    "not a number": (with_field(1, "ms", value=float("nan")), "2: it is not JSON."),
    "a slot that is none": (with_field(1, "slots", 1, value=7), "2: slots[1] must be an object."),
    "no score": (with_field(1, "slots", 1, "score"), "2: slots[1].score is missing."),
    "a pair of one": (
        with_field(1, "slots", 0, "top", 0, value=["It"]),
        "2: slots[0].top[0] must be a pair.",
    ),
    "a field of all objects": (
        with_field(1, "slots", 0, "constructor", value=1),
        "2: slots[0].“constructor” is no field that it may have.",
    ),
    "half of a character": (
        with_field(0, "prompt", value="\ud800"),
        "1: prompt must be a text of at most 200000 characters.",
    ),
    "a long prompt": (with_field(0, "prompt", value="😀" * 200_000), None),
    "a longer one": (
        with_field(0, "prompt", value="😀" * 200_001),
        "1: prompt must be a text of at most 200000 characters.",
    ),
    "more accepted than slots": (
        with_field(1, "accepted", value=4),
        "2: accepted is larger than the number of its slots.",
    ),
    "drafts alone": (with_field(2, "groups"), "3: groups is missing."),
    "the forward first": (written(GOOD[1:]), "1: a record begins with the settings of a run."),
    "a deep one": ("[" * 100_000, "1: it is not JSON."),
    "another version": (with_field(0, "schema", value=3), "1: schema must be one of 1, 2."),
    "the most lines": (written([SETTINGS, *[SECOND] * (MOST_LINES - 2), LAST]), None),
    "a line more": (
        written([SETTINGS, *[SECOND] * (MOST_LINES - 1), LAST]),
        f"{MOST_LINES + 1}: a record has at most {MOST_LINES} lines.",
    ),
    "more slots": (
        written([SETTINGS, *[FIRST | {"slots": [SLOT] * 500}] * (MOST_SLOTS // 500), FIRST]),
        f"{MOST_SLOTS // 500 + 2}: the forwards of a record have at most {MOST_SLOTS} slots.",
    ),
}


def said_by_python(text: str) -> str | None:
    try:
        read_runs(text.split("\n"))
    except ValueError as error:
        return re.sub(r"^.* line (\d+), ", r"\1: ", str(error), count=1)
    return None


SAY = """texts => texts.map(text => {
  const stage = document.querySelector(".stage");
  stage.dispatchEvent(new CustomEvent("record", { detail: text }));
  const trouble = stage.querySelector(".trouble");
  return trouble.hidden ? null : trouble.textContent;
})"""


def said_by_the_page(page, texts: list[str]) -> list[str | None]:
    said = page.evaluate(SAY, texts)
    return [each and re.sub(r"^.* line (\d+) cannot be read: ", r"\1: ", each, count=1) for each in said]


@pytest.fixture
def stage(visit, stage_url):
    page = visit("", stage_url)
    expect(page.locator(".token").first).to_be_attached()
    return page


@pytest.mark.parametrize("name", RECORDS)
def test_page_and_server_say_the_same_of_a_record(stage, name):
    text, sentence = RECORDS[name]
    assert said_by_python(text) == sentence
    started = time.monotonic()
    assert said_by_the_page(stage, [text]) == [sentence]
    expect(stage.locator(".prompt")).to_be_attached()
    assert time.monotonic() - started < 60  # it froze for minutes


def test_page_and_server_say_the_same_of_hundreds_of_records_that_are_wrong_by_chance(stage):
    made = [records.record(Random(f"record-{number}")) for number in range(HOSTILE)]
    # JSON has one kind of number; Python's counts are not written with a point.
    texts = [text for text in made if "-0.0" not in text]
    page, server = said_by_the_page(stage, texts), [said_by_python(text) for text in texts]
    pairs = [(ours, theirs) for ours, theirs in zip(page, server) if ours != theirs]
    # The page alone wants a forward to draw, the server reads settings alone.
    assert {ours for ours, theirs in pairs if theirs is None} <= {
        "This is not the record of a run: it has no forward."
    }
    assert [pair for pair in pairs if pair[1] is not None] == []
    assert sum(said is None for said in server) < 0.5 * len(texts)


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
            try:
                checked(record)
                accepted = True
            except ValueError as error:
                accepted = "number of its slots" in str(error)
            assert accepted == tables[kind].is_valid(record), line
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


def test_recorded_runs_are_read(stage):
    paths = [*(ASSETS / "runs").glob("*.jsonl"), *(ASSETS.parent / "tests" / "ui").glob("schema-1.jsonl")]
    texts = [path.read_text("utf-8") for path in paths]
    assert len(texts) > 10
    assert [said_by_python(text) for text in texts] == [None] * len(texts)
    assert said_by_the_page(stage, texts) == [None] * len(texts)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "ar"},
        {"mode": "mars", "sampling": Sampling(temperature=0.7, top_p=0.9, seed=3)},
        {"mode": "lossless"},
        {"mode": "jacobi"},
        {"mode": "speculative"},
    ],
    ids=str,
)
def test_what_is_written_is_accepted(mars_tiny, ar_tiny, stage, settings):
    more = {"draft": ar_tiny} if settings["mode"] == "speculative" else {}
    messages = [{"role": "system", "content": "Be brief."}]
    run = decode(
        mars_tiny, "Sort 3 and 1", Request(**settings, **more, max_new_tokens=20), messages=messages
    )
    text = "".join(f"{line}\n" for line in run.finish().lines())
    assert said_by_python(text) is None
    assert said_by_the_page(stage, [text]) == [None]


def test_a_record_that_is_too_large_is_refused_before_it_is_read(stage):
    most = 8 << 20
    nearly = "x" * most
    assert said_by_the_page(stage, [nearly, f"{nearly}x"]) == [
        "1: it is not JSON.",
        "This is larger than 8 MiB, the most that a record of a run may have here.",
    ]
    for size, said in ((most, "it is not JSON"), (most + 1, "This is larger than 8 MiB")):
        file = {"name": "run.jsonl", "mimeType": "application/x-ndjson", "buffer": b"x" * size}
        stage.locator(".file").set_input_files(file)
        expect(stage.locator(".trouble")).to_contain_text(said)


def test_the_check_costs_little():
    """Of each line of a race, as it comes: far less than the forward that it tells of."""
    line = json.loads((ASSETS / "runs" / "story.jsonl").read_text("utf-8").splitlines()[20])
    started = time.perf_counter()
    for _ in range(200):
        record_schema.checked(line)
    assert (time.perf_counter() - started) / 200 < 0.005
