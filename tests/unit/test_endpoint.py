"""The HTTP endpoint, tested with the `openai` client and with hostile clients."""

import asyncio
import json
import logging
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
import torch
from gate import Gate
from web import HANG_GUARD, ask, client, run, serving, until

from mars_demo import tasks
from mars_demo.core.acceptance import by_load
from mars_demo.core.limits import LIMITS
from mars_demo.core.messages import user
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.pool import Pool
from mars_demo.serving.cache import RaggedCache
from mars_demo.serving.chat_body import ChatBody
from mars_demo.serving.completion import StopFilter
from mars_demo.serving.servers import Servers

ROOT = Path(__file__).parents[2]
PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
STORY = "Tell me a short story about a lantern and a wizard."
REQUEST = {"model": "mars-tiny", "messages": [user(PROMPTS[0])]}


def alone(model, prompt: str, **settings):
    return decode(model, prompt, Request(**{"max_new_tokens": LIMITS.answer} | settings)).finish()


def post(url: str, body, **more) -> httpx.Response:
    """Send bytes, or a value as JSON."""
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    more = {"headers": {"Content-Type": "application/json"}} | more
    return httpx.post(f"{url}/v1/chat/completions", content=content, timeout=HANG_GUARD, **more)


def test_models_are_listed_as_openai_lists_them(url):
    models = client(url).models
    assert [model.id for model in models.list()] == ["mars-tiny", "ar-tiny"]
    assert models.retrieve("ar-tiny").object == "model"
    with pytest.raises(openai.NotFoundError, match="gpt.*mars-tiny, ar-tiny"):
        models.retrieve("gpt")


def test_a_stream_has_a_chunk_per_pass_and_ends_with_the_usage_on_request(url, mars_tiny):
    expected = alone(mars_tiny, STORY)
    *chunks, last = ask(url, STORY, stream=True, stream_options={"include_usage": True})
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert pieces == [step.text for step in expected.passes if step.text]
    tokens = [(one["forward"], one["slot"], one["text"]) for c in chunks for one in c.choices[0].tokens]
    assert tokens == [
        (step.number, slot, step.slots[slot - 1].text)
        for step in expected.passes
        for slot in range(1, step.accepted + 1)
    ]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks) and last.choices == []
    assert (last.usage.completion_tokens, last.usage.forwards) == (expected.tokens, expected.forwards)
    plain = list(ask(url, PROMPTS[0], stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in plain)


def test_concurrent_clients_get_their_own_answers(url, mars_tiny):
    """Send three times as many requests as fit a batch, half of them streamed."""
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
    harmless |= {"response_format": {"type": "text"}, "tools": [], "stop": None, "store": False}
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


def test_a_truncated_text_ends_before_the_first_stop_string():
    """Compare with `find` on the whole text, for every split in three parts."""
    text = "abcabdabcd"
    for strings in ([], ["abd"], ["abcd", "bda"], ["cd"], ["d", "abd"], ["x"], ["dabcdx"], ["dx", "cdx"]):
        places = [at for one in strings if (at := text.find(one)) >= 0]
        for a in range(len(text)):
            for b in range(a, len(text)):
                cut = StopFilter(strings)
                shown = [cut.add(part) for part in (text[:a], text[a:b], text[b:])] + [cut.rest()]
                assert "".join(shown) == text[: min(places, default=None)]


BAD = [
    ({"temperature": 2.1}, "temperature.* 2, .*2.1"),
    ({"seed": 10**30}, "seed"),
    ({"tau": 1.01}, "tau.*1.01"),
    ({"mode": "block-diffusion"}, "block-diffusion.*mars"),
    ({"criterion": ["entropy"]}, "criterion.*'probability'"),
    ({"window": 10}, r"10.*mars-tiny.*\b9\b"),
    ({"max_tokens": 10**9}, "max_tokens.*1024"),
    ({"n": 2}, r"\bn\b.*1.*2"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"stop": list("abcde")}, "stop.*4"),
    ({"taus": 0.5}, "taus"),
    ({"<b>" * 1000: 1}, "<b><b>"),
    ({"messages": []}, "messages"),
    ({"messages": [user(" \n")]}, "prompt"),
    ({"messages": [{"role": "tool", "content": "1"}]}, "messages.0..role.*'system'"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text"),
    ({"messages": [user("word " * 1200)]}, r"\d{4}.*mars-tiny.*511"),
]  # fmt: skip


def test_a_bad_value_is_named_in_a_short_message(url):
    for fields, fact in BAD:
        with pytest.raises(openai.BadRequestError, match=fact) as refused:
            ask(url, PROMPTS[0], fields)
        error = refused.value
        assert error.status_code == 400 and error.type == "invalid_request_error", fields
        assert set(error.body) == {"message", "type", "param", "code"}, fields
        assert len(error.body["message"]) < 1000 and "\n" not in error.body["message"], fields


def ours(caplog) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("mars_demo")]


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
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    with pytest.raises(openai.NotFoundError, match="no/such") as refused:
        ask(url, "Hi", model="no/such")
    assert refused.value.code == "model_not_found"


def test_health_is_good_once_a_model_is_loaded_and_a_broken_one_does_not_affect_others(tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    pool = Pool([str(tmp_path / "broken"), "mars-tiny"], device="cpu")
    with serving(Servers(pool, 2)) as url:
        for name, status in (("broken", 503), ("mars-tiny", 200)):
            health = httpx.get(f"{url}/health")
            assert health.status_code == 503 and "loading" in health.json()["error"]["message"]
            response = post(url, REQUEST | {"model": name})
            assert response.status_code == status and str(tmp_path) not in response.text
        assert httpx.get(f"{url}/health").json() == {"status": "ok"}
    with serving(Servers(Pool([str(tmp_path / "broken")]))) as url:
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
    with pytest.raises(openai.BadRequestError, match="31.*30") as refused:
        ask(url, messages, max_tokens=1)
    assert refused.value.code == "context_length_exceeded"


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


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_a_body_that_does_not_arrive_is_a_timeout(url, monkeypatch):
    monkeypatch.setattr("mars_demo.serving.endpoint.BODY_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", port_of(url))) as slow:
        slow.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_full_queue_asks_to_retry_and_serves_accepted_requests(url, server, gate, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_WAITING", "2")
    with ThreadPoolExecutor(4) as clients:
        requests = [clients.submit(ask, url, PROMPTS[0]) for _ in range(4)]
        until(lambda: len(server.jobs) == server.size + 2 == 4)
        with pytest.raises(openai.RateLimitError, match="2") as refused:
            ask(url, PROMPTS[0])
        assert int(refused.value.response.headers["Retry-After"]) >= 1
        gate.open()
        answers = {one.result().choices[0].message.content for one in requests}
    assert len(answers) == 1
    assert ask(url, PROMPTS[0]).choices[0].message.content in answers


def test_a_client_that_leaves_the_queue_frees_its_slot(url, server, gate):
    body = json.dumps(REQUEST).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    connections = [socket.create_connection(("127.0.0.1", port_of(url))) for _ in range(6)]
    for connection in connections:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    until(lambda: len(server.jobs) == 6)
    jobs = [*server.jobs]
    for connection in connections:
        connection.close()
    until(lambda: all(job.cancelled for job in jobs))
    gate.open()
    until(lambda: not server.jobs)
    assert {job.run.stop for job in jobs} == {"stopped"}


def test_the_operator_limits_the_tokens_of_a_cache(monkeypatch):
    monkeypatch.setenv("MARS_DEMO_TOKENS", "64")
    server = Servers(Pool(["mars-tiny"]), 2)._make("mars-tiny")
    with pytest.raises(ValueError, match=r"\b63\b"):
        server.submit("word " * 64, Request())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "words", "logs"),
    [
        (RuntimeError("secret /path/of/the/server"), "Internal", 1),
        (torch.OutOfMemoryError("secret of CUDA"), "enough memory", 0),
    ],
)
def test_a_failed_forward_is_a_server_error_and_the_next_request_is_served(
    url, server, monkeypatch, stream, caplog, error, words, logs
):
    def fail_once(*_):
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(RaggedCache, "forward", fail_once)
    with pytest.raises(openai.APIError, match=words) as failed:
        list(ask(url, PROMPTS[0], stream=stream))
    assert "secret" not in str(failed.value.body)
    logged = [record for record in ours(caplog) if record.levelno >= logging.ERROR]
    assert len(logged) == logs
    assert all("secret" in one.getMessage() and one.exc_info is None for one in logged)
    assert ask(url, PROMPTS[0]).choices[0].message.content


def test_the_operator_sets_tau_of_requests_that_name_none_and_lets_it_fall_with_the_queue():
    bounds = (0.6, 1.0)

    async def serve():
        servers = Servers(Pool(["mars-tiny"], device="cpu"), 2, bounds)
        named = ChatBody(**REQUEST, tau=0.5)
        bodies = [ChatBody(**REQUEST | {"messages": [user(prompt)]}) for prompt in PROMPTS]
        jobs = [await servers.submit(body) for body in (named, *bodies)]
        await asyncio.gather(*(job.finish() for job in jobs))
        await servers.close()
        return jobs

    named, *jobs = run(serve())
    assert {step.tau for step in named.run.passes} == {0.5}
    taus = [[step.tau for step in job.run.passes] for job in jobs]
    assert {tau for each in taus for tau in each} <= {by_load(*bounds, n / 2) for n in range(len(jobs))}
    assert taus[0][0] == 0.6  # read at each forward, not when a request arrives
    assert max(jobs, key=lambda job: job.finished).run.passes[-1].tau == 1.0


def test_another_model_is_loaded_at_its_first_request(url, servers, ar_tiny):
    with ThreadPoolExecutor(3) as clients:
        requests = [clients.submit(ask, url, PROMPTS[0], model="ar-tiny") for _ in range(3)]
        texts = {one.result().choices[0].message.content for one in requests}
    assert texts == {alone(ar_tiny, PROMPTS[0]).text}
    assert set(servers._servers) == set(servers.pool.names())


def test_a_server_that_ends_notifies_streams_and_the_queue(caplog):
    servers = Servers(Pool(["mars-tiny"], device="cpu"), 1)
    with ThreadPoolExecutor(3) as clients:
        with serving(servers) as url:
            ask(url, PROMPTS[0])
            server = servers._servers["mars-tiny"]
            gate = Gate(server.checkpoint.model.base_model, free=0)
            stream = ask(url, PROMPTS[0], stream=True)
            gate.release(1)
            while not next(stream).choices[0].delta.content:
                pass
            waiting = [clients.submit(ask, url, PROMPTS[0]) for _ in range(2)]
            until(lambda: server.waiting == 2)
            ending = clients.submit(until, lambda: all(job.cancelled for job in server.jobs))
            ending.add_done_callback(lambda _: gate.open())  # lets the current forward end
        with pytest.raises(openai.APIError, match="server"):
            list(stream)
        for one in waiting:
            with pytest.raises(openai.InternalServerError, match="server"):
                one.result()
    assert not ours(caplog)
