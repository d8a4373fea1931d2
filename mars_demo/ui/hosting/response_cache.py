"""A cache of compressed answers that are the same for every visitor."""

import asyncio
from copy import deepcopy

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGES = ("/", "/config", "/theme.css")
FILES = ("/assets/", "/static/", "/gradio_api/components/")
# An answer contains URLs built from the host headers, and its encoding depends on the last header.
DEPENDS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server", "accept-encoding")
PARTIAL = ("range", "if-none-match", "if-modified-since")  # headers of requests for partial answers
MOST = 32 << 20  # bytes of all cached answers


class ResponseCache:
    """An ASGI middleware that compresses answers and caches the page, its config and its files.

    Cached answers depend on the visitor's URL alone: the app has no login. Only scripts in the browser read
    the query.
    """

    def __init__(self, app: ASGIApp):
        self.app = GZipMiddleware(app, compresslevel=6)
        self.kept: dict[tuple, list[Message]] = {}
        self.computing = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_the_same_for_all(scope):
            return await self.app(scope, receive, send)
        url = (scope["scheme"], scope.get("root_path"), scope["path"])
        key = (*url, *map(Headers(scope=scope).get, DEPENDS))
        for message in self.kept.get(key) or await self._compute(key, scope):
            await send(deepcopy(message))  # other middleware changes the headers

    async def _compute(self, key: tuple, scope: Scope) -> list[Message]:
        """Return the messages of an answer; cache them if its status is 200.

        The answer is for all visitors, so the departure of the first one must not truncate it.
        """
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        async with self.computing:
            if key in self.kept:
                return self.kept[key]
            await self.app(scope, _nothing_more, collect)
            if messages[0].get("status") == 200:
                self.kept[key] = messages
                while sum(map(_size, self.kept.values())) > MOST:
                    self.kept.pop(next(iter(self.kept)))
            return messages


async def _nothing_more() -> Message:
    """Wait forever, as a visitor who stays would."""
    return await asyncio.Future()


def _is_the_same_for_all(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET" or b"deep_link" in scope["query_string"]:
        return False  # Gradio's answer depends on the deep link
    is_whole = not any(name in Headers(scope=scope) for name in PARTIAL)
    return is_whole and (scope["path"] in PAGES or scope["path"].startswith(FILES))


def _size(messages: list[Message]) -> int:
    return sum(len(message.get("body", b"")) for message in messages)
