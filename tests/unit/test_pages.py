"""Records as pages on the command line, and what a page refuses to hold."""

import pytest

from benchmarks.hostile.records import GOOD, written
from mars_demo import cli
from mars_demo.ui import standalone
from mars_demo.ui.components.stage import replay_page
from mars_demo.views import recordings


def test_a_record_becomes_a_page(tmp_path, capsys):
    record, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    lines = recordings.recording("too-low")
    record.write_text(lines, encoding="utf-8")
    assert cli.main(["page", str(record), "--output", str(page)]) == 0
    assert str(page) in capsys.readouterr().err
    text = page.read_text("utf-8")
    assert (
        text.startswith("<!doctype html>")
        and "<title>MARS Demo: Could you count the f&#x27;s in coffee? Thanks!</title>" in text
    )
    assert standalone.data(lines) in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has no forward"),
        (written(GOOD[:1]).encode(), "it has no forward"),
        (b"nothing", "line 1, it is not JSON"),
        (written([GOOD[0], {**GOOD[1], "accepted": 9}]).encode(), "line 2, accepted is larger"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (None, "No such file"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path, capsys, content, message):
    record, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    if content is not None:
        record.write_bytes(content)
    assert cli.main(["page", str(record), "--output", str(page)]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not page.exists()


def test_a_page_that_cannot_be_written_is_refused_before_the_record_is_read(tmp_path, capsys):
    assert cli.main(["page", "none.jsonl", "--output", str(tmp_path / "no" / "run.html")]) == 2
    assert "Name a file in an existing folder" in capsys.readouterr().err


@pytest.mark.parametrize("record", [None, 3, ["a"], "x" * (9 << 20)])
def test_whatever_a_browser_sends_is_answered_with_a_sentence(record):
    with pytest.raises(ValueError, match="at most 8 MiB"):
        replay_page(record)


def test_a_script_with_the_end_of_a_script_in_it_is_refused():
    class Ending:
        drawing = elem_id = "ending"
        style, js_on_load = "", "say('</SCRIPT>')"

    with pytest.raises(ValueError, match="ending.js cannot stand in a page"):
        standalone.files([Ending()])
