"""Long work waits in one line: who waits is told their place, may give up, and is let in in order."""

import threading

import gradio as gr
import pytest

from mars_demo.ui import line
from mars_demo.ui.board import Board
from mars_demo.ui.line import Line, in_line


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(line, "LINE", Line())
    monkeypatch.setattr(line, "PATIENCE", 0.01)


def work(name, board):
    for step in ("begun", "done"):
        yield f"{name} {step}"


def test_who_is_first_works_at_once():
    assert list(in_line(work, 1)("a", Board()))[1:] == [["a begun", gr.skip()], ["a done", gr.skip()]]


def test_the_second_is_told_their_place_and_works_when_the_first_has_ended_or_left():
    first, second = in_line(work, 1)("a", Board()), in_line(work, 1)("b", Board())
    next(first)
    _, told = next(second)
    assert told == "One long run is ahead of yours: about 20 seconds."
    first.close()
    assert next(second) == [gr.skip(), ""]
    assert next(second) == ["b begun", gr.skip()]


def test_who_waits_may_stop_and_leaves_the_line():
    board, first = Board(), in_line(work, 1)("a", Board())
    second, third = in_line(work, 1)("b", board), in_line(work, 1)("c", Board())
    for steps in (first, second):
        next(steps)
    assert next(third)[1].startswith("2 long runs are ahead of yours")
    board.stopped = True
    assert next(second)[1] == "Stopped before it began."
    assert list(second) == []
    assert next(third)[1].startswith("One long run is ahead of yours")


def test_they_come_in_order_and_one_at_a_time():
    order, started = [], threading.Barrier(5)

    def patient(number, board):
        order.append(number)
        yield number
        order.append(number)

    def visit(number):
        started.wait(60)
        list(in_line(patient, 1)(number, Board()))

    threads = [threading.Thread(target=visit, args=[number]) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert order[::2] == order[1::2]
    assert sorted(order[::2]) == list(range(5))


def test_what_a_run_takes_is_learned(monkeypatch):
    own, clock = Line(), iter([0.0, 100.0, 100.0, 100.0])
    monkeypatch.setattr(line.time, "monotonic", lambda: next(clock))
    with own.place():
        pass
    assert own.words(1) == "One long run is ahead of yours: about 44 seconds."


def test_the_line_has_an_end(monkeypatch):
    monkeypatch.setenv("MARS_DEMO_WAITING", "2")
    own = Line()
    full = pytest.raises(ValueError, match="^2 visitors wait already, which is the limit here.$")
    with own.place(), own.place(), own.place(), full, own.place():
        pass
    with own.place() as ticket:
        assert own.ahead(ticket) == 0
