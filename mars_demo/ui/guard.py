"""Errors as a caller and the log see them: one sentence, and one line without a traceback.

Anybody can call all of a page's functions with any JSON. Gradio checks little of it, and would log what is
then raised with a traceback. So `App.process_api` of the page turns what a function or its components raise
into a sentence with `told`, and `Guard` is around the server, for what fails before or after a function.
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

LOG = logging.getLogger("mars_demo")
LONGEST = 600  # characters of a sentence or of a line in the log, so that nobody fills either
UNEXPECTED = "This could not be done because of an unexpected error. The server's log has the details."
CHATTY = ("mcp", "python_multipart")  # loggers of what was sent, at any length, and of tracebacks
KIND = re.compile(r" \(type: <class '[\w.]+'>\)")  # which Gradio adds to its sentences
UPLOAD = "/upload"  # a route of Gradio that writes any file to the disk; no component here takes one
ESCAPED = 4  # bytes of a request for each byte of a record: it comes as a text within JSON

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def told(error: Exception, doing: str) -> gr.Error:
    """Return the error for a function's caller; log one that was not meant for them."""
    if isinstance(error, gr.Error) and not error.print_exception:
        return error
    log(error, doing)
    return gr.Error(html.escape(sentence(error), quote=False), print_exception=False)


def sentence(error: Exception) -> str:
    """Return what a caller reads. Errors of this project and of Gradio are sentences; others may name
    folders of the server."""
    from mars_demo.models.memory import MEMORY, is_short  # imports torch, which the page is there before

    if is_short(error):
        return MEMORY
    text = KIND.sub("", error.message if isinstance(error, gr.Error) else str(error)).strip()
    text = text.encode("utf-8", "replace").decode("utf-8")  # half of a character ends Gradio's streams
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
    """Make Gradio's queue drop a message to a visitor who has just left, instead of failing."""

    def sending(event: Any, message: Any) -> None:
        with suppress(KeyError):
            send(event, message)

    return sending


class Guard:
    """Middleware that limits the size of a request, and answers where the app raises."""

    def __init__(self, app: Callable[..., Awaitable[None]]):
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun: Message = {}  # the message with which the answer has begun

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
            await send(message)

        if scope["path"].endswith(UPLOAD):
            return await _answer(send, 404, "This app takes no files.")
        try:
            await self.app(scope, _bounded(receive, _length(scope)), sending)
        except TooLarge as error:
            if not begun:
                await _answer(send, 413, str(error))
        except Exception as error:  # noqa: BLE001  one that nobody foresaw must not reach the log as it is
            log(error, scope["path"])
            await (_end(send, begun, error) if begun else _answer(send, 500, sentence(error)))


class TooLarge(Exception):
    """The request is larger than any that the page sends."""


def _length(scope: Message) -> int:
    """Return the size that a request declares in bytes, or 0."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else 0


def _bounded(receive: Receive, length: int) -> Receive:
    """Limit the parts of a request's body.

    Raises:
        TooLarge: if they are too much, and at once if the request declares that.
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
    """End an answer that has begun: a stream of events with an error."""
    headers = dict(begun["headers"])
    if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
        event = f"event: error\ndata: {json.dumps({'error': sentence(error)})}\n\n"
        await send({"type": "http.response.body", "body": event.encode()})


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text, "detail": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
