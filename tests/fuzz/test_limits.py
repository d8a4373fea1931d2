"""The limit of requests, set by the operator."""

from service import API


def test_a_request_larger_than_any_record_is_rejected_unread(app, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_RECORD", "1")
    most = 4 << 20
    for size, status in ((most, 422), (most + 1, 413)):
        response = app.post(f"{API}/run/predict", b'"' + b"x" * (size - 2) + b'"')
        assert response.status_code == status
    assert "4 MiB" in response.json()["detail"]
    parts = (b"x" * (1 << 20) for _ in range(6))  # without a Content-Length
    assert app.post(f"{API}/run/predict", parts).status_code in (400, 413)
