"""The GPU benchmark with tiny shapes on a CPU."""

import json

from benchmarks import gpu


def test_tiny_shapes_run_on_a_cpu(tmp_path):
    output = tmp_path / "gpu.json"
    gpu.measure(tiny=True, output=output)
    measured = json.loads(output.read_text())
    costs = {row["decoding"]: [*row["costs"]] for row in measured["rows"]}
    assert costs == {way: ["1", "2", "4", "8", "16"] for way in ("without graphs", "graphs")}
    shown = gpu.table(output)
    assert "graphs" in shown and "c(16), ms" in shown and "nan" not in shown
