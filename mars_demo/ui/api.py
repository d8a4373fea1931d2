"""The HTTP API: `generate`, which takes whatever came over HTTP and answers with a record or a sentence."""

import reprlib
from collections.abc import Iterator
from contextlib import closing
from typing import Literal

import gradio as gr

from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.limits import LIMITS
from mars_demo.modes import BASELINE, RACED
from mars_demo.ui import models
from mars_demo.ui.board import Board
from mars_demo.ui.controls import TAU
from mars_demo.ui.gpu import on_gpu, seconds
from mars_demo.ui.racing import growing, within_limits

MODES = (*(mode.name for mode in RACED), BASELINE)
MAX_NEW_TOKENS = 256
LONGEST_NAME = 200  # characters


def generate(
    prompt: str,
    model: str | None = None,
    mode: Literal[MODES] = "mars",
    tau: float = TAU,
    window: int | None = None,
    max_new_tokens: int = MAX_NEW_TOKENS,
    criterion: Literal[tuple(CRITERIA)] = Request.criterion,
) -> str:
    """Answer a prompt and stream the record of the run: JSON lines that grow as the model writes.

    The first line holds the settings, then there is a line per forward with its slots and what was
    accepted, and a closing line. The accepted slots' texts, joined, are the answer.

    Args:
        prompt: what the model is asked.
        model: one of the page's models; its first one if left out.
        mode: mars accepts slot 1, then while score ≥ tau; lossless and jacobi equal ar, a token a forward.
        tau: from 0 to 1; 1 is one token per forward.
        window: slots per forward; what the model was trained for if left out.
        max_new_tokens: where an answer without an end is cut.
        criterion: a token's score: its probability, its distribution's entropy, its margin over the next.

    Raises:
        gr.Error: a sentence, if one of them is not what it must be.
    """
    try:
        _check(prompt, model, mode, tau, window, max_new_tokens, criterion)
        request = Request(mode, tau, criterion, window=window, max_new_tokens=max_new_tokens)
        board = Board()
        yield from within_limits(_answered(model, prompt, request, board), board)
    except ValueError as error:  # whoever asked is told; it is no fault of the server's
        raise gr.Error(str(error), print_exception=False) from error


def _longest(model: str | None, prompt: str, request: Request, board: Board) -> int:
    return seconds(request.max_new_tokens)


@on_gpu(_longest)
def _answered(model: str | None, prompt: str, request: Request, board: Board) -> Iterator[str]:
    """The record while it grows."""
    with closing(models.decode(model, prompt, request)) as run:
        yield from growing(f"{line}\n" for line in _lines(run, board))


def _lines(run: Run, board: Board) -> Iterator[str]:
    yield run.first_line()
    for step in run:
        yield step.line()
        if board.stopped:
            run.close()
    yield run.last_line()


def _check(prompt, model, mode, tau, window, max_new_tokens, criterion) -> None:
    """What comes over HTTP has any type.

    Raises:
        ValueError: if one of them has another than `generate` says, or is out of its range.
    """
    rules = [
        ("prompt", prompt, isinstance(prompt, str), "a text"),
        ("model", model, model is None or _is_name(model), "the name of a model"),
        ("mode", mode, _is_one_of(mode, MODES), _listed(MODES)),
        ("tau", tau, _is_number(tau) and 0 <= tau <= 1, "a number from 0 to 1"),
        ("window", window, window is None or _is_size(window), "a whole number of slots"),
        (
            "max_new_tokens",
            max_new_tokens,
            _is_count(max_new_tokens) and 1 <= max_new_tokens <= LIMITS.answer,
            f"a whole number from 1 to {LIMITS.answer}",
        ),
        ("criterion", criterion, _is_one_of(criterion, CRITERIA), _listed(tuple(CRITERIA))),
    ]
    for name, value, fits, wanted in rules:
        if not fits:
            raise ValueError(f"{name} must be {wanted}, not {reprlib.repr(value)}.")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise ValueError("The prompt has half of a character in it (a surrogate without its other half).")


def _is_one_of(value, names) -> bool:
    return isinstance(value, str) and value in names


def _is_name(value) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME


def _is_size(value) -> bool:
    """Whether it can be written in a sentence; what a window may be, its mode knows."""
    return _is_count(value) and abs(value) <= 10**9


def _is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value) -> bool:
    return _is_count(value) or isinstance(value, float)


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
