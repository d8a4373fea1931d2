"""The HTTP API: `generate` validates its parameters and streams the record of a run."""

from collections.abc import Iterator
from typing import Annotated, Literal

import gradio as gr
from pydantic import BaseModel, Field

from mars_demo.decoding import fields
from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.decoding.request import Request
from mars_demo.modes import BASELINE, RACED
from mars_demo.ui import models
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.knobs import TAU, Knobs
from mars_demo.ui.racing import MAX_NEW_TOKENS, streamed, within_limits

MODES = (*(mode.name for mode in RACED), BASELINE)


class Parameters(BaseModel):
    """The parameters of `generate`, with their types and ranges."""

    model_config = fields.STRICT
    prompt: str
    model: Annotated[str, Field(max_length=200)] | None
    mode: Literal[MODES]
    tau: fields.Share
    window: Annotated[int, Field(ge=1, le=10**9)] | None  # the mode sets the maximum
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

    The first line holds the settings, the last line closes the record, and each line between them holds one
    forward, with its slots and the number of accepted tokens. The texts of the accepted slots, joined, are
    the answer.

    Args:
        prompt: the user's message.
        model: one of the page's models; default: its first model.
        mode: ar: a token per forward; mars: slot 1, then while score ≥ tau; lossless, jacobi: ar's answer.
        tau: from 0 to 1; 1 means one token per forward.
        window: slots per forward; default: as the model was trained.
        max_new_tokens: longer answers are truncated.
        criterion: a token's score: probability, entropy of its distribution, or margin over the runner-up.

    Raises:
        gr.Error: if a parameter is invalid.
    """
    try:
        values = (prompt, model, mode, tau, window, max_new_tokens, criterion)
        fields.checked(Parameters, dict(zip(Parameters.model_fields, values)))
        request = Request(mode, tau, criterion, window=window, max_new_tokens=max_new_tokens)
        knobs = Knobs()
        yield from within_limits(_answered(model, prompt, request, knobs), knobs)
    except ValueError as error:  # the caller's mistake, not a server error
        raise gr.Error(str(error), print_exception=False) from error


@on_gpu(lambda model, prompt, request, knobs: seconds(request.max_new_tokens))
def _answered(model: str | None, prompt: str, request: Request, knobs: Knobs) -> Iterator[str]:
    """Yield the growing record."""
    yield from streamed({None: models.decode(models.load(model), prompt, request)}, knobs)
