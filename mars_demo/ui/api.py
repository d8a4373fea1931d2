"""The HTTP API: `generate`, which takes whatever came over HTTP and answers with a record or a sentence."""

from collections.abc import Iterator
from typing import Annotated, Literal

import gradio as gr
from pydantic import BaseModel, Field

from mars_demo.decoding import fields
from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.decoding.request import Request
from mars_demo.modes import BASELINE, RACED
from mars_demo.ui import models
from mars_demo.ui.controls import TAU, Knobs
from mars_demo.ui.gpu import on_gpu, seconds
from mars_demo.ui.racing import streamed, within_limits

MODES = (*(mode.name for mode in RACED), BASELINE)
MAX_NEW_TOKENS = 256


class Parameters(BaseModel):
    """The parameters of `generate` as they come over HTTP."""

    model_config = fields.STRICT
    prompt: str
    model: Annotated[str, Field(max_length=200)] | None
    mode: Literal[MODES]
    tau: fields.Share
    window: Annotated[int, Field(ge=1, le=10**9)] | None  # the most is the mode's
    max_new_tokens: fields.NewTokens
    criterion: fields.Criterion


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
        values = (prompt, model, mode, tau, window, max_new_tokens, criterion)
        fields.checked(Parameters, dict(zip(Parameters.model_fields, values)))
        request = Request(mode, tau, criterion, window=window, max_new_tokens=max_new_tokens)
        knobs = Knobs()
        yield from within_limits(_answered(model, prompt, request, knobs), knobs)
    except ValueError as error:  # whoever asked is told; it is no fault of the server's
        raise gr.Error(str(error), print_exception=False) from error


@on_gpu(lambda model, prompt, request, knobs: seconds(request.max_new_tokens))
def _answered(model: str | None, prompt: str, request: Request, knobs: Knobs) -> Iterator[str]:
    """Yield the record while it grows."""
    yield from streamed({None: models.decode(models.load(model), prompt, request)}, knobs)
