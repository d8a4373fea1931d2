"""Errors as callers and the log see them, and limits of prompts and records."""

import asyncio
import logging
import re
from dataclasses import replace

import gradio as gr
import pytest
import torch
from hostile import ODD, SCRIPTS

from mars_demo.core import limits
from mars_demo.core.limits import LIMITS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.memory import MEMORY
from mars_demo.ui.hosting.errors import LONGEST, UNEXPECTED, log, public_error, sentence
from mars_demo.ui.masks import WIDEST, of_pass
from mars_demo.ui.page import build


def unallocatable() -> Exception:
    """Return torch's error for an allocation beyond the memory of a CPU."""
    try:
        torch.empty(1 << 60, dtype=torch.uint8)
    except RuntimeError as error:
        return error


def ours(caplog) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("mars_demo")]


def raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("τ must be between 0 and 1, not 2."), "τ must be between 0 and 1, not 2."),
        (ValueError("no point at its end"), "no point at its end."),
        (ValueError(""), UNEXPECTED),
        (KeyError("/srv/secret"), UNEXPECTED),
        (OSError(2, "No such file", "/srv/secret"), UNEXPECTED),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), UNEXPECTED),
        (RuntimeError("/srv/secret: the device is gone"), UNEXPECTED),
        (MemoryError(), MEMORY),
        (torch.OutOfMemoryError("CUDA out of memory"), MEMORY),
        (unallocatable(), MEMORY),
        (gr.Error("Value: x (type: <class 'NoneType'>) is not a choice"), "Value: x is not a choice."),
        (ValueError("\ud800 is no choice."), "? is no choice."),
        (ValueError("x" * 10_000), f"{'x' * LONGEST}…"),
    ],
)
def test_a_caller_gets_one_message_without_details_of_the_server(error, message):
    assert sentence(error) == message


def test_markup_in_an_error_is_escaped():
    for script in SCRIPTS:
        assert not re.search("<[a-z/!]", public_error(ValueError(script), "race").message, re.IGNORECASE)


def test_an_error_for_the_caller_is_passed_on_unlogged(caplog):
    error = gr.Error("tau must be a number from 0 to 1, not 'x'.", print_exception=False)
    assert public_error(error, "generate") is error
    assert not ours(caplog)


def test_the_log_gets_one_printable_line_for_any_input(caplog):
    for value in (*ODD, *SCRIPTS, "word " * 30_000):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            log(raised(TypeError(value)), f"race {value}")
        [record] = ours(caplog)
        assert record.getMessage().isascii() and record.getMessage().isprintable()
        assert len(record.getMessage()) <= LONGEST
        assert record.exc_info is None


def test_a_picture_of_a_forward_is_bounded(mars_tiny):
    """Check the positions of a record before drawing them."""
    run = decode(mars_tiny, "Sort 3 and 1", Request(max_new_tokens=8)).finish()

    def picture(**wrong):
        run.passes[0] = replace(run.passes[0], **wrong)
        return of_pass(run, 1, mars_tiny)

    assert len(picture().rows) == run.passes[0].positions
    with pytest.raises(ValueError, match="10000000|10,000,000|picture"):
        picture(positions=10_000_000)
    with pytest.raises(ValueError, match=str(WIDEST)):
        picture(positions=WIDEST)
    assert len(picture(positions=700).rows) == 700
    with pytest.raises(ValueError, match="positions"):
        picture(positions=1)


def test_bad_limits_are_refused_at_the_start(monkeypatch):
    limits.check_limits()
    monkeypatch.setenv("MARS_DEMO_ANSWER", "256")
    limits.check_limits()
    assert LIMITS.answer == 256
    for wrong in ("255", "-1", "1e9", "²", "many"):
        monkeypatch.setenv("MARS_DEMO_ANSWER", wrong)
        with pytest.raises(ValueError, match="MARS_DEMO_ANSWER.*256"):
            limits.check_limits()


@pytest.mark.full
def test_a_message_to_a_visitor_who_left_is_dropped():
    from gradio.queueing import Event
    from gradio.server_messages import HeartbeatMessage

    queue = build()._queue
    event = Event.__new__(Event)
    event.session_hash, event.alive, event._id = "gone", True, "1"
    queue.send_message(event, HeartbeatMessage())
    queue.pending_messages_per_session["here"] = messages = asyncio.Queue()
    event.session_hash = "here"
    queue.send_message(event, HeartbeatMessage())
    assert messages.qsize() == 1
