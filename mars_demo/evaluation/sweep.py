"""A sweep: the same prompts answered at every setting, alone or in batches.

All accuracies beside tokens per forward are measured by one loop, that of `points`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.grammar import Grammar
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode, race
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Graded, Point, Setting
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS, TITLES, Question, max_new_tokens, questions
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.tasks import TASKS

MOST_TAUS = 12
WARM_TOKENS = 2
Requests = Mapping[Setting, Request]
Finished = tuple[Setting, int, Sequence[Run], float]  # the number of the first run, and the runs' seconds


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


def points(
    checkpoint: Checkpoint, chosen: Sequence[Question], requests: Requests, size: int = 1
) -> Iterator[tuple[tuple[Point, ...], str]]:
    """Answer questions at every setting; after each forward, yield the points so far, and the progress.

    Answers, tokens and forwards of the same precision do not depend on `size`; batches use dequantized
    weights.

    requests: by setting; the first one of each shape gives the answers that the others are compared with.
    size: sequences of a batch, one setting after the other; 1 to race each prompt alone at all settings.
    """
    is_alone = size == 1
    answered = partial(_raced, checkpoint) if is_alone else partial(_batched, checkpoint.dense, size)
    # The first forwards of a process are slower; in batches, those of all settings are alike.
    warmed = [*requests][: None if is_alone else 1]
    short = {setting: replace(requests[setting], max_new_tokens=WARM_TOKENS) for setting in warmed}
    for _ in answered(chosen[:size], short):
        yield (), "Measuring."
    base: dict[tuple[Grammar | None, int], Run] = {}
    outcomes: dict[Setting, list[Graded]] = {setting: [] for setting in requests}
    seconds, done = dict.fromkeys(requests, 0.0), ()
    for finished, message in answered(chosen, requests):
        for setting, start, runs, took in finished:
            for number, run in enumerate(runs, start):
                like = base.setdefault((setting.grammar, number), run)
                leaves = first_difference(like.token_ids, run.token_ids)
                right, alone = chosen[number].grade(run), run.seconds if is_alone else None
                counts = (run.tokens, run.forwards)
                outcomes[setting].append(Graded(number, right, *counts, leaves, run.text, alone))
            seconds[setting] += took
        if finished:
            done = tuple(
                Point(setting, tuple(own), seconds[setting]) for setting, own in outcomes.items() if own
            )
        yield done, message


def _raced(
    checkpoint: Checkpoint, chosen: Sequence[Question], requests: Requests
) -> Iterator[tuple[list[Finished], str]]:
    for number, question in enumerate(chosen):
        runs = {
            setting: decode(checkpoint, question.prompt, request) for setting, request in requests.items()
        }
        for _ in race(runs):
            yield [], f"{number} of {len(chosen)} prompts."
        finished = [(setting, number, [run], run.seconds) for setting, run in runs.items()]
        yield finished, f"{number + 1} of {len(chosen)} prompts."


def _batched(
    checkpoint: Checkpoint, size: int, chosen: Sequence[Question], requests: Requests
) -> Iterator[tuple[list[Finished], str]]:
    prompts = [question.prompt for question in chosen]
    for number, (setting, request) in enumerate(requests.items(), start=1):
        # Fitted to the window of a single sequence: in a batch, lossless would draft less.
        decoding = decode_batch(checkpoint, prompts, request.fitted(checkpoint), size=size)
        seconds, answered, started = 0.0, 0, time.perf_counter()
        for moved in decoding:
            seconds += time.perf_counter() - started
            answered += sum(bool(decoding.runs[number].stop) for number in moved)
            finished = [(setting, 0, decoding.runs, seconds)] if answered == len(prompts) else []
            place = f"Point {number} of {len(requests)}: {setting.title}"
            yield finished, f"{place}; {answered} of {len(prompts)} prompts answered."
            started = time.perf_counter()


def sweep(
    checkpoint: Checkpoint,
    tasks: str,
    limit: int,
    criteria: Sequence[str],
    taus: Sequence[float],
    size: int,
) -> Iterator[tuple[Frontier, str]]:
    """Measure a point for each setting of `grid`, in batches; yield the finished points, and the progress.

    tasks: the name of a task set. limit: the number of prompts. size: sequences of a batch.

    Raises:
        ValueError: as `grid`, or if the task set is unknown or `limit` is out of range.
    """
    chosen, settings = questions(tasks, limit), grid(checkpoint, criteria, taus)
    machine, prompts = results.machine(checkpoint.dense), tuple(question.prompt for question in chosen)
    frontier = Frontier(checkpoint.name, tasks, TITLES[tasks], size, machine, prompts)
    requests = {setting: setting.request(max_new_tokens(tasks)) for setting in settings}
    yield frontier, "Measuring."
    for done, message in points(checkpoint, chosen, requests, size):
        yield replace(frontier, points=done), message


def evaluate(
    checkpoint: Checkpoint,
    request: Request,
    taus: Sequence[float],
    names: Sequence[str] = tuple(TASKS),
    limit: int = 40,
) -> Iterator[tuple[str, Point]]:
    """Answer the held-out prompts of tasks alone; yield each task with its point at each τ.

    Modes without τ have one point per task.

    Raises:
        ValueError: if a task is unknown, `limit` is out of range, or the checkpoint does not support the
            request.
    """
    request = replace(request.fitted(checkpoint), max_new_tokens=MAX_NEW_TOKENS)
    requests = {Setting(request.mode): request}
    if request.rules.uses_tau:
        requests = {
            Setting(request.mode, request.criterion, tau): replace(request, tau=tau) for tau in taus
        }
    for name in names:
        *_, (done, _) = points(checkpoint, questions(name, limit), requests)
        yield from ((name, point) for point in done)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the index of the first difference of two token lists; None if they are equal."""
    shared = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    return None if shared == len(one) == len(other) else shared
