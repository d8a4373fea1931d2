"""The fair clock and the record of a race, without a page."""

import asyncio
import json
import threading
from itertools import islice, pairwise
from types import SimpleNamespace

import gradio as gr
import pytest
import web
from records import run as made

from mars_demo.core.names import TINY
from mars_demo.core.trace import Pass, Run, Slot
from mars_demo.decoding import prefill
from mars_demo.decoding.decode import decode, race
from mars_demo.decoding.request import Request
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import Knobs, begin, end
from mars_demo.ui.model_choice import mode_choices
from mars_demo.ui.racing import growing, record


def run(ms: float, forwards: int) -> Run:
    finished = made("ar", [1] * forwards, ms=ms)
    return Run(finished.settings, iter(finished.passes))


def records(lines) -> list[dict]:
    return [json.loads(line) for line in lines]


def test_the_run_whose_clock_is_behind_takes_the_next_step():
    lanes = [lane for lane, _ in race({"ar": run(10, 6), "mars": run(30, 2)})]
    assert lanes == ["ar", "mars", "ar", "ar", "ar", "mars", "ar", "ar"]


def test_the_record_of_each_lane_is_the_record_of_its_run():
    runs = {"ar": run(10, 3), "mars": run(30, 2)}
    lines = records(record(runs, lambda: False))
    for lane, single in runs.items():
        own_lines = [
            {k: v for k, v in line.items() if k != "lane"} for line in lines if line["lane"] == lane
        ]
        assert own_lines == records(single.lines())


def test_stopping_closes_both_runs_and_their_records():
    runs = {"ar": run(10, 50), "mars": run(30, 50)}
    lines = records(record(runs, lambda: runs["ar"].forwards == 4))
    assert [line["stop"] for line in lines if line.get("done")] == ["stopped", "stopped"]
    assert runs["ar"].forwards == 4
    assert next(runs["mars"], None) is None

    runs = {"ar": run(10, 50), "mars": run(30, 50)}
    left = record(runs, lambda: False)
    list(islice(left, 5))
    left.close()  # as if the visitor leaves
    assert [single.stop for single in runs.values()] == ["stopped", "stopped"]


def test_a_race_stops_between_the_chunks_of_a_prompt(mars_tiny, monkeypatch):
    monkeypatch.setattr(prefill, "CHUNK", 4)
    runs = {
        mode: decode(mars_tiny, "Name the capital of Latvia.", Request(mode)) for mode in ("ar", "mars")
    }
    lines = records(record(runs, lambda: True))
    assert [line["stop"] for line in lines if line.get("done")] == ["stopped", "stopped"]
    assert not any("pass" in line for line in lines)


def test_a_run_that_fails_ends_the_record_of_both():
    def failing():
        yield Pass(1, None, 1, 20, 1, (Slot(7, " word", 0.9),))
        raise RuntimeError("the device is gone")

    runs = {"ar": Run(run(10, 50).settings, failing()), "mars": run(30, 50)}
    shown = []
    with pytest.raises(RuntimeError, match="the device is gone"):
        shown.extend(growing(record(runs, lambda: False)))
    lines = records(shown[-1].splitlines())
    assert [(line["lane"], line["stop"]) for line in lines if line.get("done")] == [
        ("ar", "stopped"),
        ("mars", "stopped"),
    ]
    assert next(runs["mars"], None) is None


def test_the_shown_record_only_grows_and_ends_complete():
    lines = [f"{n}\n" for n in range(1000)]
    shown = list(growing(lines, every=0))
    assert len(shown) == 1001  # without pauses: after each line, and at the end
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
    assert shown[-1] == "".join(lines)


def test_no_clock_counts_the_pauses(mars_tiny, monkeypatch):
    """Let time pass only in pauses, so that each forward takes 0 ms."""
    rests = []
    clock = SimpleNamespace(perf_counter=lambda: 1000.0 * len(rests))
    monkeypatch.setattr("mars_demo.decoding.answer.time", clock)
    runs = {
        mode: decode(mars_tiny, "Hi", Request(mode=mode, tau=0.95, max_new_tokens=4))
        for mode in ("ar", "mars")
    }
    lines = records(record(runs, lambda: False, rests.append))
    assert len(rests) > 4
    assert [line["ms"] for line in lines if "pass" in line] == [0.0] * len(rests)
    assert [run.seconds for run in runs.values()] == [0.0, 0.0]


def test_a_watched_race_has_eight_forwards_per_second(monkeypatch):
    """Count seconds that only pass in forwards and in pauses. Forwards of 500 ms need no pause."""
    for ms, forwards, expected in ((25, 16, 2), (500, 4, 2)):
        now = 0.0

        def sleep(seconds):
            nonlocal now
            now += seconds

        clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)  # noqa: B023
        monkeypatch.setattr("mars_demo.ui.knobs.time", clock)
        knobs = Knobs()
        knobs.watched = True
        for line in records(record({"ar": run(ms, forwards)}, lambda: False, knobs.pause)):
            now += line.get("ms", 0) / 1000 if "pass" in line else 0
        assert now == pytest.approx(expected)


def test_a_new_run_waits_until_the_previous_one_has_stopped():
    knobs = Knobs()
    web.run(begin(knobs))

    def last_run():
        while not knobs.stopped:
            knobs.pause()
        end(knobs)

    thread = threading.Thread(target=last_run)
    thread.start()
    knobs.watched = True
    web.run(begin(knobs, tau=0.5))
    thread.join()
    assert knobs.running and not knobs.stopped
    assert knobs.tau == 0.5


def test_only_one_of_two_concurrent_starts_continues(monkeypatch):
    monkeypatch.setattr("mars_demo.ui.knobs.PATIENCE", 0)
    knobs = Knobs()

    async def both():
        starts = (begin(knobs), begin(knobs))
        return await asyncio.gather(*starts, return_exceptions=True)

    assert [isinstance(one, gr.Error) for one in web.run(both())] == [False, True]


def test_modes_chosen_during_a_request_are_kept():
    MODELS.load(TINY)
    late = mode_choices(TINY, ["mars"])  # requested before the visitor chose another mode
    assert "value" not in late.constructor_args and late.constructor_args["choices"]
    assert mode_choices(TINY, ["mars", "block-diffusion"]).constructor_args["value"] == ["mars"]
