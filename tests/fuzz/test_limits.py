"""Limits set by the operator, tested at and above the limit."""

import json

import pytest
from hostile import GOOD, written
from service import API, KNOWN

LIMITED = {"MARS_DEMO_PROMPT": "400", "MARS_DEMO_ANSWER": "256", "MARS_DEMO_RECORD": "1"}


@pytest.fixture
def limited(app, monkeypatch):
    """Return the app with small limits."""
    for name, limit in LIMITED.items():
        monkeypatch.setenv(name, limit)
    return app


@pytest.mark.parametrize(
    ("name", "allowed", "above"),
    [("prompt", "abcd " * 80, "a" * 401), ("max_new_tokens", 256, 257)],
    ids=["prompt", "answer"],
)
def test_a_parameter_has_a_limit(limited, name, allowed, above):
    for value, answered in ((allowed, True), (above, False)):
        parameters = KNOWN | {"mode": "ar", "max_new_tokens": 1} | {name: value}
        answer = limited.generate(json.dumps({"data": [*parameters.values()]}).encode())
        assert (answer is not None) == answered


def test_the_prompt_limit_includes_the_conversation(limited):
    for length, answered in ((400, True), (401, False)):
        answer = "y" * (length - len(KNOWN["prompt"]) - 5)
        talk = [{"role": "user", "content": "x" * 5}, {"role": "assistant", "content": answer}]
        limited.talk(f"talk{length}", talk)
        assert isinstance(limited.race(f"talk{length}"), str) == answered


def test_a_record_has_a_limit(limited):
    def trouble(record: str) -> str:
        answer = limited.call("show_pass", [False], {"record": record, "number": 1})
        [message] = [value for value in answer["data"] if isinstance(value, str) and value.startswith("{")]
        return json.loads(message).get("error", "")

    record, most = written(GOOD), 1 << 20
    assert "MiB" not in trouble(record + " " * (most - len(record)))
    assert "1 MiB" in trouble(record + " " * (most - len(record) + 1))


def test_a_request_larger_than_any_record_is_rejected_unread(limited):
    most = 4 << 20
    for size, status in ((most, 422), (most + 1, 413)):
        response = limited.post(f"{API}/run/predict", b'"' + b"x" * (size - 2) + b'"')
        assert response.status_code == status
    assert "4 MiB" in response.json()["detail"]
    parts = (b"x" * (1 << 20) for _ in range(6))  # without a Content-Length
    assert limited.post(f"{API}/run/predict", parts).status_code in (400, 413)
