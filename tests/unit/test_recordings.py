"""The recorded runs are what the bundled model does today: decoded again, they come out the same."""

import functools
import itertools

import pytest
import torch

from mars_demo import checkpoints, recordings
from mars_demo.decoding import decode
from mars_demo.trace import Run, read_runs

load = functools.cache(checkpoints.load)
ENTRIES = {entry["id"]: entry for entry in recordings.index()}


def taus(entry: dict) -> list[float]:
    """The τ of each forward by the index: `[forward, τ]` pairs say from where on it holds."""
    changes = [*entry["tau"], [1000, None]]
    return [tau for (first, tau), (end, _) in itertools.pairwise(changes) for _ in range(first, end)]


def decoded_again(recorded: Run, entry: dict) -> Run:
    """With the settings of the record, each forward at its τ."""
    settings = recorded.settings
    assert (settings.device, settings.dtype) == ("cpu", "float32")
    checkpoint = load(settings.model, settings.device, torch.float32)
    done: list[Run] = []
    run = decode(
        checkpoint,
        settings.prompt,
        mode=settings.mode,
        tau=lambda: taus(entry)[done[0].forwards if done else 0],
        window=settings.window,
        max_new_tokens=settings.max_new_tokens,
    )
    done.append(run)
    return run.finish()


@pytest.mark.parametrize("id", ENTRIES)
def test_a_recorded_run_is_what_the_model_does(id):
    entry = ENTRIES[id]
    runs = read_runs(recordings.recording(id).splitlines()[1:])
    assert [run.settings.mode for run in runs] == entry["modes"]
    for recorded in runs:
        assert (recorded.settings.prompt, recorded.settings.model) == (entry["prompt"], entry["model"])
        run = decoded_again(recorded, entry)
        assert run.settings.prompt_tokens == recorded.settings.prompt_tokens
        assert (run.text, run.stop) == (recorded.text, recorded.stop)
        assert len(run.passes) == len(recorded.passes)
        for step, was in zip(run.passes, recorded.passes):
            for figure in ("tau", "accepted", "positions", "drafts", "verified", "groups"):
                assert getattr(step, figure) == getattr(was, figure), (was.number, figure)
            assert [slot.id for slot in step.slots] == [slot.id for slot in was.slots], was.number
            assert [slot.text for slot in step.slots] == [slot.text for slot in was.slots]
            confidences = [slot.confidence for slot in was.slots]
            assert [slot.confidence for slot in step.slots] == pytest.approx(confidences, abs=1e-4)
