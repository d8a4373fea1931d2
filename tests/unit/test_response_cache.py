"""Responses that are the same for every visitor: which are cached, for whom, and how many."""

import asyncio

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from mars_demo.ui.hosting import response_cache
from mars_demo.ui.hosting.response_cache import ResponseCache

TEXT = "one two three " * 1000


@pytest.fixture
def client():
    """Yield a client of an app with numbered responses; `client.computed` lists the computed paths."""
    computed = []

    async def answer(request):
        computed.append(request.url.path)
        status = 404 if request.url.path == "/assets/missing" else 200
        return PlainTextResponse(f"{len(computed)} {request.base_url} {TEXT}", status)

    async def stream(request):
        return StreamingResponse(iter(["data: a\n\n", f"data: {TEXT}\n\n"]), media_type="text/event-stream")

    routes = [Route("/stream", stream), Route("/{path:path}", answer, methods=["GET", "POST"])]
    with TestClient(Starlette(routes=routes, middleware=[Middleware(ResponseCache)])) as client:
        client.computed = computed
        yield client


@pytest.mark.parametrize("path", ["/", "/config", "/assets/index.js"])
def test_the_page_and_its_files_are_computed_once(client, path):
    answers = [client.get(path) for _ in range(3)]
    assert client.computed == [path]
    assert {answer.text for answer in answers} == {f"1 http://testserver/ {TEXT}"}
    assert all(answer.headers["content-encoding"] == "gzip" for answer in answers)
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.text.endswith(TEXT)


def test_each_url_of_the_app_has_its_own_responses(client):
    for host in ("one.example", "two.example", "one.example"):
        assert f"http://{host}/" in client.get("/?prompt=hello", headers={"Host": host}).text
    assert len(client.computed) == 2
    for _ in range(2):
        client.get("/?deep_link=a")
    assert len(client.computed) == 4


def test_other_requests_are_not_cached(client):
    asked = [("GET", "/assets/missing", {}), ("GET", "/gradio_api/info", {}), ("POST", "/", {})]
    for method, path, headers in [*asked, ("GET", "/assets/index.js", {"Range": "bytes=0-9"})]:
        for _ in range(2):
            client.request(method, path, headers=headers)
        assert client.computed[-2:] == [path, path]
    answer = client.get("/stream")
    assert "content-encoding" not in answer.headers and answer.text.endswith(f"{TEXT}\n\n")


def test_a_visitor_who_leaves_early_truncates_no_response_of_others():
    async def file(request):
        return StreamingResponse(iter(TEXT.split()), media_type="text/javascript")

    async def answer(has_left: bool) -> bytes:
        messages = []

        async def receive():
            return {"type": "http.disconnect"} if has_left else await asyncio.Future()

        async def send(message):
            messages.append(message)

        await app(scope, receive, send)
        assert not messages[-1].get("more_body", False), "the response has no end"
        return b"".join(message.get("body", b"") for message in messages)

    app = ResponseCache(Starlette(routes=[Route("/assets/plot.js", file)]))
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/assets/plot.js", "headers": []}
    scope |= {"query_string": b"", "root_path": "", "server": ("testserver", 80)}
    with start_blocking_portal() as portal:
        for has_left in (True, False):
            assert portal.call(answer, has_left) == TEXT.replace(" ", "").encode()


def test_the_cache_has_a_limit(client, monkeypatch):
    plain = {"Accept-Encoding": ""}
    monkeypatch.setattr(response_cache, "MOST", 2 * len(client.get("/", headers=plain).content))
    for number in (1, 2, 3, 3, 1):
        client.get(f"/assets/{number}", headers=plain)
    assert client.computed == ["/", "/assets/1", "/assets/2", "/assets/3", "/assets/1"]
