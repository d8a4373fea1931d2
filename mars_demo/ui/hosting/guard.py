"""Error messages: one sentence for the caller, and one line without a traceback in the log.

Anybody can call each of the page's functions with any JSON. Gradio validates little of it and logs the
exceptions with tracebacks. So the page's `App.process_api` turns exceptions of functions and components
into sentences with `public_error`. `Guard`, a middleware, handles failures before and after a function.
"""

import html
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gradio as gr

from mars_demo.limits import LIMITS
from mars_demo.models.memory import MEMORY, is_short

LOG = logging.getLogger("mars_demo")
LONGEST = 600  # characters of a message or a log line, so that nobody can flood either
UNEXPECTED = "This could not be done because of an unexpected error. The server's log has the details."
CHATTY = ("mcp", "python_multipart")  # loggers that write whole requests and tracebacks
KIND = re.compile(r" \(type: <class '[\w.]+'>\)")  # Gradio adds it to its messages
UPLOAD = "/upload"  # Gradio's route that writes any file to the disk; no component here needs it
ESCAPED = 4  # bytes of a request per byte of a record, which is sent as a JSON string

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def public_error(error: Exception, doing: str) -> gr.Error:
    """Return the error for a function's caller; log it, unless it was raised for the caller."""
    if isinstance(error, gr.Error) and not error.print_exception:
        return error
    log(error, doing)
    return gr.Error(html.escape(sentence(error), quote=False), print_exception=False)


def sentence(error: Exception) -> str:
    """Return the message for the caller.

    Messages of this project and of Gradio are passed on; others are not, since they may name folders of the
    server.
    """
    if is_short(error):
        return MEMORY
    text = KIND.sub("", error.message if isinstance(error, gr.Error) else str(error)).strip()
    text = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate would end Gradio's streams
    is_sentence = isinstance(error, gr.Error) or type(error) is ValueError
    if not is_sentence or not text:
        return UNEXPECTED
    if len(text) > LONGEST:
        return f"{text[:LONGEST]}…"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def log(error: Exception, doing: str) -> None:
    """Log one printable line."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    LOG.warning("%s", ascii(f"{doing}: {type(error).__name__}{at}: {error}")[1 : LONGEST + 1])


def be_quiet() -> None:
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def to_who_is_there(send: Callable[..., None]) -> Callable[..., None]:
    """Wrap the sender of Gradio's queue: drop messages to visitors who have just left."""

    def sending(event: Any, message: Any) -> None:
        with suppress(KeyError):
            send(event, message)

    return sending


class Guard:
    """A middleware that limits the size of requests and answers if the app raises."""

    def __init__(self, app: Callable[..., Awaitable[None]]):
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun: Message = {}  # the message that began the answer

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
            await send(message)

        if scope["path"].endswith(UPLOAD):
            return await _answer(send, 404, "This app does not accept files.")
        try:
            await self.app(scope, _bounded(receive, _length(scope)), sending)
        except TooLarge as error:
            if not begun:
                await _answer(send, 413, str(error))
        except Exception as error:  # noqa: BLE001  unexpected errors must not reach the log unabridged
            log(error, scope["path"])
            await (_end(send, begun, error) if begun else _answer(send, 500, sentence(error)))


class TooLarge(Exception):
    """An error for a request larger than any that the page sends."""


def _length(scope: Message) -> int:
    """Return the size that a request declares in bytes, or 0."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else 0


def _bounded(receive: Receive, length: int) -> Receive:
    """Limit the total size of a request's body.

    Raises:
        TooLarge: if the body is too large; at once if its declared `length` is.
    """
    most, read = ESCAPED * LIMITS.record << 20, 0
    too_large = TooLarge(f"The request is larger than {most >> 20} MiB, more than this page ever sends.")
    if length > most:
        raise too_large

    async def receiving() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            raise too_large
        return message

    return receiving


async def _end(send: Send, begun: Message, error: Exception) -> None:
    """End an answer that has begun; send an error event if it is an event stream."""
    headers = dict(begun["headers"])
    if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
        event = f"event: error\ndata: {json.dumps({'error': sentence(error)})}\n\n"
        await send({"type": "http.response.body", "body": event.encode()})


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text, "detail": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
