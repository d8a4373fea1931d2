"""Whatever a request holds, its answer is a value or a sentence, and the log gets a line, no traceback.

All of a page's functions can be called by anybody with any JSON. Gradio checks little of it, and would log
what its own code or a handler then raises with a traceback. There are two places against that:
`App.process_api` of the page turns what a function or its components raise into a sentence with `told`, and
`Guard` is around all of the server, for what fails before or after a function.
"""

from __future__ import annotations

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
MEMORY = "There is not enough memory for this. A shorter prompt or a smaller model needs less."
CHATTY = ("mcp", "python_multipart")  # loggers of what was sent, at any length, and of tracebacks
KIND = re.compile(r" \(type: <class '[\w.]+'>\)")  # which Gradio adds to its sentences
UPLOAD = "/upload"  # a route of Gradio that writes any file to the disk; no component here takes one
ESCAPED = 4  # bytes of a request for each byte of a record: it comes as a text within JSON

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def told(error: Exception, doing: str) -> gr.Error:
    """The error with which a function's caller is told what went wrong; one that was not meant for them is
    logged."""
    if isinstance(error, gr.Error) and not error.print_exception:
        return error
    log(error, doing)
    return gr.Error(html.escape(sentence(error), quote=False), print_exception=False)


def sentence(error: Exception) -> str:
    """What is said of an error. Those of this project and of Gradio are sentences; all others stay here,
    for they may name folders of the server."""
    from mars_demo.models.memory import is_short  # imports torch, which the page is there before

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
    """One line, in which nothing that a visitor sent can begin another."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    LOG.warning("%s", ascii(f"{doing}: {type(error).__name__}{at}: {error}")[1 : LONGEST + 1])


def be_quiet() -> None:
    """Silence loggers that write what was sent."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def to_who_is_there(send: Callable[..., None]) -> Callable[..., None]:
    """How Gradio's queue sends a message, for a visitor who may have left in this moment: then there is
    nobody to send it to, which Gradio would take for a fault."""

    def sending(event: Any, message: Any) -> None:
        with suppress(KeyError):
            send(event, message)

    return sending


class Guard:
    """Around an ASGI app: bounds what is read of a request, and answers where the app raises."""

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
    """A request is larger than any that the page sends."""


def _length(scope: Message) -> int:
    """The bytes that a request says it has; 0 where it says nothing that makes sense."""
    said = dict(scope["headers"]).get(b"content-length", b"")
    return int(said) if said.isdigit() and len(said) < 20 else 0


def _bounded(receive: Receive, length: int) -> Receive:
    """The parts of a request's body, until they are too much.

    Raises:
        TooLarge: then, and at once if the request says so itself.
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
    """End an answer whose beginning has gone out: a stream of events with one that says why."""
    headers = dict(begun["headers"])
    if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
        event = f"event: error\ndata: {json.dumps({'error': sentence(error)})}\n\n"
        await send({"type": "http.response.body", "body": event.encode()})


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text, "detail": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
