"""The comparison figure: live answers to a prompt from before and after the training for MARS."""

from collections.abc import Iterator, Mapping

from pandas import DataFrame

from mars_demo.core.names import BASE, TINY
from mars_demo.core.trace import Run
from mars_demo.decoding.request import Request
from mars_demo.evaluation.sweep import first_difference
from mars_demo.ui import racing
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.lessons.parts import shown
from mars_demo.ui.racing import decode, streamed

AR = f"{TINY}, one token at a time"
LANES = {  # the model and mode of each
    f"{BASE}, one token at a time": (BASE, "ar"),
    AR: (TINY, "ar"),
    f"{TINY}, lossless": (TINY, "lossless"),
}


def answers(element: dict) -> dict[str, dict]:
    """Show the prompts to choose from and the table of their answers."""
    prompts = element["prompts"]
    return {
        "asking": shown(),
        "prompt": shown(choices=prompts, value=prompts[0]),
        "answers": shown(value=compared({})),
    }


def compared(runs: Mapping[str, Run]) -> DataFrame:
    """Return the answers so far; finished ones are compared with that of `AR`."""
    rows = [(name, run.text, _result(name, run, runs[AR])) for name, run in runs.items()]
    rows = rows or [(name, "", "") for name in LANES]
    return DataFrame(rows, columns=["answered by", "answer", "tokens"])


def _result(name: str, run: Run, ar: Run) -> str:
    tokens = f"{run.tokens} tokens in {run.forwards} forwards"
    if name == AR or not (run.stop and ar.stop):
        return tokens
    at = first_difference(run.token_ids, ar.token_ids)
    return f"{tokens}, {'the same as AR' if at is None else f'differs from AR from token {at + 1} on'}"


def compare(prompt: str, knobs: Knobs) -> Iterator:
    """Yield the growing table of answers."""
    yield from racing.within_limits(_answered(prompt, knobs), knobs)


@on_gpu(lambda prompt, knobs: seconds(len(LANES) * Request.max_new_tokens))
def _answered(prompt: str, knobs: Knobs) -> Iterator[DataFrame]:
    runs = {
        lane: decode(MODELS.load(model), prompt, Request(mode)) for lane, (model, mode) in LANES.items()
    }
    for _ in streamed(runs, knobs):
        yield compared(runs)
