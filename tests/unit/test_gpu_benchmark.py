"""The GPU benchmark with tiny shapes on a CPU."""

import json

import pytest

from benchmarks import gpu
from mars_demo.evaluation import results


def test_tiny_shapes_run_on_a_cpu(tmp_path):
    output = tmp_path / "gpu.json"
    gpu.measure(tiny=True, output=output)
    measured = json.loads(output.read_text())
    costs = {row["decoding"]: [*row["costs"]] for row in measured["decoding"]}
    sizes = ["1", "2", "4", "8", "16"]
    assert costs == {"without graphs": sizes, "graphs": sizes, "graphs, compiled": ["1"]}
    for row in measured["equality"]:
        is_exact = row["dtype"] == "float32"
        assert row["difference"] < (1e-4 if is_exact else 0.1) and row["shapes"] == 3
        assert row["agreement"] == 1 or not is_exact
    shown = gpu.table(output)
    assert "graphs, compiled" in shown and "bfloat16" in shown and "nan" not in shown


def test_tiny_shapes_never_replace_the_figures_of_a_gpu():
    with pytest.raises(SystemExit, match="--output"):
        gpu.measure(tiny=True, output=results.FOLDER / gpu.FILE)
