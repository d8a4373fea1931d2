"""What the benchmark of the endpoint measures, and what the documents and the simulation make of it."""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from web import serving

from benchmarks import replicas, report
from benchmarks import serving as benchmark
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.models.pool import Pool
from mars_demo.serving.servers import Servers

PROMPTS = benchmark.questions("mars-tiny", 12)[:12]


@pytest.fixture(scope="module")
def measured():
    """Of a load too short to say anything."""
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(Servers(Pool(["mars-tiny"], device="cpu"), 4)) as address,
        ThreadPoolExecutor(1) as beside,
    ):
        patch.setattr(benchmark, "AT_ONCE", (1, 4))
        work = benchmark.loads(f"{address}/v1", "mars-tiny", PROMPTS, 0.3)
        return beside.submit(asyncio.run, work).result()


def test_both_ways_give_the_same_answers(mars_tiny):
    request = Request(max_new_tokens=20)
    turns, first = benchmark.in_turns(mars_tiny, PROMPTS[:3], request)
    shared, also_first = benchmark.shared(mars_tiny, PROMPTS[:3], request)
    assert turns == shared > 3 and len(first) == len(also_first) == 3


def test_loads_are_counted_as_the_clients_see_them(measured):
    one, four = measured["closed"]
    assert (one["clients"], four["clients"]) == (1, 4)
    for row in (one, four, measured["open"]):
        assert row["requests"] >= 1 and row["tokens_per_forward"] > 1
        assert 0 < row["first_token"]["p50"] <= row["latency"]["p95"]
    assert len(measured["service"]) == one["requests"]
    assert all(0 < first <= latency for first, latency in measured["service"])


def test_the_documents_and_the_simulation_read_its_file(measured, monkeypatch, tmp_path, mars_tiny, capsys):
    monkeypatch.setattr(benchmark, "AT_ONCE", (1, 2))
    found = {"model": "mars-tiny", "precision": {"in turns": "float32", "shared": "float32"}} | measured
    found |= {"together": list(benchmark.together(mars_tiny, PROMPTS, 1))}
    known = {"size": 4, "seconds": 0.3, "max_new_tokens": 48, "rounds": 1}
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    assert report.serving().startswith("Not measured yet; `python -m benchmarks.serving")
    results.write(tmp_path / "serving.json", "a machine", known | {"models": [found]})
    assert report.serving().count("| `mars-tiny` ") == 3
    assert report.sharing().count("| `mars-tiny` ") == 2
    arguments = ["--measured", tmp_path / "serving.json", "--output", tmp_path / "replicas.json"]
    monkeypatch.setattr(sys, "argv", ["replicas", *map(str, arguments), "--visitors", "5", "60"])
    capsys.readouterr()
    replicas.main()
    rows = json.loads((tmp_path / "replicas.json").read_text())["rows"]
    assert [(row["visitors"], row["way"]) for row in rows] == [
        (visitors, way) for visitors in (5, 60) for way in ("common queue", "sticky sessions")
    ]
    assert report.replicas().startswith(capsys.readouterr().out.strip())


def test_the_slowdown_is_that_of_clients_who_all_have_a_place():
    closed = [
        {"clients": clients, "mean_latency": seconds} for clients, seconds in ((1, 2), (4, 5), (8, 40))
    ]
    assert replicas.slowdown({"closed": closed}, size=4) == [1, 1.5, 2, 2.5]
