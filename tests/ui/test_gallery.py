"""The gallery: a folder of pages that open from disk, each with a run or a lesson."""

import re

import pytest
from acts import is_legible
from huggingface_hub import SpaceCard
from playwright.sync_api import expect

from mars_demo.show import recordings
from mars_demo.ui.lessons import CHAPTERS

RECORDED = recordings.index()
MOST = 3_000_000  # bytes of the folder
SIZES = [(1280, 900), (390, 844)]


@pytest.fixture
def look(visit_file, gallery):
    """Open a page of the gallery; requests outside its folder fail the test."""
    return lambda name, ending="", **options: visit_file(gallery / name, ending, gallery, **options)


def lesson_of(kind: str) -> str:
    return next(f"lessons/{lesson['id']}.html" for lesson in CHAPTERS if lesson["element"]["kind"] == kind)


def test_the_folder_is_a_small_static_space(gallery):
    files = [path for path in gallery.rglob("*") if path.is_file() and gallery / "live" not in path.parents]
    assert sum(path.stat().st_size for path in files) < MOST
    card = SpaceCard.load(gallery / "README.md")
    data = card.data
    assert data.sdk == "static" and (gallery / data.app_file).is_file()
    assert len(data.short_description) <= 60 and data.license == "apache-2.0" and data.models
    assert "text-generation" in data.tags and "mcp-server" not in data.tags
    assert data.custom_headers["cross-origin-opener-policy"] == "same-origin"
    assert (gallery / data.thumbnail.partition("spaces/me/site/resolve/main/")[2]).is_file()
    assert "https://arxiv.org/abs/2604.07023" in card.text
    pages = {str(path.relative_to(gallery)) for path in files if path.suffix == ".html"}
    runs = {f"runs/{entry['id']}.html" for entry in RECORDED}
    lessons = {f"lessons/{lesson['id']}.html" for lesson in CHAPTERS}
    assert pages == {"index.html", "lessons.html", "record.html", "shared/replay.html"} | runs | lessons


def test_the_index_leads_to_every_page(look, gallery):
    page = look("index.html")
    is_legible(page)
    expect(page.locator("footer").get_by_role("link", name="Paper: arXiv 2604.07023")).to_be_visible()
    drawn = "link => Object.assign(new Image(), { src: link.href }).decode().then(() => true)"
    assert page.locator("link[rel=icon]").evaluate(drawn)
    for entry in RECORDED:
        item = page.locator("main > ul > li", has=page.get_by_role("link", name=entry["title"], exact=True))
        expect(item).to_contain_text(entry["note"])
    links = page.locator("a:not([href^=https])").evaluate_all("links => links.map((link) => link.href)")
    assert len(links) == len(RECORDED) + len(CHAPTERS) + 3  # and to three more pages
    assert {(gallery / "index.html").as_uri(), *links} == {
        path.as_uri() for path in gallery.rglob("*.html") if path.parent.name != "shared"
    }
    page.get_by_role("link", name=RECORDED[0]["title"]).click()
    expect(page.locator(".token").first).to_be_visible()
    page.get_by_role("link", name=RECORDED[1]["title"]).click()  # the next page
    expect(page.locator("h1")).to_have_text(RECORDED[1]["title"])
    page.locator('a[href="../index.html"]').first.click()
    expect(page.locator("main > ul > li")).to_have_count(len(RECORDED))


@pytest.mark.full
@pytest.mark.parametrize("lesson", CHAPTERS, ids=lambda lesson: lesson["id"])
def test_a_lesson_has_its_text_and_something_beside_it(look, lesson):
    page = look(f"lessons/{lesson['id']}.html")
    expect(page.locator("h1")).to_have_text(lesson["title"])
    text = lesson["text"]
    for sentence, instead in lesson.get("static", {}).items():
        assert sentence in text
        text = text.replace(sentence, instead)
    plain = re.sub(r"(?m)^(- |\d+\. )|[*`]|\n", "", text)
    assert not re.search(r"[Ss]lider|\bChoose a |Race tab|Run\b", plain)  # this page has none of these
    asked = "".join(one["question"] for one in lesson["questions"])
    assert page.locator("article").inner_text().replace("\n", "") == plain + asked
    if "predict" in lesson:
        page.get_by_role("button", name="Show", exact=True).click()
    section = page.locator("article + section")
    beside = section.locator("[data-figure] svg:visible, [data-figure] .cell:visible, table, p:visible")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        expect(beside.first).to_be_visible()
        page.wait_for_function("width => document.documentElement.scrollWidth === width", arg=width)


@pytest.mark.full
def test_figures_of_lessons_work_without_the_app(look):
    page = look(lesson_of("stage"))
    expect(page.locator(".pass:not(.future)").first).to_be_visible()
    page.locator('[data-do="start"]').click()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pass:not(.future)")).to_have_count(1)
    page = look(lesson_of("grid"))
    page.locator(".plot").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".sentence")).not_to_be_empty()
    page = look(lesson_of("cache-block"))
    page.get_by_role("slider").first.fill("3")
    expect(page.locator(".at")).to_contain_text("3")
    page = look(lesson_of("worked-step"))
    page.get_by_role("button", name="5 tokens").click()
    page.get_by_label("Threshold τ").fill("1")
    expect(page.locator('.slot[data-state="accepted"]')).to_have_count(2)
