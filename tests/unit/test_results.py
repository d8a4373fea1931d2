"""Averages of what was measured."""

import json

import pytest
from measured import row

from mars_demo import results


def test_a_file_that_is_not_there_has_not_been_measured(tmp_path):
    assert results.read("paper.json", tmp_path) is None
    (tmp_path / "paper.json").write_text(json.dumps({"steps": 300}))
    assert results.read("paper.json", tmp_path) == {"steps": 300}


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
