"""How runs are recorded: several times in turn, with the median of each forward's times."""

from dataclasses import replace

import pytest

from mars_demo import decoding, recordings
from mars_demo.trace import Pass, Run, Settings, Slot, read_runs

SETTINGS = Settings("mars", "toy", 2, 1, 0.9, "Hi", 1, "cpu", "float32", 64)


def run(times: list[float], ids: list[int] | None = None, accepted: int = 1) -> Run:
    ids = ids or list(range(len(times)))
    slots = [tuple(Slot(id + k, f" {id + k}", 0.9) for k in (0, 1)) for id in ids]
    steps = [Pass(n, 0.9, 2, ms, accepted, s) for n, (ms, s) in enumerate(zip(times, slots), start=1)]
    return Run(SETTINGS, iter([*steps[:-1], replace(steps[-1], stop="eos")])).finish()


def test_a_forward_has_the_median_of_its_times():
    """A hiccup in one of three runs leaves no trace, and the medians come from different runs."""
    typical = recordings.typical([run([9, 5, 500]), run([8, 4, 3]), run([10, 90, 2])])
    assert [step.ms for step in typical.passes] == [9, 5, 3]
    assert typical.stop == "eos" and typical.token_ids == [0, 1, 2]


@pytest.mark.parametrize("other", [run([1, 1, 1, 1], [0, 1, 2, 7]), run([1, 1], [0, 2], accepted=2)])
def test_runs_that_differ_are_no_repetition(other):
    """In their tokens, or in the forwards that accepted them."""
    with pytest.raises(ValueError, match="did not accept the same tokens"):
        recordings.typical([run([1, 1, 1, 1]), other])


def test_the_modes_take_turns_and_the_record_is_what_the_model_says(mars_tiny, monkeypatch):
    asked = []
    original = decoding.decode
    monkeypatch.setattr(decoding, "decode", lambda *a, **k: asked.append(k["mode"]) or original(*a, **k))
    entry = {
        "model": "mars-tiny",
        "prompt": "Write 57 in words.",
        "modes": ["ar", "mars"],
        "tau": [[1, 0.95]],
    }
    found = read_runs(recordings.record(entry).splitlines())
    assert asked == ["ar", "mars"] * (1 + recordings.TIMES)  # one round to warm up
    for single in found:
        tau = {"tau": 0.95} if single.settings.mode == "mars" else {}
        again = original(mars_tiny, entry["prompt"], mode=single.settings.mode, **tau).finish()
        assert single.token_ids == again.token_ids and single.stop == again.stop == "eos"
