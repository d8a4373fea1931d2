"""Error messages: one sentence for the caller, and one line without a traceback in the log.

Anybody can call each of the page's functions with any JSON. Gradio validates little of it and logs the
exceptions with tracebacks. So the page's `App.process_api` turns exceptions of functions and components
into sentences with `public_error`.
"""

import html
import logging
import re

import gradio as gr

from mars_demo.core.log import LONGEST, log
from mars_demo.models.memory import MEMORY, is_short

UNEXPECTED = "This could not be done because of an unexpected error. The server's log has the details."
CHATTY = ("mcp", "python_multipart")  # loggers that write whole requests and tracebacks
KIND = re.compile(r" \(type: <class '[\w.]+'>\)")  # Gradio adds it to its messages


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


def be_quiet() -> None:
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def warn(error: ValueError) -> None:
    gr.Warning(html.escape(sentence(error)))
