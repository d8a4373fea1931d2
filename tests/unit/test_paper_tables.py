"""The tables of the paper, and the project's tables from its result files."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import our_tables, paper, report
from mars_demo import tasks
from mars_demo.evaluation import paper_tables, results
from mars_demo.evaluation.frontier import AR, Frontier, Setting
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.quantized import kernel

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("lint", ROOT / ".ci" / "lint.py")
lint = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lint)


def test_methods_are_averaged_over_seeds():
    one = {"method": "Block diffusion, B = 4", "decoding": "diffusion τ = 1", "tokens": 100, "forwards": 50}
    rows = [
        one | {"seed": seed, "task": task, "accuracy": accuracy}
        for seed, accuracy in ((1, 0.8), (2, 1.0))
        for task in ("units", "notes")
    ]
    rows.append(rows[0] | {"method": "AR SFT", "decoding": "ar"})
    methods = [("Block diffusion, B = 4", "diffusion τ = 1")]
    units, notes = our_tables.trained({"rows": rows}, methods)
    assert (units["task"], notes["task"]) == ("units", "notes")
    assert (units["name"], units["seeds"]) == ("Block diffusion, B = 4, τ = 1", 2)
    assert (units["average"], units["average_speed"]) == ("90.0 ± 14.1", "2.00 ± 0.00")
    assert (units["accuracy"], units["tokens_per_forward"]) == (90, 2)


def test_accuracy_changes_here_as_in_the_paper_or_not():
    """The paper's values are differences of its Tables 2, 3 and 4, by hand."""
    _, sft_loss, tau, diffusion = rows = paper.changes(results.read_results("paper.json"))
    assert [row["paper, 7B"] for row in rows] == ["+1.5, +0.5, -0.1", "–", "-1.3, -1.0, -1.4", "–"]
    assert [row["paper, 0.5B"] for row in rows[1:]] == ["-2.0, -3.3, -7.5", "-1.4, -1.1, -1.6", "-5.9"]
    assert (sft_loss["here"], tau["here"], diffusion["here"]) == (
        "-17.5, -27.6, -35.8", "-1.5, -3.1, -5.3", "-42.5",
    )  # fmt: skip


def test_speeds_in_batches_are_ratios_of_seconds_round_by_round():
    def row(method: str, tokens: int, *seconds: float) -> dict:
        return {"method": method, "size": 4, "tokens": tokens, "seconds": seconds}

    rows = [
        row("AR, continuous", 100, 2.0, 4.0),
        row("MARS", 120, 1.0, 1.0),  # answers differ, so not tokens per second
    ]
    speeds = [row["speed"] for row in our_tables.batched({"rows": rows})]
    assert speeds == ["33.3, 1.00× (1.00–1.00)", "120.0, 3.00× (2.00–4.00)"]


def test_the_curves_of_tau_agree_with_the_tables():
    curves = paper_tables.curves()
    taus = [tau for tau, *_ in curves["paper, 7B, GSM8K, B = 8"]]
    assert taus == [1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
    assert curves["paper, 0.5B, GSM8K, B = 8"][-1] == (0.5, 0.105, 2.75)
    sweeps = results.read_results("frontier.json")["sweeps"]
    sweep = Frontier.read(next(one for one in sweeps if one["model"] == "mars-tiny"))
    examples = tasks.mixed(40)
    assert sweep.prompts == tuple(example.prompt for example in examples)
    table = paper_tables.here(8).frame.set_index("mars-tiny, task")
    for task, name in our_tables.CURVES.items():
        ours = curves[f"mars-tiny, {name}"]
        assert len(ours) == 8
        for tau, accuracy, tokens_per_forward in ours:
            point = sweep.find(AR if tau == 1 else Setting("mars", "probability", tau))
            chosen = [o for o, e in zip(point.outcomes, examples) if task in ("average", e.task)]
            assert accuracy == pytest.approx(sum(o.right for o in chosen) / len(chosen), abs=1e-4)
            speed = sum(o.tokens for o in chosen) / sum(o.forwards for o in chosen)
            assert tokens_per_forward == pytest.approx(speed, abs=1e-4)
            assert table.loc[task, f"τ = {tau:g}"] == f"{100 * accuracy:.1f}, {speed:.2f}"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("int8 --prompts 4", None),
        ("int8 --prompts 4 && python -m benchmarks.int8", "&&"),
        ("int8 --prompt 4", "--prompt"),
        ("int8 --prompts all", "all"),
        ("frontier --fresh --models mars-tiny", "--fresh"),
        ("paper --seeds 1 2", "--folder"),
        ("gone", "benchmarks.gone"),
        ("int8 --output /tmp/it.json", "temporary"),
    ],
)
def test_commands_of_result_files_are_checked_by_their_parser(command, problem):
    complaint = lint.rejected(f"python -m benchmarks.{command}")
    assert problem in complaint if problem else complaint is None


def test_a_result_file_names_its_command_its_commit_and_its_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["measuring.py", "--name", "two words"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="benchmarks.measuring"))
    report.save(tmp_path / "results" / "it.json", "a machine", {"rows": [1]})
    saved = json.loads((tmp_path / "results" / "it.json").read_text())
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert head.stdout.startswith(saved.pop("commit").removesuffix("-dirty"))
    command = "python -m benchmarks.measuring --name 'two words'"
    assert saved == {"command": command, "machine": "a machine", "rows": [1]}
    assert re.match(r"\d+ CPU threads?, ", results.machine())


def test_a_machine_is_named_by_the_model_of_its_cpu_and_its_kernel():
    """Cores of one brand differ twofold, and a virtual machine may name the brand alone."""
    machine = results.machine(load_checkpoint("mars-tiny", dtype="int8"))
    cpu = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    for said, name in (("family", "CPU family"), ("model", "Model")):
        number = re.search(rf"^{name}: +(\d+)$", cpu, re.MULTILINE)
        assert not number or f"{said} {number[1]}" in machine
    assert f"int8 ({kernel()} bytes)" in machine
