"""What visitors of a hosted app expect: they see that they wait, and for how many others."""

import contextlib
import io
import json
import re
import shlex
import urllib.request

from gradio_client import Client
from playwright.sync_api import expect
from test_page import race, to_the_end

from mars_demo.ui.page import build


def test_a_visitor_who_waits_sees_the_queue(visit, slow):
    one, two = visit("prompt=table&tau=1&mode=mars"), visit("prompt=story&mode=mars&tau=0")
    expect(two.locator("#model input")).not_to_have_value("")
    race(one)
    two.locator("#run").click()
    waiting = two.locator("#prompt").get_by_text(re.compile(r"queue: 1/1"))
    expect(waiting).to_be_visible()
    one.locator("#stop").click()
    expect(waiting).to_have_count(0)
    to_the_end(two)


def test_the_examples_of_the_api_page_run_as_they_are(url):
    with urllib.request.urlopen(f"{url}gradio_api/info") as response:
        [found] = json.load(response)["named_endpoints"].values()
    snippets = found["code_snippets"]

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(snippets["python"], {})
    assert json.loads(said.getvalue().splitlines()[-2])["done"]

    address = shlex.split(snippets["bash"])[3]
    body = json.loads(re.search(r"-d '(.*)'", snippets["bash"])[1])
    asked = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as response:
        event = json.load(response)["event_id"]
    with urllib.request.urlopen(f"{url}gradio_api/call/generate/{event}") as response:
        assert "event: complete" in response.read().decode()

    arguments = json.loads(re.search(r"'(\{.*\})'", snippets["cli"], re.DOTALL)[1])
    record = Client(url, verbose=False).predict(**arguments, api_name="/generate")
    assert json.loads(record.splitlines()[0])["prompt"] == arguments["prompt"]


def test_a_space_can_be_duplicated_and_other_apps_cannot(monkeypatch):
    def buttons() -> list[str]:
        return [block.value for block in build().blocks.values() if block.get_block_name() == "button"]

    assert "Duplicate Space" not in buttons()
    monkeypatch.setenv("SYSTEM", "spaces")
    monkeypatch.setenv("SPACE_ID", "me/mars")
    assert "Duplicate Space" in buttons()
