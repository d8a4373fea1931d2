"""The GPU benchmark with tiny shapes on a CPU."""

import json

import pytest

from benchmarks import gpu
from mars_demo.evaluation import results


def test_every_part_runs_on_a_cpu(tmp_path):
    output = tmp_path / "gpu.json"
    gpu.measure(smoke=False, tiny=True, output=output)
    measured = json.loads(output.read_text())
    assert [row["decoding"] for row in measured["decoding"]] == [
        "without graphs", "graphs", "graphs, cuDNN", "graphs, compiled"
    ]  # fmt: skip
    assert {tuple(row["costs"]) for row in measured["decoding"]} == {("1", "2", "4", "8", "16"), ("1",)}
    assert [row["attention"] for row in measured["training"]] == [gpu.FLEX, gpu.SDPA, gpu.CUDNN]
    for row in measured["equality"]:
        assert row["difference"] < 1e-4 and row["agreement"] == 1 and row["shapes"] == 3
    shown = gpu.table(output)
    assert "graphs, compiled" in shown and "nan" not in shown


def test_tiny_shapes_never_replace_the_figures_of_a_gpu():
    with pytest.raises(SystemExit, match="--output"):
        gpu.measure(smoke=False, tiny=True, output=results.FOLDER / gpu.FILE)
    assert gpu.table("missing.json").startswith("Not measured yet")
