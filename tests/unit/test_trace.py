"""The run record: its documented lines, and reading them back."""

import json
import time

import pytest
from hostile import GOOD, changed, written
from pydantic import TypeAdapter, ValidationError

from mars_demo import tasks
from mars_demo.core.assets import ASSETS
from mars_demo.core.fields import LONGEST_LINE, MOST_LINES, MOST_SLOTS, NO_RECORD
from mars_demo.core.limits import LIMITS
from mars_demo.core.trace import Pass, Run, read_text
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

HEADER = {
    "run", "schema", "mode", "model", "window", "block_size", "tau", "prompt", "prompt_tokens", "device",
    "dtype", "max_new_tokens", "criterion",
}  # fmt: skip


@pytest.mark.parametrize("mode", ["ar", "mars", "lossless"])
def test_record_has_the_documented_lines(mars_tiny, mode):
    run = decode(mars_tiny, tasks.held_out("units", 1)[0].prompt, Request(mode=mode)).finish()
    first, *passes, last = [json.loads(line) for line in run.lines()]
    assert set(first) == HEADER
    assert (first["mode"], first["schema"], first["block_size"]) == (mode, 2, 8)
    for number, step in enumerate(passes, start=1):
        keys = {"pass", "tau", "positions", "ms", "accepted", "stop", "slots", "model_ms", "read_ms"}
        assert set(step) == keys | ({"drafts", "verified", "groups"} if mode == "lossless" else set())
        assert step["pass"] == number
        assert 1 <= step["accepted"] <= len(step["slots"])
        for slot in step["slots"]:
            assert set(slot) == {"id", "text", "score", "top", "source", "candidates"}
    assert last == {
        "done": True,
        "tokens": sum(step["accepted"] for step in passes),
        "forwards": len(passes),
        "seconds": last["seconds"],
        "stop": "eos",
    }
    assert last["seconds"] == pytest.approx(sum(step["ms"] for step in passes) / 1000, abs=1e-3)
    joined = "".join(s["text"] for step in passes for s in step["slots"][: step["accepted"]])
    assert joined == run.text


def test_the_time_of_a_forward_is_split_into_its_parts(mars_tiny, monkeypatch):
    """Let the model take one hour: only `model_ms` may include it."""
    hour, late, perf_counter = 3600.0, 0.0, time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: perf_counter() + late)

    def pause(*_):
        nonlocal late
        late += hour

    hook = mars_tiny.model.base_model.register_forward_pre_hook(pause)
    try:
        run = decode(mars_tiny, "Sort 3, 1 and 2", Request(mode="mars", max_new_tokens=12)).finish()
    finally:
        hook.remove()
    for step in run.passes:
        assert 1000 * hour <= step.model_ms
        assert 0 < step.read_ms < 500 * hour
        assert step.model_ms + step.read_ms <= step.ms < 1500 * hour


@pytest.mark.parametrize(
    ("settings", "verified", "beyond"),
    [
        ({"mode": "ar"}, None, None),
        ({"mode": "mars", "tau": 0.5}, None, "mask"),
        ({"mode": "lossless", "ngram_tokens": 0}, "mask", "mask"),
        ({"mode": "jacobi"}, "guess", "guess"),
        ({"mode": "speculative", "tau": 0.9}, "draft", "mask"),
    ],
    ids=str,
)
def test_every_slot_has_the_source_of_its_token(mars_tiny, ar_tiny, settings, verified, beyond):
    """Expect verified drafts from their source, the next token from the model, later ones from masks."""
    more = {"draft": ar_tiny} if settings["mode"] == "speculative" else {}
    prompt = tasks.held_out("units", 1)[0].prompt
    run = decode(mars_tiny, prompt, Request(**settings, **more, max_new_tokens=40)).finish()
    for step in run.passes:
        count = step.verified or 0
        after = len(step.slots) - count - 1
        expected = [verified] * count + ["model"] + [beyond] * after
        assert [slot.source for slot in step.slots] == expected
    accepted = [slot.source for step in run.passes for slot in step.slots[: step.accepted]]
    assert run.sources == {source: accepted.count(source) for source in set(accepted)}
    assert len(run.sources) == 1 if settings["mode"] == "ar" else len(run.sources) > 1
    assert list(Run.read(run.lines()).lines()) == list(run.lines())


def test_an_unfinished_run_has_no_closing_line_until_it_is_closed(mars_tiny):
    run = decode(mars_tiny, "hello", Request(max_new_tokens=50))
    next(run)
    assert len(list(run.lines())) == 2
    run.close()
    assert json.loads(list(run.lines())[-1])["stop"] == "stopped"


# -------------------------------------------------------------------------------------- foreign records

SETTINGS, FIRST, SECOND, LAST = GOOD
SLOT = FIRST["slots"][2]


def with_field(number: int, *path, value=...) -> str:
    """Return the valid record with a new value in a line; by default without the value."""
    lines = [*GOOD]
    lines[number] = changed(lines[number], path, value)
    return written(lines)


def test_recorded_runs_are_read_and_written_alike():
    paths = [*(ASSETS / "runs").glob("*.jsonl")]
    assert len(paths) > 10
    for path in paths:
        text = path.read_text("utf-8")
        written = [json.loads(line) for run in read_text(text) for line in run.lines()]
        assert written == [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "text",
    [
        written(GOOD),
        with_field(0, "window", value=256),
        with_field(1, "tau", value=None),
        with_field(0, "prompt", value="😀" * 200_000),
    ],
    ids=["good", "wide", "no tau", "long"],
)
def test_values_within_bounds_are_read(text):
    [run] = read_text(text)
    assert run.tokens == 3
    assert [slot.score for slot in run.passes[0].slots] == [1.0, 0.95, 0.2]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("no record at all", [1, "JSON"]),
        ("[" * 100_000, [1, "JSON"]),
        (written(GOOD[1:]), [1, "settings"]),
        (with_field(0, "window", value=257), [1, "window", 256]),
        (with_field(0, "mode", value="constructor"), [1, "mode", "lossless"]),
        (with_field(0, "prompt", value="😀" * 200_001), [1, "prompt", 200_000]),
        (with_field(0, "messages", 0, "role", value="tool"), [1, "messages[0].role"]),
        (with_field(0, "sampling", "top_p", value=2), [1, "sampling.top_p"]),
        (with_field(1, "ms", value=0).replace('"ms": 0', '"ms": 1e999'), [2, "ms"]),
        (with_field(1, "tau", value=float("nan")), [2, "tau"]),
        (with_field(1, "accepted", value=4), [2, "accepted", "slots"]),
        (with_field(1, "slots", 1, "source", value="elsewhere"), [2, "slots[1].source", "mask"]),
        (with_field(1, "slots", 0, "constructor", value=1), [2, "slots[0].constructor"]),
        (with_field(2, "verified"), [3, "verified"]),
        (with_field(0, "note", value="x" * LONGEST_LINE), [1, LONGEST_LINE]),
        (with_field(3, "note" * 1000, value=1), [4, "note"]),
        (written([SETTINGS, *[SECOND] * (MOST_LINES - 1), LAST]), [MOST_LINES + 1, MOST_LINES]),
        (
            written([SETTINGS, *[FIRST | {"slots": [SLOT] * 500}] * (MOST_SLOTS // 500), FIRST]),
            [MOST_SLOTS // 500 + 2, MOST_SLOTS],
        ),
    ],
)
def test_other_values_are_refused_in_one_sentence(text, facts):
    with pytest.raises(ValueError, match=NO_RECORD) as caught:
        read_text(text)
    message = str(caught.value)
    line, *facts = facts
    assert f"line {line}," in message and all(str(fact) in message for fact in facts), message
    assert "\n" not in message and message.endswith(".") and len(message) < 250


def test_reading_stops_at_the_first_wrong_item():
    """Refuse lines with hundreds of thousands of errors quickly."""
    for wrong in (7, {"id": "x", "a": 1}):
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(Pass).validate_json(json.dumps({**FIRST, "slots": [wrong] * 1000}))
        assert len({place for _, place, *_ in (error["loc"] for error in caught.value.errors())}) == 1


def test_a_record_of_no_run_or_several_runs_is_not_one_run():
    for text in ("", written((*GOOD, *GOOD))):
        with pytest.raises(ValueError, match=r"\b(0|2) runs"):
            Run.read(text.splitlines())


@pytest.mark.parametrize("record", [None, 3, ["a"], " " * ((LIMITS.record << 20) + 1)])
def test_a_record_has_a_size_limit(record):
    with pytest.raises(ValueError, match=f"{LIMITS.record} MiB"):
        read_text(record)
    assert read_text(" " * (LIMITS.record << 20)) == []
