"""Accuracy against speed on the held-out prompts of the built-in tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from mars_demo import tasks
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS, is_right
from mars_demo.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class Row:
    """The results on `n` held-out prompts of one task at one τ; `seconds` is the sum of the runs' times."""

    task: str
    tau: float | None
    n: int
    accuracy: float
    tokens_per_forward: float
    tokens: int
    forwards: int
    seconds: float


def answers(
    checkpoint: Checkpoint, examples: Iterable[tasks.Example], request: Request
) -> Iterator[tuple[tasks.Example, Run]]:
    """Yield each example with its finished run, of at most `MAX_NEW_TOKENS` tokens."""
    request = replace(request, max_new_tokens=MAX_NEW_TOKENS)
    for example in examples:
        run = decode(checkpoint, example.prompt, request)
        yield example, run.finish()


def row(task: str, tau: float | None, graded: Sequence[tuple[tasks.Example, Run]]) -> Row:
    accuracy = fmean(is_right(example, run) for example, run in graded)
    return _summed(task, tau, len(graded), accuracy, [run for _, run in graded])


def _summed(task: str, tau: float | None, n: int, accuracy: float, parts: Sequence[Run | Row]) -> Row:
    tokens, forwards, seconds = (
        sum(getattr(part, name) for part in parts) for name in ("tokens", "forwards", "seconds")
    )
    return Row(task, tau, n, accuracy, tokens / forwards, tokens, forwards, seconds)


def evaluate(
    checkpoint: Checkpoint,
    request: Request,
    taus: Sequence[float],
    names: Sequence[str] | None = None,
    limit: int = 40,
) -> Iterator[Row]:
    """Yield a row per task and τ as each is finished; modes without τ have one row per task.

    Raises:
        ValueError: if a task is unknown, `limit` is below 1, or the checkpoint does not support the
            request.
    """
    if limit < 1:
        raise ValueError(f"The number of prompts per task must be at least 1, not {limit}.")
    request = request.fitted(checkpoint)
    swept = {tau: replace(request, tau=tau) for tau in taus} if request.rules.uses_tau else {None: request}
    for name in names or tasks.TASKS:
        examples = tasks.held_out(name, limit)
        for tau, chosen in swept.items():
            yield row(name, tau, list(answers(checkpoint, examples, chosen)))


def average(rows: Sequence[Row]) -> Row:
    """Return the average row: mean accuracy over tasks, and all tokens over all forwards."""
    accuracy = sum(row.accuracy for row in rows) / len(rows)
    return _summed("average", rows[0].tau, sum(row.n for row in rows), accuracy, rows)
