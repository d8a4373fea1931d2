"""The API over HTTP: what is wrong gets a sentence, and the server's own output stays clean."""

import json
import math
import urllib.request

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from mars_demo.limits import LIMITS

RIGHT = {
    "prompt": "hello",
    "model": None,
    "mode": "mars",
    "tau": 0.9,
    "window": None,
    "max_new_tokens": 4,
    "criterion": "entropy",
}


def answer(url: str, *data) -> list[tuple[str, object]]:
    """The events with which the server answers values in this order, as `curl` would get them."""
    path = f"{url}gradio_api/call/generate"
    asked = urllib.request.Request(
        path, json.dumps({"data": data}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked) as response:
        event = json.load(response)["event_id"]
    with urllib.request.urlopen(f"{path}/{event}") as response:
        lines = [line for line in response.read().decode().splitlines() if line]
    return [
        (kind.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for kind, data in zip(lines[::2], lines[1::2])
    ]


def test_what_is_asked_for_is_answered(url):
    *_, (kind, (record,)) = answer(url, *RIGHT.values())
    assert kind == "complete"
    settings = json.loads(record.splitlines()[0])
    assert (settings["prompt"], settings["criterion"]) == ("hello", "entropy")
    assert json.loads(record.splitlines()[-1])["tokens"] == 4


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("prompt", ["hello"], "prompt must be a text, not ['hello']."),
        ("prompt", 7, "prompt must be a text, not 7."),
        ("prompt", None, "prompt must be a text, not None."),
        ("prompt", "  ", "The prompt is empty"),
        ("prompt", "\ud800", "half of a character"),
        ("model", ["mars-tiny"], "model must be the name of a model, not ['mars-tiny']."),
        ("model", "/etc", "Unknown model '/etc'. Choose from "),
        ("mode", "fast", "mode must be mars, lossless, jacobi, block-diffusion or ar, not 'fast'."),
        ("mode", None, "mode must be mars, lossless, jacobi, block-diffusion or ar, not None."),
        (
            "mode",
            {"mode": "mars"},
            "mode must be mars, lossless, jacobi, block-diffusion or ar, not {'mode': 'mars'}.",
        ),
        ("tau", "abc", "tau must be a number from 0 to 1, not 'abc'."),
        ("tau", True, "tau must be a number from 0 to 1, not True."),
        ("tau", math.nan, "tau must be a number from 0 to 1, not nan."),
        ("tau", math.inf, "tau must be a number from 0 to 1, not inf."),
        ("tau", -0.1, "tau must be a number from 0 to 1, not -0.1."),
        ("window", 1.5, "window must be a whole number of slots, not 1.5."),
        ("window", True, "window must be a whole number of slots, not True."),
        ("window", 0, "A window of 0 slots does not fit"),
        ("window", 10**9, "A window of 1000000000 slots does not fit"),
        (
            "max_new_tokens",
            "x",
            f"max_new_tokens must be a whole number from 1 to {LIMITS.answer}, not 'x'.",
        ),
        ("max_new_tokens", 10**9, f"from 1 to {LIMITS.answer}, not 1000000000."),
        ("max_new_tokens", -1, f"from 1 to {LIMITS.answer}, not -1."),
        ("max_new_tokens", None, f"from 1 to {LIMITS.answer}, not None."),
        ("criterion", "luck", "criterion must be probability, entropy or margin, not 'luck'."),
        ("criterion", ["margin"], "criterion must be probability, entropy or margin, not ['margin']."),
        ("criterion", None, "criterion must be probability, entropy or margin, not None."),
        ("prompt", ["x" * 10_000], "prompt must be a text, not ['xxx"),
    ],
)
def test_a_wrong_value_gets_a_sentence_and_no_traceback(url, capfd, name, value, sentence):
    [(kind, told)] = answer(url, *(RIGHT | {name: value}).values())
    assert kind == "error"
    assert sentence in told["error"]
    assert len(told["error"]) < 300
    assert "Traceback" not in "".join(capfd.readouterr())


def test_too_few_values_get_a_sentence_and_no_traceback(url, capfd):
    for data in ([], ["hello", None]):
        [(kind, told)] = answer(url, *data)
        assert kind == "error"
        assert told["error"] == f"7 values are needed ({', '.join(RIGHT)}), not {len(data)}."
    assert "Traceback" not in "".join(capfd.readouterr())


def test_the_client_gets_defaults_and_sentences_and_there_is_one_endpoint(url, capfd):
    client = Client(url, verbose=False)
    assert list(client.view_api(return_format="dict")["named_endpoints"]) == ["/generate"]
    record = client.predict("hello", max_new_tokens=4, api_name="/generate")
    assert json.loads(record.splitlines()[0])["tau"] == 0.95
    with pytest.raises(AppError, match="tau must be a number from 0 to 1, not 2."):
        client.predict("hello", tau=2, api_name="/generate")
    assert "Traceback" not in "".join(capfd.readouterr())
