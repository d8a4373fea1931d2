"""The HTTP API and the MCP server: answers, bad values, and a log without tracebacks."""

import json
import math
import re

import gradio as gr
import httpx
import pytest
from gradio_client.exceptions import AppError
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from web import HANG_GUARD, app_client, run

from mars_demo.core.limits import LIMITS
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.ui.page import App

REQUEST = {
    "prompt": "hello",
    "model": None,
    "mode": "mars",
    "tau": 0.9,
    "window": None,
    "max_new_tokens": 4,
    "criterion": "entropy",
    "temperature": 0.0,
    "top_p": 1.0,
    "seed": 0,
    "schema": None,
    "trace": False,
}
MOST = str(LIMITS.answer)
PROMPT = "Sort 31, 4 and 15"


def answer(url: str, *data) -> list[tuple[str, object]]:
    """Return the events that the server sends for these values, as `curl` would get them."""
    path = f"{url}gradio_api/call/generate"
    headers = {"Content-Type": "application/json"}
    event = httpx.post(path, content=json.dumps({"data": data}), headers=headers).json()["event_id"]
    lines = [line for line in httpx.get(f"{path}/{event}", timeout=HANG_GUARD).text.splitlines() if line]
    return [
        (kind.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for kind, data in zip(lines[::2], lines[1::2])
    ]


# Bad values, and facts that the message must contain beside the parameter name.
BAD = [
    ("prompt", None, ["None"]),
    ("prompt", "\ud800", None),  # a lone surrogate
    ("prompt", "x" * (LIMITS.prompt + 1), None),
    ("model", "/etc", ["'/etc'", "mars-tiny", "ar-tiny"]),
    ("mode", "fast", ["'fast'", "mars", "lossless", "jacobi", "block-diffusion", "ar"]),
    ("tau", math.nan, ["nan"]),
    ("tau", -0.1, ["-0.1", "0"]),
    ("max_new_tokens", 10**9, ["1000000000", MOST]),
    ("schema", 5, ["5"]),
    ("schema", '{"type": "strin"}', ["JSON", "strin"]),
    ("schema", "[" * 60_000, ["50000"]),
    ("criterion", "luck", ["'luck'", "probability", "entropy", "margin"]),
]


def is_clean(message: str) -> bool:
    """Return whether a message is a short sentence without traces of code."""
    traces = r"Traceback|\w+Error\b|\.py\b|site-packages|NoneType"
    return 0 < len(message) < 300 and "\n" not in message and not re.search(traces, message)


@pytest.mark.parametrize(("name", "value", "facts"), BAD, ids=lambda part: str(part)[:20])
def test_a_bad_value_gets_a_message_and_no_traceback(url, capfd, name, value, facts):
    [(kind, event)] = answer(url, *(REQUEST | {name: value}).values())
    message = event["error"]
    assert kind == "error" and is_clean(message)
    if facts is not None:
        assert name in message.lower()
        assert all(fact in message for fact in facts), message
    assert "Traceback" not in "".join(capfd.readouterr())


def test_too_few_values_get_a_message_and_no_traceback(url, capfd):
    for data in ([], ["hello", None]):
        [(kind, event)] = answer(url, *data)
        assert kind == "error" and is_clean(event["error"])
        assert all(name in event["error"] for name in REQUEST)
        assert str(len(REQUEST)) in event["error"] and str(len(data)) in event["error"]
    assert "Traceback" not in "".join(capfd.readouterr())


def test_the_defaults_of_the_api_are_those_of_the_page(url):
    parts = httpx.get(f"{url}config").json()["components"]
    page = {part["props"].get("elem_id"): part["props"].get("value") for part in parts}
    endpoints = app_client(url).view_api(return_format="dict")["named_endpoints"]
    assert list(endpoints) == ["/generate"]
    parameters = endpoints["/generate"]["parameters"]
    generate = {one["parameter_name"]: one.get("parameter_default") for one in parameters}
    page["window"] = page["window"] or None
    names = ("tau", "criterion", "window", "max_new_tokens", "temperature", "top_p", "seed")
    assert {name: generate[name] for name in names} == {name: page[name] for name in names}


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "status"), [({}, 400), ({"server_name": "0.0.0.0"}, 200), ({"share": True}, 200)]
)
def test_a_loopback_app_answers_to_its_own_names_only(monkeypatch, settings, status):
    """Other names are those of a site that has given its domain this machine's address."""
    monkeypatch.setattr("gradio.networking.setup_tunnel", lambda **_: "https://shared.example")
    with App() as demo:
        gr.Markdown("Hello")
    try:
        demo.launch(prevent_thread_lock=True, quiet=True, **settings)
        url = f"http://127.0.0.1:{demo.server_port}"
        for name in ("localhost", "127.0.0.1", "[::1]", "rebound.example"):
            expected = status if name == "rebound.example" else 200
            for host in (name, f"{name}:{demo.server_port}"):
                assert httpx.get(url, headers={"Host": host}).status_code == expected, host
    finally:
        demo.close()


@pytest.mark.parametrize("route", ["run", "api"])
def test_no_call_skips_the_queue(url, route):
    call = {"data": [*REQUEST.values()]}
    functions = httpx.get(f"{url}config").json()["dependencies"]
    queued = [{"fn_index": one["id"]} for one in functions if one["backend_fn"] and one["queue"]]
    assert len(queued) > 5
    path = f"{url}gradio_api/{route}"
    refused = [httpx.post(f"{path}/generate", json=call, timeout=HANG_GUARD)]
    refused += [httpx.post(f"{path}/predict", json=one | {"data": []}) for one in queued]
    assert {response.status_code for response in refused} == {404}
    assert all("queue" in response.json()["detail"] for response in refused)


def test_gradio_keeps_no_history_of_runs(url):
    assert httpx.get(f"{url}config").json()["run_history"] is False  # the browser keeps none
    assert httpx.get(f"{url}gradio_api/runs").status_code == 404
    connected = httpx.post(f"{url}gradio_api/run-history/connect", json={"bucket_id": "me/runs"})
    assert connected.status_code == 404  # neither does a bucket on the hub


def test_the_client_streams_the_answer_and_on_request_its_record(url, mars_tiny, capfd):
    client = app_client(url)
    request = Request("mars", 0.9, max_new_tokens=64)
    expected = decode(mars_tiny, PROMPT, request).finish()
    job = client.submit(PROMPT, tau=0.9, max_new_tokens=64, api_name="/generate")
    assert job.result(300) == expected.text
    assert all(expected.text.startswith(part) for part in job.outputs())
    record = client.predict(PROMPT, tau=0.9, max_new_tokens=64, trace=True, api_name="/generate")
    assert Run.read(record.splitlines()).token_ids == expected.token_ids
    with pytest.raises(AppError, match=r"tau.*\b2\b"):
        client.predict("hello", tau=2, api_name="/generate")
    assert "Traceback" not in "".join(capfd.readouterr())


ASKED = {"prompt": PROMPT, "model": "mars-tiny", "tau": 0.9, "max_new_tokens": 64}
CALLS = [{}, {"trace": True}, {"tau": 2}, {"schema": '{"type": "boolean"}'}]


async def visit(url: str):
    """Return the tools of the MCP server, and the answers of the first one to the calls."""
    async with streamablehttp_client(f"{url}gradio_api/mcp/") as (read, write, _):  # noqa: SIM117
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            return tools, [await session.call_tool(tools[0].name, ASKED | more) for more in CALLS]


def test_one_tool_answers(url, mars_tiny):
    [tool], (text, trace, wrong, shaped) = run(visit(url))
    assert tool.name.endswith("generate") and tool.description
    parameters = tool.inputSchema["properties"]
    assert tool.inputSchema["required"] == ["prompt"] and parameters.keys() >= ASKED.keys()
    assert all(one["description"].endswith(".") for one in parameters.values())  # not truncated
    expected = decode(mars_tiny, PROMPT, Request("mars", 0.9, max_new_tokens=64)).finish()
    assert not any(answer.isError for answer in (text, trace))
    assert text.content[0].text == expected.text
    assert Run.read(trace.content[0].text.splitlines()).token_ids == expected.token_ids
    assert shaped.content[0].text in ("true", "false")
    # An agent that asks for a sentence reads a sentence.
    assert len(text.model_dump_json()) < 1000
    message = wrong.content[0].text
    assert wrong.isError and "tau" in message and "2" in message and "Traceback" not in message
