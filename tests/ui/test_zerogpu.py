"""The app as on ZeroGPU: computation runs in processes that a stand-in for `spaces` really forks."""

import json
import os
import shutil
from pathlib import Path

import pytest
from child_app import GUARD, ROOT, started
from gradio_client.exceptions import AppError
from playwright.sync_api import expect
from race_tab import lane, prompt, race, records, set_tau, stage, stop, taus, to_the_end
from web import app_client

from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

pytestmark = pytest.mark.full

START = """
import runpy, sys, forking_spaces
sys.modules["spaces"] = forking_spaces
sys.argv = ["app.py", "--model", "mars-tiny", "--model", "ar-tiny", "--model", sys.argv[1], "--only"]
from mars_demo.models import pool
pool.RETRY_AFTER = 0
from mars_demo.ui import knobs
knobs.FORWARDS_PER_SECOND = 4
from mars_demo.evaluation import training_record
training_record.PROBE_PROMPTS = 1  # as much as is needed to see that it works
runpy.run_path("app.py", run_name="__main__")
"""


class App:
    """The URL of the app and the log of the stand-in: calls and their ends."""

    def __init__(self, url: str, log: Path, missing: Path):
        self.url, self._log, self.missing = url, log, missing

    def log(self, task: str, event: str = "end") -> list[dict]:
        lines = (
            [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []
        )
        return [line for line in lines if (line["task"], line["event"]) == (task, event)]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zerogpu")
    log, missing = folder / "log", folder / "late"
    environment = {
        "SPACES_ZERO_GPU": "true", "FORKING_SPACES_LOG": str(log), "MARS_DEMO_TRAIN_STEPS": "2",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }  # fmt: skip
    with started("-c", START, str(missing), environment=environment) as child:
        yield App(f"{child.wait_for_url()}/", log, missing)


def test_a_forked_process_gives_the_tokens_of_this_one_and_serves_again(app, mars_tiny):
    client, prompts = app_client(app.url), ["Sort 31, 4 and 15", "How many days are 3 weeks?"]
    for text in prompts:
        answer = client.predict(text, tau=0.9, max_new_tokens=64, api_name="/generate")
        expected = decode(mars_tiny, text, Request("mars", 0.9, max_new_tokens=64)).finish()
        assert answer == expected.text
    calls, ends = app.log("_answered", "call"), app.log("_answered")
    assert len(calls) == len(ends) == 2
    assert calls[0]["worker"] == calls[1]["worker"] != calls[0]["app"]  # forked only once


def test_a_model_missing_at_launch_answers_when_it_exists(app):
    client = app_client(app.url)
    arguments = {"tau": 0.9, "model": "late", "trace": True, "api_name": "/generate"}
    with pytest.raises(AppError, match="late"):
        client.predict("Sort 31, 4 and 15", **arguments)
    shutil.copytree(ROOT / "assets/mars-tiny", app.missing)
    assert Run.read(client.predict("Sort 31, 4 and 15", **arguments).splitlines()).stop == "eos"


def test_tau_and_stop_reach_the_forked_process(visit, app):
    page = visit("prompt=table&tau=1&mode=mars&model=mars-tiny", app.url)
    expect(page.locator("#watch input")).not_to_be_checked()
    for tau in (0, 0.5):  # the second time in a process forked earlier
        set_tau(page, 1)
        page.locator("#watch input").check()
        race(page)
        expect(stage(page)).to_have_attribute("data-state", "running")
        expect(lane(page, "mars").locator(".token").first).to_be_attached()
        set_tau(page, tau)
        expect(lane(page, "mars").locator(".setting")).to_contain_text(f"{tau:.2f}")
        page.locator("#watch input").uncheck()
        to_the_end(page)
        moved = taus(records(page)["mars"])
        assert (moved[0], moved[-1]) == (1, tau)
    page.locator("#watch input").check()
    set_tau(page, 1)
    race(page)
    stop(page)
    assert len({call["worker"] for call in app.log("_raced", "call")}) == 1


def test_a_training_computes_in_a_forked_process_and_its_model_races(visit, app):
    page = visit("tab=train", app.url)
    expect(page.locator("#base input")).to_have_value("ar-tiny")
    page.locator("#train-run").click()
    expect(page.locator("#race-it")).to_be_visible(timeout=1000 * GUARD)
    page.locator("#race-it").click()
    prompt(page).fill("Sort 3, 1")
    page.locator("#run").click()
    expect(page.locator("#stage .machine")).to_contain_text("mine-")
    training = app.log("watched", "call")[-1]
    assert training["worker"] != training["app"]
