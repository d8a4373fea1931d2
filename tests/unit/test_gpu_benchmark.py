"""The GPU benchmark with tiny shapes on a CPU."""

import json

import pytest

from benchmarks import gpu
from mars_demo.evaluation import results


def test_every_part_runs_on_a_cpu(tmp_path, capsys):
    output = tmp_path / "gpu.json"
    gpu.measure([*gpu.SECONDS], smoke=False, tiny=True, output=output)
    measured = json.loads(output.read_text())
    ways = {part: [row["decoding"] for row in measured[part]["rows"]] for part in ("decoding", "compiled")}
    assert ways == {
        "decoding": ["without graphs", "graphs", "graphs, cuDNN"],
        "compiled": ["graphs, compiled"],
    }
    assert {tuple(row["costs"]) for row in measured["decoding"]["rows"]} == {("1", "2", "4", "8", "16")}
    assert [row["attention"] for row in measured["training"]["rows"]] == [gpu.SDPA]
    for row in measured["equality"]["rows"]:
        is_exact = row["dtype"] == "float32"
        assert row["difference"] < (1e-4 if is_exact else 0.1) and row["shapes"] == 3
        assert row["agreement"] == 1 or not is_exact
    shown, printed = gpu.table(output), capsys.readouterr().out
    assert "graphs, compiled" in shown and "bfloat16" in shown and "nan" not in shown
    for part, seconds in gpu.SECONDS.items():
        assert f"{part}: estimated at {seconds} s" in printed
        assert f"{part}: took {measured[part]['seconds']} s" in printed


def test_an_interrupted_run_keeps_the_finished_parts_and_those_of_earlier_runs(tmp_path, monkeypatch):
    def measured_part(part, *_):
        if part == "training":
            raise KeyboardInterrupt
        return {"rows": []}

    output = tmp_path / "gpu.json"
    earlier = {"decoding": {"rows": ["earlier"]}, "compiled": {"rows": ["earlier"]}}
    results.write(output, "earlier GPU", earlier)
    monkeypatch.setattr(gpu, "measured_part", measured_part)
    with pytest.raises(KeyboardInterrupt):
        gpu.measure(["equality", "compiled", "training"], smoke=False, tiny=True, output=output)
    measured = json.loads(output.read_text())
    rows = {part: measured[part]["rows"] for part in gpu.SECONDS if part in measured}
    assert rows == {"equality": [], "decoding": ["earlier"], "compiled": []}


def test_a_table_has_only_the_measured_parts(tmp_path):
    output = tmp_path / "gpu.json"
    gpu.measure(["equality"], smoke=False, tiny=True, output=output)
    shown = gpu.table(output)
    assert "largest difference" in shown and "c(1)" not in shown and "MARS step" not in shown


def test_tiny_shapes_never_replace_the_figures_of_a_gpu():
    with pytest.raises(SystemExit, match="--output"):
        gpu.measure([*gpu.SECONDS], smoke=False, tiny=True, output=results.FOLDER / gpu.FILE)
    assert gpu.table("missing.json").startswith("Not measured yet")
