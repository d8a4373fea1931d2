"""The Frontier tab in a real browser: recorded points, real sweeps, and their answers."""

import csv
import io
import json
import re

import pytest
from acts import choose, is_open, press, set_slider
from playwright.sync_api import Page, expect

from mars_demo.decoding.decode import decode
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import Frontier, Setting
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.ui.tabs import frontier as tab

COMMAND = "python -m benchmarks.frontier --output assets/results/frontier.json"
PROMPTS = 12
LOW = Setting("mars", "probability", 0.3)


@pytest.fixture(scope="module")
def swept(mars_tiny) -> Frontier:
    """Return a few points, one with a τ so low that more answers are wrong."""
    settings = [*grid(mars_tiny, ["probability"], [0.9, 0.3]), Setting("mars", "margin", 0.9)]
    return Sweep(mars_tiny, "worlds", PROMPTS, settings, size=12).finish()


@pytest.fixture
def open_tab(visit, tmp_path, monkeypatch, swept):
    """Open the tab with the points of the sweep."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    record = {"command": COMMAND, "machine": swept.machine, "sweeps": [swept.record()]}
    (tmp_path / "frontier.json").write_text(json.dumps(record))

    def open_it(query: str = "", **options) -> Page:
        page = visit(f"tab=frontier{query}", **options)
        expect(points(page)).to_have_count(len(swept.points))
        return page

    return open_it


def points(page: Page):
    return page.locator("#frontier .point")


def point(page: Page, setting: Setting):
    tau = "" if setting.tau is None else rf"\D+\b{setting.tau:g}"
    name = re.compile(rf"\b{setting.criterion}{tau}\b")
    return page.locator("#frontier").get_by_role("group").get_by_role("button", name=name)


def status(page: Page):
    return page.locator("#frontier-said")


def chosen(page: Page):
    """Return the text about the point that the Race tab is set to."""
    return page.locator("#frontier .set")


def answers(page: Page):
    return page.locator("#frontier .answer")


def measure(page: Page, taus: str = "0.9", prompts: int = 8) -> None:
    set_slider(page, "frontier-limit", prompts)
    page.locator("#frontier-taus textarea, #frontier-taus input").fill(taus)
    page.locator("#frontier-run").click()


def has_started(page: Page) -> None:
    """Wait until a new sweep has its first point."""
    expect(page.locator("#frontier .about")).not_to_contain_text(COMMAND)
    expect(points(page).first).to_be_attached()


def downloaded(page: Page, kind: str) -> str:
    with page.expect_download() as waiting:
        page.locator(f'#frontier [data-do="{kind}"]').click()
    return waiting.value.path().read_text("utf-8")


def in_figures(value: float, interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{100 * value:.1f}% ({100 * low:.1f}–{100 * high:.1f})"


# ------------------------------------------------------------------------------ recorded results


def test_recorded_points_appear_at_once_and_one_of_them_sets_the_race(open_tab, swept):
    page = open_tab()
    expect(page.locator("#frontier .about")).to_contain_text(COMMAND)
    expect(page.locator("#frontier .about")).to_contain_text(swept.machine)
    expect(page.locator("#frontier .legend")).to_contain_text(re.compile(rf"margin\D+{PROMPTS}"))
    low = swept.find(LOW)
    row = page.locator("#frontier tbody tr").filter(has_text=LOW.criterion)
    row = row.filter(has=page.get_by_role("cell", name=f"{LOW.tau:g}", exact=True))
    expect(row).to_contain_text(in_figures(low.accuracy, low.accuracy_interval))
    expect(row).to_contain_text(f"{low.tokens_per_forward:.2f}")

    page.get_by_role("radio", name="answers per second").check()
    expect(page.locator("#frontier .axis-title").first).to_have_text("answers per second")
    page.get_by_role("radio", name="tokens per forward").check()
    expect(page.locator("#frontier .axis-title").first).to_have_text("tokens per forward")

    point(page, LOW).click()
    for fact in (LOW.criterion, f"{LOW.tau:g}", "mars-tiny"):
        expect(chosen(page)).to_contain_text(fact)
    expect(page.locator("#frontier .behind")).to_be_hidden()
    point(page, LOW).click()
    different = sum(one.leaves is not None for one in low.outcomes)
    for kind, count in (("wrong", len(low.wrong)), ("different", different), ("all", PROMPTS)):
        option = page.locator(f"#frontier .which option[value={kind}]")
        expect(option).to_contain_text(f"({count})")
    wrong = low.wrong[0]
    expect(answers(page)).to_have_count(len(low.wrong))
    expect(answers(page).first.locator(".prompt")).to_have_text(swept.prompts[wrong.number])
    expect(answers(page).first.locator(".text")).to_have_text(wrong.text)
    expect(answers(page).first.locator(".mark")).to_contain_text("✗")

    page.locator("#frontier [data-do=race]").click()
    is_open(page, "Race")
    expect(page.locator("#tau input[type=number]")).to_have_value("0.3")
    expect(page.locator("#mode input[name=mars]")).to_be_checked()
    expect(page).not_to_have_url(re.compile("tab="))


@pytest.mark.full
def test_the_table_of_the_paper_can_be_overlaid_and_no_records_draw_nothing(open_tab):
    page = open_tab()
    page.locator("#frontier .paper").check()
    expect(page.locator("#frontier .paper-line .mark")).to_have_count(6 * 2 + 1)  # and the legend
    expect(page.locator("#frontier .paper-words")).to_be_visible()
    page.get_by_role("radio", name="answers per second").check()  # the paper reports no times
    expect(page.locator("#frontier .paper-words")).to_be_visible()
    expect(page.locator("#frontier figure > svg .paper-line")).to_have_count(0)
    choose(page, "frontier-model", "ar-tiny")
    expect(page.locator("#frontier .about")).to_contain_text("ar-tiny")
    expect(points(page)).to_have_count(0)


# ------------------------------------------------------------------------------- choosing a point


@pytest.mark.full
def test_an_answer_opens_beside_that_of_ar_with_the_first_different_token(open_tab, swept, mars_tiny):
    page = open_tab()
    point(page, LOW).click()
    page.locator("#frontier [data-do=behind]").click()
    page.locator("#frontier .which select").select_option("different")
    outcome = next(one for one in swept.find(LOW).outcomes if one.leaves is not None)
    prompt = swept.prompts[outcome.number]
    number = re.compile(rf"\b{outcome.leaves + 1}\b")
    expect(answers(page).first.locator(".where")).to_contain_text(number)
    answers(page).first.click()
    is_open(page, "Race")
    expect(page.locator("#stage .prompt")).to_have_text(prompt)
    panel = page.locator("#stage .difference")
    expect(panel.locator("h3")).to_contain_text(number)
    expect(page.locator("#prompt textarea")).to_have_value(prompt)

    for place, setting in enumerate((Setting("ar"), LOW)):
        run = decode(mars_tiny, prompt, setting.request(160)).finish()
        tokens = [(step, slot) for step in run.passes for slot in range(step.accepted)]
        step, slot = tokens[outcome.leaves]
        column = panel.locator(".difference-sides > div").nth(place)
        expect(column).to_contain_text(re.compile(rf"\b{step.number}\b\D+\b{slot + 1}\b"))
        expect(column.locator("li")).to_have_count(len(step.slots[slot].top))
    before = "".join(step.slots[slot].text for step, slot in tokens[: outcome.leaves])
    expect(panel.locator(".difference-before")).to_contain_text(before[-20:].replace("\n", "↵"))


@pytest.mark.full
def test_points_can_be_chosen_with_the_keyboard(open_tab):
    page = open_tab()
    expect(page.locator("#frontier .point[tabindex='0']")).to_have_count(1)
    points(page).first.focus()
    page.keyboard.press("ArrowRight")
    expect(points(page).nth(1)).to_be_focused()
    expect(page.locator("#frontier .pointed")).to_contain_text(re.compile(r"probability\D+0\.3"))
    page.keyboard.press("ArrowDown")
    expect(points(page).nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(chosen(page)).to_contain_text(re.compile(r"margin\D+0\.9"))
    expect(points(page).nth(2)).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#frontier .behind")).to_be_visible()
    row = page.locator("#frontier .take").last
    row.focus()
    page.keyboard.press("Enter")
    expect(chosen(page)).to_contain_text("lossless")
    expect(row).to_be_focused()


# ------------------------------------------------------------------------------------- new sweeps


def test_a_sweep_draws_its_points_and_can_be_downloaded(open_tab, swept):
    page = open_tab()
    measure(page, "0.9, 0.5")
    has_started(page)
    expect(page.locator("#frontier-run")).to_be_enabled()
    expect(status(page)).to_contain_text(re.compile(r"\b4\D+\b8\b"))
    expect(points(page)).to_have_count(4)
    frontier = Frontier.read(json.loads(downloaded(page, "json")))
    assert [one.setting.mode for one in frontier.points] == ["ar", "lossless", "mars", "mars"]
    assert len(frontier.prompts) == 8
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "csv"))))
    assert [row["tau"] for row in rows] == ["", "", "0.9", "0.5"]
    assert float(rows[2]["accuracy"]) == frontier.points[2].accuracy
    page.locator("#frontier .kept select").select_option(index=0)
    expect(points(page)).to_have_count(len(swept.points))


@pytest.mark.full
def test_a_stopped_sweep_keeps_its_points(open_tab):
    page = open_tab()
    measure(page, ", ".join(f"0.{n}" for n in range(10, 22)), prompts=240)
    has_started(page)
    press(page.locator("#frontier-stop"))
    expect(page.locator("#frontier-run")).to_be_enabled()
    expect(status(page)).to_contain_text(re.compile(r"\b([1-9]|1[0-3])\D+\b240\b"))
    frontier = Frontier.read(json.loads(downloaded(page, "json")))
    expect(points(page)).to_have_count(len(frontier.points))


@pytest.mark.parametrize(
    "limit, taus, fact",
    [
        (float("nan"), "1", "nan"),
        (481, "1", "480"),
        (8.5, "1", r"8\.5"),
        (8, "1, nan", "from 0 to 1"),
        (8, ", ".join(f"0.{n}" for n in range(10, 30)), "12"),
    ],
)
def test_invalid_numbers_are_refused(limit, taus, fact):
    with pytest.raises(ValueError, match=fact):
        tab.checked(limit, taus)
