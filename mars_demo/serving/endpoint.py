"""The OpenAI-compatible HTTP endpoint: `/v1/models` and `/v1/chat/completions`.

`/metrics` and `/health` are beside `/v1`.

Its routes belong before those of any web server. Forwards run in threads; the rest runs on the event loop
of that web server.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route

from mars_demo.core.limits import LIMITS
from mars_demo.models.memory import MEMORY, is_short
from mars_demo.serving.chat_body import ChatBody
from mars_demo.serving.completion import Completion
from mars_demo.serving.refusal import Refusal
from mars_demo.serving.servers import Servers

PREFIX = "/v1"
BODY_SECONDS = 30  # time limit for receiving a request's body
_log = logging.getLogger(__name__)


def routes(servers: Servers) -> list[BaseRoute]:
    """Return the routes of the endpoint, for any application."""
    endpoint = Endpoint(servers)
    api = [
        Route("/models", endpoint.models),
        Route("/models/{name:path}", endpoint.model),
        Route("/chat/completions", endpoint.chat, methods=["POST"]),
    ]
    explained = {"middleware": [Middleware(ExceptionMiddleware, handlers=HANDLERS)]}
    return [
        Mount(PREFIX, routes=api, **explained),
        Route("/metrics", endpoint.metrics, **explained),
        Route("/health", endpoint.health, **explained),
    ]


def _refusal(error: Exception) -> Refusal:
    """Return an error as a response has it, and log an internal one."""
    if isinstance(error, Refusal):
        return error
    if is_short(error):
        return Refusal(503, MEMORY)
    _log.error("%s: %s", type(error).__name__, " ".join(str(error).split()))
    return Refusal(500, "Internal server error on this request; others are not affected.")


class Endpoint:
    """The handlers of the endpoint's routes."""

    def __init__(self, servers: Servers):
        self._servers = servers

    async def models(self, request: Request) -> Response:
        listed = [_model(name) for name in self._servers.pool.names()]
        return JSONResponse({"object": "list", "data": listed})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        self._servers.check(name)
        return JSONResponse(_model(name))

    async def metrics(self, request: Request) -> Response:
        return self._servers.metrics.response()

    async def health(self, request: Request) -> Response:
        """Answer as llama.cpp's server does: with 503 until a model is loaded."""
        self._servers.check_loaded()
        return JSONResponse({"status": "ok"})

    async def chat(self, request: Request) -> Response:
        body = ChatBody.read(await _read(request))
        job = await self._servers.submit(body)
        completion = Completion(job, body.model, body.stop)
        if body.stream:
            return Events(completion, body.stream_options.include_usage)
        leaving = asyncio.create_task(_cancel_when_gone(request, completion))
        try:
            return JSONResponse(await completion.whole())
        finally:
            leaving.cancel()


class Events(StreamingResponse):
    """A completion as server-sent events; a disconnect cancels its job."""

    media_type = "text/event-stream"

    def __init__(self, completion: Completion, with_usage: bool):
        super().__init__(_events(completion, with_usage), headers={"Cache-Control": "no-cache"})
        self._job = completion.job

    async def __call__(self, scope, receive, send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._job.cancel()


async def _events(completion: Completion, with_usage: bool) -> AsyncIterator[str]:
    try:
        async for chunk in completion.chunks(with_usage):
            yield f"data: {json.dumps(chunk)}\n\n"
    except Exception as error:
        yield f"data: {json.dumps(_refusal(error).body)}\n\n"
    yield "data: [DONE]\n\n"


async def _cancel_when_gone(request: Request, completion: Completion) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    completion.job.cancel()


async def _read(request: Request) -> bytes:
    """Return the body of a request, within the limits on type, size and time."""
    # A browser lets pages of other sites send other content types without a CORS preflight.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "The content type must be application/json.")
    # A character of the messages takes up to 12 bytes in JSON; the rest is for the other fields.
    most, body = 12 * LIMITS.prompt + (64 << 10), bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise Refusal(413, f"The body is too large; at most {most} bytes are allowed.")
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {BODY_SECONDS} seconds.") from None
    except ClientDisconnect:
        raise Refusal(400, "The client disconnected before its request had arrived.") from None
    return bytes(body)


def _model(name: str) -> dict[str, str | int]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mars-demo"}


async def _not_served(request: Request, error: HTTPException) -> Response:
    """Answer requests for unknown URLs and methods."""
    route = f"{request.method} {request.url.path[:100]}"
    return Refusal(error.status_code, f"{route} is not served here: {error.detail}.").response()


async def _failed(request: Request, error: Exception) -> Response:
    return _refusal(error).response()


HANDLERS = {HTTPException: _not_served, Exception: _failed}
