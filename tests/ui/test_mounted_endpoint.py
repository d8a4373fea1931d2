"""`app.py --endpoint` and `python -m mars_demo serve` as processes, with the `openai` client."""

import signal
import subprocess
import sys

import httpx
import openai
import pytest
from child_app import GUARD, ROOT, started
from web import ask, until

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.ui import endpoint

PROMPT = tasks.held_out("units", 1)[0].prompt


@pytest.mark.full
def test_the_page_and_the_endpoint_in_one_process(mars_tiny):
    expected = decode(mars_tiny, PROMPT, Request(max_new_tokens=256)).finish()
    with started("app.py", "--endpoint", "--only", "--model", "mars-tiny", "--host", "127.0.0.1") as child:
        url = child.wait_for_url()
        child.wait_for("public link")  # printed after Gradio has reached its own page
        assert ask(url, PROMPT).choices[0].message.content == expected.text
        with pytest.raises(openai.BadRequestError, match=r"tau.*\b2\b"):
            ask(url, PROMPT, {"tau": 2})
        assert httpx.get(f"{url}/v1/nothing").json()["error"]["type"] == "not_found_error"
        assert httpx.get(f"{url}/health").json() == {"status": "ok"}
        assert "vllm:generation_tokens_total{" in httpx.get(f"{url}/metrics").text
        assert "MARS Demo" in httpx.get(url, timeout=GUARD).text


def test_a_page_without_the_option_has_no_endpoint(url):
    assert httpx.get(f"{url}v1/models").status_code == 404


def test_zerogpu_has_no_endpoint(monkeypatch):
    monkeypatch.setattr("mars_demo.ui.hosting.gpu.LENT", True)
    with pytest.raises(ValueError, match="--endpoint"):
        endpoint.settings()


@pytest.mark.full
def test_the_command_serves_until_it_is_interrupted(mars_tiny):
    command = ["-m", "mars_demo", "serve", "--model", "mars-tiny", "--port", "0", "--size", "2"]
    with started(*command) as child:
        url = child.wait_for_url("Serving")
        until(lambda: httpx.get(f"{url}/health").is_success)  # it loads its models without being asked
        expected = decode(mars_tiny, PROMPT, Request(max_new_tokens=256)).finish()
        assert ask(url, PROMPT).choices[0].message.content == expected.text
        port = url.rpartition(":")[2]
        taken = subprocess.run(
            [sys.executable, *command[:-3], port], cwd=ROOT, capture_output=True, text=True
        )
        assert taken.returncode == 2 and port in taken.stderr and taken.stderr.count("\n") == 1
        child.process.send_signal(signal.SIGINT)
        rest = child.rest()
        assert child.process.wait() == 130 and rest.count("\n") == 1
