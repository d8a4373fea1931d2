"""The run record: what is written is the contract, and reading it back gives the same run."""

import json
import re
import time
from dataclasses import replace

import pytest

from mars_demo import tasks
from mars_demo.assets import ASSETS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run, read_runs

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


def test_a_record_read_back_is_the_same_run(mars_tiny):
    run = decode(mars_tiny, "Sort 3, 1 and 2 — 👩‍🚀", Request(mode="lossless", max_new_tokens=20)).finish()
    again = Run.read(run.lines())
    assert list(again.lines()) == list(run.lines())
    assert (again.text, again.tokens, again.forwards, again.stop) == (
        run.text,
        run.tokens,
        run.forwards,
        run.stop,
    )


def test_a_record_of_schema_1_opens_with_its_confidences_as_scores_of_the_probability():
    for path in (ASSETS / "runs").glob("*.jsonl"):
        for run, text in zip(read_runs(path.read_text("utf-8").splitlines()), split(path), strict=True):
            first, *passes, _ = [json.loads(line) for line in text]
            if first["schema"] != 1:
                continue
            assert run.settings.criterion == "probability"
            was = [slot["confidence"] for step in passes for slot in step["slots"]]
            assert [slot.score for step in run.passes for slot in step.slots] == was


def test_the_parts_of_a_forwards_time_are_those_that_it_took(mars_tiny, monkeypatch):
    """A model that takes an hour of the clock shows in `model_ms` and nowhere else; a record without parts
    opens as well."""
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
    lines = [json.loads(line) for line in run.lines()]
    for line in lines:
        line.pop("model_ms", None), line.pop("read_ms", None)
    bare = Run.read(map(json.dumps, lines))
    assert {(step.model_ms, step.read_ms) for step in bare.passes} == {(None, None)}
    assert [json.loads(line) for line in bare.lines()] == lines


def split(path):
    """The lines of each run of a file."""
    runs = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith('{"run"'):
            runs.append([])
        runs[-1].append(line)
    return runs


@pytest.mark.parametrize(
    ("settings", "verified", "beyond"),
    [
        ({"mode": "ar"}, None, None),
        ({"mode": "mars", "tau": 0.5}, None, "mask"),
        ({"mode": "lossless", "copies": 0}, "mask", "mask"),
        ({"mode": "jacobi"}, "guess", "guess"),
        ({"mode": "speculative", "tau": 0.9}, "draft", "mask"),
    ],
    ids=str,
)
def test_every_slot_says_where_its_token_came_from(mars_tiny, ar_tiny, settings, verified, beyond):
    """Verified drafts from what made them, the next token from the model, and what follows from masks."""
    more = {"draft": ar_tiny} if settings["mode"] == "speculative" else {}
    prompt = tasks.held_out("units", 1)[0].prompt
    run = decode(mars_tiny, prompt, Request(**settings, **more, max_new_tokens=40)).finish()
    for step in run.passes:
        held = step.verified or 0
        after = len(step.slots) - held - 1
        expected = [verified] * held + ["model"] + [beyond] * after
        assert [slot.source for slot in step.slots] == expected
    accepted = [slot.source for step in run.passes for slot in step.slots[: step.accepted]]
    assert run.sources == {source: accepted.count(source) for source in set(accepted)}
    assert len(run.sources) == 1 if settings["mode"] == "ar" else len(run.sources) > 1
    assert list(Run.read(run.lines()).lines()) == list(run.lines())


def test_block_diffusion_fills_masks_alone(mars_tiny):
    checkpoint = replace(mars_tiny, objective="block-diffusion")
    run = decode(checkpoint, "hello", Request(tau=0.5, max_new_tokens=12)).finish()
    assert run.sources == {"mask": run.tokens}


def test_a_record_without_sources_says_nothing_of_them(mars_tiny):
    lines = list(decode(mars_tiny, "hello", Request(max_new_tokens=8)).finish().lines())
    old = Run.read(re.sub(r', "source": "\w+"', "", line) for line in lines)
    assert not old.sources and old.tokens == 8
    assert not any("source" in line for line in old.lines())
    for wrong in ('"elsewhere"', "{}", "7"):
        with pytest.raises(ValueError, match="record"):
            Run.read(line.replace('"source": "model"', f'"source": {wrong}') for line in lines)


def test_a_run_cut_short_has_no_closing_line_until_it_is_closed(mars_tiny):
    run = decode(mars_tiny, "hello", Request(max_new_tokens=50))
    next(run)
    assert len(list(run.lines())) == 2
    run.close()
    assert json.loads(list(run.lines())[-1])["stop"] == "stopped"


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"schema": 3}', '{"schema": 1, "run": "x"}'])
def test_anything_else_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="record") as caught:
        Run.read(text.splitlines())
    assert "\n" not in str(caught.value)
