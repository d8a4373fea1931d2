"""Simulated visitors of the real app get their own answers, and who leaves frees their place; what would be
wrong is found."""

import asyncio
import copy
import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from benchmarks import report
from benchmarks.visitors import crosstalk, crowd, measures
from benchmarks.visitors.app import serving, tracebacks
from benchmarks.visitors.page import Layout, Page, Trouble
from benchmarks.visitors.race import Race, Wish
from benchmarks.visitors.visitor import Venue, Visitor
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results

PROMPT = "Which city is the capital of Latvia?"


@pytest.fixture(scope="module")
def app():
    """The app with the tiny model, where one race runs at a time."""
    with serving("mars-tiny", {"MARS_DEMO_RACES": 1}) as started:
        yield started


def run(coroutine):
    """What a coroutine returns; in a thread, for in this one a browser's loop may be running."""
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, coroutine).result()


def with_client(app, act):
    """Run a coroutine function with connections to the app and its page's layout."""

    async def acted():
        async with httpx.AsyncClient(base_url=app.address, timeout=60) as client:
            return await act(client, await Layout.read(client))

    return run(acted())


# ------------------------------------------------------------------------------------- the real app


def test_a_small_crowd_gets_its_own_answers_without_errors(app, mars_tiny):
    found = run(crowd.visit(app, mars_tiny, visitors=4, seconds=5.0, seed=1, browsers=1))
    assert found["races"] >= 4 and found["burst"]["visitors"] == 4
    assert found["streams"] >= 8  # AR and another one of each
    assert (found["crosstalk"], found["errors"]) == ([], [])
    assert found["burst"]["first_token"]["p95"] > 0 and found["ms_per_token"]["p50"] > 0
    assert found["memory"]["end"] > 100
    [browser] = found["browsers"]
    assert browser["races"] > 0 and browser["errors"] == []


def test_a_visitor_who_leaves_frees_the_place_within_seconds(app):
    """The one who leaves was in slow motion; their race would have taken minutes."""

    async def act(client, layout):
        slow, next_one = Page(client, layout), Page(client, layout)
        for page in (slow, next_one):
            await page.open()
            page.put("prompt", PROMPT)
        slow.put("wait", 1000)
        running, waiting = Race(Wish(PROMPT, (), 1.0)), Race(Wish(PROMPT, (), 1.0))
        first = asyncio.create_task(slow.fire("run", "click", running.watch))
        while running.first is None:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(next_one.fire("run", "click", waiting.watch))
        assert not (await asyncio.wait([second], timeout=1.5))[0] and waiting.first is None
        first.cancel()
        await slow.leave()
        left = time.monotonic()
        await asyncio.wait_for(second, 60)
        await next_one.leave()
        return waiting.first - left

    assert with_client(app, act) < 5


def test_tau_that_a_visitor_moves_reaches_the_race_that_runs(app):
    async def act(client, layout):
        modes = ("mars",)
        venue = Venue(client, layout, "mars-tiny", modes, until=0.0)
        visitor = Visitor(venue, 1)
        await visitor.arrive()
        visitor._page.put("wait", 50)  # so that the race outlasts the way of the slider's event
        await visitor.race(Wish(PROMPT, modes, 1.0, moves=((6, 0.6),)))
        await visitor._page.leave()
        return visitor.races[0]

    race = with_client(app, act)
    taus = race.lanes["mars"].taus
    assert race.trouble is None
    assert taus[0] == 1.0 and taus[-1] == 0.6 and taus == sorted(taus, reverse=True)


def test_what_the_page_would_show_as_an_error_is_trouble(app):
    async def act(client, layout):
        page = Page(client, layout)
        await page.open()
        page.put("prompt", "  ")
        try:
            await page.fire("run", "click")
        finally:
            await page.leave()

    with pytest.raises(Trouble, match="The prompt is empty"):
        with_client(app, act)


# ----------------------------------------------------------------------------- what is checked and how


def record(run, lane: str) -> str:
    """A run as the stage has it, each line with its lane."""
    return "".join(f'{{"lane": "{lane}", {line[1:]}\n' for line in run.lines())


@pytest.fixture(scope="module")
def raced(mars_tiny):
    """A race as it comes to a visitor, τ moved in its middle."""
    tau, runs = [0.6], {}
    for mode in ("ar", "mars"):
        runs[mode] = decode(mars_tiny, PROMPT, Request(mode, lambda: tau[0]))
        for step in runs[mode]:
            tau[0] = 0.6 if step.number < 3 else 1.0
    race = Race(Wish(PROMPT, ("mars",), 0.6))
    text = "".join(record(run, mode) for mode, run in runs.items())
    half = len(text) // 2  # in the middle of a line
    race.watch({"msg": "process_generating", "values": {"stage": text[:half]}})
    race.watch({"msg": "process_generating", "values": {"stage": text}})
    race.end()
    assert race.finished
    assert {mode: lane.tokens for mode, lane in race.lanes.items()} == {
        m: r.tokens for m, r in runs.items()
    }
    return race


def test_a_stream_that_is_its_own_passes(raced, mars_tiny):
    found = crosstalk.check(raced, mars_tiny)
    assert (found.streams, found.ties, found.complaints) == (2, 0, [])


def test_one_that_was_left_passes_as_far_as_it_came(raced, mars_tiny):
    race = copy.deepcopy(raced)
    for lane in race.lanes.values():
        lane.taus, lane.ids, lane.stop = lane.taus[:2], lane.ids[:2], None
    assert crosstalk.check(race, mars_tiny).complaints == []


def test_a_foreign_token_is_found(raced, mars_tiny):
    race = copy.deepcopy(raced)
    race.lanes["mars"].ids[1][0] += 1
    [complaint] = crosstalk.check(race, mars_tiny).complaints
    assert complaint.startswith(f"mars of {PROMPT!r}") and "instead of" in complaint


def test_the_tokens_of_another_tau_are_found(raced, mars_tiny):
    race = copy.deepcopy(raced)
    lane = race.lanes["mars"]
    lane.taus = [1.0] * len(lane.taus)
    [complaint] = crosstalk.check(race, mars_tiny).complaints
    assert complaint.startswith("mars of")


def test_a_foreign_prompt_mode_lane_or_conversation_is_found(raced, mars_tiny):
    def complaints(change) -> list[str]:
        race = copy.deepcopy(raced)
        change(race)
        return crosstalk.check(race, mars_tiny).complaints

    def ask_something_else(race):
        race.wish = Wish("Something else", ("mars",), 0.6)

    assert len(complaints(ask_something_else)) == 2
    assert complaints(lambda race: race.lanes["ar"].settings.update(mode="mars"))
    assert complaints(lambda race: race.lanes.pop("ar"))
    said = [{"role": "user", "content": "A secret"}]
    assert "A secret" in complaints(lambda race: race.lanes["ar"].settings.update(messages=said))[0]


def test_a_run_that_comes_to_two_visitors_is_found(raced, mars_tiny):
    seats = [Visitor(Venue(None, None, "mars-tiny", ("mars",), 0.0), number) for number in range(2)]
    for seat in seats:
        seat.races.append(raced)
    found = crowd._checked(seats, mars_tiny)
    assert len(found["crosstalk"]) == 2 and "came to two visitors" in found["crosstalk"][0]


def test_only_where_two_choices_are_close_a_difference_is_a_tie(raced, mars_tiny):
    lane = copy.deepcopy(raced.lanes["mars"])
    alone = crosstalk.answered_alone(lane, mars_tiny)
    number = next(n for n, step in enumerate(alone) if step.accepted > 1)
    lane.ids[number] = lane.ids[number][:-1]  # one fewer was accepted
    border = alone[number].slots[len(lane.ids[number])]
    lane.taus[number] = border.score + 0.0005
    assert crosstalk.is_tie(lane, alone, close=0.001)
    lane.taus[number] = border.score - 0.1
    assert not crosstalk.is_tie(lane, alone, close=0.001)


@pytest.mark.parametrize("line", ["{", "[]", '{"lane": "ar"}', '{"lane": "x", "pass": 1}'])
def test_a_line_that_is_no_record_is_trouble(line):
    with pytest.raises(Trouble, match="no line of a record"):
        Race(Wish(PROMPT, (), 1.0)).watch({"msg": "process_generating", "values": {"stage": f"{line}\n"}})


def test_a_record_that_shrinks_or_starts_again_is_trouble(raced):
    line = json.dumps({"lane": "ar", "run": "1"}) + "\n"
    race = Race(Wish(PROMPT, (), 1.0))
    race.grow(line)
    with pytest.raises(Trouble, match="shorter"):
        race.grow("")
    with pytest.raises(Trouble, match="second run"):
        race.grow(line + line)


def test_a_race_that_ends_without_its_answer_is_trouble():
    race = Race(Wish(PROMPT, (), 1.0))
    race.end()
    assert race.trouble and not race.finished


def test_tracebacks_are_found_in_a_log():
    log = "Running\nTraceback (most recent call last):\n  File x\nKeyError: 'a'\nfine\n"
    cut = "Traceback (most recent call last):\n  File y\n"
    assert tracebacks("Running\n") == []
    assert tracebacks(log + cut) == ["KeyError: 'a'", "a traceback that is cut"]


# ----------------------------------------------------------------------------------------- figures


def made(pressed: float, first: float, ended: float, tokens: int) -> Race:
    """A race of one lane, which had two tokens in its first forward."""
    race = Race(Wish(PROMPT, (), 1.0))
    race.grow(json.dumps({"lane": "ar", "run": "1"}) + "\n")
    lane = race.lanes["ar"]
    lane.ids, lane.first, lane.last, lane.stop = [[1, 1], [1] * (tokens - 2)], first, ended, "eos"
    race.pressed, race.first, race.ended = pressed, first, ended
    return race


def test_figures_are_those_worked_out_by_hand():
    races = [made(0.0, 1.0, 3.0, 6), made(0.5, 1.0, 5.0, 10), made(1.0, 0.0, 0.0, 2)]
    races[2].first = races[2].ended = None  # left while it waited
    races[2].left, races[2].lanes = True, {}
    found = measures.measured(races, begun=0.0, over=8.0)
    assert (found["races"], found["finished"], found["left"]) == (3, 2, 1)
    assert found["first_token"] == {"p50": 0.5, "p95": 1.0}
    assert found["ms_per_token"] == {"p50": 500.0, "p95": 500.0}
    assert found["race_seconds"] == {"p50": 3.0, "p95": 4.5}
    assert found["tokens_per_second"] == 2.0
    first = measures.burst(races)
    assert (first["all_first_tokens"], first["all_answers"], first["mean_race_seconds"]) == (1.0, 5.0, 3.75)
    assert first["tokens_per_second"] == 16 / 5


def test_without_a_single_token_there_are_figures_too():
    race = Race(Wish(PROMPT, (), 1.0))
    assert measures.measured([race], 0.0, 1.0)["first_token"] is None
    assert measures.burst([race])["all_answers"] is None


def test_who_was_overtaken_by_how_many():
    assert measures.overtaken([1.0, 2.0, 3.0]) == [0, 0, 0]
    assert measures.overtaken([3.0, 1.0, 2.0]) == [2, 0, 0]


def test_memory_is_compared_with_what_it_was_after_five_minutes():
    short = measures.memory([(0.0, 100.0), (10.0, 150.0)])
    assert (short["start"], short["most"], short["growth"]) == (100.0, 150.0, None)
    samples = [(float(at), 100.0 if at < 300 else 200.0 if at < 900 else 210.0) for at in range(1000)]
    long = measures.memory(samples)
    assert (long["settled"], long["end"]) == (200.0, 210.0)
    assert long["growth"] == pytest.approx(0.05)


def test_the_documents_show_what_has_been_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    assert report.visitors() == "Not measured yet."
    races = [made(0.0, 1.0, 3.0, 6), made(0.5, 1.0, 5.0, 10)]
    browser = {"races": 1, "errors": [], "longest_task_racing": 61}
    row = {"limit": 16, "visitors": 2, "visits": 3} | measures.measured(races, 0.0, 8.0)
    row |= {
        "burst": measures.burst(races),
        "memory": measures.memory([(float(s), 500.0) for s in range(400)]),
    }
    row |= {"streams": 4, "ties": 1, "crosstalk": ["one"], "errors": [], "browsers": [browser]}
    for name in ("tiny", "chat", "soak", "races"):
        results.write(tmp_path / f"visitors-{name}.json", "a machine", {"model": "m", "rows": [row]})
    shown = report.visitors()
    cells = ["2", "2", "0.50, 1.00", "0.50, 1.00", "3.00, 4.50", "500, 500", "2", "500", "1 of 4", "0"]
    assert cells in [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines()]
    assert "longest task of a page took 61 ms" in shown
    assert "500 MiB after five minutes, 500 MiB at the end (+0.0%)" in shown
    assert "| 5.0 " in shown and "1 streams left their answer" in shown
