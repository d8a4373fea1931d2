"""The OpenAI-compatible HTTP endpoint: `/v1/models`, `/v1/chat/completions` and `/health`.

Each request is a run of its own, whose forwards take turns with those of the others.
"""

import json
import re
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mars_demo.core.hosts import trusted_hosts
from mars_demo.core.limits import LIMITS
from mars_demo.core.log import log
from mars_demo.core.trace import Pass, Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.matcher import GrammarError
from mars_demo.models.memory import MEMORY, is_short, require_caches
from mars_demo.models.pool import Pool
from mars_demo.serving.chat_body import ChatBody
from mars_demo.serving.completion import Completion

PREFIX = "/v1"
TYPES = {404: "not_found_error", 429: "rate_limit_error"}
ORIGIN = re.compile(r"\*|https?://[a-z0-9.-]+(:\d+)?|https?://\[[0-9a-f:]+\](:\d+)?")
GRACE = 10  # seconds to wait for open connections


class Endpoint:
    """The endpoint of the models of a pool."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self.runs: WeakSet[Run] = WeakSet()
        self.is_closing = False

    def application(self, host: str, origins: Sequence[str]) -> Starlette:
        """Return the web application; the arguments are those of `WebServer`."""
        routes = [
            Route(f"{PREFIX}/models", self.models),
            Route(f"{PREFIX}/chat/completions", self.chat, methods=["POST"]),
            Route("/health", self.health),
        ]
        every = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
        middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=trusted_hosts(host))]
        if origins:
            middleware.append(Middleware(CORSMiddleware, allow_origins=origins, **every))
        return Starlette(routes=routes, exception_handlers={HTTPException: _refused}, middleware=middleware)

    async def models(self, request: Request) -> Response:
        kind = {"object": "model", "created": 0, "owned_by": "mars-demo"}
        return JSONResponse({"object": "list", "data": [{"id": name} | kind for name in self.pool.names()]})

    async def health(self, request: Request) -> Response:
        """Answer as llama.cpp's server does: with 503 until a model is loaded."""
        members = [self.pool.member(name) for name in self.pool.names()]
        if not any(member.phase == "ready" for member in members):
            states = [member.problem or f"{member.name} is loading." for member in members]
            raise HTTPException(503, " ".join(states))
        return JSONResponse({"status": "ok"})

    async def chat(self, request: Request) -> Response:
        raw = await _read(request)
        with _refusing(400):
            body = ChatBody.read(raw)
        run = await run_in_threadpool(self._begin, body)
        if sum(not run.stop for run in self.runs) >= LIMITS.races:
            raise HTTPException(429, f"There are {LIMITS.races} requests already. Try again later.")
        self.runs.add(run)
        passes, completion = self._passes(run, request), Completion(run, body.stop)
        if body.stream:
            events = _events(completion.chunks(passes, body.stream_options.get("include_usage")))
            return StreamingResponse(events, 200, {"Cache-Control": "no-cache"}, "text/event-stream")
        async for _ in passes:
            pass
        return JSONResponse(completion.whole())

    def _begin(self, body: ChatBody) -> Run:
        """Return the run of a request, with its model loaded."""
        with _refusing(404):
            self.pool.member(body.model)
        with _refusing(503):
            checkpoint = self.pool.load(body.model)
        with _refusing(400):
            run = decode(checkpoint, request=body.request, messages=body.conversation)
        with _refusing(503):
            require_caches(checkpoint, run.settings.prompt_tokens + run.settings.max_new_tokens)
        return run

    async def _passes(self, run: Run, request: Request) -> AsyncIterator[Pass]:
        """Yield the passes of a run, each computed in a thread; stop it when its client leaves."""
        try:
            async for step in iterate_in_threadpool(run.turns()):
                if step:
                    yield step
                if run.stop or self.is_closing or await request.is_disconnected():
                    break
        except Exception as error:
            raise _failure(error) from None
        finally:
            run.close()
        if run.stop == "stopped":
            raise HTTPException(503, "The server stopped before the answer was finished.")


class WebServer(uvicorn.Server):
    """A web server that, when interrupted, ends all answers with an error for their clients.

    host: the host on which it listens.
    origins: the sites whose pages may ask from a browser, or `*` for all.

    Raises:
        ValueError: if one of them is not an origin.
    """

    def __init__(self, endpoint: Endpoint, host: str, origins: Sequence[str] = ()):
        for origin in origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"An origin is * or like https://example.org:8080, not {origin!r}.")
        quiet = {"log_level": "warning", "lifespan": "off"}
        application = endpoint.application(host, origins)
        super().__init__(uvicorn.Config(application, timeout_graceful_shutdown=GRACE, **quiet))
        self._endpoint = endpoint

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._endpoint.is_closing = True
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this host and port.

    Raises:
        ValueError: if the system does not allow it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error


@contextmanager
def _refusing(status: int) -> Iterator[None]:
    """Turn a `ValueError` into a response with this status, and any other error into a server error."""
    try:
        yield
    except ValueError as error:
        raise HTTPException(status, str(error)) from None
    except Exception as error:
        raise _failure(error) from None


async def _read(request: Request) -> bytes:
    """Return the body of a request, within the limits on type and size."""
    # A browser lets pages of other sites send other content types without a CORS preflight.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The content type must be application/json.")
    # A character of the messages takes up to 12 bytes in JSON; the rest is for the other fields.
    most, body = 12 * LIMITS.prompt + (64 << 10), bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise HTTPException(413, f"The body is too large; at most {most} bytes are allowed.")
    except ClientDisconnect:
        raise HTTPException(400, "The client left before its request had arrived.") from None
    return bytes(body)


async def _events(chunks: AsyncIterator[dict]) -> AsyncIterator[str]:
    try:
        async for chunk in chunks:
            yield f"data: {json.dumps(chunk)}\n\n"
    except HTTPException as error:
        yield f"data: {json.dumps(_error(error))}\n\n"
    yield "data: [DONE]\n\n"


def _failure(error: Exception) -> HTTPException:
    """Return what a client may know of an error, and log an internal one."""
    if is_short(error):
        return HTTPException(503, MEMORY)
    if isinstance(error, GrammarError):
        return HTTPException(400, str(error))
    log(error, "chat")
    return HTTPException(500, "Internal server error on this request.")


def _error(error: HTTPException) -> dict:
    kind = "server_error" if error.status_code >= 500 else TYPES.get(error.status_code)
    return {"error": {"message": error.detail, "type": kind or "invalid_request_error"}}


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse(_error(error), error.status_code)
