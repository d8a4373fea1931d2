"""Branches of runs on the stage: validated requests for them, and the continued runs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from mars_demo.core.limits import LIMITS, refuse_long
from mars_demo.core.trace import Run, read_text
from mars_demo.decoding import branching
from mars_demo.show.components.stage import MOST_LANES
from mars_demo.ui.history import History
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.racing import decode, paced, streamed, within_limits


@dataclass(frozen=True)
class BranchRequest:
    """A request to continue a run on the stage with another token of its answer.

    kept: the records of the runs that stay on the stage. run: the run to branch.
    at: the index of the replaced token in its answer. instead: token ids or a text.
    """

    kept: str
    run: Run
    at: int
    instead: tuple[int, ...] | str


def branch_request(event: gr.EventData) -> BranchRequest:
    """Validate a page's request for a branch.

    Raises:
        ValueError: if it is not a branch of a record.
    """
    records, of, at, instead = event.records, event.of, event.at, event.instead
    if not isinstance(records, list) or not 1 <= len(records) <= MOST_LANES:
        raise ValueError(f"A stage has 1 to {MOST_LANES} runs.")
    if type(of) is not int or not 0 <= of < len(records) or type(at) is not int:
        raise ValueError("There is no such token on the stage.")
    runs = [read_one(record) for record in records]
    kept = [run for index, run in enumerate(runs) if index != of or event.replace is not True]
    if len(kept) == MOST_LANES:
        raise ValueError(
            f"The stage is full: it has {MOST_LANES} lanes. Replace one of them with the branch."
        )
    text = "".join(f"{line}\n" for run in kept for line in run.lines())
    return BranchRequest(text, runs[of], at, _instead(instead))


def read_one(record: Any) -> Run:
    """Read the record of one run.

    Raises:
        ValueError: if it is not such a record, or too long.
    """
    run, *more = read_text(record) or [None]
    if run is None or more:
        raise ValueError("Each lane of the stage holds the record of one run.")
    run.stop = run.stop or "stopped"
    refuse_long(*(message["content"] for message in run.settings.conversation))
    return run


def _instead(instead: Any) -> tuple[int, ...] | str:
    if isinstance(instead, str):
        if any("\ud800" <= character <= "\udfff" for character in instead):
            raise ValueError("The text contains half of a character (a lone surrogate).")
        refuse_long(instead)
        return instead
    if isinstance(instead, list) and len(instead) == 1 and type(instead[0]) is int:
        return tuple(instead)
    raise ValueError("A branch begins with one of the candidates or with a text.")


def go_on(branch: BranchRequest, history: History, knobs: Knobs) -> Iterator:
    """Yield the growing value of the stage: the kept runs and the branch, which follows the knobs' τ."""
    yield from within_limits(_branched(branch, history, knobs), knobs)


@on_gpu(lambda branch, history, knobs: seconds(LIMITS.answer, knobs.period))
def _branched(branch: BranchRequest, history: History, knobs: Knobs) -> Iterator[str]:
    checkpoint, settings = MODELS.load(branch.run.settings.model), branch.run.settings
    request = replace(
        branching.request_of(branch.run),
        tau=lambda: knobs.tau,
        max_new_tokens=min(settings.max_new_tokens, LIMITS.answer),
        branch=branching.branch(checkpoint, branch.run, branch.at, branch.instead),
    )
    context = {"messages": settings.messages, "cache": history.cache(settings.mode)}
    run = decode(checkpoint, settings.prompt, request, **context)
    for text in streamed({None: run}, knobs, paced(checkpoint, knobs)):
        yield branch.kept + text


def prediction(request: Any) -> dict[str, Any]:
    """Return AR's probability, rank and alternatives for token `at` of the answer in a `record`.

    Raises:
        ValueError: if there is no such token, or the model is not available.
    """
    record, at = (request.get("record"), request.get("at")) if isinstance(request, dict) else (None, None)
    if type(at) is not int:
        raise ValueError("There is no such token on the stage.")
    return _prediction(read_one(record), at)


@on_gpu(lambda run, at: seconds(1))
def _prediction(run: Run, at: int) -> dict[str, Any]:
    token = branching.prediction(MODELS.load(run.settings.model), run, at)
    return {"probability": token.probability, "rank": token.rank, "top": token.top}
