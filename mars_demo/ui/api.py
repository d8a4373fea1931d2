"""The HTTP API and the tools of the MCP server: `generate` streams an answer, `compare` measures two."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import takewhile
from typing import Annotated, Any, Literal, get_args, get_type_hints

import gradio as gr
from pydantic import Field, create_model

from mars_demo.core import fields
from mars_demo.core.modes import BASELINE, RACED
from mars_demo.core.modes import MODES as ALL
from mars_demo.core.trace import Run
from mars_demo.decoding.request import PARAMETERS, Request
from mars_demo.evaluation.sweep import first_difference
from mars_demo.ui.generation import GREEDY, Generation
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import TAU, Knobs
from mars_demo.ui.racing import decode, growing, record, streamed, within_limits

COMPARED = tuple(mode.name for mode in RACED)
MODES = (*COMPARED, BASELINE)
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
    trace: bool = False,
) -> str:
    """Answer a prompt and stream the answer as it grows.

    With `trace`, stream the record of the run instead, as JSON lines. The first line holds the settings,
    the last line closes the record, and each line between them holds one forward, with its slots and the
    number of accepted tokens. The texts of the accepted slots, joined, are the answer.
    """
    yield from _called(generate, locals(), [mode], _traced if trace is True else _written)


def compare(
    prompt: str,
    model: ModelName | None = None,
    mode: Literal[COMPARED] = "mars",
    tau: fields.Share = TAU,
    max_new_tokens: fields.NewTokens = GREEDY.max_new_tokens,
) -> str:
    """Answer a prompt in AR mode, one token per forward, and in another mode.

    The result is a short text: the tokens per forward and the speed of both, the first difference of the
    answers, and the answers.
    """
    yield from _called(compare, locals(), [BASELINE, mode], _compared)


Runs = dict[str, Run]


def _called(function: Callable, values: dict[str, Any], modes: list, work: Callable) -> Iterator[str]:
    """Validate the parameters of a call and yield what `work` yields for its runs.

    Raises:
        gr.Error: with a sentence about the caller's mistake.
    """
    try:
        call = fields.checked(_MODELS[function], values)
        requests = {mode: call.request(mode, call.tau) for mode in modes}
        knobs = Knobs()
        yield from within_limits(_answered(call.model, call.prompt, requests, work, knobs), knobs)
    except ValueError as error:  # the caller's mistake, not a server error
        raise gr.Error(str(error), print_exception=False) from error


def _duration(model: str | None, prompt: str, requests: dict[str, Request], *_: Any) -> int:
    return seconds(sum(request.max_new_tokens for request in requests.values()))


@on_gpu(_duration)
def _answered(
    model: str | None, prompt: str, requests: dict[str, Request], work: Callable, knobs: Knobs
) -> Iterator[str]:
    checkpoint = MODELS.load(model)
    yield from work(
        {mode: decode(checkpoint, prompt, request) for mode, request in requests.items()}, knobs
    )


def _written(runs: Runs, knobs: Knobs) -> Iterator[str]:
    """Yield the growing answer."""
    [run] = runs.values()
    with closing(run):
        steps = takewhile(lambda _: not knobs.stopped, run)
        yield from growing(step.text for step in steps)


def _traced(runs: Runs, knobs: Knobs) -> Iterator[str]:
    """Yield the growing record."""
    [run] = runs.values()
    yield from streamed({None: run}, knobs)


def _compared(runs: Runs, knobs: Knobs) -> Iterator[str]:
    """Race, and yield the comparison of the runs."""
    for _ in record(runs, lambda: knobs.stopped):
        pass
    yield comparison(runs)


def comparison(runs: Runs) -> str:
    """Return the comparison of two finished runs: figures, the first difference and the answers."""
    lines = [
        f"{mode}: {run.tokens} tokens, {run.tokens_per_forward:.2f} per forward, "
        f"{run.tokens / max(run.seconds, 1e-9):.0f} tokens/s, stop: {run.stop}"
        for mode, run in runs.items()
    ]
    at = first_difference(*(run.token_ids for run in runs.values()))
    if at is None:
        return "\n".join([*lines, "first difference: none", "", "both answers:", [*runs.values()][0].text])
    sides = ", ".join(f"{mode} has {_token(run, at)}" for mode, run in runs.items())
    answers = [f"\nanswer of {mode}:\n{run.text}" for mode, run in runs.items()]
    return "\n".join([*lines, f"first difference: token {at + 1}, where {sides}", *answers])


def _token(run: Run, at: int) -> str:
    """Return the quoted text of a token of an answer, or that the answer ends there."""
    slots = [slot for step in run.passes for slot in step.slots[: step.accepted]]
    return repr(slots[at].text) if at < len(slots) and slots[at].text else "its end"


# Values are checked by the signatures, and Gradio documents the API with the help of a request.
_HELP = {"prompt": "the user's message", "model": "one of the page's models; default: its first model"}
_HELP |= {name: one.metadata["help"] for name, one in PARAMETERS.items()}
_HELP["window"] = "slots per forward; default: chosen for each forward by the costs of forwards"
_HELP["temperature"] += "; 0, the default: greedy decoding"
_HELP["trace"] = "whether to stream the record of the run, about a kilobyte per forward, and not the answer"


def _described(function: Callable) -> type[Generation]:
    """Describe a function's parameters in its docstring; return the model that validates them."""
    kinds = get_type_hints(function, include_extras=True)
    del kinds["return"]
    modes = "; ".join(f"{name}: {ALL[name].explained}" for name in get_args(kinds["mode"]))
    texts = _HELP | {"mode": modes}
    arguments = (f"        {name}: {texts[name]}." for name in kinds)
    function.__doc__ += "\n".join(["", "    Args:", *arguments])
    given = {name: (kind, ...) for name, kind in kinds.items()}
    return create_model("Parameters", __base__=Generation, **given)


_MODELS = {function: _described(function) for function in (generate, compare)}
