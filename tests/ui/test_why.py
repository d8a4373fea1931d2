"""The panel "Why this speed?" in a real browser; the right figures are computed here, from the records."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from xml.etree import ElementTree

import gradio as gr
import pytest
from playwright.sync_api import Page, expect
from records import file_of, run

from mars_demo.decoding.costs import Costs
from mars_demo.decoding.pace import tokens_per_ms
from mars_demo.decoding.trace import Run
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.racing import record

LEGIBLE = (Path(__file__).parent / "legible.js").read_text("utf-8")
CHEAP = Costs(((1, 10.0), (2, 10.4), (4, 11.0), (8, 13.0), (16, 18.0)))
DEAR = Costs(((1, 10.0), (2, 19.0), (4, 36.0), (8, 70.0)))
WORDS = [f"word{n}" for n in range(60)]
PREFILL = 30.0  # ms
WINDOW = 4
ACCEPTED = [2, 4, 3, 4, 4, 1, 4, 4]  # of slots whose scores fall from 0.99 by 0.1; the last is full


def timed(made: Run, ms: Callable[[int], float], **settings) -> Run:
    """The run with the positions that its forwards have, and what they take."""
    steps, new = [], 40
    for step in made.passes:
        positions = new + len(step.slots) - 1
        steps.append(replace(step, positions=positions, ms=PREFILL if new == 40 else ms(positions)))
        new = step.accepted
    return Run(replace(made.settings, **settings), iter(steps)).finish()


def mars(costs: Costs, accepted=ACCEPTED, slower: float = 1.0, known: bool = True) -> Run:
    made = run("mars", accepted, [0.6] * len(accepted), words=WORDS, window=WINDOW)
    points = [list(point) for point in costs.points] if known else None
    return timed(made, lambda k: slower * costs(k), costs=points)


def ar(tokens: int, ms: float = 10.0) -> Run:
    return timed(run("ar", [1] * tokens, words=WORDS), lambda _: ms)


def cut(accepted: list[int], window: int, costs: Callable[[int], float]) -> float:
    """The speed-up of a window, from what would have been accepted of it."""
    kept = [min(count, window) for count in accepted]
    return fmean(kept) / fmean(costs(count + window - 1) for count in kept) * costs(1)


def written(factor: float) -> str:
    return f"{factor:.{2 if factor < 1.95 else 1}f}"


def sentences(page: Page) -> list[str]:
    return [text.replace("\u00a0", " ") for text in page.locator(".reasons p").all_text_contents()]


@pytest.fixture
def look(visit, stage_url):
    """Open the stage with these runs on it."""

    def open_stage(*runs: Run, query: str = "", file: str | None = None, **options) -> Page:
        page = visit(query, stage_url, **options)
        expect(page.locator(".token").first).to_be_attached()
        text = (file or file_of(*runs)).encode()
        page.locator(".file").set_input_files(
            {"name": "run.jsonl", "mimeType": "application/x-ndjson", "buffer": text}
        )
        expect(page.locator(".prompt")).to_have_text("Say it")
        expect(page.locator(".why")).to_be_visible()
        return page

    return open_stage


# ------------------------------------------------------------------------------------ predictions


def predicted(single: Run, costs: Callable[[int], float]) -> tuple[float, float, float]:
    """Mean positions of the forwards after the prefill, their relative cost, and the speed-up."""
    sizes = [step.positions for step in single.passes[1:]]
    ratio = fmean(map(costs, sizes)) / costs(1)
    return fmean(sizes), ratio, single.tokens_per_forward / ratio


def test_the_speed_up_is_tokens_per_forward_divided_by_what_a_forward_costs(look):
    baseline, single = ar(30), mars(CHEAP, slower=1.1)
    size, ratio, factor = predicted(single, CHEAP)
    measured = (single.tokens / single.seconds) / (baseline.tokens / baseline.seconds)
    page = look(baseline, single)
    first, second, _ = sentences(page)
    assert first == (
        f"{single.tokens_per_forward:.2f} tokens per forward, but a forward of {size:.1f} positions on "
        f"average takes {ratio:.2f} times as long as one of 1: "
        f"{single.tokens_per_forward:.2f} ÷ {ratio:.2f} = {written(factor)}."
    )
    assert second == (
        f"Predicted: {written(factor)}× as fast as one token at a time. "
        f"Measured: {written(measured)}×, which also counts the prefill of both sides."
    )
    expect(page.locator(".verdict")).to_contain_text(f"{measured:.1f}× as fast")


def test_where_one_token_at_a_time_wins_it_says_so(look):
    accepted = [1, 2, 1, 1, 2, 1, 4]
    baseline, single = ar(12), mars(DEAR, accepted)
    size, ratio, factor = predicted(single, DEAR)
    assert factor < 1
    first, second, third = sentences(look(baseline, single))
    assert first == (
        f"One token at a time wins here: {single.tokens_per_forward:.2f} tokens per forward, and a forward "
        f"of {size:.1f} positions on average takes {ratio:.2f} times as long as one of 1: "
        f"{single.tokens_per_forward:.2f} ÷ {ratio:.2f} = {factor:.2f}."
    )
    assert f"Predicted: {factor:.2f}×" in second
    assert max(range(1, 5), key=lambda window: cut(accepted, window, DEAR)) == 1
    assert (
        third == "Best window here: 1 slot, which is one token at a time (estimated from this run's slots)."
    )


def test_without_costs_the_medians_of_the_race_take_their_place(look):
    baseline, single = ar(26, ms=8.0), mars(CHEAP, known=False)
    times = {}
    for step in single.passes[1:]:
        times.setdefault(step.positions, []).append(step.ms)
    medians = {k: median(found) for k, found in times.items()} | {1: 8.0}
    size, ratio, factor = predicted(single, medians.__getitem__)
    page = look(baseline, single)
    first, second, _ = sentences(page)
    assert f"takes {ratio:.2f} times" in first and f"= {written(factor)}." in first
    assert second.startswith(f"Predicted: {written(factor)}×")
    expect(page.locator(".cost .curve.between")).to_have_count(1)
    expect(page.locator(".cost-legend")).to_contain_text("between the medians")
    expect(page.locator(".cost .one")).to_have_count(1)


def test_medians_in_the_wrong_order_become_the_nearest_rising_curve(look):
    """The isotonic regression of `Costs.of`: here a forward of 5 positions took longer than one of 7."""
    odd = {4: 14.0, 5: 20.0, 6: 17.0, 7: 16.0}
    single = timed(run("mars", ACCEPTED, [0.6] * 8, words=WORDS, window=WINDOW), odd.__getitem__)
    assert {step.positions for step in single.passes[1:]} == set(odd)
    ratio = predicted(single, Costs.of(odd | {1: 10.0}))[1]
    assert f"takes {ratio:.2f} times" in sentences(look(ar(26), single))[0]


def test_a_run_alone_says_what_is_missing(look):
    page = look(mars(CHEAP, known=False))
    [sentence] = sentences(page)
    assert "neither what forwards cost here nor a side with one token per forward" in sentence
    expect(page.locator(".estimates")).to_be_hidden()
    expect(page.locator(".cost .used")).not_to_have_count(0)
    first, second, third = sentences(look(mars(CHEAP)))
    assert second.endswith("There is no side with one token per forward to measure it against.")
    assert third.startswith("Best window here:")


def test_costs_that_are_none_are_not_used(look):
    text = file_of(mars(CHEAP))
    for wrong in ("[]", "[[1, 2]]", "[[0, 5], [1, 6]]", "[[2, 5], [1, 6]]", "[[1, 6], [2, 5]]"):
        page = look(file=re.sub(r'"costs": \[\[.*?\]\]', f'"costs": {wrong}', text))
        assert "neither what forwards cost" in sentences(page)[0]
        expect(page.locator(".trouble")).to_be_hidden()


def test_the_baseline_and_a_prefill_alone_have_sentences_of_their_own(look):
    page = look(ar(30), mars(CHEAP))
    page.locator('.lane[data-lane="ar"] .name').click()
    expect(page.locator(".why-whose")).to_have_text("One token per forward")
    assert sentences(page) == [
        "Each forward computes 1 position and gives one token: 10.0 ms, the median. "
        "The other sides are compared with this one."
    ]
    assert sentences(look(mars(CHEAP, [4]))) == [
        "The whole answer came with the first forward, the prefill."
    ]


def test_nothing_is_measured_in_a_race_that_was_stopped(look):
    lines = file_of(ar(30), mars(CHEAP)).replace('"stop": "eos"', '"stop": null').splitlines()
    stopped = [
        line.replace('"stop": null', '"stop": "stopped"') if "done" in line else line for line in lines
    ]
    page = look(file="\n".join(stopped))
    assert sentences(page)[1].endswith("Nothing was measured: the race was stopped.")


# ------------------------------------------------------------------------------- windows and slots


def test_the_best_window_is_estimated_as_the_pace_of_the_decoder_would(look):
    accepted = [2, 1, 2, 2, 1, 3, 2, 2, 1, 2, 2, 4]
    steep = Costs(((1, 10.0), (3, 11.0), (4, 17.0), (16, 90.0)))
    factors = {window: cut(accepted, window, steep) for window in range(1, WINDOW + 1)}
    chances = [sum(count > i for count in accepted) / len(accepted) for i in range(WINDOW)]
    tables = [steep(max(k, 1)) for k in range(20)]
    for window, factor in factors.items():  # the figure of this test is the decoder's own
        assert tokens_per_ms(chances, window - 1, tables) * steep(1) == pytest.approx(factor)
    best = max(factors, key=factors.get)
    assert 1 < best < WINDOW
    page = look(ar(24), mars(steep, accepted))
    assert sentences(page)[-1] == (
        f"Best window here: {best} slots, {written(factors[best])}×; with 4 it would be "
        f"{written(factors[4])}× (estimated from this run's slots)."
    )
    expect(page.locator(".estimates .own th")).to_have_text("0.60")
    expect(page.locator(".estimates .own td")).to_have_text([f"{best} slots", f"{written(factors[best])}×"])


def test_a_narrower_window_says_nothing_of_the_slots_it_did_not_have(look):
    """A forward with two slots does not count where it is asked how often slot 3 was accepted."""
    wide, narrow = mars(CHEAP, [3, 3, 2, 2, 4]).passes, mars(CHEAP).settings
    steps = [step if n != 3 else replace(step, slots=step.slots[:2]) for n, step in enumerate(wide)]
    page = look(Run(narrow, iter(steps)).finish())
    expect(page.locator(".by-slot .part")).to_have_text(
        ["100% (5 of 5)", "100% (5 of 5)", "75% (3 of 4)", "25% (1 of 4)"]
    )
    chances = [1, 1, 3 / 4, 3 / 4 * 1 / 3]
    tables = [CHEAP(max(k, 1)) for k in range(20)]
    factors = [tokens_per_ms(chances, masks, tables) * CHEAP(1) for masks in range(4)]
    assert f"{written(max(factors))}×" in sentences(page)[-1]


def test_other_thresholds_take_each_forward_alone(look):
    single = mars(CHEAP)
    page = look(ar(26), single)
    rows = page.locator(".estimates tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    assert [row[0] for row in rows] == ["0.50", "0.60", "0.70", "0.80", "0.90", "0.95", "0.99"]
    for name, window, factor in rows:
        if name == "0.60":
            continue
        kept = []
        for step in single.passes:
            scores = [slot.score for slot in step.slots]
            count = next((k for k in range(1, 4) if scores[k] < float(name)), 4)
            kept.append(min(count, step.accepted) if step.stop else count)
        best = max(range(1, 5), key=lambda size: cut(kept, size, CHEAP))
        assert (window, factor) == (f"{best} slot{'s' * (best > 1)}", f"{written(cut(kept, best, CHEAP))}×")
    expect(page.locator(".estimates-words")).to_contain_text("A lower τ also changes the answer.")


def test_what_comes_after_the_end_was_not_decided(look):
    page = look(mars(CHEAP, [1, 2, 2]))
    expect(page.locator(".by-slot .part")).to_have_text(
        ["100% (3 of 3)", "67% (2 of 3)", "0% (0 of 2)", "0% (0 of 2)"]
    )


def test_where_drafts_are_verified_the_slots_are_those_that_were(look):
    """Forward 2 verifies three drafts of which two hold, forward 3 one that holds."""
    page = look(ar(7), run("lossless", [1, 3, 3]))
    expect(page.locator(".by-slot .part")).to_have_text(
        ["100% (3 of 3)", "100% (2 of 2)", "100% (2 of 2)", "0% (0 of 1)"]
    )
    expect(page.locator(".estimates")).to_be_hidden()


# --------------------------------------------------------------------------------- the pictures


def test_the_curve_shows_the_costs_and_the_windows_that_were_used(look):
    single = mars(CHEAP)
    sizes = {}
    for step in single.passes[1:]:
        sizes[step.positions] = sizes.get(step.positions, 0) + 1
    page = look(ar(26), single)
    svg = page.locator(".cost svg")
    expect(svg.locator(".used")).to_have_count(len(sizes))
    assert svg.locator(".count").all_text_contents() == [f"×{sizes[size]}" for size in sorted(sizes)]
    assert (
        len(svg.locator(".curve").get_attribute("points").split()) == 4
    )  # to 8, the first after the largest
    name = svg.get_attribute("aria-label")
    assert "Cost of a forward: 1 position 10.0 ms, 2 positions 10.4 ms" in name
    for size, count in sizes.items():
        assert f"{size} positions: {count} forward{'s' * (count > 1)}, median {CHEAP(size):.1f} ms" in name
    assert "One token per forward: median 10.0 ms" in name
    dots = {
        int(dot["title"].split()[0]): (dot["x"], dot["y"])
        for dot in svg.locator(".used").evaluate_all(
            "dots => dots.map(dot => ({title: dot.textContent, x: +dot.getAttribute('cx'), "
            "y: +dot.getAttribute('cy')}))"
        )
    }
    points = [
        tuple(map(float, p.split(","))) for p in svg.locator(".curve").get_attribute("points").split()
    ]
    place = dict(zip((1, 2, 4, 8), points))
    for size, (x, y) in dots.items():  # what a forward took is on the line
        low, high = max(k for k in place if k <= size), min(k for k in place if k >= size)
        share = 0 if high == low else (size - low) / (high - low)
        for axis, value in enumerate((x, y)):
            assert value == pytest.approx(place[low][axis] + share * (place[high][axis] - place[low][axis]))


def test_time_is_split_where_the_record_tells_its_parts(look):
    single = mars(CHEAP)
    page = look(single)
    expect(page.locator(".times .row-name")).to_have_text(["prefill", "other forwards"])
    expect(page.locator(".times-words")).to_contain_text("The clock counts forwards only")
    expect(page.locator(".times-words")).to_contain_text("does not say what went into the model")
    steps = [replace(step, model_ms=0.7 * step.ms, read_ms=0.2 * step.ms) for step in single.passes]
    others = sum(step.ms for step in steps[1:])
    page = look(Run(single.settings, iter(steps)).finish())
    expect(page.locator(".times .row-name")).to_have_text(
        ["prefill", "model", "reading logits", "recording"]
    )
    parts = (PREFILL, 0.7 * others, 0.2 * others, 0.1 * others)
    expect(page.locator(".times .part")).to_have_text(
        [f"{100 * ms / (PREFILL + others):.0f}% ({ms:.0f} ms)" for ms in parts]
    )
    expect(page.locator(".times-words")).not_to_contain_text("does not say")


def test_the_panel_waits_for_the_end_of_a_race(visit):
    runs = {"ar": ar(10), "mars": mars(CHEAP, [1, 3, 2, 4])}
    again = {name: Run(single.settings, iter(single.passes)) for name, single in runs.items()}
    lines = list(record(again, lambda: False))
    with gr.Blocks() as demo:
        stage = Stage("".join(lines[:5]))
        gr.Button("on").click(lambda: "".join(lines), None, stage, show_progress="hidden")
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    page = visit(address=address)
    expect(page.locator(".token").first).to_be_visible()
    expect(page.locator(".why")).to_be_hidden()
    page.get_by_role("button", name="on", exact=True).click()
    expect(page.locator(".why")).to_be_visible()
    expect(page.locator(".why-whose")).to_have_text("MARS")
    demo.close()


def test_pictures_hold_the_panel(look):
    page = look(ar(30), mars(CHEAP))
    with page.expect_download() as download:
        page.locator('[data-do="svg"]').click()
    picture = ElementTree.fromstring(download.value.path().read_text("utf-8"))
    texts = [node.text or "" for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert any("Why this speed?" in text for text in texts)
    assert "positions of a forward" in texts
    height = float(picture.get("viewBox").split()[3])
    assert max(float(node.get("y")) for node in picture.iter("{http://www.w3.org/2000/svg}text")) < height


@pytest.mark.parametrize("query", ["__theme=light", "__theme=dark", "__theme=dark&view=talk"])
@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_it_can_be_read_anywhere_and_pushes_nothing_away(look, query, size):
    page = look(ar(30), mars(CHEAP), query=query, viewport={"width": size[0], "height": size[1]})
    legible = page.evaluate(LEGIBLE)
    assert (legible["texts"], legible["marks"]) == ([], [])
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    above, panel = page.locator(".closeup").bounding_box(), page.locator(".why").bounding_box()
    assert panel["y"] >= above["y"] + above["height"]
    lettering = page.locator(".why svg text").evaluate_all(
        "texts => texts.map(text => text.getBoundingClientRect()).map(({height}) => height)"
    )
    assert min(lettering) > (20 if "talk" in query and size[0] > 640 else 11)
