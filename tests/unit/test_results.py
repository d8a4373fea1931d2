"""Result files, and averages of their rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from measured import row

from mars_demo.evaluation import results


def test_a_missing_file_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    assert results.read("paper.json") is None
    (tmp_path / "paper.json").write_text(json.dumps({"steps": 300}))
    assert results.read("paper.json") == {"steps": 300}


def test_rows_are_grouped_by_method_and_decoding_in_their_order():
    rows = [row(seed, "units", 1.0, method=m, decoding="ar") for seed in (1, 2) for m in ("MARS", "AR SFT")]
    groups = results.grouped(rows)
    assert list(groups) == [("MARS", "ar"), ("AR SFT", "ar")]
    assert [r["seed"] for r in groups["AR SFT", "ar"]] == [1, 2]


def test_averages_of_seeds_and_of_tasks():
    rows = [row(1, "units", 1.0, 100, 100), row(1, "notes", 0.5, 300, 100), row(2, "units", 0.5)]
    seeds, tasks = results.averages(rows, "seed"), results.averages(rows, "task")
    assert seeds[1].accuracy == 0.75 and seeds[2].accuracy == 0.5
    assert seeds[1].tokens_per_forward == 2.0  # all tokens ÷ all forwards
    assert tasks["units"].accuracy == 0.75 and tasks["notes"].accuracy == 0.5


@pytest.mark.parametrize(
    ("values", "words"), [([50.0], "50.0"), ([49.0, 51.0], "50.0 ± 1.4"), ([1.0, 1.0, 1.0], "1.0 ± 0.0")]
)
def test_a_spread_is_the_mean_and_the_standard_deviation(values, words):
    assert results.spread(values, 1) == words


@pytest.mark.parametrize(("values", "words"), [([1.234], "1.23×"), ([2.0, 1.0, 4.0], "2.00× (1.00–4.00)")])
def test_a_range_names_the_median_and_the_extremes(values, words):
    assert results.ranged(values, unit="×") == words


@pytest.mark.full
def test_a_result_file_names_its_command_and_its_machine(tmp_path):
    script = tmp_path / "measuring.py"
    script.write_text(
        "from pathlib import Path\nfrom mars_demo.evaluation import results\n"
        "results.write(Path('found/it.json'), results.machine(), {'rows': [1]})\n"
    )
    run = [sys.executable, "-m", "measuring", "--name", "two words"]
    project = str(Path(results.__file__).parents[2])
    env = os.environ | {"PYTHONPATH": project, "OMP_NUM_THREADS": "1"}
    subprocess.run(run, cwd=tmp_path, env=env, check=True)
    found = json.loads((tmp_path / "found" / "it.json").read_text())
    assert found["command"] == "python -m measuring --name 'two words'"
    assert found["machine"].startswith("1 CPU thread, ")
    assert found["rows"] == [1]
