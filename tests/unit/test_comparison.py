"""The paper's tables as its data say, and ours from whatever has been measured."""

import json

import pytest
from measured import row

from mars_demo import comparison, results


def write(folder, name: str, content) -> None:
    (folder / name).write_text(json.dumps(content))


def cell(table: comparison.Table, name: str, column: str) -> str:
    line = next(row for row in table.rows if row[0] == name)
    return line[table.columns.index(column)]


@pytest.mark.parametrize(
    ("number", "name", "column", "value"),
    [
        (2, "0.5B AR SFT (5 ep)", "average", "28.7"),
        (2, "0.5B MARS, B = 4", "GSM8K", "32.8"),
        (3, "0.5B MARS, B = 16, without SFT loss", "average", "22.2"),
        (4, "7B MARS, B = 16, τ = 0.95", "BBH", "53.8, 3.29"),
        (5, "MARS + block cache of 32", "batch 4", "241.9, 1.71×"),
        (6, "MARS 0.5B B=4 for MARS 7B B=4", "tokens per target forward", "4.07"),
        (8, "7B MARS, B = 8: GSM8K", "τ = 0.5", "47.5, 3.41"),
        (9, "Jacobi (on AR SFT)", "tokens per forward", "1.07"),
    ],
)
def test_the_papers_tables(number, name, column, value):
    table = comparison.paper(number)
    assert cell(table, name, column) == value
    assert f"Table {number}" in table.source
    assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize("number", comparison.TABLES)
def test_what_has_not_been_measured_is_none(tmp_path, number):
    assert comparison.here(number, tmp_path) is None
    assert comparison.our_curves(tmp_path) == {}


@pytest.mark.parametrize("number", comparison.TABLES)
def test_every_file_of_results_fills_its_table(number):
    assert (results.FOLDER / comparison.TABLES[number].file).exists()
    table = comparison.here(number)
    assert table.rows and {len(row) for row in table.rows} == {len(table.columns)}
    assert all(any(cell != "–" for cell in cells) for _, *cells in table.rows)


def test_methods_are_averaged_over_seeds_and_those_that_lack_are_left_out(tmp_path):
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
    write(tmp_path, "paper.json", about | {"rows": rows})
    table = comparison.here(2, tmp_path)
    assert table.columns == ["model", "average", "units", "notes"]
    assert [row[0] for row in table.rows] == ["AR SFT", "Block diffusion, B = 4, τ = 1"]
    assert table.rows[0][1:] == ["90.0 ± 14.1", "90.0", "90.0"]
    for words in ("python -m benchmarks.paper table", "300 steps", "20 held-out prompts", "2 seeds"):
        assert words in table.source
    jacobi = comparison.here(9, tmp_path)
    assert cell(jacobi, "AR SFT, jacobi", "tokens per forward") == "2.00 ± 0.00"
    assert cell(jacobi, "AR SFT, jacobi", "units") == "90.0, 2.00"
    assert comparison.here(4, tmp_path) is None


def test_speeds_in_batches_are_ratios_of_seconds_round_by_round(tmp_path):
    def row(method: str, size: int, tokens: int, *seconds: float) -> dict:
        counts = {"forwards": 50, "positions": 200, "waiting": 0.0}
        return {"method": method, "size": size, "tokens": tokens, "seconds": seconds} | counts

    rows = [
        row("AR, continuous", 4, 100, 2.0, 4.0),
        row("MARS", 4, 120, 1.0, 1.0),  # other answers than AR's, so not the ratio of tokens per second
        row("MARS", 8, 100, 0.5),
    ]
    about = {
        "command": "python -m benchmarks.batches",
        "machine": "mars-tiny, 2 CPU threads",
        "prompts": 48,
    }
    write(tmp_path, "batches.json", about | {"rows": rows})
    table = comparison.here(5, tmp_path)
    assert table.columns == ["method", "batch 4", "batch 8"]
    assert "`python -m benchmarks.batches`, mars-tiny, 2 CPU threads, 48 prompts, 2 rounds" in table.source
    ar, mars = table.rows
    assert ar == ["AR, continuous", "33.3, 1.00× (1.00–1.00)", "–"]
    assert mars == ["MARS", "120.0, 3.00× (2.00–4.00)", "200.0"]


def test_speculative_runs_are_compared_with_ar_that_drafts_for_ar(tmp_path):
    counts = {"accuracy": 0.5, "tokens": 100, "target_forwards": 40, "drafts": 50, "verified": 25}
    measured = [
        ("ar", "ar", None, 0, [3.0]),
        ("ar", "ar", 1.0, 90, [2.0]),
        ("mars", "mars", 0.95, 60, [1.0]),
    ]
    rows = [
        {"draft": draft, "target": target, "tau": tau, "draft_forwards": forwards, "seconds": seconds}
        | counts
        for draft, target, tau, forwards, seconds in measured
    ]
    about = {"command": "python -m benchmarks.speculative", "machine": "2 CPU threads", "prompts": 48}
    write(tmp_path, "speculative.json", about | {"rows": rows})
    table = comparison.here(6, tmp_path)
    names = ["no draft, ar in mode ar", "ar for ar, τ = 1", "mars for mars, τ = 0.95"]
    assert [row[0] for row in table.rows] == names
    assert [cell(table, name, "speedup") for name in names] == ["0.67", "1.00", "2.00"]
    assert cell(table, names[2], "tokens per target forward") == "2.50"


def test_the_curves_of_tau_are_those_of_the_tables():
    paper = comparison.paper_curves()
    assert [point.tau for point in paper["7B, GSM8K, B = 8"]] == [1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
    assert paper["0.5B, GSM8K, B = 8"][-1] == (0.5, 0.105, 2.75)
    measured = json.loads((results.FOLDER / "tiny.json").read_text("utf-8"))["methods"]
    swept = {float(name[4:]): rows for name, rows in measured.items() if name.startswith("τ = ")}
    assert len(swept) > 2
    ours, table = comparison.our_curves(), comparison.here(8)
    for world, name in comparison.WORLDS.items():
        points = {}
        for tau, rows in swept.items():
            chosen = [row for row in rows if world in ("average", row["task"])]
            right = sum(row["accuracy"] * row["n"] for row in chosen) / sum(row["n"] for row in chosen)
            speed = sum(row["tokens"] for row in chosen) / sum(row["forwards"] for row in chosen)
            points[tau] = (right, speed)
            assert cell(table, world, f"τ = {tau:g}") == f"{100 * right:.1f}, {speed:.2f}"
        drawn = {point.tau: (point.accuracy, point.tokens_per_forward) for point in ours[name]}
        assert drawn.keys() == points.keys()
        for tau, point in points.items():
            assert drawn[tau] == pytest.approx(point)
