"""Errors as callers and the log see them, and limits of prompts and records."""

import logging
import re

import gradio as gr
import pytest
import torch
from hostile import ODD, SCRIPTS
from web import ours

from mars_demo.core import limits
from mars_demo.core.limits import LIMITS
from mars_demo.core.log import LONGEST, log
from mars_demo.models.memory import MEMORY
from mars_demo.ui.hosting.errors import UNEXPECTED, public_error, sentence


def unallocatable() -> Exception:
    """Return torch's error for an allocation beyond the memory of a CPU."""
    try:
        torch.empty(1 << 60, dtype=torch.uint8)
    except RuntimeError as error:
        return error


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


def test_bad_limits_are_refused_at_the_start(monkeypatch):
    limits.check_limits()
    monkeypatch.setenv("MARS_DEMO_ANSWER", "256")
    limits.check_limits()
    assert LIMITS.answer == 256
    for wrong in ("255", "-1", "1e9", "²", "many"):
        monkeypatch.setenv("MARS_DEMO_ANSWER", wrong)
        with pytest.raises(ValueError, match="MARS_DEMO_ANSWER.*256"):
            limits.check_limits()
