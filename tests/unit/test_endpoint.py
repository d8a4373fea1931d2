"""The HTTP endpoint, as its clients meet it: the `openai` package, and clients that mean no good."""

import asyncio
import json
import logging
import re
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import pytest
from web import serving, until

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.limits import LIMITS
from mars_demo.models.pool import Pool
from mars_demo.serving.completion import Cut
from mars_demo.serving.servers import Servers

ROOT = Path(__file__).parents[2]
PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
STORY = "Tell me a short story about a lantern and a wizard."
ASKED = {"model": "mars-tiny", "messages": [{"role": "user", "content": PROMPTS[0]}]}


@pytest.fixture(scope="module")
def servers():
    return Servers(Pool(["mars-tiny", "ar-tiny"], device="cpu"), size=4)


@pytest.fixture(scope="module")
def address(servers):
    with serving(servers) as address:
        client(address).chat.completions.create(**ASKED)  # the model is there
        yield address


@pytest.fixture(scope="module")
def server(address, servers):
    return servers._servers["mars-tiny"]


class Gate:
    """Forwards of a model wait at it while it is closed."""

    def __init__(self):
        self._closed, self._passing = False, threading.Semaphore(0)

    def __call__(self, *_) -> None:
        if self._closed:
            self._passing.acquire(timeout=30)

    def close(self) -> None:
        self._closed = True

    def let(self, forwards: int) -> None:
        self._passing.release(forwards)

    def open(self) -> None:
        self._closed = False
        self.let(1)  # one at a time waits


@pytest.fixture
def gate(server):
    gate = Gate()
    hook = server.checkpoint.model.base_model.register_forward_pre_hook(gate)
    yield gate
    gate.open()
    hook.remove()


def client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60)


def user(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def alone(model, prompt: str, **settings):
    return decode(model, prompt, Request(max_new_tokens=LIMITS.answer, **settings)).finish()


def post(address: str, body, **more) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    return httpx.post(
        f"{address}/v1/chat/completions", content=content, timeout=60, **{"headers": headers, **more}
    )


def test_models_are_listed_as_openai_lists_them(address):
    models = client(address).models
    assert [model.id for model in models.list()] == ["mars-tiny", "ar-tiny"]
    assert models.retrieve("ar-tiny").object == "model"
    with pytest.raises(openai.NotFoundError, match="Unknown model 'gpt'. Choose from mars-tiny, ar-tiny"):
        models.retrieve("gpt")


def test_an_answer_is_that_of_the_decoder_alone_and_its_usage_is_counted(address, mars_tiny):
    expected = alone(mars_tiny, PROMPTS[0])
    answer = client(address).chat.completions.create(**ASKED)
    assert answer.choices[0].message.content == expected.text
    assert answer.choices[0].finish_reason == "stop" and answer.model == "mars-tiny"
    usage = answer.usage
    assert usage.prompt_tokens == expected.settings.prompt_tokens
    assert usage.completion_tokens == expected.tokens
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.forwards == expected.forwards < expected.tokens
    assert usage.tokens_per_forward == pytest.approx(expected.tokens_per_forward, abs=0.001)


def test_a_stream_is_the_passes_and_ends_with_the_usage_if_that_is_asked_for(address, mars_tiny):
    expected = alone(mars_tiny, STORY)
    stream = client(address).chat.completions.create(
        model="mars-tiny", messages=user(STORY), stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert pieces == [step.text for step in expected.passes if step.text]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks) and last.choices == []
    assert (last.usage.completion_tokens, last.usage.forwards) == (expected.tokens, expected.forwards)
    plain = list(client(address).chat.completions.create(**ASKED, stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in plain)


def test_many_clients_at_once_each_get_their_own_answer(address, mars_tiny):
    """Three times as many as share a forward, half of them streamed, with settings of their own."""
    settings = [{}, {"tau": 0.5}, {"mode": "lossless"}, {"mode": "ar"}, {"criterion": "entropy"}]
    wanted = [(prompt, settings[n % len(settings)]) for n, prompt in enumerate(PROMPTS)]

    async def ask(clients, number, prompt, extra):
        asked = {"model": "mars-tiny", "messages": user(prompt), "extra_body": extra}
        if number % 2:
            return (await clients.chat.completions.create(**asked)).choices[0].message.content
        stream = await clients.chat.completions.create(**asked, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as clients:
            asks = [ask(clients, number, *one) for number, one in enumerate(wanted)]
            return await asyncio.gather(*asks)

    with ThreadPoolExecutor(1) as beside:  # in this thread a browser's loop may be running
        answers = beside.submit(asyncio.run, ask_all()).result()
    assert answers == [alone(mars_tiny, prompt, **extra).text for prompt, extra in wanted]


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"tau": 1.0}, {"tau": 1.0}),
        ({"tau": 0.5, "window": 3}, {"tau": 0.5, "window": 3}),
        ({"mode": "ar"}, {"mode": "ar"}),
        ({"mode": "jacobi", "window": 4}, {"mode": "jacobi", "window": 4}),
        ({"criterion": "margin", "tau": 0.7}, {"criterion": "margin", "tau": 0.7}),
        ({"temperature": 0}, {}),
        ({"temperature": 1.2, "seed": 3}, {"sampling": Sampling(1.2, seed=3)}),
        ({"top_p": 0.9, "seed": -4}, {"sampling": Sampling(1.0, top_p=0.9, seed=-4)}),
        (
            {"temperature": 1.5, "top_k": 40, "seed": 5, "mode": "lossless"},
            {"sampling": Sampling(1.5, top_k=40, seed=5), "mode": "lossless"},
        ),
    ],
)
def test_fields_of_our_own_and_of_sampling_act(address, mars_tiny, fields, settings):
    answer = client(address).chat.completions.create(
        model="mars-tiny", messages=user(STORY), max_tokens=30, extra_body=fields
    )
    expected = decode(mars_tiny, STORY, Request(max_new_tokens=30, **settings)).finish()
    assert answer.choices[0].message.content == expected.text
    assert (answer.usage.completion_tokens, answer.usage.forwards) == (expected.tokens, expected.forwards)
    assert answer.choices[0].finish_reason == ("length" if expected.stop == "length" else "stop")


def test_without_a_seed_every_draw_is_another(address):
    asked = {"model": "mars-tiny", "messages": user(STORY), "temperature": 1.5, "max_tokens": 30}
    answers = {
        client(address).chat.completions.create(**asked).choices[0].message.content for _ in range(3)
    }
    assert len(answers) == 3


def test_a_conversation_in_the_forms_that_clients_send(address, mars_tiny):
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
    answer = client(address).chat.completions.create(
        model="mars-tiny", messages=messages, extra_body=harmless
    )
    plain = [*user(PROMPTS[0]), {"role": "assistant", "content": "Yes."}]
    expected = decode(mars_tiny, PROMPTS[1], Request(max_new_tokens=LIMITS.answer), messages=plain).finish()
    assert answer.choices[0].message.content == expected.text


@pytest.mark.parametrize("stop", [" lantern", ["zebra", "\n", "wiz"], ["a", "antern a"]])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_before_its_stop_string(address, mars_tiny, stop, stream):
    whole = alone(mars_tiny, STORY).text
    found = [at for one in ([stop] if isinstance(stop, str) else stop) if (at := whole.find(one)) >= 0]
    asked = {"model": "mars-tiny", "messages": user(STORY), "stop": stop, "stream": stream}
    answer = client(address).chat.completions.create(**asked)
    if stream:
        chunks = [chunk.choices[0] for chunk in answer]
        text, reason = "".join(c.delta.content or "" for c in chunks), chunks[-1].finish_reason
    else:
        text, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert (text, reason) == (whole[: min(found)], "stop")


def test_a_cut_text_is_the_text_before_the_first_string_however_it_comes():
    """Against `find` on the whole, over all ways to break short texts in three."""
    text = "abcabdabcd"
    for strings in ([], ["abd"], ["abcd", "bda"], ["cd"], ["d", "abd"], ["x"], ["dabcdx"], ["dx", "cdx"]):
        found = [at for one in strings if (at := text.find(one)) >= 0]
        for a in range(len(text)):
            for b in range(a, len(text)):
                cut = Cut(strings)
                shown = [cut.add(part) for part in (text[:a], text[a:b], text[b:])] + [cut.rest()]
                assert "".join(shown) == text[: min(found, default=None)]


BAD = [
    ({"temperature": 2.1}, "temperature must be less than or equal to 2, not 2.1"),
    ({"temperature": "hot"}, "temperature must be a valid number, not 'hot'"),
    ({"top_p": 0}, "top_p must be greater than 0, not 0"),
    ({"top_k": -1}, "top_k must be greater than or equal to 0"),
    ({"seed": 1.5}, "seed must be a valid integer"),
    ({"seed": 10**30}, "seed must be"),
    ({"tau": 1.01}, "tau must be less than or equal to 1"),
    ({"tau": True}, "tau must be a valid number, not True"),
    ({"mode": "fast"}, "mode must be 'mars', 'lossless', .* not 'fast'"),
    ({"mode": "block-diffusion"}, "cannot run mode block-diffusion. Choose from mars"),
    ({"mode": "speculative"}, "needs a second, smaller checkpoint"),
    ({"criterion": ["entropy"]}, "criterion must be 'probability'"),
    ({"window": 0}, "window must be greater than or equal to 1"),
    ({"window": 10}, "A window of 10 slots does not fit mode mars of mars-tiny: allowed is 1 to 9"),
    ({"mode": "jacobi", "window": 60}, "larger than this server's 9"),
    ({"max_tokens": 0}, "max_tokens must be greater than or equal to 1"),
    ({"max_tokens": 10**9}, "max_tokens must be at most 1024"),
    ({"n": 2}, "n can only be 1 here, not 2"),
    ({"tools": [{"type": "function"}]}, r"tools can only be \[\] here"),
    ({"response_format": {"type": "json_object"}}, "response_format can only be"),
    ({"stop": ""}, "stop must be a text or a list of texts, none of them empty"),
    ({"stop": list("abcde")}, "stop must be at most 4 texts"),
    ({"stream": "yes"}, "stream must be a valid boolean"),
    ({"stream_options": {"include_usage": 3}}, "stream_options.include_usage must be a valid boolean"),
    ({"taus": 0.5}, "Unknown field 'taus'. Choose from model, messages,.* tau,"),
    ({"<b>" * 1000: 1}, "Unknown field '<b><b>"),
    ({"messages": []}, "messages is empty"),
    ({"messages": "Hi"}, "messages must be a valid list|messages must be a valid array"),
    ({"messages": [{"role": "user"}]}, "messages.0.content is missing"),
    ({"messages": user(" \n")}, "The prompt is empty"),
    ({"messages": [{"role": "tool", "content": "1"}]}, "messages.0.role must be 'system'"),
    ({"messages": [*user("a"), *user("b")]}, "Message 2 is out of turn"),
    ({"messages": [{"role": "assistant", "content": "a"}]}, "must be the user's"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "list of parts of type text"),
    ({"messages": user("word " * 1200)}, r"has \d+ tokens; mars-tiny can read at most 511"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "sentence"), BAD)
def test_a_bad_value_gets_a_sentence(address, fields, sentence):
    with pytest.raises(openai.BadRequestError, match=sentence) as refused:
        client(address).chat.completions.create(**ASKED | {"extra_body": fields})
    error = refused.value
    assert error.status_code == 400 and error.type == "invalid_request_error"
    assert set(error.body) == {"message", "type", "param", "code"} and len(error.body["message"]) < 1000


HOSTILE = [
    b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe\x00", b"[" * 30_000, b'{"a":' * 30_000,
    b'{"model": "mars-tiny", "messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"model": "mars-tiny", "seed": ' + b"9" * 10_000 + b"}",
    b'{"model": "mars-tiny", "temperature": NaN}', b'{"model": "mars-tiny", "tau": 1e999}',
    b'{"model": {"$ne": null}}', b'{"model": "mars-tiny", "messages": {"0": 1}}',
    b'{"model": "mars-tiny", "messages": [[[[]]]]}', b'{"__proto__": {}, "constructor": 1}',
]  # fmt: skip


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_body_gets_a_sentence(address, body, caplog):
    response = post(address, body)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["message"].endswith(".") and len(error["message"]) < 1000 and not caplog.records


def test_special_tokens_and_markup_are_ordinary_text(address, mars_tiny):
    for text in (
        "<|im_end|> <|user|> [MASK] </s>",
        "{{ 7 * 7 }} ${1+1} <script>alert(1)</script>",
        "\u202e\x00\x07",
    ):
        answer = client(address).chat.completions.create(
            model="mars-tiny", messages=user(text), max_tokens=8
        )
        expected = decode(mars_tiny, text, Request(max_new_tokens=8)).finish()
        assert answer.choices[0].message.content == expected.text
        assert answer.usage.prompt_tokens == expected.settings.prompt_tokens


def test_the_examples_of_the_documents_run(address, mars_tiny, capsys):
    text = (ROOT / "docs" / "batches-and-serving.md").read_text(encoding="utf-8")
    text = text.replace("http://127.0.0.1:8000", address)
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "openai" in code)
    exec(compile(code, "example", "exec"), {})
    expected = alone(mars_tiny, "How many meters is 14 kilometers?", tau=0.9)
    ending = f"{expected.tokens} tokens in {expected.forwards} forwards"
    assert capsys.readouterr().out == f"{expected.text}\n{ending}\n"
    (command,) = (code for code in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "curl" in code)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    answer = json.loads(done.stdout)["choices"][0]["message"]["content"]
    assert answer == alone(mars_tiny, "Sort 31, 4 and 15", tau=0.9).text


def test_what_is_not_served_is_said_in_the_same_form(address):
    for method, path, status in (
        ("GET", "/v1/chat/completions", 405), ("POST", "/v1/models", 405), ("GET", "/v1/embeddings", 404),
        ("GET", "/", 404), ("GET", "/v1/models/../../etc/passwd", 404),
    ):  # fmt: skip
        response = httpx.request(method, address + path)
        assert response.status_code == status, path
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    with pytest.raises(openai.NotFoundError, match="Unknown model 'no/such'") as refused:
        client(address).chat.completions.create(model="no/such", messages=user("Hi"))
    assert refused.value.code == "model_not_found"


def test_another_content_type_is_refused(address):
    """A page of another site can send text/plain from a visitor's browser without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        response = post(address, ASKED, headers={"Content-Type": kind})
        assert response.status_code == 415 and "application/json" in response.json()["error"]["message"]
    assert post(address, ASKED, headers={"Content-Type": "application/json; charset=utf-8"}).is_success


def test_prompts_have_a_limit(address, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_PROMPT", "30")
    messages = [{"role": "system", "content": "s" * 10}, {"role": "user", "content": "u" * 20}]
    asked = {"model": "mars-tiny", "max_tokens": 1}
    client(address).chat.completions.create(**asked, messages=messages)
    messages[0]["content"] += "s"
    with pytest.raises(
        openai.BadRequestError, match="have 31 characters; at most 30 are allowed"
    ) as refused:
        client(address).chat.completions.create(**asked, messages=messages)
    assert refused.value.code == "context_length_exceeded"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_answers_have_a_limit(address, monkeypatch, name):
    monkeypatch.setenv("MARS_DEMO_ANSWER", "256")
    asked = {"model": "mars-tiny", "messages": user(STORY)}
    for most, reason in ((7, "length"), (256, "stop")):
        answer = client(address).chat.completions.create(**asked, **{name: most})
        assert answer.usage.completion_tokens <= most
        assert answer.choices[0].finish_reason == reason
    with pytest.raises(openai.BadRequestError, match=f"{name} must be at most 256, not 257"):
        client(address).chat.completions.create(**asked, **{name: 257})


def test_bodies_have_a_limit(address, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_PROMPT", "100")
    most = 12 * 100 + (64 << 10)
    fits = json.dumps(ASKED).encode().ljust(most)
    assert post(address, fits).is_success
    response = post(address, fits + b" ")
    assert response.status_code == 413 and f"at most {most} bytes" in response.json()["error"]["message"]
    parts = (b" " * 8192 for _ in range(100))  # in chunks, its length not said before
    chunked = httpx.post(
        f"{address}/v1/chat/completions", content=parts, headers={"Content-Type": "application/json"}
    )
    assert chunked.status_code == 413
    assert post(address, b" " * (20 << 20)).status_code == 413


def test_a_body_that_does_not_arrive_is_given_up(address, monkeypatch):
    monkeypatch.setattr("mars_demo.serving.endpoint.BODY_SECONDS", 0.05)
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_full_queue_asks_to_come_back_and_one_place_less_is_served(address, server, gate, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_WAITING", "2")
    gate.close()
    with ThreadPoolExecutor(6) as clients:
        asked = [clients.submit(client(address).chat.completions.create, **ASKED) for _ in range(6)]
        until(lambda: server.active + server.waiting == server.size + 2)
        with pytest.raises(openai.RateLimitError, match="2 requests wait already") as refused:
            client(address).chat.completions.create(**ASKED)
        assert int(refused.value.response.headers["Retry-After"]) >= 1
        gate.open()
        answers = {one.result().choices[0].message.content for one in asked}
    assert len(answers) == 1
    assert client(address).chat.completions.create(**ASKED).choices[0].message.content in answers


def test_a_client_that_leaves_in_mid_stream_frees_its_place(address, server, gate, mars_tiny):
    gate.close()
    asked = {"model": "mars-tiny", "messages": user(STORY), "stream": True, "extra_body": {"mode": "ar"}}
    streams = [client(address).chat.completions.create(**asked) for _ in range(server.size)]
    gate.let(10)
    for stream in streams:
        while not next(stream).choices[0].delta.content:
            pass
    jobs = list(server._active.values())
    assert len(jobs) == server.size
    for stream in streams:
        stream.close()
    until(lambda: all(job.cancelled for job in jobs))
    gate.open()
    until(lambda: server.active == 0)
    assert {job.run.stop for job in jobs} == {"stopped"}
    answer = client(address).chat.completions.create(**ASKED)
    assert answer.choices[0].message.content == alone(mars_tiny, PROMPTS[0]).text


def test_a_client_that_leaves_while_it_waits_frees_its_place(address, server, gate):
    gate.close()
    impatient = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=0.5)
    with ThreadPoolExecutor(6) as clients:
        asked = [clients.submit(impatient.chat.completions.create, **ASKED) for _ in range(6)]
        until(lambda: server.active + server.waiting == 6)
        jobs = [*server._active.values(), *server._waiting]
        for one in asked:
            with pytest.raises(openai.APITimeoutError):
                one.result()
    until(lambda: all(job.cancelled for job in jobs))
    gate.open()
    until(lambda: server.active + server.waiting == 0)
    assert {job.run.stop for job in jobs} == {"stopped"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_forward_that_fails_is_a_sentence_and_the_next_request_is_served(
    address, server, monkeypatch, stream, caplog
):
    def fail_once(self):
        monkeypatch.undo()
        raise RuntimeError("secret /path/of/the/server")

    monkeypatch.setattr("mars_demo.serving.batch.Batch.step", fail_once)
    with pytest.raises(openai.APIError, match="The server failed on this request") as failed:
        list(client(address).chat.completions.create(**ASKED, stream=stream))
    assert "secret" not in str(failed.value.body)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "secret" in record.getMessage() and record.exc_info is None
    assert client(address).chat.completions.create(**ASKED).choices[0].message.content


def test_another_model_is_loaded_when_it_is_first_asked_for(address, servers, ar_tiny):
    asked = {"model": "ar-tiny", "messages": user(PROMPTS[0])}
    with ThreadPoolExecutor(3) as clients:
        asked = [clients.submit(client(address).chat.completions.create, **asked) for _ in range(3)]
        texts = {one.result().choices[0].message.content for one in asked}
    assert texts == {alone(ar_tiny, PROMPTS[0]).text}
    assert set(servers._servers) == {"mars-tiny", "ar-tiny"}


def test_a_model_that_cannot_be_had_is_said_and_the_others_are_served(tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    with serving(Servers(Pool([str(tmp_path / "broken"), "mars-tiny"], device="cpu"), 2)) as address:
        response = post(address, ASKED | {"model": "broken"})
        assert response.status_code == 503 and str(tmp_path) not in response.text
        assert post(address, ASKED).is_success


def test_a_server_that_ends_says_so_to_who_still_waits(caplog):
    """To those that are streamed, that are not, and that are still in the queue; then it ends at once."""
    servers, gate = Servers(Pool(["mars-tiny"], device="cpu"), 1), Gate()
    with ThreadPoolExecutor(3) as clients:
        with serving(servers) as address:
            client(address).chat.completions.create(**ASKED)
            server = servers._servers["mars-tiny"]
            server.checkpoint.model.base_model.register_forward_pre_hook(gate)
            gate.close()
            stream = client(address).chat.completions.create(**ASKED, stream=True)
            gate.let(1)
            while not next(stream).choices[0].delta.content:
                pass
            asked = [clients.submit(client(address).chat.completions.create, **ASKED) for _ in range(2)]
            until(lambda: server.waiting == 2)
            ending = clients.submit(until, lambda: server._left)
            ending.add_done_callback(lambda _: gate.open())  # the forward that is being computed ends
        with pytest.raises(openai.APIError, match="The server ended before the answer did"):
            list(stream)
        for one in asked:
            with pytest.raises(openai.InternalServerError, match="The server ended before"):
                one.result()
    assert not caplog.records
