"""A sweep: the same prompts answered at every setting, in batches, resumable point by point."""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.trace import Run
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, TAUS, Frontier, Outcome, Point, Setting
from mars_demo.evaluation.task_sets import task_set
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.decode_batch import decode_batch

SIZE = 32  # sequences of a batch; on two cores more are hardly faster
LIMIT = 200  # prompts


def grid(
    checkpoint: Checkpoint, criteria: Sequence[str] = tuple(CRITERIA), taus: Sequence[float] = TAUS
) -> list[Setting]:
    """Return AR, lossless, and every criterion with every τ.

    Raises:
        ValueError: if the checkpoint has no τ to sweep, no criterion is given, or one or a τ is invalid.
    """
    if "mars" not in checkpoint.modes:
        raise ValueError(
            f"{checkpoint.name} was trained for {checkpoint.objective} and has no τ to sweep. "
            "Choose a MARS model."
        )
    if not criteria:
        raise ValueError(f"No criterion is chosen. Choose from {', '.join(CRITERIA)}.")
    taus = sorted(set(taus), reverse=True)
    marses = [Setting("mars", criterion, tau) for criterion in dict.fromkeys(criteria) for tau in taus]
    return [AR, Setting("lossless"), *marses]


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep: the setting's number from 1, the answered prompts, and a finished point."""

    setting: Setting
    number: int
    settings: int
    answered: int
    prompts: int
    point: Point | None = None

    def __str__(self) -> str:
        answered = f"{self.answered} of {self.prompts} prompts answered"
        return f"Point {self.number} of {self.settings}: {self.setting.title}; {answered}."


class Sweep:
    """A sweep over settings; iterating runs the next forward and yields a `Progress`.

    `frontier` has the finished points. Every answer has the tokens and forwards of its prompt decoded
    alone. AR comes first, as the baseline.

    limit: the number of prompts. size: sequences of a batch.
    folder: the folder of finished points, which are not computed again; None keeps nothing.

    Raises:
        ValueError: if the task set is unknown, a number is out of range, or the checkpoint does not support
            a setting.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        tasks: str = "worlds",
        limit: int = LIMIT,
        settings: Sequence[Setting] | None = None,
        *,
        size: int = SIZE,
        folder: Path | None = None,
    ):
        chosen = task_set(tasks)
        self._questions, self._warm = chosen.questions(limit), False
        self._checkpoint, self._size, self._folder = checkpoint.dense, size, folder
        settings = grid(checkpoint) if settings is None else settings
        self._requests = {
            setting: setting.request(chosen.max_new_tokens).fitted(self._checkpoint)
            for setting in (AR, *settings)
        }
        if size < 1:
            raise ValueError(f"The batch size must be at least 1, not {size}.")
        prompts = tuple(question.prompt for question in self._questions)
        machine = results.machine(self._checkpoint)
        self.frontier = Frontier(checkpoint.name, tasks, chosen.title, size, machine, prompts)
        # Everything that answers and times depend on, except the setting.
        self._facts = [_described(self._checkpoint), prompts, chosen.max_new_tokens, size]

    def __iter__(self) -> Iterator[Progress]:
        self.frontier = replace(self.frontier, points=())
        for number, setting in enumerate(self._requests, start=1):
            yield from self._measure(setting, number)

    def finish(self) -> Frontier:
        for _ in self:
            pass
        return self.frontier

    def _measure(self, setting: Setting, number: int) -> Iterator[Progress]:
        """Yield the progress of one setting, with its point at the end."""
        place, prompts = (setting, number, len(self._requests)), len(self._questions)
        file = self._file(setting)
        point = _read(file, setting) if file and file.exists() else None
        if point is None:
            outcomes: dict[int, Outcome] = {}
            seconds = 0.0
            for runs, spent in self._answers(setting):
                seconds += spent
                outcomes |= {index: self._outcome(index, run) for index, run in runs.items()}
                yield Progress(*place, len(outcomes), prompts)
            point = Point(setting, tuple(outcomes[index] for index in range(prompts)), seconds)
            if file:
                _write(file, point)
        self.frontier = replace(self.frontier, points=(*self.frontier.points, point))
        yield Progress(*place, prompts, prompts, point)

    def _answers(self, setting: Setting) -> Iterator[tuple[dict[int, Run], float]]:
        """Yield the runs that each forward finished, by prompt, and its seconds."""
        prompts, request = self.frontier.prompts, self._requests[setting]
        if not self._warm:  # the first forwards of a process are slower
            few = replace(request, max_new_tokens=2)
            decode_batch(self._checkpoint, prompts[: self._size], few, size=self._size).finish()
            self._warm = True
        started = time.perf_counter()
        decoding = decode_batch(self._checkpoint, prompts, request, size=self._size)
        for moved in decoding:
            runs = {place: decoding.runs[place] for place in moved if decoding.runs[place].stop}
            yield runs, time.perf_counter() - started
            started = time.perf_counter()

    def _outcome(self, number: int, run: Run) -> Outcome:
        ids, ar = tuple(run.token_ids), self.frontier.find(AR)
        return Outcome(
            number,
            right=self._questions[number].grade(run),
            tokens=run.tokens,
            forwards=run.forwards,
            leaves=first_difference(ar.outcomes[number].ids, ids) if ar else None,
            text=run.text,
            ids=ids,
        )

    def _file(self, setting: Setting) -> Path | None:
        """Return the file of a setting's point; its name is a digest of all that the point depends on."""
        facts = json.dumps([*self._facts, asdict(setting)], sort_keys=True)
        return self._folder and self._folder / f"{hashlib.sha256(facts.encode()).hexdigest()[:32]}.json"


def _read(file: Path, setting: Setting) -> Point | None:
    """Return the point of a file; None if another version of this program wrote it."""
    try:
        record = json.loads(file.read_text("utf-8"))
        outcomes = [Outcome(**one | {"ids": tuple(one["ids"])}) for one in record["outcomes"]]
        return Point(setting, tuple(outcomes), record["seconds"])
    except (KeyError, TypeError, ValueError):
        return None


def _write(file: Path, point: Point) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(asdict(point), ensure_ascii=False), encoding="utf-8")
    part.replace(file)  # whole or not at all


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the index of the first difference of two token lists; None if they are equal."""
    shared = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return None if shared == len(one) == len(other) else shared


def _described(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return everything that the answers and times of a model depend on."""
    return {
        "model": checkpoint.name,
        "config": checkpoint.model.config.to_json_string(use_diff=False),
        "values": _values(checkpoint),
        "dtype": checkpoint.precision,
        "machine": results.machine(checkpoint),
        "torch": torch.__version__,
    }


def _values(checkpoint: Checkpoint) -> str:
    """Return a digest of some values of every weight, which tells further-trained models apart."""
    digest = hashlib.sha256()
    for weight in checkpoint.model.parameters():
        values = weight.detach().flatten()
        digest.update(values[:: max(1, len(values) // 64)].float().cpu().numpy().tobytes())
    return digest.hexdigest()
