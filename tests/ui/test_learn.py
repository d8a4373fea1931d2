"""The Learn tab in a real browser: every chapter, what lives beside it, and its address."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from mars_demo.decoding.acceptance import accepted
from mars_demo.decoding.costs import Costs
from mars_demo.evaluation import paper_tables, results
from mars_demo.ui.lessons.chapters import CHAPTERS
from mars_demo.ui.lessons.comparing import TITLES
from mars_demo.ui.lessons.kinds import KINDS
from mars_demo.ui.lessons.tables import NOT_MEASURED
from mars_demo.views import recordings

LEGIBLE = (Path(__file__).parent / "legible.js").read_text("utf-8")
BESIDE = {
    "stage": "#lesson-stage .token",
    "race": "#lesson-stage .token",
    "choice": "#which input",
    "grid": "#lesson-grid .matrix [data-cells]",
    "worked-step": "#worked-step .slot",
    "costs": "#costs .curve",
    "answers": "#answers .one",
    "gaps": "#fill",
    "neighbours": "#lesson-table table",
    "schedule": "#schedule .cell",
    "cache-block": "#cache-block input",
    "lens": "#lesson-lens .cell",
    "comparison": "#paper-table table",
}
VIEWS = {
    "desktop": {},
    "dark": {"query": "&__theme=dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "talk": {"query": "&view=talk", "viewport": {"width": 1920, "height": 1080}},
}


@pytest.fixture
def open_chapter(visit):
    def open_it(chapter: str, query: str = "", **options) -> Page:
        page = visit(f"tab=learn&chapter={chapter}{query}", **options)
        expect(heading(page)).to_contain_text(f" of {len(CHAPTERS)}: ")
        return page

    return open_it


def heading(page: Page) -> Locator:
    return page.locator("#chapter h3")


def shown(page: Page) -> dict[str, bool]:
    """Which kinds of figures can be seen."""
    return {kind: page.locator(f"{one} >> visible=true").count() > 0 for kind, one in BESIDE.items()}


@pytest.mark.parametrize("view", VIEWS)
def test_all_chapters_from_the_first_to_the_last(open_chapter, view):
    """Each has its address and its own figure, fits the screen, and can be read. One page walks through."""
    errors = []
    page = open_chapter(CHAPTERS[0]["id"], **VIEWS[view])
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    wide = page.viewport_size["width"]
    for number, chapter in enumerate(CHAPTERS, start=1):
        expect(heading(page)).to_have_text(f"{number} of {len(CHAPTERS)}: {chapter['title']}")
        expect(page).to_have_url(re.compile(f"chapter={chapter['id']}(&|$)"))
        kind = chapter["element"]["kind"]
        expect(page.locator(BESIDE[kind]).first).to_be_visible()
        alike = {other for other, selector in BESIDE.items() if selector == BESIDE[kind]}
        may_be = alike | COMPANIONS.get(kind, set())
        assert {other for other, seen in shown(page).items() if seen} - may_be == set(), chapter["id"]
        assert page.evaluate("document.documentElement.scrollWidth") <= wide, chapter["id"]
        legible = page.evaluate(LEGIBLE)
        assert (legible["texts"], legible["marks"]) == ([], []), chapter["id"]
        assert view != "talk" or legible["smallest"] >= 18, chapter["id"]
        if number < len(CHAPTERS):
            page.locator("#next").click(force=True)
    expect(page.locator("#next")).to_be_disabled()
    assert not errors


# What else a kind of figure has beside its own mark.
COMPANIONS = {
    "choice": {"stage", "race", "grid"},
    "gaps": {"neighbours"},
    "cache-block": {"schedule"},
}


def test_every_kind_of_figure_is_in_some_chapter():
    assert KINDS.keys() == BESIDE.keys() == {chapter["element"]["kind"] for chapter in CHAPTERS}


@pytest.mark.parametrize("asked", ["cost", "7"])
def test_an_address_names_a_chapter_by_its_id_or_its_number(open_chapter, asked):
    expect(heading(open_chapter(asked))).to_have_text(
        f"7 of {len(CHAPTERS)}: Tokens per forward are not speed"
    )


def move(page: Page, name: str, value: float) -> None:
    page.get_by_role("slider", name=name, exact=True).fill(f"{value:g}")


@pytest.mark.parametrize(
    ("tau", "first", "second"),
    [
        (0.95, [0.99, 0.97, 0.8, 0.99], [0.88, 0.99, 0.97, 0.7]),  # the chapter's own
        (0.8, [0.99, 0.97, 0.8, 0.79], [0, 0.81, 0.1, 1]),
        (0.5, [0.1, 0.49, 1, 1], [0.3, 0.5, 0.5, 0.5]),
        (1, [1, 1, 1, 1], [1, 1, 1, 1]),
        (0, [0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_the_worked_step_shows_what_the_decoder_accepts(worked_page, tau, first, second):
    page = worked_page
    move(page, "Threshold τ", tau)
    for forward, scores in enumerate((first, second), start=1):
        for slot, score in enumerate(scores, start=1):
            move(page, f"Forward {forward}, slot {slot}", score)
    shown = json.dumps({"tau": tau, "scores": [first, second]}, separators=(",", ":"), ensure_ascii=False)
    expect(page.locator("#worked-step .worked")).to_have_attribute("data-shown", shown)
    begins = 1
    for line, scores in zip(page.locator("#worked-step .line[data-forward]").all(), (first, second)):
        count = accepted(scores, tau)
        expect(line.locator("[data-state=accepted]")).to_have_count(count)
        labels = [slot.get_attribute("aria-label") for slot in line.locator(".slot").all()]
        places = range(begins, begins + 4)
        for slot, (label, place, score) in enumerate(zip(labels, places, scores), start=1):
            assert label.startswith(f"Slot {slot}, place {place}, score {score:.2f}: ")
            assert label.endswith("accepted, always" if slot == 1 else "") and ("accepted" in label) == (
                slot <= count
            )
        begins += count
    expect(page.locator("#worked-step .sum")).to_contain_text(f"2 forwards gave {begins - 1} tokens")


@pytest.fixture(scope="module")
def worked_page(browser, url):
    """One page for all settings: the figure is the same for as long as the chapter is open."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{url}?tab=learn&chapter=one-step")
    expect(page.locator("#worked-step .slot").first).to_be_visible()
    yield page
    context.close()


def test_one_of_several_runs_is_chosen(open_chapter):
    page = open_chapter("fast-texts")
    wanted = next(chapter for chapter in CHAPTERS if chapter["id"] == "fast-texts")["element"]
    prompts = {entry["id"]: entry["prompt"] for entry in recordings.index()}
    for option in [*wanted["options"], wanted["options"][0]]:
        page.get_by_role("radio", name=option["title"], exact=True).check()
        expect(page.locator("#lesson-stage .prompt")).to_have_text(prompts[option["run"]])
        expect(page.locator("#lesson-stage .lane")).to_have_count(len(option["modes"]))
        expect(page.locator("#which-words")).to_contain_text(re.sub("[`*]", "", option["words"])[-30:])


def test_one_of_several_charts_is_chosen(open_chapter):
    page = open_chapter("sft-loss")
    title = page.locator("#learn-page .js-plotly-plot .ytitle")
    expect(title).to_contain_text("average over six benchmarks")
    page.get_by_role("radio", name="share of AR-like signal").check()
    expect(title).to_contain_text("AR-like positions")


def test_one_of_several_layouts_is_chosen(open_chapter):
    page = open_chapter("groups")
    rows = page.locator(
        "#lesson-grid [role=application] text, #lesson-grid text", has_text=re.compile("^MASK$")
    )
    for name, masks in (("linear, K = 2", 2), ("grouped, K = 4", 20), ("grouped, K = 2", 6)):
        page.get_by_role("radio", name=name, exact=True).check()
        expect(rows).to_have_count(2 * masks)  # beside the rows and above the columns
    expect(page.locator("#measured tbody tr")).to_have_count(4)


def test_speed_is_tokens_per_forward_divided_by_a_measured_cost(open_chapter):
    page = open_chapter("cost")
    for file, title in (("window-tiny.json", "mars-tiny, float32"), ("window-chat.json", "8 bits")):
        measured = results.read(file)
        costs = Costs.of(dict(measured["costs"]))
        options = page.locator("#costs option").all_text_contents()
        page.locator("#costs .curves").select_option(next(option for option in options if title in option))
        for positions, tokens in ((9, 4.5), (25, 1.2), (1, 1)):
            move(page, "Positions per forward", positions)
            move(page, "Tokens per forward", tokens)
            cost = costs(positions) / costs(1)
            expect(page.locator("#costs .division")).to_contain_text(
                f"{tokens:.1f} tokens per forward ÷ {cost:.2f} = {tokens / cost:.2f} times"
            )
        expect(page.locator("#costs .source")).to_contain_text(measured["machine"])
    expect(page.locator("#measured")).to_contain_text(results.read("speed.json")["machine"])


def test_the_cache_block_is_the_visitors(open_chapter):
    page = open_chapter("cache-block")
    figures = page.locator("#schedule .figures").first
    for size in (4, 256):
        page.locator("#cache-block input[type=range]").fill(f"{size}")
        expect(page.locator("#schedule .title").first).to_contain_text(f"Block cache, {size} positions")
        lines = [json.loads(line) for line in recordings.batched(size).splitlines()]
        steps = lines[1 : next(at for at, line in enumerate(lines) if "Cursor" in line.get("title", ""))]
        positions = sum(line["positions"] for line in steps)
        expect(figures).to_contain_text(f"{len(steps)} forwards, {positions:,} positions")
    expect(page.locator("#measured tbody tr")).to_have_count(8)


def test_lossless_is_the_fine_tuned_model_and_not_its_base(open_chapter):
    page = open_chapter("reference")
    expect(page.locator("#answers .title")).to_have_text(list(TITLES.values()))
    page.locator("#answers-run").click()
    before, after, lossless = page.locator("#answers .one").all()
    expect(lossless).to_have_attribute("data-same", "yes")
    expect(before).to_have_attribute("data-same", "no")
    expect(before.locator(".differs")).to_have_count(1)
    expect(before.locator(".text")).to_contain_text("44, 46, 48.")
    expect(after.locator(".text")).not_to_contain_text("44, 46, 48.")
    assert lossless.locator(".text").text_content() == after.locator(".text").text_content()
    figures = [int(number) for number in re.findall(r"\d+", lossless.locator(".figures").text_content())]
    assert figures[1] < figures[0]
    expect(page.locator("#answers .prompt")).to_have_text(
        "Can you give me the even numbers from 31 up to 48?"
    )
    expect(page.locator("#answers-run")).to_be_enabled()


def test_buttons_and_arrow_keys_turn_the_pages_and_the_address_follows(open_chapter):
    page = open_chapter("nonsense")
    expect(heading(page)).to_contain_text(CHAPTERS[0]["title"])
    expect(page.locator("#back")).to_be_disabled()
    page.locator("#next").click()
    expect(heading(page)).to_contain_text(CHAPTERS[1]["title"])
    expect(page).to_have_url(re.compile(f"chapter={CHAPTERS[1]['id']}"))
    page.keyboard.press("ArrowRight")
    expect(heading(page)).to_contain_text(CHAPTERS[2]["title"])
    page.keyboard.press("ArrowLeft")
    expect(heading(page)).to_contain_text(CHAPTERS[1]["title"])
    expect(page).to_have_url(re.compile(f"tab=learn.*chapter={CHAPTERS[1]['id']}"))


def test_the_chapter_on_the_window_races_with_its_own_slider(open_chapter):
    page = open_chapter("window")
    page.locator("#lesson-tau input[type=range]").fill("1")
    page.locator("#lesson-run").click()
    expect(page.locator("#lesson-stage .verdict")).to_contain_text("1.0 per forward", timeout=60_000)
    expect(page.locator("#lesson-stage .lane").nth(1).locator(".setting")).to_contain_text("τ 1.00")


def test_the_race_of_a_chapter_can_be_stopped_and_run_again(open_chapter, slow):
    page = open_chapter("window")
    run = page.locator("#lesson-run")
    page.locator("#lesson-tau input[type=range]").fill("1")
    run.click()
    expect(run).to_be_disabled()
    page.locator("#lesson-stop").click()
    expect(run).to_be_enabled()
    expect(page.locator("#lesson-stage .verdict")).to_contain_text("Stopped")
    run.click()
    expect(page.locator("#lesson-stage .verdict")).to_contain_text("1.0 per forward")


def test_the_table_of_gaps_fills_row_by_row(open_chapter):
    page = open_chapter("four-gaps")
    cells = page.locator("#lesson-table tbody tr td:first-child")
    for filled in (1, 2, 3, 4):
        expect(cells.filter(has_not_text="…")).to_have_count(filled)
        page.locator("#fill").click()
    expect(cells.filter(has_not_text="…")).to_have_count(1)


def test_every_table_of_the_paper_stands_above_ours_and_fits_a_phone(open_chapter):
    page = open_chapter("paper")
    page.set_viewport_size({"width": 390, "height": 844})
    known = {2: "28.7", 3: "22.2", 4: "1.46", 5: "241.9, 1.71×", 6: "58.6", 8: "47.5, 3.41", 9: "1.07"}
    assert known.keys() == paper_tables.TABLES.keys()
    for number, value in known.items():
        page.locator("#choice input").click()
        page.get_by_role("option", name=f"Table {number}: ").click()
        paper, ours = page.locator("#paper-table"), page.locator("#our-table")
        expect(paper).to_contain_text(f"Source: the paper's Table {number}:")
        expect(paper.locator("td").get_by_text(value, exact=True).first).to_be_attached()
        measured = paper_tables.here(number)
        if measured is None:
            expect(ours).to_contain_text(NOT_MEASURED)
        else:
            expect(ours.locator("tbody tr").first.locator("td")).to_have_text(
                measured.frame.iloc[0].fillna("–").tolist()
            )
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, number


def test_the_sweep_of_tau_is_drawn_for_the_paper_and_for_us(open_chapter):
    page = open_chapter("paper")
    plots = page.locator("#learn-page .js-plotly-plot")
    expect(page.locator("#our-table h4")).to_be_visible()
    expect(plots.locator("visible=true")).to_have_count(0)
    page.locator("#choice input").click()
    page.get_by_role("option", name="Table 8: ").click()
    expect(plots).to_have_count(2)
    for plot, curves in zip(plots.all(), (paper_tables.paper_curves(), paper_tables.our_curves())):
        expect(plot.locator(".legendtext")).to_have_text(list(curves))
        expect(plot.locator(".point")).to_have_count(sum(map(len, curves.values())))
    page.locator("#choice input").click()
    page.get_by_role("option", name="Table 9: ").click()
    expect(plots.locator("visible=true")).to_have_count(0)


def test_the_schedule_plays_step_by_step(open_chapter):
    page = open_chapter("batches")
    ahead = page.locator("#schedule .cell.ahead")
    expect(ahead).to_have_count(0)
    page.locator("#schedule .playhead").fill("0")
    cells = page.locator("#schedule .cells .cell").count()
    expect(ahead).to_have_count(cells)
    page.locator("#schedule .play").click()
    expect(ahead).not_to_have_count(cells)


def test_a_tab_stands_in_the_address(visit):
    page = visit()
    page.get_by_role("tab", name="Train").click()
    expect(page).to_have_url(re.compile("tab=train"))
    page.get_by_role("tab", name="Race").click()
    expect(page).not_to_have_url(re.compile("tab="))
