"""The endpoint with `llm`, Gradio's `load_chat` and a page of another site; `test_endpoint` has `openai`.

The tests compare texts and passes with `decode`.
"""

import functools
import json
import os
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import gradio as gr
import llm
import pytest
from child_app import started
from click.testing import CliRunner
from gradio_client import Client
from gradio_client.exceptions import AppError
from llm.cli import cli
from playwright.sync_api import Error
from web import serving

from mars_demo import tasks
from mars_demo.core.limits import LIMITS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.pool import Pool
from mars_demo.serving.servers import Servers

PROMPT, FOLLOW_UP = (example.prompt for example in tasks.held_out("units", 2))
TOO_LONG = "word " * 1200
HANG_GUARD = 300  # seconds


@pytest.fixture(scope="module")
def url():
    with serving(Servers(Pool(["mars-tiny"], device="cpu"), 4)) as url:
        yield f"{url}/v1"


@pytest.fixture
def user_path(url, tmp_path, monkeypatch):
    """Set the folder of `llm` with its list of models: the endpoint's, and one that is not served."""
    names = {"mars": "mars-tiny", "nobody": "nobody"}
    models = [{"model_id": id, "model_name": name, "api_base": url} for id, name in names.items()]
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))  # JSON is YAML
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))


@pytest.fixture(scope="module")
def chat(url):
    """Return the URL of a page of Gradio's that asks the endpoint."""
    page = gr.load_chat(url, model="mars-tiny", token="none", file_types=None)
    _, local_url, _ = page.launch(prevent_thread_lock=True, quiet=True, show_error=True)
    yield local_url
    page.close(verbose=False)


def alone(model, prompt: str, messages=(), **settings):
    request = Request(**{"max_new_tokens": LIMITS.answer} | settings)
    return decode(model, prompt, request, messages=messages).finish()


def asked(model, prompt: str, follow_up: str) -> str:
    """Return the answer to the second of two turns."""
    first = {"role": "assistant", "content": alone(model, prompt).text}
    return alone(model, follow_up, [{"role": "user", "content": prompt}, first]).text


def command(*arguments: str) -> str:
    return CliRunner().invoke(cli, [*arguments], catch_exceptions=False).output.removesuffix("\n")


# ------------------------------------------------------------------------------------------------- llm


def test_the_command_of_llm_prints_the_answer(user_path, mars_tiny):
    whole = alone(mars_tiny, PROMPT).text
    assert command("-m", "mars", PROMPT) == command("-m", "mars", PROMPT, "--no-stream") == whole
    assert command("-c", FOLLOW_UP) == asked(mars_tiny, PROMPT, FOLLOW_UP)  # continues the last one
    stop = " kilograms"
    assert command("-m", "mars", PROMPT, "-o", "stop", stop) == whole[: whole.index(stop)]
    options = ["-o", "temperature", "1.5", "-o", "seed", "5", "-o", "max_tokens", "20"]
    sampled = alone(mars_tiny, PROMPT, sampling=Sampling(1.5, seed=5), max_new_tokens=20)
    assert command("-m", "mars", PROMPT, *options) == sampled.text


def test_the_errors_of_the_endpoint_reach_the_command_of_llm(user_path):
    for arguments, fact in (
        (["-m", "nobody", PROMPT], "mars-tiny"),
        (["-m", "mars", TOO_LONG], "511"),
        (["-m", "mars", PROMPT, "-o", "max_tokens", "0"], "max_tokens"),
    ):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 1 and result.output.startswith("Error: "), arguments
        assert fact in result.output and result.output.count("\n") == 1


def test_the_library_of_llm_streams_a_piece_per_pass(user_path, mars_tiny):
    expected = alone(mars_tiny, PROMPT)
    conversation = llm.get_model("mars").conversation()
    response = conversation.prompt(PROMPT)
    assert list(response) == [step.text for step in expected.passes if step.text]
    usage = response.usage()
    assert (usage.input, usage.output) == (expected.settings.prompt_tokens, expected.tokens)
    assert usage.details["forwards"] == expected.forwards
    assert conversation.prompt(FOLLOW_UP).text() == asked(mars_tiny, PROMPT, FOLLOW_UP)


@pytest.mark.full
def test_llm_and_serve_as_commands(tmp_path, mars_tiny):
    """Set τ where `llm` can have it: at the server."""
    serve = ["-m", "mars_demo", "serve", "--model", "mars-tiny", "--port", "0", "--tau", "0.5"]
    with started(*serve) as child:
        model = {"model_id": "mars", "model_name": "mars-tiny", "api_base": child.wait_for_url("Serving")}
        model["api_base"] += "/v1"
        (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([model]))
        ask = [sys.executable, "-m", "llm", "-m", "mars", PROMPT, "-u"]
        environment = os.environ | {"LLM_USER_PATH": str(tmp_path)}
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": HANG_GUARD}
        done = subprocess.run(ask, env=environment, **options)
    expected = alone(mars_tiny, PROMPT, tau=0.5)
    assert done.returncode == 0 and (done.stdout + done.stderr).startswith(expected.text)
    assert f'"forwards": {expected.forwards},' in done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------- Gradio


def test_a_page_of_load_chat_streams_the_answer_and_shows_errors(chat, mars_tiny):
    expected = alone(mars_tiny, PROMPT)
    client = Client(chat, verbose=False)
    job = client.submit(PROMPT, api_name="/open_api_stream")
    assert job.result(HANG_GUARD) == expected.text
    texts = [step.text for step in expected.passes if step.text]
    pieces = {"".join(texts[:number]) for number in range(len(texts) + 1)}
    assert len(job.outputs()) > 2 and set(job.outputs()) <= pieces
    with pytest.raises(AppError, match="511"):
        Client(chat, verbose=False).predict(TOO_LONG, api_name="/open_api_stream")


# ----------------------------------------------------------------------------- a page of another origin

# Streams an answer as a page without libraries does; a browser refuses what CORS does not allow.
ASK = """async ([url, body]) => {
  const headers = { "Content-Type": "application/json", Authorization: "Bearer none" };
  const response = await fetch(`${url}/chat/completions`, { method: "POST", headers, body });
  let text = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) text += part;
  const lines = text.split("\\n").filter((line) => line.startsWith("data: {"));
  return lines.map((line) => JSON.parse(line.slice(6)).choices[0]);
}"""


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Yield the origins of two sites with an empty page."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text("<!doctype html>")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [f"http://127.0.0.1:{server.server_port}" for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_page_of_an_allowed_origin_streams_and_others_are_refused(browser, sites, url, mars_tiny):
    expected = alone(mars_tiny, PROMPT)
    body = {"model": "mars-tiny", "messages": [{"role": "user", "content": PROMPT}], "stream": True}
    with serving(Servers(Pool(["mars-tiny"], device="cpu"), 4), sites[:1]) as allowing:
        page = browser.new_page()
        page.goto(sites[0])
        choices = page.evaluate(ASK, [f"{allowing}/v1", json.dumps(body)])
        assert "".join(choice["delta"].get("content", "") for choice in choices) == expected.text
        assert max(token["forward"] for c in choices for token in c["tokens"]) == expected.forwards
        for site, endpoint in ((sites[0], url), (sites[1], f"{allowing}/v1")):
            page.goto(site)
            with pytest.raises(Error, match="fetch"):
                page.evaluate(ASK, [endpoint, json.dumps(body)])
        page.close()
