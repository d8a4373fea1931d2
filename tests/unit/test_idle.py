"""Background work gives way to whatever runs for a visitor."""

import threading

import pytest

from mars_demo.decoding import cost_store
from mars_demo.ui import idle, models, options
from mars_demo.ui.idle import IDLE, Idle, giving_way, visiting


def test_no_step_begins_while_something_runs_and_a_visit_waits_for_the_step_under_way():
    idle, order = Idle(), []
    in_step, leave_step = threading.Event(), threading.Event()

    def background():
        with idle.step():
            in_step.set()
            leave_step.wait(60)
            order.append("step")
        with idle.step():
            order.append("second step")

    def visitor():
        with idle.visit():
            order.append("visit")

    threads = [threading.Thread(target=background)]
    threads[0].start()
    in_step.wait(60)
    threads.append(threading.Thread(target=visitor))
    threads[1].start()
    while not idle._visitors:  # the visitor has come
        pass
    leave_step.set()
    for thread in threads:
        thread.join(60)
    assert order == ["step", "visit", "second step"]


def test_long_work_waits_for_visits_for_a_moment_and_the_background_waits_for_long_work(monkeypatch):
    @giving_way
    def training():
        yield from range(3)

    steps = training()
    assert next(steps) == 0
    with IDLE.step(0.01) as free:
        assert not free  # the background waits until it has ended
    ended, order = threading.Event(), []

    def visitor():
        with IDLE.visit():  # does not wait for the training
            order.append("visit")
            ended.wait(60)
            order.append("visit's end")

    def go_on():
        order.append(f"step {next(steps)}")

    race = threading.Thread(target=visitor)
    race.start()
    while not order:
        pass
    monkeypatch.setattr(idle, "GIVES_WAY", 60)
    training_thread = threading.Thread(target=go_on)
    training_thread.start()
    training_thread.join(0.2)
    assert order == ["visit"]
    ended.set()
    training_thread.join(60)
    race.join(60)
    assert order == ["visit", "visit's end", "step 1"]

    monkeypatch.setattr(idle, "GIVES_WAY", 0.05)
    with IDLE.visit():
        assert next(steps) == 2  # a visit that does not end holds it up for that long only
    steps.close()
    with IDLE.step():
        pass


def test_a_visit_ends_with_its_function_however_that_ends():
    @visiting
    def fails():
        raise ValueError("no")

    @visiting
    def steps():
        yield 1
        yield 2

    with pytest.raises(ValueError, match="no"):
        fails()
    begun = steps()
    assert next(begun) == 1
    begun.close()
    from mars_demo.ui.idle import IDLE

    with IDLE.step():  # would wait for ever
        pass


def test_the_app_measures_a_model_after_its_first_run(tmp_path, monkeypatch):
    monkeypatch.setenv(cost_store.VARIABLE, str(tmp_path))
    models.serve(options.read(["--only", "--model", "mars-tiny"]))
    before = set(threading.enumerate())
    with models.IDLE.visit():
        assert models.decode(None, "Hello", models.Request(max_new_tokens=2)).settings.costs is None
        [measuring] = set(threading.enumerate()) - before
    measuring.join(120)
    checkpoint = models.load()
    kept = cost_store.load(checkpoint)
    costs = models.decode(None, "Hello", models.Request(max_new_tokens=2)).settings.costs
    assert (costs is None) == (kept is None)  # None on a machine that is too busy
    window = models.decode(None, "Hello", models.Request(window=3, max_new_tokens=2)).settings
    assert (window.window, window.costs) == (3, None)
