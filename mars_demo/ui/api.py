"""The HTTP API and the tool of the MCP server: `generate` streams an answer."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import takewhile
from typing import Annotated, Literal, get_type_hints

import gradio as gr
from pydantic import Field, create_model

from mars_demo.core import fields
from mars_demo.core.grammar import LONGEST, Grammar
from mars_demo.core.modes import BASELINE, RACED
from mars_demo.core.modes import MODES as ALL
from mars_demo.decoding.request import PARAMETERS, Request
from mars_demo.ui.generation import GREEDY, Generation
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import TAU, Knobs
from mars_demo.ui.racing import decode_for_visitor, growing, streamed, within_limits

MODES = (*(mode.name for mode in RACED), BASELINE)
ModelName = Annotated[str, Field(max_length=200)]


def generate(
    prompt: str,
    model: ModelName | None = None,
    mode: Literal[MODES] = "mars",
    tau: fields.Share = TAU,
    window: fields.Slots | None = GREEDY.window,
    max_new_tokens: fields.NewTokens = GREEDY.max_new_tokens,
    criterion: fields.Criterion = GREEDY.criterion,
    temperature: fields.Temperature = GREEDY.temperature,
    top_p: fields.TopP = GREEDY.top_p,
    seed: fields.Seed = GREEDY.seed,
    schema: Annotated[str, Field(max_length=LONGEST)] | None = None,
    trace: bool = False,
) -> str:
    """Answer a prompt and stream the answer as it grows.

    With `trace`, stream the record of the run instead, as JSON lines. The first line holds the settings,
    the last line closes the record, and each line between them holds one forward, with its slots and the
    number of accepted tokens. The texts of the accepted slots, joined, are the answer.
    """
    parameters = locals()
    knobs = Knobs()
    try:
        call = fields.validated(_Parameters, parameters)
        grammar = Grammar("json", call.given_schema) if call.given_schema else None
        request = replace(call.request(call.mode, call.tau), grammar=grammar)
        answers = _answered(call.model, call.prompt, request, call.trace, knobs)
        yield from within_limits(answers, knobs)
    except ValueError as error:  # the caller's mistake, not a server error
        raise gr.Error(str(error), print_exception=False) from error


def _duration(model: str | None, prompt: str, request: Request, trace: bool, knobs: Knobs) -> int:
    return seconds(request.max_new_tokens)


@on_gpu(_duration)
def _answered(model: str | None, prompt: str, request: Request, trace: bool, knobs: Knobs) -> Iterator[str]:
    """Yield the growing answer or record."""
    run = decode_for_visitor(MODELS.load(model), prompt, request)
    if trace:
        yield from streamed({None: run}, knobs)
        return
    with closing(run):
        steps = takewhile(lambda _: not knobs.stopped, run.turns())
        yield from growing(step.text if step else "" for step in steps)


# Values are checked by the signatures, and Gradio documents the API with the help of a request.
_HELP = {"prompt": "the user's message", "model": "one of the page's models; default: its first model"}
_HELP |= {name: parameter.metadata["help"] for name, parameter in PARAMETERS.items()}
_HELP["window"] = "slots per forward; default: chosen for each forward by the costs of forwards"
_HELP["temperature"] += "; 0, the default: greedy decoding"
_HELP["schema"] = "a JSON schema as a text, which the answer follows; default: any text"
_HELP["trace"] = "whether to stream the record of the run, about a kilobyte per forward, and not the answer"


def _described() -> type[Generation]:
    """Describe the parameters of `generate` in its docstring; return the model that validates them."""
    kinds = get_type_hints(generate, include_extras=True)
    del kinds["return"]
    modes = "; ".join(f"{name}: {ALL[name].explained}" for name in MODES)
    texts = _HELP | {"mode": modes}
    arguments = (f"        {name}: {texts[name]}." for name in kinds)
    generate.__doc__ += "\n".join(["", "    Args:", *arguments])
    given = {name: (kind, ...) for name, kind in kinds.items()}
    given["given_schema"] = (given.pop("schema")[0], Field(alias="schema"))  # pydantic has a `schema`
    return create_model("Parameters", __base__=Generation, **given)


_Parameters = _described()
