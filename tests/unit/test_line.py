"""The queue for long work: places, leaving it, and its order."""

import re
import threading
from types import SimpleNamespace

import gradio as gr
import pytest

from mars_demo.ui import line
from mars_demo.ui.board import Board
from mars_demo.ui.line import Line, in_line


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(line, "LINE", Line())
    monkeypatch.setattr(line, "PATIENCE", 0.01)
    monkeypatch.setattr(line, "time", SimpleNamespace(monotonic=lambda: 0.0))


def numbers_in(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def work(name, board):
    for step in ("begun", "done"):
        yield f"{name} {step}"


def test_the_first_visitor_starts_at_once():
    assert list(in_line(work, 1)("a", Board()))[1:] == [["a begun", gr.skip()], ["a done", gr.skip()]]


def test_the_second_visitor_gets_an_estimate_and_starts_when_the_first_leaves():
    first, second = in_line(work, 1)("a", Board()), in_line(work, 1)("b", Board())
    next(first)
    _, message = next(second)
    assert numbers_in(message)[-1] == "20"
    first.close()
    assert next(second) == [gr.skip(), ""]
    assert next(second) == ["b begun", gr.skip()]


def test_a_waiting_visitor_may_stop_and_leaves_the_queue():
    board, first = Board(), in_line(work, 1)("a", Board())
    second, third = in_line(work, 1)("b", board), in_line(work, 1)("c", Board())
    for steps in (first, second):
        next(steps)
    assert numbers_in(next(third)[1]) == ["2", "40"]
    board.stopped = True
    assert next(second)[1]
    assert list(second) == []
    assert numbers_in(next(third)[1])[-1] == "20"


def test_runs_do_not_overlap():
    order, started = [], threading.Barrier(5, timeout=300)

    def patient(number, board):
        order.append(number)
        yield number
        order.append(number)

    def visit(number):
        started.wait()
        list(in_line(patient, 1)(number, Board()))

    threads = [threading.Thread(target=visit, args=[number]) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert order[::2] == order[1::2]
    assert sorted(order[::2]) == list(range(5))


def test_the_estimate_follows_the_runs(monkeypatch):
    own, clock = Line(), iter([0.0, 100.0, 100.0, 100.0])
    monkeypatch.setattr(line, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with own.place():
        pass
    assert numbers_in(own.words(1))[-1] == "44"


def test_the_queue_has_a_limit(monkeypatch):
    monkeypatch.setenv("MARS_DEMO_WAITING", "2")
    own = Line()
    full = pytest.raises(ValueError, match="2")
    with own.place(), own.place(), own.place(), full, own.place():
        pass
    with own.place() as ticket:
        assert own.ahead(ticket) == 0
