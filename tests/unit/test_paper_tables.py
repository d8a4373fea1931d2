"""The tables of the paper, and the project's tables from its result files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mars_demo import tasks
from mars_demo.evaluation import paper_tables, results
from mars_demo.evaluation.frontier import AR, Frontier, Setting


def row(seed: int, task: str, accuracy: float, tokens: int = 100, forwards: int = 50, **origin) -> dict:
    """Return a row as benchmarks write it."""
    measured = {"tau": 0.95, "n": 20, "accuracy": accuracy, "tokens_per_forward": tokens / forwards}
    spent = {"tokens": tokens, "forwards": forwards, "seconds": 1.0}
    return {"seed": seed, "task": task} | measured | spent | origin


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Use an empty folder of result files, and return it."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return tmp_path


def write(folder, name: str, content) -> None:
    (folder / name).write_text(json.dumps(content))


def names(table: paper_tables.Table) -> list[str]:
    return table.frame.iloc[:, 0].tolist()


def cell(table: paper_tables.Table, name: str, column: str) -> str:
    return table.frame.loc[names(table).index(name), column]


@pytest.mark.parametrize("number", paper_tables.TITLES)
def test_a_table_without_results_is_none(folder, number):
    assert paper_tables.here(number) is None
    assert paper_tables.our_curves() == {}


def test_methods_are_averaged_over_seeds_and_missing_ones_omitted(folder):
    rows = [
        row(seed, task, accuracy, method=method, decoding=decoding)
        for method, decoding in (
            ("AR SFT", "ar"),
            ("Block diffusion, B = 4", "diffusion τ = 1"),
            ("AR SFT", "jacobi"),
        )
        for seed, accuracy in ((1, 0.8), (2, 1.0))
        for task in ("units", "notes")
    ]
    about = {"command": "python -m benchmarks.paper table", "steps": 300, "limit": 20}
    write(folder, "paper.json", about | {"rows": rows})
    table = paper_tables.here(2)
    assert list(table.frame) == ["model", "average", "units", "notes"]
    assert names(table) == ["AR SFT", "Block diffusion, B = 4, τ = 1"]
    assert table.frame.iloc[0].tolist() == ["AR SFT", "90.0 ± 14.1", "90.0", "90.0"]
    assert "python -m benchmarks.paper table" in table.source
    assert {"300", "20", "2"} <= set(re.findall(r"\d+", table.source))
    jacobi = paper_tables.here(9)
    assert cell(jacobi, "AR SFT, jacobi", "tokens per forward") == "2.00 ± 0.00"
    assert cell(jacobi, "AR SFT, jacobi", "units") == "90.0, 2.00"
    assert paper_tables.here(4) is None


def test_speeds_in_batches_are_ratios_of_seconds_round_by_round(folder):
    def row(method: str, size: int, tokens: int, *seconds: float) -> dict:
        counts = {"forwards": 50, "positions": 200, "waiting": 0.0}
        return {"method": method, "size": size, "tokens": tokens, "seconds": seconds} | counts

    rows = [
        row("AR, continuous", 4, 100, 2.0, 4.0),
        row("MARS", 4, 120, 1.0, 1.0),  # answers differ, so not tokens per second
        row("MARS", 8, 100, 0.5),
    ]
    about = {
        "command": "python -m benchmarks.batches",
        "machine": "mars-tiny, 2 CPU threads",
        "prompts": 48,
    }
    write(folder, "batches.json", about | {"rows": rows})
    table = paper_tables.here(5)
    assert list(table.frame) == ["method", "batch 4", "batch 8"]
    for part in ("python -m benchmarks.batches", "mars-tiny, 2 CPU threads", "48", "2"):
        assert part in table.source
    ar, mars = table.frame.fillna("").values.tolist()
    assert ar == ["AR, continuous", "33.3, 1.00× (1.00–1.00)", ""]
    assert mars == ["MARS", "120.0, 3.00× (2.00–4.00)", "200.0"]


def test_the_curves_of_tau_agree_with_the_tables():
    paper = paper_tables.paper_curves()
    assert [point.tau for point in paper["7B, GSM8K, B = 8"]] == [1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
    assert paper["0.5B, GSM8K, B = 8"][-1] == (0.5, 0.105, 2.75)
    recorded = json.loads((results.FOLDER / "frontier.json").read_text("utf-8"))["sweeps"]
    sweep = Frontier.read(next(one for one in recorded if one["model"] == "mars-tiny"))
    examples = tasks.mixed(40)
    assert sweep.prompts == tuple(example.prompt for example in examples)
    ours, table = paper_tables.our_curves(), paper_tables.here(8)
    for world, name in paper_tables.OUR_CURVES.items():
        assert len(ours[name]) == 8
        for tau, accuracy, tokens_per_forward in ours[name]:
            point = sweep.find(AR if tau == 1 else Setting("mars", "probability", tau))
            chosen = [o for o, e in zip(point.outcomes, examples) if world in ("average", e.task)]
            assert accuracy == pytest.approx(sum(o.right for o in chosen) / len(chosen))
            speed = sum(o.tokens for o in chosen) / sum(o.forwards for o in chosen)
            assert tokens_per_forward == pytest.approx(speed)
            assert cell(table, world, f"τ = {tau:g}") == f"{100 * accuracy:.1f}, {speed:.2f}"


@pytest.mark.full
def test_a_result_file_names_its_command_and_its_machine(tmp_path):
    script = tmp_path / "measuring.py"
    script.write_text(
        "from pathlib import Path\nfrom mars_demo.evaluation import results\n"
        "results.write(Path('results/it.json'), results.machine(), {'rows': [1]})\n"
    )
    run = [sys.executable, "-m", "measuring", "--name", "two words"]
    project = str(Path(results.__file__).parents[2])
    env = os.environ | {"PYTHONPATH": project, "OMP_NUM_THREADS": "1"}
    subprocess.run(run, cwd=tmp_path, env=env, check=True)
    result = json.loads((tmp_path / "results" / "it.json").read_text())
    assert result["command"] == "python -m measuring --name 'two words'"
    assert result["machine"].startswith("1 CPU thread, ")
    assert result["rows"] == [1]
