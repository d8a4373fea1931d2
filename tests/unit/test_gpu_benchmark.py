"""The GPU benchmark with tiny shapes on a CPU."""

import json

from benchmarks import gpu


def test_tiny_shapes_run_on_a_cpu(tmp_path):
    output = tmp_path / "gpu.json"
    gpu.measure(tiny=True, output=output)
    measured = json.loads(output.read_text())
    [row] = measured["rows"]
    assert row["model"] == "tiny" and [*row["costs"]] == ["1", "2", "4", "8", "16"]
    shown = gpu.table(output)
    assert "tiny" in shown and "c(16), ms" in shown and "nan" not in shown
