"""The HTTP API: `generate` validates its parameters and streams the record of a run."""

from collections.abc import Iterator
from typing import Annotated, Literal, get_type_hints

import gradio as gr
from pydantic import Field, create_model

from mars_demo.core import fields
from mars_demo.core.modes import BASELINE, RACED
from mars_demo.core.modes import MODES as ALL
from mars_demo.decoding.request import PARAMETERS, Request
from mars_demo.ui.generation import GREEDY, Generation
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import TAU, Knobs
from mars_demo.ui.racing import decode, streamed, within_limits

MODES = (*(mode.name for mode in RACED), BASELINE)


def generate(
    prompt: str,
    model: Annotated[str, Field(max_length=200)] | None = None,
    mode: Literal[MODES] = "mars",
    tau: fields.Share = TAU,
    window: fields.Slots | None = GREEDY.window,
    max_new_tokens: fields.NewTokens = GREEDY.max_new_tokens,
    criterion: fields.Criterion = GREEDY.criterion,
    temperature: fields.Temperature = GREEDY.temperature,
    top_p: fields.TopP = GREEDY.top_p,
    seed: fields.Seed = GREEDY.seed,
) -> str:
    """Answer a prompt and stream the record of the run: JSON lines that grow as the model writes.

    The first line holds the settings, the last line closes the record, and each line between them holds one
    forward, with its slots and the number of accepted tokens. The texts of the accepted slots, joined, are
    the answer.
    """
    try:
        values = locals()
        generation = fields.checked(Parameters, {name: values[name] for name in _KINDS})
        request = generation.request(mode, tau)
        knobs = Knobs()
        yield from within_limits(_answered(model, prompt, request, knobs), knobs)
    except ValueError as error:  # the caller's mistake, not a server error
        raise gr.Error(str(error), print_exception=False) from error


# Values are checked by the signature, and Gradio documents the API with the help of a request.
_KINDS = get_type_hints(generate, include_extras=True)
del _KINDS["return"]
Parameters = create_model(
    "Parameters", __base__=Generation, **{name: (kind, ...) for name, kind in _KINDS.items()}
)
_HELP = {"prompt": "the user's message", "model": "one of the page's models; default: its first model"}
_HELP |= {name: PARAMETERS[name].metadata["help"] for name in _KINDS if name in PARAMETERS}
_HELP["window"] = "slots per forward; default: chosen for each forward by the costs of forwards"
_HELP["temperature"] += "; 0, the default: greedy decoding"
_HELP["mode"] = "; ".join(f"{name}: {mode.explained}" for name, mode in ALL.items() if name in MODES)
generate.__doc__ += "\n".join(
    ["", "    Args:", *(f"        {name}: {text}." for name, text in _HELP.items())]
)


@on_gpu(lambda model, prompt, request, knobs: seconds(request.max_new_tokens))
def _answered(model: str | None, prompt: str, request: Request, knobs: Knobs) -> Iterator[str]:
    """Yield the growing record."""
    yield from streamed({None: decode(MODELS.load(model), prompt, request)}, knobs)
