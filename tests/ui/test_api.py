"""The HTTP API: answers, bad values, and a log without tracebacks."""

import json
import math
import re
import urllib.request

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from mars_demo.core.limits import LIMITS

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
}
MOST = str(LIMITS.answer)


def answer(url: str, *data) -> list[tuple[str, object]]:
    """Return the events that the server sends for these values, as `curl` would get them."""
    path = f"{url}gradio_api/call/generate"
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(path, json.dumps({"data": data}).encode(), kind)
    with urllib.request.urlopen(request) as response:
        event = json.load(response)["event_id"]
    with urllib.request.urlopen(f"{path}/{event}") as response:
        lines = [line for line in response.read().decode().splitlines() if line]
    return [
        (kind.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for kind, data in zip(lines[::2], lines[1::2])
    ]


# Bad values, and facts that the message must contain beside the parameter name.
BAD = [
    ("prompt", None, ["None"]),
    ("prompt", "  ", []),
    ("prompt", "\ud800", None),  # a lone surrogate
    ("prompt", ["x" * 10_000], ["xxx"]),
    ("model", "/etc", ["'/etc'", "mars-tiny", "ar-tiny"]),
    ("mode", "fast", ["'fast'", "mars", "lossless", "jacobi", "block-diffusion", "ar"]),
    ("tau", True, ["True"]),
    ("tau", math.nan, ["nan"]),
    ("tau", -0.1, ["-0.1", "0"]),
    ("window", 10**9, ["1000000000"]),
    ("max_new_tokens", 10**9, ["1000000000", MOST]),
    ("temperature", 2.5, ["2.5", "2"]),
    ("top_p", 0, ["0"]),
    ("seed", 0.5, ["0.5"]),
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
        assert "10" in event["error"] and str(len(data)) in event["error"]
    assert "Traceback" not in "".join(capfd.readouterr())


def test_the_defaults_of_the_api_are_those_of_the_page(url):
    with urllib.request.urlopen(f"{url}config") as response:
        parts = json.load(response)["components"]
    page = {part["props"].get("elem_id"): part["props"].get("value") for part in parts}
    [endpoint] = Client(url, verbose=False).view_api(return_format="dict")["named_endpoints"].values()
    api = {one["parameter_name"]: one.get("parameter_default") for one in endpoint["parameters"]}
    page["window"] = page["window"] or None
    names = ("tau", "criterion", "window", "max_new_tokens", "temperature", "top_p", "seed")
    assert {name: api[name] for name in names} == {name: page[name] for name in names}


def test_the_client_gets_defaults_and_messages_and_there_is_one_endpoint(url, capfd):
    client = Client(url, verbose=False, httpx_kwargs={"timeout": 300})
    assert list(client.view_api(return_format="dict")["named_endpoints"]) == ["/generate"]
    record = client.predict("hello", max_new_tokens=4, api_name="/generate")
    assert json.loads(record.splitlines()[0])["tau"] == 0.95
    with pytest.raises(AppError, match=r"tau.*\b2\b"):
        client.predict("hello", tau=2, api_name="/generate")
    assert "Traceback" not in "".join(capfd.readouterr())
