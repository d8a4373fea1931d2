"""The HTTP endpoint, tested with the `openai` client and with hostile clients."""

import asyncio
import json
import logging
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import httpx
import openai
import pytest
import torch
from gate import Gate
from pydantic import BaseModel, Field
from web import HANG_GUARD, ask, client, ours, run, serving, until

from mars_demo import tasks
from mars_demo.core.grammar import LONGEST as MOST
from mars_demo.core.grammar import Grammar
from mars_demo.core.limits import LIMITS
from mars_demo.core.log import LONGEST
from mars_demo.core.messages import user
from mars_demo.decoding import prefill
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models import memory
from mars_demo.models.pool import Pool
from mars_demo.serving.completion import Completion
from mars_demo.serving.endpoint import Endpoint

ROOT = Path(__file__).parents[2]
PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
STORY = "Tell me a short story about a lantern and a wizard."
SETTINGS = SimpleNamespace(run="1", model="any")
REQUEST = {"model": "mars-tiny", "messages": [user(PROMPTS[0])]}


def alone(model, prompt: str, **settings):
    return decode(model, prompt, Request(**{"max_new_tokens": LIMITS.answer} | settings)).finish()


def post(url: str, body, **more) -> httpx.Response:
    """Send bytes, or a value as JSON."""
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    more = {"headers": {"Content-Type": "application/json"}} | more
    return httpx.post(f"{url}/v1/chat/completions", content=content, timeout=HANG_GUARD, **more)


def test_models_are_listed_as_openai_lists_them(url):
    models = [*client(url).models.list()]
    assert [(model.id, model.object) for model in models] == [("mars-tiny", "model"), ("ar-tiny", "model")]


def test_a_stream_has_a_chunk_per_pass_and_ends_with_the_usage_on_request(url, mars_tiny):
    expected = alone(mars_tiny, STORY)
    *chunks, last = ask(url, STORY, stream=True, stream_options={"include_usage": True})
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert pieces == [step.text for step in expected.passes if step.text]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks) and last.choices == []
    assert (last.usage.completion_tokens, last.usage.forwards) == (expected.tokens, expected.forwards)
    plain = list(ask(url, PROMPTS[0], stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in plain)


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({}, {}),
        ({"tau": 0.5, "window": 3}, {"tau": 0.5, "window": 3}),
        ({"mode": "jacobi", "window": 4}, {"mode": "jacobi", "window": 4}),
        ({"criterion": "margin", "temperature": 0, "seed": 1234}, {"criterion": "margin"}),
        ({"top_p": 0.9, "seed": -4}, {"sampling": Sampling(1.0, top_p=0.9, seed=-4)}),
        (
            {"temperature": 1.5, "top_k": 40, "seed": 5, "mode": "lossless"},
            {"sampling": Sampling(1.5, top_k=40, seed=5), "mode": "lossless"},
        ),
    ],
)
def test_an_answer_and_its_usage_are_those_of_the_decoder(url, mars_tiny, fields, settings):
    expected = alone(mars_tiny, STORY, max_new_tokens=40, **settings)
    answer = ask(url, STORY, fields, max_tokens=40)
    [choice], usage = answer.choices, answer.usage
    assert choice.message.content == expected.text
    assert choice.finish_reason == ("length" if expected.stop == "length" else "stop")
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        expected.settings.prompt_tokens,
        expected.tokens,
    )
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.forwards == expected.forwards
    assert usage.tokens_per_forward == pytest.approx(expected.tokens_per_forward, abs=0.001)
    # Each forward gives one token and the accepted drafts; vLLM's names.
    found = answer.metrics["speculative_decoding"]
    steps, lengths = found["num_spec_steps"], found["acceptance_histogram"]
    kept = found["num_accepted_draft_tokens"]
    assert kept == usage.completion_tokens - usage.forwards == sum(n * c for n, c in enumerate(lengths)) > 0
    assert sum(lengths) == steps <= usage.forwards and len(lengths) == found["num_spec_tokens"] + 1
    assert found["mean_acceptance_length"] == pytest.approx(1 + kept / steps)
    assert found["draft_acceptance_rate"] == pytest.approx(kept / found["num_draft_tokens"])
    *_, last = ask(url, STORY, fields, max_tokens=40, stream=True, stream_options={"include_usage": True})
    assert (last.usage, last.metrics) == (usage, answer.metrics)


def test_concurrent_clients_get_their_own_answers(url, mars_tiny):
    """Send them at once, half of them streamed, with settings of their own."""
    settings = [{}, {"tau": 0.5}, {"mode": "lossless"}, {"mode": "ar"}, {"criterion": "entropy"}]
    requests = [(prompt, settings[n % len(settings)]) for n, prompt in enumerate(PROMPTS)]

    async def ask_one(clients, number, prompt, extra):
        fields = {"model": "mars-tiny", "messages": [user(prompt)], "extra_body": extra}
        if number % 2:
            return (await clients.chat.completions.create(**fields)).choices[0].message.content
        stream = await clients.chat.completions.create(**fields, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as clients:
            asks = [ask_one(clients, number, *one) for number, one in enumerate(requests)]
            return await asyncio.gather(*asks)

    assert run(ask_all()) == [alone(mars_tiny, prompt, **extra).text for prompt, extra in requests]


def test_without_a_seed_samples_differ(url):
    answers = [ask(url, STORY, temperature=1.5, max_tokens=30) for _ in range(3)]
    assert len({answer.choices[0].message.content for answer in answers}) == 3


def test_the_message_formats_of_clients_are_accepted(url, mars_tiny):
    messages = [
        {"role": "user", "content": [{"type": "text", "text": PROMPTS[0]}], "name": "someone"},
        {"role": "assistant", "content": "Yes.", "refusal": None, "tool_calls": None},
        {
            "role": "user",
            "content": [{"type": "text", "text": PROMPTS[1][:5]}, {"type": "text", "text": PROMPTS[1][5:]}],
        },
    ]
    harmless = {"n": 1, "frequency_penalty": 0.0, "presence_penalty": 0, "logprobs": False, "user": "me"}
    harmless |= {"tools": [], "stop": None, "store": False}
    answer = ask(url, messages, harmless)
    plain = [user(PROMPTS[0]), {"role": "assistant", "content": "Yes."}]
    expected = decode(mars_tiny, PROMPTS[1], Request(max_new_tokens=LIMITS.answer), messages=plain).finish()
    assert answer.choices[0].message.content == expected.text


def test_an_answer_ends_before_its_stop_string(url, mars_tiny):
    whole = alone(mars_tiny, STORY).text
    [choice] = ask(url, STORY, stop=" lantern").choices
    assert choice.message.content == whole[: whole.index(" lantern")] and choice.finish_reason == "stop"
    choices = [chunk.choices[0] for chunk in ask(url, STORY, stop=["a", "antern a"], stream=True)]
    assert "".join(choice.delta.content or "" for choice in choices) == whole[: whole.index("a")]
    assert choices[-1].finish_reason == "stop"


def test_a_streamed_text_ends_before_the_first_stop_string():
    """Compare with `find` on the whole text, for every split in three parts."""
    text = "abcabdabcd"
    for strings in ([], ["abd"], ["abcd", "bda"], ["cd"], ["d", "abd"], ["x"], ["dabcdx"], ["dx", "cdx"]):
        places = [at for one in strings if (at := text.find(one)) >= 0]
        for a in range(len(text)):
            for b in range(a, len(text)):
                texts = [text[:a], text[:b], text, text]
                runs = [SimpleNamespace(text=part, stop=None, settings=SETTINGS) for part in texts]
                runs[-1].stop = "eos"
                shown = [Completion(run, strings).text() for run in runs]
                assert all(later.startswith(earlier) for earlier, later in zip(shown, shown[1:]))
                assert shown[-1] == text[: min(places, default=None)]


class Count(BaseModel):
    """A record that a client wants."""

    name: str = Field(max_length=12)
    count: int = Field(ge=0, le=99)


def test_answers_are_parsed_as_the_model_of_a_client(url, mars_tiny):
    schema = json.dumps(Count.model_json_schema() | {"additionalProperties": False})
    expected = alone(mars_tiny, STORY, grammar=Grammar("json", schema))
    fields = {"model": "mars-tiny", "messages": [user(STORY)], "response_format": Count}
    completions = client(url).chat.completions
    answer = completions.parse(**fields)
    [choice] = answer.choices
    assert choice.message.parsed == Count.model_validate_json(expected.text)
    assert (choice.message.content, choice.finish_reason) == (expected.text, "stop")
    assert answer.usage.forced_tokens == expected.sources["forced"] > 0
    with completions.stream(**fields) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == choice.message.parsed
    with pytest.raises(openai.LengthFinishReasonError):  # finish_reason "length"
        completions.parse(**fields, max_tokens=expected.tokens - 1)


def response_format(schema: object, **more) -> dict:
    return {"type": "json_schema", "json_schema": {"name": "any", "schema": schema, **more}}


ANY = {"type": "object"}
LARK = 'start: "red" | "blue"'


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, Grammar("json", json.dumps(ANY))),
        ({"response_format": response_format(ANY, strict=False)}, Grammar("json", json.dumps(ANY))),
        ({"structured_outputs": {"choice": ["of 2, a", "b"]}}, Grammar("choice", "of 2, a\nb")),
        ({"structured_outputs": {"regex": "[ab]{3}", "json": None}}, Grammar("regex", "[ab]{3}")),
        ({"structured_outputs": {"json": {"const": "é"}}}, Grammar("json", '{"const": "é"}')),
        ({"structured_outputs": {"grammar": LARK}}, Grammar("lark", LARK)),
        (
            {"structured_outputs": {"json": json.dumps(ANY), "disable_any_whitespace": True}},
            Grammar("json", json.dumps(ANY), compact=True),
        ),
    ],
)
def test_answers_have_the_shape_that_a_request_names(url, mars_tiny, fields, grammar):
    expected = alone(mars_tiny, STORY, max_new_tokens=40, grammar=grammar)
    [choice] = ask(url, STORY, fields, max_tokens=40).choices
    assert choice.message.content == expected.text
    assert choice.finish_reason == ("length" if expected.stop == "length" else "stop")
    chunks = list(ask(url, STORY, fields, max_tokens=40, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected.text


ENDLESS = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
ONE_OF = "one choice .*, regex, json .* or grammar"
BAD_SHAPES = [
    ({"response_format": {"type": "structural_tag"}}, "text.*json_object.*json_schema.*schema"),
    ({"response_format": {"type": "json_schema"}}, "response_format.type must be .*schema"),
    ({"response_format": response_format("{}")}, "response_format.type must be .*schema"),
    ({"response_format": response_format({"type": "strin"})}, "valid JSON schema.*strin"),
    ({"response_format": response_format({"oneOf": [ANY, ANY]})}, "valid JSON schema.*oneOf"),
    ({"response_format": response_format(ENDLESS)}, "grammar cannot be followed"),
    ({"structured_outputs": {"structural_tag": "{}"}}, ONE_OF),
    ({"structured_outputs": {"regex": "a", "whitespace_pattern": " "}}, ONE_OF),
    ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, ONE_OF),
    ({"structured_outputs": {}}, ONE_OF),
    ({"structured_outputs": {"json": 3}}, ONE_OF),
    ({"structured_outputs": {"choice": ["a", 1]}}, ONE_OF),
    ({"structured_outputs": "regex"}, "structured_outputs"),
    ({"structured_outputs": {"regex": "(a"}}, "regular expression"),
    ({"structured_outputs": {"choice": ["a\nb"]}}, "line"),
    ({"structured_outputs": {"choice": []}}, f"1 to {MOST}"),
    ({"structured_outputs": {"regex": "a" * (MOST + 1)}}, f"{MOST}.*{MOST + 1}"),
    ({"structured_outputs": {"choice": ["a"]}, "response_format": {"type": "json_object"}}, "both"),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_shape_is_refused_before_the_first_byte(url, stream):
    for fields, fact in BAD_SHAPES:
        with pytest.raises(openai.BadRequestError, match=fact) as refused:
            ask(url, STORY, fields, stream=stream)
        message = refused.value.body["message"]
        assert message.endswith(".") and "\n" not in message and len(message) < 500, fields


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_becomes_too_large_ends_the_answer_with_its_reason(url, stream, caplog):
    records = {
        "anyOf": [{"properties": {f"k{n}": {"type": "string"}}, "type": "object"} for n in range(300)]
    }
    shape = {"type": "array", "prefixItems": [{"const": "a"}, {"type": "integer"}, records], "minItems": 3}
    with pytest.raises(openai.APIError, match="grammar cannot be followed: .*2000"):
        list(ask(url, STORY, {"structured_outputs": {"json": shape}}, stream=stream))
    assert not ours(caplog)


BAD = [
    ({"temperature": 2.1}, "temperature.* 2, .*2.1"),
    ({"seed": 10**30}, "seed"),
    ({"tau": 1.01}, "tau.*1.01"),
    ({"mode": "block-diffusion"}, "block-diffusion.*mars"),
    ({"criterion": ["entropy"]}, "criterion.*'probability'"),
    ({"window": 10}, r"10.*mars-tiny.*\b9\b"),
    ({"n": 2}, r"\bn\b.*1.*2"),
    ({"stop": list("abcde")}, "stop.*4"),
    ({"taus": 0.5}, "taus"),
    ({"<b>" * 1000: 1}, "<b><b>"),
    ({"messages": []}, "message"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0..content"),
    ({"messages": [user("Hi"), user("Hi")]}, "Message 2.*turn"),
    ({"messages": [user("word " * 1200)]}, r"\d{4}.*mars-tiny.*511"),
]  # fmt: skip


def test_a_bad_value_is_named_in_a_short_message(url):
    for fields, fact in BAD:
        with pytest.raises(openai.BadRequestError, match=fact) as refused:
            ask(url, PROMPTS[0], fields)
        error = refused.value
        assert error.status_code == 400 and error.type == "invalid_request_error", fields
        assert set(error.body) == {"message", "type"}, fields
        assert len(error.body["message"]) < 1000 and "\n" not in error.body["message"], fields


@pytest.mark.full
def test_the_example_of_the_documents_runs(url, mars_tiny):
    text = (ROOT / "docs" / "batches-and-serving.md").read_text(encoding="utf-8")
    text = text.replace("http://127.0.0.1:8000", url)
    (command,) = (code for code in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "curl" in code)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=HANG_GUARD)
    answer = json.loads(done.stdout)["choices"][0]["message"]["content"]
    assert answer == alone(mars_tiny, "Sort 31, 47 and 15", tau=0.9).text


def test_unknown_paths_and_models_get_errors_of_the_same_form(url):
    for method, path, status in (
        ("GET", "/v1/chat/completions", 405), ("POST", "/v1/models", 405), ("GET", "/v1/embeddings", 404),
        ("GET", "/", 404), ("GET", "/v1/models/../../etc/passwd", 404),
    ):  # fmt: skip
        response = httpx.request(method, url + path)
        assert response.status_code == status, path
        assert set(response.json()["error"]) == {"message", "type"}
    with pytest.raises(openai.NotFoundError, match="no/such.*mars-tiny, ar-tiny"):
        ask(url, "Hi", model="no/such")


def test_health_is_good_once_a_model_is_loaded_and_a_broken_one_does_not_affect_others(tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    pool = Pool([str(tmp_path / "broken"), "mars-tiny"], device="cpu")
    with serving(Endpoint(pool)) as url:
        for name, status in (("broken", 503), ("mars-tiny", 200)):
            health = httpx.get(f"{url}/health")
            assert health.status_code == 503 and "loading" in health.json()["error"]["message"]
            response = post(url, REQUEST | {"model": name})
            assert response.status_code == status and str(tmp_path) not in response.text
        assert httpx.get(f"{url}/health").json() == {"status": "ok"}
    with serving(Endpoint(Pool([str(tmp_path / "broken")]))) as url:
        post(url, REQUEST | {"model": "broken"})
        health = httpx.get(f"{url}/health")
        assert health.status_code == 503 and "loading" not in health.text
        assert str(tmp_path) not in health.text


def test_another_content_type_is_refused(url):
    """Refuse requests that a foreign site can send from a browser without a preflight request."""
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        response = post(url, REQUEST, headers={"Content-Type": kind})
        assert response.status_code == 415 and "application/json" in response.json()["error"]["message"]
    assert post(url, REQUEST, headers={"Content-Type": "application/json; charset=utf-8"}).is_success


def test_prompts_have_a_limit(url, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_PROMPT", "30")
    messages = [{"role": "system", "content": "s" * 10}, {"role": "user", "content": "u" * 20}]
    ask(url, messages, max_tokens=1)
    messages[0]["content"] += "s"
    with pytest.raises(openai.BadRequestError, match="31.*30"):
        ask(url, messages, max_tokens=1)


def test_a_request_whose_kv_cache_does_not_fit_is_refused(url, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 1000)
    response = post(url, REQUEST)
    assert response.status_code == 503 and "1 answer," in response.json()["error"]["message"]


def test_answers_have_a_limit(url, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_ANSWER", "256")
    for name, most, reason in (("max_tokens", 7, "length"), ("max_completion_tokens", 256, "stop")):
        answer = ask(url, STORY, **{name: most})
        assert answer.usage.completion_tokens <= most
        assert answer.choices[0].finish_reason == reason
        with pytest.raises(openai.BadRequestError, match=f"{name}.*256.*257"):
            ask(url, STORY, **{name: 257})


def test_bodies_have_a_limit(url, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_PROMPT", "100")
    most = 12 * 100 + (64 << 10)
    fits = json.dumps(REQUEST).encode().ljust(most)
    assert post(url, fits).is_success
    response = post(url, fits + b" ")
    assert response.status_code == 413 and str(most) in response.json()["error"]["message"]
    parts = (b" " * 8192 for _ in range(100))  # chunked, without a Content-Length
    for body in (parts, b" " * (20 << 20)):
        assert post(url, body).status_code == 413


def test_more_requests_than_allowed_are_refused_and_accepted_ones_are_served(
    url, endpoint, gate, monkeypatch
):
    monkeypatch.setenv("MARS_DEMO_RACES", "2")
    with ThreadPoolExecutor(2) as clients:
        requests = [clients.submit(ask, url, PROMPTS[0]) for _ in range(2)]
        until(lambda: running(endpoint) == 2)
        with pytest.raises(openai.RateLimitError, match="2"):
            ask(url, PROMPTS[0])
        gate.open()
        answers = {one.result().choices[0].message.content for one in requests}
    assert len(answers) == 1
    assert ask(url, PROMPTS[0]).choices[0].message.content in answers


def running(endpoint: Endpoint) -> int:
    return sum(not run.stop for run in endpoint.runs)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chunk", [1, 256])
def test_a_client_that_leaves_frees_its_run(url, endpoint, gate, stream, chunk, monkeypatch):
    monkeypatch.setattr(prefill, "CHUNK", chunk)
    body = json.dumps(REQUEST | {"mode": "ar", "stream": stream}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connections = [socket.create_connection(("127.0.0.1", httpx.URL(url).port)) for _ in range(6)]
    for connection in connections:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    until(lambda: running(endpoint) == 6)
    runs = [run for run in endpoint.runs if not run.stop]
    for connection in connections:
        connection.close()

    def have_stopped() -> bool:
        gate.release(1)  # the current forward cannot be interrupted
        return all(run.stop for run in runs)

    until(have_stopped)
    assert {run.stop for run in runs} == {"stopped"}
    assert chunk > 1 or not any(run.passes for run in runs)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failing", ["models.runtime.engine.Engine.forward", "serving.endpoint.decode"])
@pytest.mark.parametrize(
    ("error", "words", "logs"),
    [
        (RuntimeError("secret /path/of/the/server\n\x1b[31mFORGED\u2028" + "x" * 9999), "Internal", 1),
        (torch.OutOfMemoryError("secret of CUDA"), "enough memory", 0),
    ],
)
def test_a_failed_request_is_a_server_error_and_the_next_one_is_served(
    url, monkeypatch, stream, failing, caplog, error, words, logs
):
    def fail_once(*_, **__):
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(f"mars_demo.{failing}", fail_once)
    with pytest.raises(openai.APIError, match=words) as failed:
        list(ask(url, PROMPTS[0], stream=stream))
    assert "secret" not in str(failed.value.body)
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(logged) == logs
    for record in logged:
        line = record.getMessage()
        assert "secret" in line and line.isascii() and line.isprintable() and len(line) <= LONGEST
        assert record.exc_info is None
    assert ask(url, PROMPTS[0]).choices[0].message.content


def test_another_model_is_loaded_at_its_first_request(url, ar_tiny):
    with ThreadPoolExecutor(3) as clients:
        requests = [clients.submit(ask, url, PROMPTS[0], model="ar-tiny") for _ in range(3)]
        texts = {one.result().choices[0].message.content for one in requests}
    assert texts == {alone(ar_tiny, PROMPTS[0]).text}


def test_a_server_that_ends_notifies_its_clients(caplog):
    endpoint = Endpoint(Pool(["mars-tiny"], device="cpu"))
    gate = Gate(endpoint.pool.load().model.base_model, free=1)
    with ThreadPoolExecutor(3) as clients:
        with serving(endpoint) as url:
            stream = ask(url, PROMPTS[0], stream=True)
            while not next(stream).choices[0].delta.content:
                pass
            waiting = [clients.submit(ask, url, PROMPTS[0]) for _ in range(2)]
            until(lambda: running(endpoint) == 3)
            ending = clients.submit(until, lambda: endpoint.is_closing)
            ending.add_done_callback(lambda _: gate.open())  # lets the current forward end
        with pytest.raises(openai.APIError, match="server"):
            list(stream)
        for one in waiting:
            with pytest.raises(openai.InternalServerError, match="server"):
                one.result()
    assert not ours(caplog)


def test_pages_of_allowed_origins_may_ask(url):
    site, json_type = "https://example.org", {"Access-Control-Request-Headers": "content-type"}
    asked = {"Origin": site, "Access-Control-Request-Method": "POST"} | json_type
    pool = Pool(["mars-tiny"], device="cpu")
    with serving(Endpoint(pool), [site]) as allowing, serving(Endpoint(pool), ["https://a.b"]) as other:
        for server, allowed in ((allowing, site), (other, None), (url, None)):
            preflight = httpx.options(f"{server}/v1/chat/completions", headers=asked)
            assert preflight.headers.get("Access-Control-Allow-Origin") == allowed
            models = httpx.get(f"{server}/v1/models", headers={"Origin": site})
            assert models.headers.get("Access-Control-Allow-Origin") == allowed


def test_a_loopback_server_answers_to_its_own_names_only(url):
    """Other names are those of a site that has given its domain this machine's address."""
    port = httpx.URL(url).port
    names = {"localhost": 200, "127.0.0.1": 200, "[::1]": 200, "rebound.example": 400}
    with serving(Endpoint(Pool(["mars-tiny"], device="cpu")), host="0.0.0.0") as everywhere:
        for name, status in names.items():
            for host in (name, f"{name}:{port}"):
                assert httpx.get(f"{url}/v1/models", headers={"Host": host}).status_code == status, host
                assert httpx.get(f"{everywhere}/v1/models", headers={"Host": host}).is_success, host
