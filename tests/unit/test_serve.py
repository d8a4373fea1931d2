"""`python -m mars_demo serve` as a process, with the `openai` client."""

import signal

import httpx
import pytest
from child_app import started
from web import ask, until

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

PROMPT = tasks.held_out("units", 1)[0].prompt


@pytest.mark.full
def test_the_command_serves_until_it_is_interrupted(mars_tiny):
    command = ["-m", "mars_demo", "serve", "--model", "mars-tiny", "--port", "0"]
    with started(*command) as child:
        url = child.wait_for_url("Serving")
        until(lambda: httpx.get(f"{url}/health").is_success)  # it loads its models without being asked
        expected = decode(mars_tiny, PROMPT, Request(max_new_tokens=256)).finish()
        assert ask(url, PROMPT).choices[0].message.content == expected.text
        child.process.send_signal(signal.SIGINT)
        rest = child.rest()
        assert child.process.wait() == 130 and rest.count("\n") == 1
