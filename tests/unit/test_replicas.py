"""Replicas on Ray Serve: the endpoint's answers, errors and load control across processes."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openai
import psutil
import pytest
from web import HANG_GUARD, client, run, serving, until

from mars_demo import tasks
from mars_demo.cli import main
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.limits import LIMITS
from mars_demo.serving.server import Controller

ROOT = Path(__file__).parents[2]
PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
MODES = ({"mode": "ar"}, {"mode": "lossless"}, {"mode": "mars", "tau": 0.9})
SIZE, COUNT = 2, 2  # batch slots per replica, replicas
# A sample of hundreds of tokens, so that it lasts while a test acts.
LONG = {"temperature": 2.0, "seed": 23, "mode": "ar", "max_tokens": 400}
pytestmark = pytest.mark.xdist_group("replicas")  # Ray starts in one worker


@pytest.fixture(scope="module")
def replicas():
    from mars_demo.serving.replicas import Plan, started  # Ray starts for this module's tests alone

    plan = Plan(["mars-tiny"], "cpu", size=SIZE, replicas=COUNT, tau=Controller(0.5, 1.0, full=4))
    with started(plan) as replicas:
        yield replicas


@pytest.fixture(scope="module")
def url(replicas):
    with serving(replicas) as url:
        client(url).chat.completions.create(model="mars-tiny", messages=user("Hi"))
        yield url


@pytest.fixture(scope="module")
def deployment(replicas):
    return replicas._deployments["mars-tiny"]


def processes() -> list[psutil.Process]:
    """Return the processes of the replicas of this test process."""
    children = psutil.Process().children(recursive=True)
    return [process for process in children if process.name().startswith("ray::ServeRepli")]


@pytest.fixture
def held(url) -> Iterator[list[psutil.Process]]:
    """Stop all replicas; a test continues or kills them."""
    until(lambda: len(processes()) == COUNT)
    stopped = processes()
    for process in stopped:
        process.suspend()
    yield stopped
    for process in stopped:
        if process.is_running():
            process.resume()


def post(url: str, **fields) -> httpx.Response:
    body = {"model": "mars-tiny", "messages": user(PROMPTS[0])} | fields
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=HANG_GUARD)


def user(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def ask(url: str, prompt: str, stream: bool, **fields) -> str:
    answer = client(url).chat.completions.create(
        model="mars-tiny", messages=user(prompt), stream=stream, extra_body=fields
    )
    if not stream:
        return answer.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in answer)


def alone(model, prompt: str, **settings):
    return decode(model, prompt, Request(max_new_tokens=LIMITS.answer, **settings)).finish()


@pytest.fixture(scope="module")
def long_text(mars_tiny) -> str:
    request = Request(
        mode="ar", max_new_tokens=LONG["max_tokens"], sampling=Sampling(2.0, seed=LONG["seed"])
    )
    run = decode(mars_tiny, PROMPTS[0], request).finish()
    assert run.tokens > 200
    return run.text


@pytest.mark.full
def test_concurrent_answers_are_those_of_the_decoder(url, mars_tiny):
    requests = [(prompt, MODES[n % 3], n % 2 == 1) for n, prompt in enumerate(PROMPTS)]
    with ThreadPoolExecutor(len(requests)) as clients:
        texts = list(clients.map(lambda one: ask(url, one[0], one[2], **one[1]), requests))
    assert texts == [alone(mars_tiny, prompt, **settings).text for prompt, settings, _ in requests]


@pytest.mark.full
def test_a_stream_has_a_chunk_per_pass_and_the_usage(url, mars_tiny):
    expected = alone(mars_tiny, PROMPTS[0], tau=0.9)
    stream = client(url).chat.completions.create(
        model="mars-tiny",
        messages=user(PROMPTS[0]),
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"tau": 0.9},
    )
    *chunks, last = list(stream)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert pieces == [step.text for step in expected.passes if step.text]
    whole = post(url, tau=0.9).json()["usage"]
    for usage in (last.usage.to_dict(), whole):
        assert (usage["completion_tokens"], usage["forwards"]) == (expected.tokens, expected.forwards)


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_requests_keep_their_form(url, stream):
    for fields, status, fact in (
        ({"window": 10}, 400, "mars-tiny"),
        ({"tau": 1.5}, 400, "tau"),
        ({"model": "gpt"}, 404, "mars-tiny"),
        ({"messages": user("word " * 1200)}, 400, "511"),
    ):
        response = post(url, **fields, stream=stream)
        assert response.status_code == status and fact in response.json()["error"]["message"], fields
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.full
def test_the_queue_of_all_replicas_has_a_limit(url, held, deployment, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_WAITING", "3")
    most = SIZE * COUNT + 3
    with ThreadPoolExecutor(most) as clients:
        asked = [clients.submit(ask, url, PROMPTS[0], False, mode="ar") for _ in range(most)]
        until(lambda: deployment.waiting == 3)
        assert deployment.active == SIZE * COUNT
        with pytest.raises(openai.RateLimitError, match="3") as refused:
            ask(url, PROMPTS[0], False)
        assert int(refused.value.response.headers["Retry-After"]) >= 1
        for process in held:
            process.resume()
        assert len({one.result() for one in asked}) == 1
    assert deployment.idle


@pytest.mark.full
def test_the_controller_acts_on_the_queue_of_all_replicas(url, held, deployment):
    controller, jobs = deployment._tau, []
    ended = deployment.remove
    deployment.remove = lambda job: (jobs.append(job), ended(job))
    try:
        with ThreadPoolExecutor(12) as clients:
            asked = [clients.submit(ask, url, prompt, True, mode="mars") for prompt in PROMPTS[:11]]
            asked.append(clients.submit(ask, url, PROMPTS[0], True, **LONG | {"mode": "mars"}))
            until(lambda: len(deployment._jobs) == 12)
            assert deployment.waiting == 12 - SIZE * COUNT and deployment.tau == controller.low
            for process in held:
                process.resume()
            for one in asked:
                one.result()
    finally:
        del deployment.remove
    taus = [[step.tau for step in job.run.passes] for job in jobs]
    assert min(map(min, taus)) == controller.low
    assert taus[-1][-1] == controller.high and len(set(taus[-1])) > 1  # it changed during an answer
    assert deployment.tau == controller.high


@pytest.mark.full
def test_a_killed_replica_loses_no_answer_that_had_not_begun(url, held, deployment, mars_tiny):
    requests = [(prompt, MODES[n % 3], n % 2 == 1) for n, prompt in enumerate(PROMPTS[:10])]
    with ThreadPoolExecutor(len(requests)) as clients:
        asked = [clients.submit(ask, url, prompt, stream, **mode) for prompt, mode, stream in requests]
        until(lambda: len(deployment._jobs) == len(requests))
        dead, alive = held
        dead.send_signal(signal.SIGKILL)
        alive.resume()
        texts = [one.result() for one in asked]
    assert texts == [alone(mars_tiny, prompt, **mode).text for prompt, mode, _ in requests]
    until(lambda: len(processes()) == COUNT and dead.pid not in [process.pid for process in processes()])
    assert deployment.idle


@pytest.mark.full
def test_a_stream_that_had_begun_ends_with_an_error_when_all_replicas_die(url, deployment, long_text):
    until(lambda: len(processes()) == COUNT)
    body = {"model": "mars-tiny", "messages": user(PROMPTS[0]), "stream": True} | LONG
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=HANG_GUARD) as response:
        events = (json.loads(line[6:]) for line in response.iter_lines() if line[6:7] == "{")
        text = ""
        while not text:
            text = next(events)["choices"][0]["delta"].get("content", "")
        killed = processes()
        for process in killed:
            process.kill()
        *chunks, last = events
    text += "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert long_text.startswith(text) and len(text) < len(long_text)
    assert (
        set(last["error"]) == {"message", "type", "param", "code"} and "replica" in last["error"]["message"]
    )
    assert ask(url, PROMPTS[0], False, **LONG) == long_text  # waits for a new replica


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_place(url, deployment, stream):
    port = int(url.rpartition(":")[2])
    body = json.dumps(
        {"model": "mars-tiny", "messages": user(PROMPTS[0]), "stream": stream} | LONG
    ).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: any(job.run for job in deployment._jobs))
        (job,) = deployment._jobs
    until(lambda: deployment.idle)
    assert job.cancelled and job.run.stop == "stopped"


@pytest.mark.full
def test_the_command_finishes_running_answers_before_it_ends(long_text):
    command = [sys.executable, "-m", "mars_demo", "serve", "--model", "mars-tiny", "--replicas", "1"]
    with subprocess.Popen([*command, "--port", "0"], cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        url = next(re.search(r"http://[^/]*", line) for line in server.stderr if "http" in line)[0]
        children = psutil.Process(server.pid).children(recursive=True)
        body = {"model": "mars-tiny", "messages": user(PROMPTS[0]), "stream": True} | LONG
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=HANG_GUARD) as response:
            lines = (line for line in response.iter_lines() if "content" in line)
            text = [next(lines), next(lines)]
            server.send_signal(signal.SIGINT)
            text += lines
    events = [json.loads(line.removeprefix("data: ")) for line in text]
    assert "".join(event["choices"][0]["delta"]["content"] for event in events) == long_text
    assert psutil.wait_procs(children, HANG_GUARD)[1] == []


def test_bad_options_are_a_sentence(capsys):
    for options, fact in (
        (["--replicas", "0"], "--replicas"),
        (["--autoscale", "3", "2"], "MIN"),
        (["--tau", "0.9-0.5"], "--tau"),
        (["--tau", "2"], "--tau"),
        (["--tau", "low"], "--tau"),
    ):
        assert main(["serve", "--model", "mars-tiny", "--port", "0", *options]) == 2
        error = capsys.readouterr().err
        assert fact in error and error.count("\n") == 1


def test_without_ray_the_error_names_its_requirements(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "mars_demo.serving.replicas", raising=False)
    assert main(["serve", "--model", "mars-tiny", "--port", "0", "--replicas", "2"]) == 2
    assert "requirements-ray.txt" in capsys.readouterr().err


@pytest.mark.full
def test_a_replica_whose_server_has_ended_is_not_healthy():
    from mars_demo.serving.replicas import Plan, Replica

    async def check() -> None:
        replica = Replica.__new__(Replica)
        await replica.__init__("mars-tiny", Plan(["mars-tiny"], "cpu"), 1, {})
        replica.check_health()
        await replica._server.__aexit__()
        with pytest.raises(RuntimeError, match="ended"):
            replica.check_health()

    run(check())


@pytest.mark.full
def test_nothing_of_ray_is_imported_without_replicas():
    program = (
        "import sys, mars_demo.cli.serve, mars_demo.serving.web_server; sys.exit('ray' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
