"""`app.py --endpoint` and `python -m mars_demo serve` as processes, asked by the `openai` package."""

import os
import select
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest
from gradio_client import Client
from ports import free_port

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.ui import endpoint

ROOT = Path(__file__).parents[2]
PROMPT = tasks.held_out("units", 1)[0].prompt


@contextmanager
def running(*command: str, ready: bytes):
    """A process once it has said that it is ready, and what it had written by its end."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
    )  # fmt: skip
    written = []
    try:
        while select.select([process.stdout], [], [], 60)[0] and (line := process.stdout.readline()):
            written.append(line)
            if ready in line:
                break
        yield process, written
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def ask(address: str, **more):
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60)
    messages = [{"role": "user", "content": PROMPT}]
    return client.chat.completions.create(model="mars-tiny", messages=messages, **more)


def test_the_page_and_the_endpoint_in_one_process(mars_tiny):
    port = str(free_port())
    command = [
        "app.py",
        "--endpoint",
        "--only",
        "--model",
        "mars-tiny",
        "--port",
        port,
        "--host",
        "127.0.0.1",
    ]
    expected = decode(mars_tiny, PROMPT, Request(max_new_tokens=256)).finish()
    with running(*command, ready=b"public link"):  # printed when Gradio has reached its own page
        address = f"http://127.0.0.1:{port}"
        assert ask(address).choices[0].message.content == expected.text
        stream = ask(address, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == expected.text
        with pytest.raises(openai.BadRequestError, match="tau must be less than or equal to 1, not 2"):
            ask(address, extra_body={"tau": 2})
        assert httpx.get(f"{address}/v1/nothing").json()["error"]["type"] == "not_found_error"
        assert "MARS Demo" in httpx.get(address, timeout=60).text
        record = Client(address, verbose=False).predict(PROMPT, max_new_tokens=256, api_name="/generate")
        assert record.count('"pass"') == expected.forwards


def test_a_page_without_the_option_has_no_endpoint(url):
    assert httpx.get(f"{url}v1/models").status_code == 404


def test_where_gpus_are_lent_there_is_no_endpoint(monkeypatch):
    monkeypatch.setattr("mars_demo.ui.gpu.LENT", True)
    with pytest.raises(ValueError, match="--endpoint needs a device of its own"):
        endpoint.settings()


def test_the_command_serves_until_it_is_interrupted(mars_tiny):
    command = ["-m", "mars_demo", "serve", "--model", "mars-tiny", "--port", "0", "--size", "2"]
    with running(*command, ready=b"Serving") as (process, written):
        (line,) = written
        address = line.split(b" at ")[1].split(b"/v1")[0].decode()
        expected = decode(mars_tiny, PROMPT, Request(max_new_tokens=256)).finish()
        assert ask(address).choices[0].message.content == expected.text
        taken = subprocess.run(
            [sys.executable, *command[:-3], address.rpartition(":")[2]],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        assert taken.returncode == 2 and "cannot be listened on: Address already in use" in taken.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stdout.read() == b"Stopped.\n"
