"""What a caller and the log are told of an error, and what keeps a visitor's record from taking memory."""

import asyncio
import logging
import re
import threading
from dataclasses import replace
from random import Random

import gradio as gr
import pytest
import torch

from benchmarks.hostile.values import ODD, SCRIPTS, text
from mars_demo import limits
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.limits import LIMITS
from mars_demo.models.chat import encode_prompt
from mars_demo.ui.guard import LONGEST, MEMORY, UNEXPECTED, log, sentence, told
from mars_demo.ui.page import build
from mars_demo.ui.tabs.mask import Latest
from mars_demo.views.mask_picture import WIDEST, of_pass


def unallocatable() -> Exception:
    """What torch raises on a processor when it is asked for more memory than there is."""
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
    ("error", "said"),
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
def test_a_caller_is_told_sentences_and_nothing_of_the_server(error, said):
    assert sentence(error) == said


def test_a_page_shows_what_is_told_and_does_not_run_it():
    for found in SCRIPTS:
        assert not re.search("<[a-z/!]", told(ValueError(found), "race").message, re.IGNORECASE)


def test_what_was_meant_for_the_caller_is_passed_on_and_not_logged(caplog):
    own = gr.Error("tau must be a number from 0 to 1, not 'x'.", print_exception=False)
    assert told(own, "generate") is own
    assert not caplog.records


def test_the_log_gets_one_line_whatever_was_sent(caplog):
    rng = Random(1)
    for found in [*ODD, *SCRIPTS, *(text(rng) for _ in range(200))]:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            log(raised(TypeError(found)), f"race {found}")
        [record] = caplog.records
        assert record.getMessage().isascii() and record.getMessage().isprintable()
        assert len(record.getMessage()) <= LONGEST
        assert record.exc_info is None


def test_a_picture_of_a_forward_is_bounded(mars_tiny):
    """The positions that a record counts are not laid out before they are checked."""
    run = decode(mars_tiny, "Sort 3 and 1", Request(max_new_tokens=8)).finish()
    ids = encode_prompt(mars_tiny.tokenizer, run.settings.conversation)

    def picture(**wrong):
        run.passes[0] = replace(run.passes[0], **wrong)
        return of_pass(run, 0, mars_tiny.token_name, ids, mars_tiny.mask_id)

    assert len(picture().rows) == run.passes[0].positions
    with pytest.raises(ValueError, match="too many for a picture"):
        picture(positions=10_000_000)
    with pytest.raises(ValueError, match=f"at most {WIDEST} columns"):
        picture(positions=WIDEST)
    assert len(picture(positions=700).rows) == 700
    with pytest.raises(ValueError, match="fewer positions"):
        picture(positions=1)


def test_the_attention_of_a_model_is_kept_once_for_all_threads(mars_tiny, ar_tiny):
    latest, wrong = Latest(), []

    def ask(checkpoint):
        for _ in range(20):
            shared = latest.of(checkpoint.model).model.base_model.embed_tokens.weight
            if shared is not checkpoint.model.base_model.embed_tokens.weight:
                wrong.append(checkpoint.name)

    threads = [threading.Thread(target=ask, args=[one]) for one in (mars_tiny, ar_tiny) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert latest.of(ar_tiny.model) is latest.of(ar_tiny.model)


def test_a_prompt_is_refused_above_the_limit(monkeypatch):
    monkeypatch.setenv("MARS_DEMO_PROMPT", "10")
    limits.refuse_long("12345", "67890")
    with pytest.raises(ValueError, match="have 11 characters; at most 10 are read here"):
        limits.refuse_long("12345", "678901")


def test_a_limit_that_makes_no_sense_is_refused_at_the_start(monkeypatch):
    limits.check()
    monkeypatch.setenv("MARS_DEMO_ANSWER", "256")
    limits.check()
    assert LIMITS.answer == 256
    for wrong in ("255", "-1", "1e9", "²", "many"):
        monkeypatch.setenv("MARS_DEMO_ANSWER", wrong)
        with pytest.raises(ValueError, match="MARS_DEMO_ANSWER must be a whole number from 256 on, not"):
            limits.check()


def test_a_message_to_who_has_left_is_sent_to_nobody():
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
