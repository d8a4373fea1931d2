"""Limits set by the operator, tested at and above the limit."""

import json

import pytest
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


def test_a_request_larger_than_any_record_is_rejected_unread(limited):
    most = 4 << 20
    for size, status in ((most, 422), (most + 1, 413)):
        response = limited.post(f"{API}/run/predict", b'"' + b"x" * (size - 2) + b'"')
        assert response.status_code == status
    assert "4 MiB" in response.json()["detail"]
    parts = (b"x" * (1 << 20) for _ in range(6))  # without a Content-Length
    assert limited.post(f"{API}/run/predict", parts).status_code in (400, 413)
