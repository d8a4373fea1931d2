"""The run record: what is written is the contract, and reading it back gives the same run."""

import json

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
        keys = {"pass", "tau", "positions", "ms", "accepted", "stop", "slots"}
        assert set(step) == keys | ({"drafts", "verified", "groups"} if mode == "lossless" else set())
        assert step["pass"] == number
        assert 1 <= step["accepted"] <= len(step["slots"])
        for slot in step["slots"]:
            assert set(slot) == {"id", "text", "score", "top"}
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


def split(path):
    """The lines of each run of a file."""
    runs = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith('{"run"'):
            runs.append([])
        runs[-1].append(line)
    return runs


def test_a_run_cut_short_has_no_closing_line_until_it_is_closed(mars_tiny):
    run = decode(mars_tiny, "hello", Request(max_new_tokens=50))
    next(run)
    assert len(list(run.lines())) == 2
    run.close()
    assert json.loads(list(run.lines())[-1])["stop"] == "stopped"


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"schema": 3}', '{"schema": 1, "run": "x"}'])
def test_anything_else_is_refused_in_one_sentence(text):
    with pytest.raises(ValueError, match="not a run record"):
        Run.read(text.splitlines())
