"""Recorded runs: agreement with the bundled models, and timing."""

import functools
import itertools
from dataclasses import replace

import pytest
import torch
from greedy import check_same_passes

from mars_demo.core.layout import causal
from mars_demo.core.trace import Pass, Run, Settings, Slot, read_runs
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import recorded_runs
from mars_demo.models.chat import encode_prompt
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.engine import Engine
from mars_demo.show import recordings

load = functools.cache(load_checkpoint)
CHAT = "mars-smollm2-135m"
ENTRIES = {entry["id"]: entry for entry in recordings.index()}


def taus(entry: dict) -> list[float]:
    """Return the τ of each forward from the `[first forward, τ]` pairs of the index."""
    changes = [*entry["tau"], [1000, None]]
    return [tau for (first, tau), (end, _) in itertools.pairwise(changes) for _ in range(first, end)]


def decoded_again(recorded: Run, entry: dict) -> Run:
    """Decode with the settings of the record and its τ at each forward."""
    settings = recorded.settings
    assert (settings.device, settings.dtype) == ("cpu", "float32")
    checkpoint = load(settings.model, settings.device, torch.float32)
    done: list[Run] = []
    request = Request(
        settings.mode,
        lambda: taus(entry)[done[0].forwards if done else 0],
        window=settings.window,
        max_new_tokens=settings.max_new_tokens,
    )
    run = decode(checkpoint, settings.prompt, request)
    done.append(run)
    return run.finish()


def runs_of(id: str) -> list[Run]:
    entry, runs = ENTRIES[id], read_runs(recordings.recording(id).splitlines()[1:])
    assert [run.settings.mode for run in runs] == entry["modes"]
    for run in runs:
        assert (run.settings.prompt, run.settings.model) == (entry["prompt"], entry["model"])
        assert [step.tau for step in run.passes if run.settings.mode == "mars"] in (
            [], taus(entry)[: run.forwards]
        )  # fmt: skip
    return runs


@pytest.mark.parametrize(
    "id",
    [pytest.param(id, marks=pytest.mark.full) for id in ENTRIES if ENTRIES[id]["model"] == CHAT],
)
def test_a_recorded_run_of_the_chat_model_has_its_best_tokens_up_to_ties(id):
    """Check the recorded tokens in one forward over the whole text; CPUs may differ in int8.

    They must be (nearly) the best tokens: all of them if drafts are verified, else the first of each pass.
    """
    checkpoint = load(CHAT, "cpu", "auto")
    for run in runs_of(id):
        assert run.settings.dtype == "int8"
        prompt = encode_prompt(checkpoint.tokenizer, run.settings.prompt)
        assert run.settings.prompt_tokens == len(prompt)
        layout = causal([*prompt, *run.token_ids[:-1]])
        logits = Engine(checkpoint.decoder).forward(layout, first=len(prompt) - 1)
        behind = logits.max(dim=-1).values - logits[range(run.tokens), run.token_ids]
        if run.settings.mode == "mars":
            first = [*itertools.accumulate((step.accepted for step in run.passes), initial=0)][:-1]
            behind = behind[first]
        assert behind.max() < 0.5
        assert (behind == 0).float().mean() > 0.9


@pytest.mark.parametrize("id", [id for id in ENTRIES if ENTRIES[id]["model"] != CHAT])
def test_a_recorded_run_is_reproduced_by_the_model(id):
    entry = ENTRIES[id]
    for recorded in runs_of(id):
        run = decoded_again(recorded, entry)
        assert run.settings.prompt_tokens == recorded.settings.prompt_tokens
        count = check_same_passes(run, recorded)
        for step, recorded_step in zip(run.passes[:count], recorded.passes):
            for figure in ("tau", "positions", "groups"):
                assert getattr(step, figure) == getattr(recorded_step, figure), (step.number, figure)
            assert [slot.text for slot in step.slots] == [slot.text for slot in recorded_step.slots]
            scores = [slot.score for slot in recorded_step.slots]
            assert [slot.score for slot in step.slots] == pytest.approx(scores, abs=1e-4)
        if count == len(recorded.passes):
            assert (run.text, run.stop) == (recorded.text, recorded.stop)


SETTINGS = Settings("mars", "toy", 2, 1, 0.9, "Hi", 1, "cpu", "float32", 64)


def run(times: list[float], ids: list[int] | None = None, accepted: int = 1) -> Run:
    ids = ids or list(range(len(times)))
    slots = [tuple(Slot(id + k, f" {id + k}", 0.9) for k in (0, 1)) for id in ids]
    steps = [Pass(n, 0.9, 2, ms, accepted, s) for n, (ms, s) in enumerate(zip(times, slots), start=1)]
    return Run(SETTINGS, iter([*steps[:-1], replace(steps[-1], stop="eos")])).finish()


def test_a_forward_has_the_median_of_its_times_and_of_parts_in_all_runs():
    typical = recorded_runs.typical([run([9, 5, 500]), run([8, 4, 3]), run([10, 90, 2])])
    assert [step.ms for step in typical.passes] == [9, 5, 3]
    assert typical.stop == "eos" and typical.token_ids == [0, 1, 2]
    timed = [run([9]), run([5]), run([7])]
    for single, model, read in zip(timed, (3, 2, 4), (1, 2, 1)):
        single.passes[0] = replace(single.passes[0], model_ms=model, read_ms=read)
    [step] = recorded_runs.typical(timed).passes
    assert (step.ms, step.model_ms, step.read_ms) == (7, 3, 1)
    [step] = recorded_runs.typical([run([9]), run([5])]).passes
    assert (step.ms, step.model_ms, step.read_ms) == (7, None, None)


@pytest.mark.parametrize("other", [run([1, 1, 1, 1], [0, 1, 2, 7]), run([1, 1], [0, 2], accepted=2)])
def test_runs_that_differ_are_not_averaged(other):
    """Refuse runs that differ in tokens or in accepted tokens per forward."""
    with pytest.raises(ValueError, match="tokens"):
        recorded_runs.typical([run([1, 1, 1, 1]), other])


def test_modes_are_timed_in_turn_and_recorded_exactly(mars_tiny, monkeypatch):
    modes = []
    original = decode

    def noting_mode(checkpoint, prompt, request):
        modes.append(request.mode)
        return original(checkpoint, prompt, request)

    monkeypatch.setattr("mars_demo.evaluation.recorded_runs.decode", noting_mode)
    entry = {
        "model": "mars-tiny",
        "prompt": "Write 57 in words.",
        "modes": ["ar", "mars"],
        "tau": [[1, 0.95]],
    }
    runs = read_runs(recorded_runs.record_run(entry).splitlines())
    assert modes == ["ar", "mars"] * (1 + recorded_runs.TIMES)  # one warm-up round
    for single in runs:
        again = original(mars_tiny, entry["prompt"], Request(single.settings.mode)).finish()
        assert single.token_ids == again.token_ids and single.stop == again.stop == "eos"
