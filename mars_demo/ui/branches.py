"""Branches of runs on the stage: validated requests for them, and the continued runs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from mars_demo.decoding import branching
from mars_demo.decoding.trace import Run, read_text
from mars_demo.limits import refuse_long
from mars_demo.ui import api, models
from mars_demo.ui.controls import Knobs
from mars_demo.ui.history import History
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.racing import streamed

MOST_LANES = 6  # on a stage


@dataclass(frozen=True)
class Wish:
    """A request to continue a run on the stage with another token of its answer.

    kept: the records of the runs that stay on the stage. run: the run to branch.
    at: the index of the replaced token in its answer. instead: token ids or a text.
    """

    kept: str
    run: Run
    at: int
    instead: tuple[int, ...] | str

    @property
    def model(self) -> str:
        return self.run.settings.model


def wish(event: gr.EventData) -> Wish:
    """Validate a page's request for a branch.

    Raises:
        ValueError: if it is not a branch of a record.
    """
    records, of, at, instead = event.records, event.of, event.at, event.instead
    if not isinstance(records, list) or not 1 <= len(records) <= MOST_LANES:
        raise ValueError(f"A stage has 1 to {MOST_LANES} runs.")
    if type(of) is not int or not 0 <= of < len(records) or type(at) is not int:
        raise ValueError("There is no such token on the stage.")
    runs = [_read(record) for record in records]
    if event.replace is True:
        kept = [run for index, run in enumerate(runs) if index != of]
    elif len(runs) < MOST_LANES:
        kept = runs
    else:
        raise ValueError(
            f"The stage is full: it has {MOST_LANES} lanes. Replace one of them with the branch."
        )
    text = "".join(f"{line}\n" for run in kept for line in run.lines())
    return Wish(text, runs[of], at, _instead(instead))


def _read(record: str) -> Run:
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


@on_gpu(lambda wish, history, knobs: seconds(api.MAX_NEW_TOKENS, knobs.wait))
def branched(wish: Wish, history: History, knobs: Knobs) -> Iterator[str]:
    """Yield the growing value of the stage: the kept runs and the branch, which follows the knobs' τ.

    Raises:
        ValueError: if the model is not available, or the branch is not possible.
    """
    checkpoint, settings = models.load(wish.model), wish.run.settings
    request = replace(
        branching.request_of(wish.run),
        tau=lambda: knobs.tau,
        max_new_tokens=min(settings.max_new_tokens, api.MAX_NEW_TOKENS),
        branch=branching.branch(checkpoint, wish.run, wish.at, wish.instead),
    )
    context = {"messages": settings.messages, "cache": history.cache(settings.mode)}
    run = models.decode(checkpoint, settings.prompt, request, **context)
    for text in streamed({None: run}, knobs):
        yield wish.kept + text


def opinion(request: Any) -> dict[str, Any]:
    """Return AR's probability, rank and alternatives for token `at` of the answer in a `record`.

    Raises:
        ValueError: if there is no such token, or the model is not available.
    """
    record, at = (request.get("record"), request.get("at")) if isinstance(request, dict) else (None, None)
    if type(at) is not int:
        raise ValueError("There is no such token on the stage.")
    return _opinion(_read(record), at)


@on_gpu(lambda run, at: seconds(1))
def _opinion(run: Run, at: int) -> dict[str, Any]:
    token = branching.prediction(models.load(run.settings.model), run, at)
    return {"probability": token.probability, "rank": token.rank, "top": token.top}
