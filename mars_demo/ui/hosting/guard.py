"""A middleware that handles failures before and after the page's functions; see `errors` for theirs."""

import json

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mars_demo.core.limits import LIMITS
from mars_demo.core.log import log
from mars_demo.ui.hosting.errors import sentence

UPLOAD = "/upload"  # Gradio's route that writes any file to the disk; no component here needs it
ESCAPED = 4  # bytes of a request per byte of a record, which is sent as a JSON string


class Guard:
    """A middleware that limits the size of requests and answers if the app raises."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun: Message = {}  # the message that began the answer

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
            await send(message)

        async def answer(status: int, text: str) -> None:
            await JSONResponse({"error": text, "detail": text}, status)(scope, receive, send)

        if scope["path"].endswith(UPLOAD):
            return await answer(404, "This app does not accept files.")
        most = ESCAPED * LIMITS.record << 20
        if int(Headers(scope=scope).get("content-length", 0)) > most:
            return await answer(413, _too_large(most))  # unread
        try:
            await self.app(scope, _bounded(receive, most), sending)
        except TooLarge as error:
            if not begun:
                await answer(413, str(error))
        except Exception as error:  # noqa: BLE001  unexpected errors must not reach the log unabridged
            log(error, scope["path"])
            await (_end(send, begun, error) if begun else answer(500, sentence(error)))


class TooLarge(Exception):
    """An error for a request larger than any that the page sends."""


def _too_large(most: int) -> str:
    return f"The request is larger than {most >> 20} MiB, more than this page ever sends."


def _bounded(receive: Receive, most: int) -> Receive:
    """Limit the total size of a request's body without a length: reading more raises `TooLarge`."""
    read = 0

    async def receiving() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            raise TooLarge(_too_large(most))
        return message

    return receiving


async def _end(send: Send, begun: Message, error: Exception) -> None:
    """End an answer that has begun; send an error event if it is an event stream."""
    headers = dict(begun["headers"])
    if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
        event = f"event: error\ndata: {json.dumps({'error': sentence(error)})}\n\n"
        await send({"type": "http.response.body", "body": event.encode()})
