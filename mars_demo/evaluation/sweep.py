"""A sweep: the same prompts answered at every setting, in batches."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.trace import Run
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Graded, Point, Setting
from mars_demo.evaluation.task_sets import TITLES, max_new_tokens, questions
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.decode_batch import decode_batch

MOST_TAUS = 12


def grid(checkpoint: Checkpoint, criteria: Sequence[str], taus: Sequence[float]) -> list[Setting]:
    """Return AR, lossless, and every criterion with every τ.

    Raises:
        ValueError: if the checkpoint has no τ to sweep, there is no criterion, or there are too many τ.
    """
    if "mars" not in checkpoint.modes:
        raise ValueError(
            f"{checkpoint.name} was trained for {checkpoint.objective} and has no τ to sweep. "
            "Choose a MARS model."
        )
    if not criteria:
        raise ValueError(f"No criterion is chosen. Choose from {', '.join(CRITERIA)}.")
    taus = sorted(set(taus), reverse=True)
    if len(taus) > MOST_TAUS:
        raise ValueError(f"The τ grid has {len(taus)} numbers; at most {MOST_TAUS} are measured.")
    marses = [Setting("mars", criterion, tau) for criterion in dict.fromkeys(criteria) for tau in taus]
    return [AR, Setting("lossless"), *marses]


def sweep(
    checkpoint: Checkpoint,
    tasks: str,
    limit: int,
    criteria: Sequence[str],
    taus: Sequence[float],
    size: int,
) -> Iterator[tuple[Frontier, str]]:
    """Measure a point for each setting of `grid`; yield the finished points, and the progress.

    Every answer has the tokens and forwards of its prompt decoded alone in the same precision.

    tasks: the name of a task set. limit: the number of prompts. size: sequences of a batch.

    Raises:
        ValueError: as `grid`, or if the task set is unknown or `limit` is out of range.
    """
    chosen, settings = questions(tasks, limit), grid(checkpoint, criteria, taus)
    checkpoint = checkpoint.dense
    prompts, longest = tuple(question.prompt for question in chosen), max_new_tokens(tasks)
    requests = [setting.request(longest).fitted(checkpoint) for setting in settings]
    machine = results.machine(checkpoint)
    frontier = Frontier(checkpoint.name, tasks, TITLES[tasks], size, machine, prompts)
    yield frontier, "Measuring."
    # The first forwards of a process are slower.
    decode_batch(checkpoint, prompts[:size], replace(requests[0], max_new_tokens=2), size=size).finish()
    ar: list[Run] = []
    for number, (setting, request) in enumerate(zip(settings, requests), start=1):
        decoding = decode_batch(checkpoint, prompts, request, size=size)
        seconds, answered = 0.0, 0
        started = time.perf_counter()
        for moved in decoding:
            seconds += time.perf_counter() - started
            answered += sum(bool(decoding.runs[one].stop) for one in moved)
            place = f"Point {number} of {len(settings)}: {setting.title}"
            message = f"{place}; {answered} of {len(prompts)} prompts answered."
            yield frontier, message
            started = time.perf_counter()
        ar = ar or decoding.runs
        graded = [question.grade(run) for question, run in zip(chosen, decoding.runs)]
        outcomes = map(outcome, range(len(prompts)), graded, decoding.runs, ar)
        point = Point(setting, tuple(outcomes), seconds)
        frontier = replace(frontier, points=(*frontier.points, point))
        yield frontier, message


def outcome(number: int, right: bool | None, run: Run, ar: Run) -> Graded:
    """Return the outcome of a run on a prompt, compared with AR's."""
    leaves = first_difference(ar.token_ids, run.token_ids)
    return Graded(number, right, run.tokens, run.forwards, leaves, run.text)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the index of the first difference of two token lists; None if they are equal."""
    shared = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return None if shared == len(one) == len(other) else shared
