"""Records dropped on the stage or at an address: the server validates them; a saved page takes no files."""

from pathlib import Path
from urllib.parse import urlencode

import pytest
from hostile import GOOD, SCRIPTS, changed, paths_in, with_texts, written
from on_stage import give, put, says
from playwright.sync_api import expect
from records import race

import mars_demo
from benchmarks.live import serving
from mars_demo.core.fields import MOST_LINES
from mars_demo.core.limits import LIMITS
from mars_demo.core.trace import read_text, rules
from mars_demo.show import recordings
from mars_demo.show.components.stage import refusal
from mars_demo.static.standalone.replay import replay_page

ROOT = Path(mars_demo.__file__).parent

DROP = """text => {
  const data = new DataTransfer();
  data.items.add(new File([text], "run.jsonl"));
  const event = new DragEvent("drop", { dataTransfer: data, bubbles: true });
  document.querySelector(".stage").dispatchEvent(event);
}"""


def shows(stage, record: str) -> None:
    """Wait until the stage shows the answers of a record."""
    expect(stage.locator(".answer")).to_have_text([run.text for run in read_text(record)])


def test_a_dropped_record_is_drawn_and_an_invalid_one_does_not_replace_it(stage):
    stage.evaluate(DROP, race())
    shows(stage, race())
    for text, facts in {
        "no record": ["line 1", "JSON"],
        written(GOOD[:1]): ["no forward"],
        written([GOOD[0], changed(GOOD[1], ("tau",), 2), *GOOD[2:]]): ["line 2", "tau", 1],
        "x" * ((LIMITS.record << 20) + 1): [f"{LIMITS.record} MiB"],
    }.items():
        stage.evaluate(DROP, text)
        expect(stage.locator(".error")).to_have_text(says(*facts))
        shows(stage, race())
    stage.evaluate(DROP, written(GOOD))
    shows(stage, written(GOOD))
    expect(stage.locator(".error")).to_be_hidden()


def test_a_server_that_does_not_answer_loses_nothing(stage):
    put(stage, race())
    stage.route("**/component_server/**", lambda route: route.abort())
    stage.evaluate(DROP, race())
    expect(stage.locator(".error")).to_contain_text("run.jsonl")
    stage.unroute_all()
    shows(stage, race())


@pytest.mark.full
def test_a_record_with_the_most_lines_is_drawn(stage):
    give(stage, written([GOOD[0], *[GOOD[2]] * (MOST_LINES - 2), GOOD[3]]))
    expect(stage.locator(".pass")).to_have_count(MOST_LINES - 2)


def test_a_saved_page_takes_no_files(visit_file, tmp_path):
    path = tmp_path / "run.html"
    path.write_text(replay_page(written(GOOD)), encoding="utf-8")
    page = visit_file(path)
    page.evaluate(DROP, race())
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(page.locator(".error")).to_be_hidden()
    expect(page.locator(".lane")).to_have_count(1)


# ------------------------------------------------------------------------- records at an address

TALK = "https://talk.example"
ANY_SITE = {"access-control-allow-origin": "*"}
ANSWERS = {  # of other sites: the answer of a route, and facts of the error
    "missing": ({"status": 404, "headers": ANY_SITE}, ["talk.example", 404]),
    "html": ({"body": "<script>window.__hit = 1</script>", "headers": ANY_SITE}, ["line 1", "JSON"]),
    "no-forward": ({"body": written(GOOD[:1]), "headers": ANY_SITE}, ["no forward"]),
    "large": ({"body": "x" * ((LIMITS.record << 20) + 1), "headers": ANY_SITE}, [f"{LIMITS.record} MiB"]),
}


@pytest.fixture(params=["app", "static"])
def opened(request, module_page):
    """Open a page that shows the record at an address; other sites are those of `ANSWERS`."""
    page, troubles = module_page
    troubles.clear()
    if request.param == "app":
        url = request.getfixturevalue("stage_url")
    else:
        site = request.getfixturevalue("served")
        url = f"{site}/index.html"  # leads to the page that shows records
    for name, (answer, _) in ANSWERS.items():
        page.route(f"{TALK}/{name}", lambda route, _, answer=answer: route.fulfill(**answer))
    hostile = with_texts("".join(SCRIPTS))
    page.route(f"{TALK}/good", lambda route: route.fulfill(body=hostile, headers=ANY_SITE))
    page.route("**/own.jsonl", lambda route: route.fulfill(body=race()))

    def open_address(address: str):
        page.goto(f"{url}?{urlencode({'run': address})}")
        return page

    yield open_address
    page.unroute_all()
    assert not troubles


@pytest.fixture(scope="module")
def served(gallery):
    with serving(gallery) as url:
        yield url


def test_a_link_names_the_address_of_a_record(opened):
    page = opened("./own.jsonl")
    shows(page, race())
    page = opened(f"{TALK}/good")
    shows(page, with_texts("".join(SCRIPTS)))
    assert page.evaluate("window.__hit") is None
    page.reload()
    shows(page, with_texts("".join(SCRIPTS)))  # the URL still names it


@pytest.mark.full
def test_what_an_address_sends_is_not_trusted(opened):
    for name, (_, facts) in ANSWERS.items():
        page = opened(f"{TALK}/{name}")
        expect(page.locator(".error")).to_have_text(says(*facts))
    for address in (
        "http://talk.example/good",
        "javascript:window.__hit=1",
        "data:,x",
        "file:///etc/passwd",
        "//",
    ):
        expect(opened(address).locator(".error")).to_have_text(says("https://"))
    assert page.evaluate("window.__hit") is None


BAD = (..., None, "x", "", -1, 2**40, 0.5, 1, 0, [], {}, [[]], True, False, "x" * 200_001)
REFUSALS = """async ([source, rules, texts]) => {
  const { refusal } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  return texts.map((text) => refusal(text, rules));
}"""


def test_a_page_without_a_server_checks_records_as_the_server_does(module_page):
    texts = ["", "[]", "1", "null", "no record", written(GOOD), written(GOOD[1:]), written(GOOD[:1])]
    texts += [
        recordings.recording("fields"),
        "\n" * MOST_LINES + written(GOOD),
        with_texts("".join(SCRIPTS)),
    ]
    lines = [GOOD[0], *[GOOD[1] | {"slots": GOOD[1]["slots"] * 100}] * 170]
    texts.append(written(lines))  # more slots than a record may have
    for number, line in enumerate(GOOD):
        for path in paths_in(line):
            for value in BAD:
                texts.append(written([*GOOD[:number], changed(line, path, value), *GOOD[number + 1 :]]))
        for name in ("lane", "__proto__", "constructor"):
            texts.append(written([*GOOD[:number], line | {name: "x"}, *GOOD[number + 1 :]]))
    source = (ROOT / "static" / "standalone" / "refusal.js").read_text("utf-8")
    page, _ = module_page
    page.goto("about:blank")
    for text, said in zip(texts, page.evaluate(REFUSALS, [source, rules(), texts]), strict=True):
        assert bool(said) == bool(refusal(text)), (text[:2000], said, refusal(text))
        assert not said or (said.endswith(".") and "\n" not in said)


def test_a_page_of_a_site_offers_its_link_and_code_that_embeds_it(served, module_page):
    page, _ = module_page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served)
    page.goto(f"{served}/runs/bus.html")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".share output")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.get_by_role("button", name="Copy embed code").click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('<iframe'))")
    code = page.evaluate("navigator.clipboard.readText()")
    page.route("**/article", lambda route: route.fulfill(body=code, content_type="text/html"))
    page.goto(f"{served}/article")
    expect(page.frame_locator("iframe").locator(".token").first).to_be_visible()
    page.unroute_all()
    page.context.clear_permissions()
