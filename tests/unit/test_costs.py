"""Forward costs: the curve, measuring and storing."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from mars_demo import cli
from mars_demo.decoding import costs as store
from mars_demo.decoding.costs import SIZES, Costs, is_measurable, measure, measuring
from mars_demo.decoding.trace import Run
from mars_demo.models.load import load_checkpoint

COSTS = Costs(((1, 10.0), (3, 14.0), (9, 20.0)))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "costs"


def test_costs_are_interpolated_between_measured_sizes_and_extrapolated():
    assert [COSTS(k) for k in (0, 1, 2, 3, 6, 9, 12)] == pytest.approx([10, 10, 12, 14, 17, 20, 23])
    assert all(COSTS(k) <= COSTS(k + 1) for k in range(50))


def test_noise_is_smoothed_into_a_monotone_curve():
    costs = Costs.of({5: 9.0, 1: 8.0, 2: 12.0, 3: 10.0, 9: 20.0})
    assert costs.points == ((1, 8.0), (2, 31 / 3), (3, 31 / 3), (5, 31 / 3), (9, 20.0))


@pytest.fixture
def idle(monkeypatch):
    """Simulate an idle machine: on its clock, nothing takes more than 1 ms."""
    ticks = (0.001 * tick for tick in itertools.count())
    monkeypatch.setattr(store, "time", SimpleNamespace(perf_counter=ticks.__next__))


def test_a_measurement_covers_every_size_and_leaves_nothing_behind(mars_tiny, idle):
    """Record with a forward hook how many positions each forward computes."""
    sizes = []
    hook = mars_tiny.model.base_model.register_forward_pre_hook(
        lambda module, inputs, named: sizes.append(named["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        steps = sum(1 for _ in measuring(mars_tiny))
        assert steps == len(sizes)
        costs = measure(mars_tiny)
    finally:
        hook.remove()
    assert is_measurable(mars_tiny)
    assert set(sizes) == set(SIZES)
    assert [k for k, _ in costs.points] == list(SIZES)


def test_a_slow_measurement_is_abandoned(mars_tiny, monkeypatch):
    monkeypatch.setattr(store, "time", SimpleNamespace(perf_counter=itertools.count().__next__))
    assert measure(mars_tiny) is None


def test_stored_costs_are_loaded_for_the_same_model_and_precision(cache, mars_tiny):
    assert store.load(mars_tiny) is None
    store.save(mars_tiny, COSTS)
    assert store.load(mars_tiny) == COSTS
    assert len(list(cache.iterdir())) == 1
    assert store.load(replace(mars_tiny, name="another")) is None
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert store.load(mars_tiny) is None
    finally:
        torch.set_num_threads(threads)
    # Casting a model back and forth would change its position frequencies.
    assert store.load(load_checkpoint("mars-tiny", "cpu", torch.bfloat16)) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "\ud800", "[" * 100_000, '{"key": 1}', '{"key": KEY}',
        '{"key": KEY, "costs": 5}', '{"key": KEY, "costs": [[1, "x"], [2, 3]]}',
        '{"key": {}, "costs": [[1, 2], [2, 3]]}',
    ],
)  # fmt: skip
def test_damaged_or_foreign_files_are_ignored(cache, mars_tiny, text):
    store.save(mars_tiny, COSTS)
    [file] = cache.iterdir()
    key = json.dumps(store.key(mars_tiny))
    file.write_bytes(text.replace("KEY", key).encode("utf-8", "surrogatepass"))
    assert store.load(mars_tiny) is None
    store.save(mars_tiny, COSTS)
    assert store.load(mars_tiny) == COSTS


def test_the_default_folder_is_the_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv(store.VARIABLE, "")
    assert store.folder() is None
    monkeypatch.delenv(store.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.folder() == tmp_path / "mars-demo" / "costs"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.folder() == tmp_path / ".cache" / "mars-demo" / "costs"


def test_a_read_only_folder_is_not_an_error(monkeypatch, tmp_path, mars_tiny):
    (tmp_path / "file").touch()
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "file"))
    store.save(mars_tiny, COSTS)
    assert store.load(mars_tiny) is None


def test_generate_uses_stored_costs_unless_a_window_is_set(cache, mars_tiny, capsys):
    def settings(*more: str):
        assert cli.main(["generate", "hello", "--model", "mars-tiny", "--trace", "-", *more]) in (0, None)
        captured = capsys.readouterr()
        assert captured.err == ""
        return Run.read(captured.out.splitlines()).settings

    store.save(mars_tiny, COSTS)
    assert settings("--max-new-tokens", "5").costs == list(COSTS.points)
    assert settings("--max-new-tokens", "5", "--mode", "ar").costs is None
    named = settings("--max-new-tokens", "5", "--window", "3")
    assert (named.window, named.costs) == (3, None)


def test_generate_measures_once_and_reports_it(cache, capsys, monkeypatch):
    measured = []
    monkeypatch.setattr(store, "measure", lambda checkpoint: measured.append(checkpoint.name) or COSTS)
    command = ["generate", "hello", "--model", "mars-tiny", "--max-new-tokens", "2"]
    cli.main(command)
    assert "mars-tiny" in capsys.readouterr().err
    cli.main(command)
    assert measured == ["mars-tiny"] and "mars-tiny" not in capsys.readouterr().err
