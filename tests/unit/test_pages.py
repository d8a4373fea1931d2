"""Records as pages: the command, and content that pages refuse."""

import pytest
from hostile import GOOD, written

from mars_demo import cli
from mars_demo.show import recordings, scripts
from mars_demo.static import standalone
from mars_demo.ui import controls


def test_a_record_becomes_a_page(tmp_path, capsys):
    record, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    lines = recordings.recording("too-low")
    record.write_text(lines, encoding="utf-8")
    assert cli.main(["page", str(record), "--output", str(page)]) == 0
    assert str(page) in capsys.readouterr().err
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>") and "the f&#x27;s in coffee" in text
    assert standalone.data(lines) in text


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (written(GOOD[:1]).encode(), "record"),
        (written([GOOD[0], {**GOOD[1], "accepted": 9}]).encode(), "line 2"),
        (b"\xff\xfe", "UTF-8"),
        (None, "run.jsonl"),
    ],
)
def test_a_broken_record_is_refused_in_one_line(tmp_path, capsys, content, fact):
    record, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    if content is not None:
        record.write_bytes(content)
    assert cli.main(["page", str(record), "--output", str(page)]) == 2
    error = capsys.readouterr().err
    assert fact in error and error.count("\n") == 1 and "Traceback" not in error
    assert not page.exists()


def test_tau_sliders_have_one_step():
    words = (scripts.COMPONENTS / "words.js").read_text("utf-8")
    assert f"TAU_STEP = {controls.TAU_STEP};" in words
