"""The benchmark of windows: one small run, and its figures against plain arithmetic."""

import json
import sys

from benchmarks import window
from benchmarks.turns import Timed
from mars_demo.decoding.costs import Costs


def test_sets_are_mixed_by_their_times_and_tokens():
    easy = {"a": Timed([1.0, 2.0], [10, 10]), window.ADAPTIVE: Timed([1.0, 1.0], [10, 10])}
    hard = {"a": Timed([3.0, 2.0], [4]), window.ADAPTIVE: Timed([2.0, 2.0], [4])}
    found = window.speeds(window.mixed([easy, hard]))
    assert found == {"a": [6.0, 6.0], window.ADAPTIVE: [8.0, 8.0]}
    row = window.row("mars", "mix", found | {"b": [5.0, 9.0]})
    assert row["best"] == "b"


def test_a_small_run_writes_every_window_of_every_set(tmp_path, monkeypatch, capsys):
    path = tmp_path / "window.json"
    monkeypatch.setattr(window, "measure", lambda checkpoint: Costs(((1, 4.0), (25, 9.0))))
    monkeypatch.setattr(window, "sets_of", lambda arguments: {"a": ["Hello"], "b": ["How are you?"]})
    asked = ["window", "--rounds", "1", "--max-new-tokens", "3", "--output", str(path)]
    monkeypatch.setattr(sys, "argv", asked)
    window.main()
    rows = json.loads(path.read_text())["rows"]
    assert [(row["mode"], row["set"]) for row in rows] == [
        (mode, name) for mode in window.MODES for name in ("a", "b", window.MIX)
    ]
    assert all(len(row["tokens_per_second"]) == 9 + 1 for row in rows)
    assert capsys.readouterr().out.count("| mars |") == 3
