"""The endpoint with `llm`, Gradio's `load_chat` and a page of another site; `test_endpoint` has `openai`.

The tests compare texts and passes with `decode`.
"""

import json

import gradio as gr
import pytest
from click.testing import CliRunner
from gradio_client import Client
from gradio_client.exceptions import AppError
from llm.cli import cli
from playwright.sync_api import Error
from web import HANG_GUARD, serving

from mars_demo import tasks
from mars_demo.core.limits import LIMITS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.pool import Pool
from mars_demo.serving.servers import Servers

PROMPT, FOLLOW_UP = (example.prompt for example in tasks.held_out("units", 2))


@pytest.fixture
def user_path(url, tmp_path, monkeypatch):
    """Set the folder of `llm` with its list of models: that of the endpoint."""
    models = [{"model_id": "mars", "model_name": "mars-tiny", "api_base": f"{url}/v1"}]
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))  # JSON is YAML
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))


@pytest.fixture(scope="module")
def chat(url):
    """Return the URL of a page of Gradio's that asks the endpoint."""
    page = gr.load_chat(f"{url}/v1", model="mars-tiny", token="none", file_types=None)
    _, local_url, _ = page.launch(prevent_thread_lock=True, quiet=True, show_error=True)
    yield local_url
    page.close(verbose=False)


def alone(model, prompt: str, messages=(), **settings):
    request = Request(**{"max_new_tokens": LIMITS.answer} | settings)
    return decode(model, prompt, request, messages=messages).finish()


def command(*arguments: str) -> str:
    return CliRunner().invoke(cli, [*arguments], catch_exceptions=False).output.removesuffix("\n")


# ------------------------------------------------------------------------------------------------- llm


def test_the_command_of_llm_prints_the_answer(user_path, mars_tiny):
    whole = alone(mars_tiny, PROMPT).text
    assert command("-m", "mars", PROMPT) == command("-m", "mars", PROMPT, "--no-stream") == whole
    first = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": whole}]
    assert command("-c", FOLLOW_UP) == alone(mars_tiny, FOLLOW_UP, first).text  # continues the last one
    stop = " kilograms"
    assert command("-m", "mars", PROMPT, "-o", "stop", stop) == whole[: whole.index(stop)]
    options = ["-o", "temperature", "1.5", "-o", "seed", "5", "-o", "max_tokens", "20"]
    sampled = alone(mars_tiny, PROMPT, sampling=Sampling(1.5, seed=5), max_new_tokens=20)
    assert command("-m", "mars", PROMPT, *options) == sampled.text


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
        Client(chat, verbose=False).predict("word " * 1200, api_name="/open_api_stream")


# ----------------------------------------------------------------------------- a page of another origin

# Streams an answer as a page without libraries does; a browser refuses what CORS does not allow.
ASK = """async ([url, body]) => {
  const headers = { "Content-Type": "application/json", Authorization: "Bearer none" };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
  let text = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) text += part;
  const lines = text.split("\\n").filter((line) => line.startsWith("data: {"));
  return lines.map((line) => JSON.parse(line.slice(6)).choices[0]);
}"""


def test_a_page_of_an_allowed_origin_streams_and_others_are_refused(browser, url, mars_tiny):
    expected = alone(mars_tiny, PROMPT)
    body = {"model": "mars-tiny", "messages": [{"role": "user", "content": PROMPT}], "stream": True}
    pool = Pool(["mars-tiny"], device="cpu")
    with serving(Servers(pool), [url]) as allowing, serving(Servers(pool)) as other:
        page = browser.new_page()
        page.goto(f"{url}/v1/models")
        choices = page.evaluate(ASK, [allowing, json.dumps(body)])
        assert "".join(choice["delta"].get("content", "") for choice in choices) == expected.text
        assert max(token["forward"] for c in choices for token in c["tokens"]) == expected.forwards
        for site, endpoint in ((url, other), (other, allowing)):
            page.goto(f"{site}/v1/models")
            with pytest.raises(Error, match="fetch"):
                page.evaluate(ASK, [endpoint, json.dumps(body)])
        page.close()
