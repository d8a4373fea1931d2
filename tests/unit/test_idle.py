"""Background work gives way to runs of visitors."""

import threading

import pytest

from mars_demo.decoding import cost_store
from mars_demo.ui import idle, models, options
from mars_demo.ui.idle import IDLE, Idle, giving_way, visiting

GUARD = 300  # seconds


def test_a_visit_waits_for_the_current_step_and_the_next_step_waits_for_the_visit():
    idle, order = Idle(), []
    in_step, leave_step = threading.Event(), threading.Event()

    def background():
        with idle.step():
            in_step.set()
            leave_step.wait(GUARD)
            order.append("step")
        with idle.step():
            order.append("second step")

    def visitor():
        with idle.visit():
            order.append("visit")

    threads = [threading.Thread(target=background)]
    threads[0].start()
    in_step.wait(GUARD)
    threads.append(threading.Thread(target=visitor))
    threads[1].start()
    while not idle._visitors:  # until the visitor is there
        pass
    leave_step.set()
    for thread in threads:
        thread.join(GUARD)
    assert order == ["step", "visit", "second step"]


def test_long_work_waits_for_visits_up_to_a_limit_and_the_background_waits_for_long_work(monkeypatch):
    @giving_way
    def training():
        yield from range(3)

    steps = training()
    assert next(steps) == 0
    with IDLE.step(0.01) as free:
        assert not free  # the background waits until it has ended
    began, ended, order = threading.Event(), threading.Event(), []

    def visitor():
        with IDLE.visit():  # does not wait for the training
            order.append("visit")
            began.set()
            ended.wait(GUARD)
            order.append("visit's end")

    def go_on():
        order.append(f"step {next(steps)}")

    race = threading.Thread(target=visitor)
    race.start()
    assert began.wait(GUARD)
    monkeypatch.setattr(idle, "GIVES_WAY", GUARD)
    training_thread = threading.Thread(target=go_on)
    training_thread.start()
    training_thread.join(0.2)  # not enough to end, however fast the machine is
    assert order == ["visit"]
    ended.set()
    training_thread.join(GUARD)
    race.join(GUARD)
    assert order == ["visit", "visit's end", "step 1"]

    monkeypatch.setattr(idle, "GIVES_WAY", 0.05)
    with IDLE.visit():
        assert next(steps) == 2  # a visit that does not end delays it for that time only
    steps.close()
    with IDLE.step(0.01) as free:
        assert free


def test_a_visit_ends_with_its_function():
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
    with IDLE.step(0.01) as free:
        assert free


def test_the_app_measures_a_model_after_its_first_run(tmp_path, monkeypatch):
    monkeypatch.setenv(cost_store.VARIABLE, str(tmp_path))
    models.serve(options.read(["--only", "--model", "mars-tiny"]))
    with models.IDLE.visit():
        assert models.decode(None, "Hello", models.Request(max_new_tokens=2)).settings.costs is None
        [measuring] = [thread for thread in threading.enumerate() if "_measure" in thread.name]
    measuring.join(GUARD)
    checkpoint = models.load()
    kept = cost_store.load(checkpoint)
    costs = models.decode(None, "Hello", models.Request(max_new_tokens=2)).settings.costs
    assert (costs is None) == (kept is None)  # None on a busy machine
    window = models.decode(None, "Hello", models.Request(window=3, max_new_tokens=2)).settings
    assert (window.window, window.costs) == (3, None)
