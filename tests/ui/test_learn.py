"""The Learn tab in a real browser: every chapter, its figures and its URL."""

import json
import re

import pytest
from acts import SMALLEST, fits, is_legible, set_slider
from playwright.sync_api import Locator, Page, expect

from mars_demo.core.acceptance import accepted
from mars_demo.evaluation import paper_tables, results
from mars_demo.show import recordings
from mars_demo.ui.lessons import CHAPTERS, number_of, tables

BESIDE = {
    "stage": "#lesson-stage .token",
    "choice": "#which input",
    "grid": "#lesson-grid .matrix [data-cells]",
    "worked-step": "#worked-step .slot",
    "costs": "#lesson-positions input",
    "table": "#lesson-table table",
    "cache-block": "#cache-block input",
    "comparison": "#lesson-numbers table",
}
# Further marks of a kind of figure.
COMPANIONS = {
    "choice": {"stage", "grid", "table", "comparison"},
    "cache-block": {"comparison"},
    "costs": {"table", "comparison"},
}
VIEWS = {
    "dark": {"query": "&__theme=dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "talk": {"query": "&view=talk", "viewport": {"width": 1920, "height": 1080}},
}


@pytest.fixture
def open_chapter(visit):
    def open_it(chapter: str, query: str = "", **options) -> Page:
        page = visit(f"tab=learn&chapter={chapter}{query}", **options)
        expect(heading(page)).to_contain_text(CHAPTERS[number_of(chapter)]["title"])
        show_figure(page, CHAPTERS[number_of(chapter)])
        return page

    return open_it


def show_figure(page: Page, chapter: dict) -> None:
    """Show a figure that waits for a prediction."""
    if "predict" in chapter:
        expect(page.locator("#predict .asked")).to_contain_text(chapter["predict"]["question"])
        page.locator("#predict").get_by_role("button", name="Show").click()


def heading(page: Page) -> Locator:
    return page.locator("#chapter h3")


def element(chapter: str) -> dict:
    return CHAPTERS[number_of(chapter)]["element"]


def shown(page: Page) -> set[str]:
    """Return the kinds of visible figures."""
    return {kind for kind, one in BESIDE.items() if page.locator(f"{one} >> visible=true").count()}


def move(page: Page, name: str, value: float) -> None:
    page.get_by_role("slider", name=name, exact=True).fill(f"{value:g}")


def chapter_is_open(page: Page, number: int) -> None:
    """Check a chapter's text, its URL, and that its heading is in view and only its figure is visible."""
    chapter = CHAPTERS[number]
    expect(heading(page)).to_contain_text(f"{number + 1} ")
    expect(heading(page)).to_contain_text(chapter["title"])
    expect(heading(page)).to_be_in_viewport()
    expect(page).to_have_url(re.compile(f"tab=learn.*chapter={chapter['id']}(&|$)"))
    expect(page.locator("#chapters :checked")).to_have_value(f"{number}")
    show_figure(page, chapter)
    kind = chapter["element"]["kind"]
    expect(page.locator(BESIDE[kind]).first).to_be_visible()
    assert shown(page) <= {kind} | COMPANIONS.get(kind, set()), chapter["id"]


@pytest.mark.full
@pytest.mark.parametrize("view", VIEWS)
def test_all_chapters_from_the_first_to_the_last(open_chapter, view):
    """Walk through on one page, with the buttons and with the arrow keys."""
    errors = []
    page = open_chapter(CHAPTERS[0]["id"], **VIEWS[view])
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    back, forth = page.locator("#back"), page.locator("#next")
    expect(back).to_be_disabled()
    for number in range(len(CHAPTERS)):
        chapter_is_open(page, number)
        fits(page)
        is_legible(page, smallest=18 if view == "talk" else SMALLEST)
        if number == len(CHAPTERS) - 1:
            break
        if number == 1:
            page.keyboard.press("ArrowRight")  # the button has the focus
        else:
            forth.click(force=True)
    expect(forth).to_be_disabled()
    back.click()
    chapter_is_open(page, len(CHAPTERS) - 2)
    page.keyboard.press("ArrowLeft")
    chapter_is_open(page, len(CHAPTERS) - 3)
    assert not errors


@pytest.mark.parametrize(
    "name, number",
    [("cost", 8), ("9", 8), (None, 0), ("nonsense", 0), ("0", 0), ("99", len(CHAPTERS) - 1), ("²", 0)],
)
def test_a_url_names_a_chapter_by_its_id_or_its_number(name, number):
    assert number_of(name) == number


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_the_list_of_chapters_stays_in_sight(open_chapter, size):
    page = open_chapter("cost", viewport=dict(zip(("width", "height"), size)))
    page.mouse.wheel(0, 500)
    page.wait_for_function("scrollY > 300")
    for name in ("Back", "Next"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)
    chapters = page.locator("#chapters label")
    for one in chapters.all() if size[0] > 640 else [page.locator("#chapters label:has(:checked)")]:
        expect(one).to_be_in_viewport(ratio=1)
    chapters.nth(len(CHAPTERS) - 1).click()
    chapter_is_open(page, len(CHAPTERS) - 1)
    page.keyboard.press("ArrowLeft")
    chapter_is_open(page, len(CHAPTERS) - 2)
    chapters.nth(2).locator("input").press("Space")
    chapter_is_open(page, 2)


def test_a_figure_waits_for_a_prediction(open_chapter):
    page = open_chapter("one-step")
    predict = page.locator("#predict")
    for chosen, opening in ((1, "Right: 5 tokens."), (2, "Not quite: 5 tokens.")):
        page.locator("#back").click()
        expect(heading(page)).to_contain_text("4 of")
        page.locator("#next").click()
        expect(predict.locator(".asked")).to_contain_text("both forwards")
        expect(page.locator("#worked-step .slot").first).to_be_hidden()
        buttons = predict.locator("button")
        expect(buttons).to_have_text([*CHAPTERS[4]["predict"]["choices"], "Show"])
        buttons.first.focus()
        for _ in range(chosen):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(predict.get_by_role("status")).to_contain_text(opening)
        expect(page.locator("#worked-step .slot").first).to_be_visible()
        expect(buttons.nth(1)).to_have_attribute("data-mark", "✓")


def test_answers_are_folded_and_all_lessons_are_one_page_to_print(open_chapter):
    page = open_chapter("masks")
    for one in CHAPTERS[1]["questions"]:
        expect(page.get_by_text(one["answer"])).to_be_hidden()
        page.get_by_text(one["question"]).click()
        expect(page.get_by_text(one["answer"])).to_be_visible()
    page.get_by_text("For teachers").click()
    page.goto(page.get_by_role("link", name="All lessons").evaluate("link => link.href"))
    expect(page.locator("main > h2")).to_have_text(
        [f"{number}. {chapter['title']}" for number, chapter in enumerate(CHAPTERS, start=1)]
    )
    page.emulate_media(media="print")
    for chapter in CHAPTERS:
        expect(page.get_by_text(chapter["questions"][1]["answer"])).to_be_visible()
    expect(page.locator(".worked .slot").first).to_be_visible()  # in print, nothing waits for a prediction
    expect(page.locator(".replay >> visible=true")).to_have_count(0)
    page.emulate_media(media="screen")


SCORES = [
    (0.95, element("one-step")["scores"]),
    (0.5, [[0.1, 0.49, 1, 1], [0.3, 0.5, 0.5, 0.5]]),
    (1, [[1, 1, 1, 1], [1, 1, 1, 1]]),
]


def test_the_worked_step_accepts_as_the_decoder_does(open_chapter):
    page = open_chapter("one-step")
    for tau, windows in SCORES:
        move(page, "Threshold τ", tau)
        for forward, scores in enumerate(windows, start=1):
            for slot, score in enumerate(scores, start=1):
                move(page, f"Forward {forward}, slot {slot}", score)
        begins = 1
        for index, scores in enumerate(windows):
            count = accepted(scores, tau)
            slots = page.locator("#worked-step .line[data-forward]").nth(index).locator(".slot")
            for slot, score in enumerate(scores):
                label = re.compile(rf"\b{slot + 1}\D+\b{begins + slot}\D+\b{score:.2f}\b")
                expect(slots.nth(slot)).to_have_attribute("aria-label", label)
                state = re.compile("^accepted$" if slot < count else "^(?!accepted$)")
                expect(slots.nth(slot)).to_have_attribute("data-state", state)
            begins += count
        expect(page.locator("#worked-step .sum")).to_contain_text(f"{begins - 1} ")


# --------------------------------------------------------------------------------- choices in chapters


@pytest.mark.full
def test_one_of_several_runs_is_chosen(open_chapter):
    page = open_chapter("fast-texts")
    prompts = {entry["id"]: entry["prompt"] for entry in recordings.index()}
    options = element("fast-texts")["options"]
    for option in [*options, options[0]]:
        page.get_by_role("radio", name=option["title"], exact=True).check()
        expect(page.locator("#lesson-stage .prompt")).to_have_text(prompts[option["run"]])
        expect(page.locator("#lesson-stage .lane")).to_have_count(len(option["modes"]))
        expect(page.locator("#which-words")).to_contain_text(re.sub("[`*]", "", option["words"])[-30:])


@pytest.mark.full
def test_sliders_show_the_speed_up_by_measured_costs(open_chapter):
    page = open_chapter("cost")
    for positions, tokens in ((9, 4.5), (17, 1.2), (1, 1)):
        set_slider(page, "lesson-positions", positions)
        set_slider(page, "lesson-tokens", tokens)
        rows = page.locator("#lesson-table tbody tr")
        for row, entry in zip(rows.all(), element("cost")["speeds"], strict=True):
            measured = paper_tables.OURS["speeds"][entry["file"]]
            expect(row.locator("td").first).to_have_text(entry["title"])
            expect(row.locator("td").last).to_have_text(tables.speed_up(measured, positions, tokens)[1])
    expect(page.locator("#lesson-numbers")).to_contain_text(results.read_results("speed.json")["machine"])


@pytest.mark.full
def test_the_visitor_sets_the_cache_block(open_chapter):
    page = open_chapter("batches")
    for size in (4, 256):
        set_slider(page, "cache-block", size)
        expect(page.locator("#schedule .title").first).to_contain_text(f"{size}")
        blocked, ragged = json.loads(recordings.batched(size))
        for number, steps in enumerate((blocked["steps"], ragged["steps"])):
            box = page.locator("#schedule .one").nth(number)
            expect(box.locator(".figures")).to_have_text(re.compile(rf"^{len(steps)} "))
            waits = sum(step.count("wait") for step in steps)
            expect(box.locator('[data-state="wait"]')).to_have_count(waits)
    page.locator("#schedule .cell").first.hover()
    expect(page.locator("#schedule .sentence")).to_contain_text(blocked["rows"][0])
    page.locator("#schedule .playhead").fill("1")
    expect(page.locator("#schedule .figures").first).to_have_text(re.compile("^1 "))


@pytest.mark.full
def test_every_table_of_the_paper_is_above_ours_and_fits_a_phone(open_chapter):
    page = open_chapter("paper")
    page.set_viewport_size({"width": 390, "height": 844})
    for number in paper_tables.TITLES:
        page.locator("#choice input").click()
        page.get_by_role("option", name=f"Table {number}:").click()
        for index, table in enumerate((paper_tables.paper(number), paper_tables.here(number))):
            first = table.frame.iloc[0].fillna("–").tolist()
            drawn = page.locator("#lesson-numbers table").nth(index)
            expect(drawn.locator("tbody tr").first.locator("td")).to_have_text(first)
        plots = page.locator("#learn-page .js-plotly-plot >> visible=true")
        expect(plots).to_have_count(int(number == paper_tables.SWEEP))
        fits(page)
