"""Records dropped on the stage: the server validates them; a saved page takes none."""

import pytest
from hostile import GOOD, changed, written
from on_stage import give, put, says
from playwright.sync_api import expect
from records import race

from mars_demo.core.fields import MOST_LINES
from mars_demo.core.limits import LIMITS
from mars_demo.core.trace import read_text
from mars_demo.static.standalone.replay import replay_page

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
