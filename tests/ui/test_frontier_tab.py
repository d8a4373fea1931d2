"""The Frontier tab in a real browser: recorded points, sweeps that really run, and their answers."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mars_demo.decoding.decode import decode
from mars_demo.evaluation import divergence, results
from mars_demo.evaluation.frontier import Frontier, Setting
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.ui.idle import IDLE, WAITING, stepping
from mars_demo.ui.tabs import frontier as tab

LEGIBLE = (Path(__file__).parent / "legible.js").read_text("utf-8")
COMMAND = "python -m benchmarks.frontier --output assets/results/frontier.json"
LOW = Setting("mars", "margin", 0.3)


@pytest.fixture(scope="module")
def swept(mars_tiny) -> Frontier:
    """A few points, the last of them so bold that answers go wrong."""
    settings = grid(mars_tiny, ["probability", "margin"], [0.9, 0.3])
    return Sweep(mars_tiny, "worlds", 36, settings, size=12).finish()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, swept):
    """Where the tab looks for results."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    record = {"command": COMMAND, "machine": swept.machine, "sweeps": [swept.record()]}
    (tmp_path / "frontier.json").write_text(json.dumps(record))
    return tmp_path


@pytest.fixture
def open_tab(visit):
    def open_it(query: str = "", **options) -> Page:
        page = visit(f"tab=frontier{query}", **options)
        expect(page.locator("#frontier .about")).not_to_have_text("")
        return page

    return open_it


def points(page: Page):
    return page.locator("#frontier .point")


def point(page: Page, setting: Setting):
    tau = "" if setting.tau is None else f", τ {setting.tau:g}"
    return points(page).and_(page.locator(f'[aria-label*="{setting.criterion}{tau}:"]'))


def said(page: Page):
    return page.locator("#frontier-said")


def measure(page: Page, taus: str = "0.9", prompts: int = 8) -> None:
    page.locator("#frontier-limit input[type=range]").fill(f"{prompts}")
    page.locator("#frontier-taus textarea, #frontier-taus input").fill(taus)
    page.locator("#frontier-run").click()


def downloaded(page: Page, kind: str) -> str:
    with page.expect_download() as waiting:
        page.locator(f'#frontier [data-do="{kind}"]').click()
    return waiting.value.path().read_text("utf-8")


# ------------------------------------------------------------------------------ recorded results


def test_recorded_points_are_there_at_once_with_their_source(open_tab, swept):
    page = open_tab()
    expect(points(page)).to_have_count(len(swept.points))
    expect(page.locator("#frontier .about")).to_contain_text(f"Source: {COMMAND}, {swept.machine}")
    expect(page.locator("#frontier .legend")).to_contain_text("MARS, margin, n = 36")
    found = swept.find(LOW)
    low, high = found.accuracy_interval
    wanted = f"{100 * found.accuracy:.1f}% ({100 * low:.1f}–{100 * high:.1f})"
    of_low = page.get_by_role("cell", name=f"{LOW.tau:g}", exact=True)
    row = page.locator("#frontier tbody tr").filter(has_text=LOW.criterion).filter(has=of_low)
    expect(row).to_contain_text(wanted)
    expect(row).to_contain_text(f"{found.tokens_per_forward:.2f}")
    page.get_by_label("answers per second").check()
    expect(page.locator("#frontier .axis-title").first).to_have_text("answers per second")
    expect(points(page)).to_have_count(len(swept.points))


def test_points_lie_where_their_figures_say(open_tab, swept):
    """More tokens per forward are further right, more right answers further up."""
    page = open_tab()
    expect(points(page)).to_have_count(len(swept.points))
    places = page.evaluate(
        """() => [...document.querySelectorAll("#frontier .point")].map((node) => {
          const { x, y } = node.querySelector(".mark").getBoundingClientRect();
          const words = node.getAttribute("aria-label").match(/, ([\\d.]+)[^,]* tokens per forward/);
          return [parseFloat(words[1]), x, y];
        })"""
    )
    assert [x for _, x, _ in sorted(places)] == sorted(x for _, x, _ in places)
    worst = min(swept.points, key=lambda found: found.accuracy)
    assert max(places, key=lambda place: place[2])[0] == round(worst.tokens_per_forward, 2)


def test_the_papers_table_can_be_laid_over_it(open_tab):
    page = open_tab()
    page.get_by_label("the paper's Table 4").check()
    expect(page.locator("#frontier .paper-line .mark")).to_have_count(6 * 2 + 1)  # and the key
    expect(page.locator("#frontier .paper-words")).to_contain_text("other models and other tasks")
    page.get_by_label("answers per second").check()
    expect(page.locator("#frontier .paper-words")).to_contain_text("has no times")
    expect(page.locator("#frontier figure > svg .paper-line")).to_have_count(0)


def test_where_nothing_is_recorded_it_says_so_and_what_would_be(open_tab):
    page = open_tab()
    page.get_by_label("Model").locator("visible=true").click()
    page.get_by_role("option", name="ar-tiny").click()
    expect(page.locator("#frontier .about")).to_contain_text(
        "Nothing is recorded of ar-tiny on these tasks."
    )
    expect(points(page)).to_have_count(0)


# ------------------------------------------------------------------------------- choosing a point


def test_a_point_sets_the_race_and_once_more_lists_its_answers(open_tab, swept):
    page = open_tab()
    point(page, LOW).click()
    expect(page.locator("#frontier .set")).to_have_text(
        "The Race tab is set to MARS, margin, τ 0.3, with mars-tiny."
    )
    expect(page.locator("#frontier .behind")).to_be_hidden()
    point(page, LOW).click()
    found = swept.find(LOW)
    list_ = page.locator("#frontier .which select")
    expect(list_.locator("option")).to_have_text(
        [
            f"wrong ({len(found.wrong)})",
            f"not AR's answer ({sum(one.leaves is not None for one in found.outcomes)})",
            "all (36)",
        ]
    )
    first = found.wrong[0]
    shown = page.locator("#frontier .answer").first
    expect(shown.locator(".prompt")).to_have_text(swept.prompts[first.number])
    expect(shown.locator(".text")).to_have_text(first.text)
    expect(shown).to_contain_text("✗ wrong")
    page.get_by_role("button", name="Open the Race tab").click()
    expect(page.get_by_role("tab", name="Race")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#tau input[type=number]")).to_have_value("0.3")
    expect(page.locator("#mode").get_by_label("MARS: accept")).to_be_checked()
    assert "tab=" not in page.url


def test_an_answer_is_opened_beside_ars_with_the_token_where_it_leaves_it(open_tab, swept, mars_tiny):
    page = open_tab()
    point(page, LOW).click()
    page.get_by_role("button", name="Show the 36 answers").click()
    page.locator("#frontier .which select").select_option("parted")
    outcome = next(one for one in swept.find(LOW).outcomes if one.leaves is not None)
    prompt = swept.prompts[outcome.number]
    answer = page.locator("#frontier .answer").first
    expect(answer).to_contain_text(f"leaves AR's answer at token {outcome.leaves + 1}")
    answer.click()
    expect(page.get_by_role("tab", name="Race")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#stage .prompt")).to_have_text(prompt)
    panel = page.locator("#stage .difference")
    expect(panel.locator("h3")).to_have_text(f"First difference: token {outcome.leaves + 1}")
    expect(page.locator("#prompt textarea")).to_have_value(prompt)

    runs = [decode(mars_tiny, prompt, setting.request(160)).finish() for setting in (Setting("ar"), LOW)]
    found = divergence.between(*runs)
    for place, side in enumerate((found.one, found.other)):
        column = panel.locator(".difference-sides > div").nth(place)
        expect(column).to_contain_text(f"Forward {side.number}, slot {side.slot}")
        expect(column.locator("li")).to_have_count(len(side.candidates))
    expect(panel.locator(".difference-before")).to_contain_text(found.before[-20:].replace("\n", "↵"))


def test_points_are_chosen_with_keys_alone(open_tab, swept):
    page = open_tab()
    expect(points(page)).to_have_count(len(swept.points))
    assert page.locator("#frontier .point[tabindex='0']").count() == 1
    points(page).first.focus()
    page.keyboard.press("ArrowRight")
    expect(points(page).nth(1)).to_be_focused()
    expect(page.locator("#frontier .pointed")).to_contain_text("MARS, probability, τ 0.3")
    page.keyboard.press("ArrowDown")
    expect(points(page).nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#frontier .set")).to_contain_text("MARS, margin, τ 0.9")
    expect(points(page).nth(2)).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#frontier .behind")).to_be_visible()
    row = page.locator("#frontier .take").last
    row.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#frontier .set")).to_contain_text("MARS, lossless")
    expect(row).to_be_focused()


# --------------------------------------------------------------------------------- measuring here


def test_a_sweep_draws_its_points_and_can_be_downloaded(open_tab, swept):
    page = open_tab()
    measure(page, "0.9, 0.5")
    expect(said(page)).to_have_text("Measured: 4 points on 8 prompts, all worlds, in batches of 16.")
    expect(points(page)).to_have_count(4)
    expect(page.locator("#frontier-run")).to_be_enabled()
    found = Frontier.read(json.loads(downloaded(page, "json")))
    assert [one.setting.mode for one in found.points] == ["ar", "lossless", "mars", "mars"]
    assert len(found.prompts) == 8
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "csv"))))
    assert [row["tau"] for row in rows] == ["", "", "0.9", "0.5"]
    assert float(rows[2]["accuracy"]) == found.points[2].accuracy
    page.locator("#frontier .kept select").select_option(label="Recorded: mars-tiny, all worlds")
    expect(points(page)).to_have_count(len(swept.points))


def test_a_race_goes_first_and_the_sweep_goes_on(open_tab, visit, slow):
    page, other = open_tab(), visit("prompt=table&mode=mars")
    measure(page)
    expect(said(page)).to_contain_text("Point 1 of 3")
    other.locator("#run").click()
    expect(other.locator("#stage .verdict")).to_contain_text("Racing")
    expect(said(page)).to_have_text(tab.WAITS)
    expect(other.locator("#stage .verdict")).to_contain_text("as fast as one token at a time")
    expect(said(page)).to_contain_text("Measured: 3 points")


def test_a_second_visitor_is_told_and_one_who_leaves_makes_room(open_tab, slow):
    one, two = open_tab(), open_tab()
    measure(one, prompts=480)
    expect(said(one)).to_contain_text("Point 1 of 3")
    measure(two)
    expect(two.get_by_test_id("toast-body")).to_contain_text("only one sweep runs at a time")
    expect(two.locator("#frontier-run")).to_be_enabled()
    one.close()
    expect(measured_at_last(two)).to_contain_text("Measured: 3 points")


def measured_at_last(page: Page):
    """Ask until the sweep of the visitor who has left has ended."""
    for _ in range(20):
        measure(page)
        expect(page.locator("#frontier-run")).to_be_enabled()
        if "Measured" in said(page).inner_text():
            break
    return said(page)


def test_a_sweep_that_is_stopped_keeps_its_points(open_tab, slow):
    page = open_tab()
    measure(page, "0.9, 0.8, 0.7, 0.6, 0.5")
    expect(points(page)).to_have_count(1)
    page.locator("#frontier-stop").click()
    expect(said(page)).to_contain_text(re.compile(r"Stopped: [1-6] points? on 8 prompts"))
    expect(page.locator("#frontier-run")).to_be_enabled()
    assert Frontier.read(json.loads(downloaded(page, "json"))).points


@pytest.mark.parametrize(
    "taus, sentence",
    [
        ("1, nan", "The τ grid takes numbers from 0 to 1, separated by commas"),
        ("", "The τ grid takes numbers from 0 to 1, separated by commas"),
        (", ".join(f"0.{n}" for n in range(10, 30)), "at most 12 are measured here"),
    ],
)
def test_what_cannot_be_measured_gets_a_sentence_and_nothing_is_lost(open_tab, swept, taus, sentence):
    page = open_tab()
    measure(page, taus)
    expect(page.get_by_test_id("toast-body")).to_contain_text(sentence)
    expect(page.locator("#frontier-run")).to_be_enabled()
    expect(points(page)).to_have_count(len(swept.points))
    expect(page.locator("#frontier-taus").locator("textarea, input")).to_have_value(taus)


def test_a_model_without_masks_and_unknown_tasks_get_a_sentence():
    with pytest.raises(ValueError, match="ar-tiny was trained for ar .* no τ to sweep"):
        list(tab._swept("ar-tiny", "worlds", 8, [0.9], ["probability"], tab.Knobs()))
    with pytest.raises(ValueError, match="Unknown task set 'chess'. Choose from worlds"):
        list(tab._swept("mars-tiny", "chess", 8, [0.9], ["probability"], tab.Knobs()))
    with pytest.raises(ValueError, match="must be a whole number from 1 to 480, not nan"):
        tab.checked(float("nan"), "1")


# ------------------------------------------------------------------------------------- how it looks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_legible(open_tab, theme):
    page = open_tab(f"&__theme={theme}")
    point(page, LOW).click()
    point(page, LOW).click()
    expect(page.locator("#frontier .answer").first).to_be_visible()
    legible = page.evaluate(LEGIBLE)
    assert (legible["texts"], legible["marks"]) == ([], [])


def test_a_talk_has_nothing_small(open_tab):
    page = open_tab("&view=talk", viewport={"width": 1920, "height": 1080})
    page.locator("#frontier summary").click()
    page.locator("#frontier .take").last.click()
    assert page.evaluate(LEGIBLE)["smallest"] >= 18


def test_a_phone_shows_the_chart_first_without_scrolling_sideways(open_tab, swept):
    page = open_tab(viewport={"width": 390, "height": 844})
    expect(points(page)).to_have_count(len(swept.points))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    chart, controls = page.locator("#frontier svg").first, page.locator("#frontier-run")
    assert chart.bounding_box()["y"] < controls.bounding_box()["y"]
    for found in points(page).all():
        assert found.locator(".reach").bounding_box()["width"] >= 24


# ------------------------------------------------------------------------------------- by itself


def test_a_step_in_the_background_says_that_it_waits():
    @stepping
    def count():
        yield 1
        yield 2

    steps = count()
    assert next(steps) == 1
    with IDLE.visit():
        assert next(steps) is WAITING
        assert next(steps) is WAITING
    assert list(steps) == [2]
    with IDLE.step(0) as mine:  # none is under way any more
        assert mine
