"""The prompts of a visitor: each one is raced at every setting, as the Race tab would."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, StringConstraints
from pydantic_core import from_json

from mars_demo.core import fields
from mars_demo.core.acceptance import TAU
from mars_demo.core.grammar import Grammar
from mars_demo.core.limits import refuse_long
from mars_demo.core.loops import is_loop
from mars_demo.core.messages import user
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import prepare
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, TAUS, Frontier, Point, Setting
from mars_demo.evaluation.sweep import grid, points
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.memory import require_caches

NAME, TITLE = "own", "your prompts"
MOST = 50  # prompts
CRITERION = "probability"  # the paper's
JUDGED = Setting("mars", CRITERION, TAU)  # the setting of the verdict
MAX_NEW_TOKENS = Request.max_new_tokens  # as in the Race tab
HELP = (
    f"At most {MOST}: one per line, or JSON lines with “prompt” and, to count right answers, “answer”, "
    "which must match exactly (JSON: its values)."
)


# ---------------------------------------------------------------------------------- the pasted text


class Prompt(BaseModel):
    """A prompt, and perhaps its reference answer; other fields of a JSON line are ignored."""

    prompt: Annotated[fields.Text, StringConstraints(strip_whitespace=True, min_length=1)]
    answer: fields.Text | None = None

    def grade(self, run: Run) -> bool | None:
        """Return whether an answer is the reference answer and ends; space around it does not count.

        JSON objects are equal if their values are.
        """
        return None if self.answer is None else _read(run.text) == _read(self.answer) and run.stop == "eos"


def parse(text: str) -> dict[int, Prompt]:
    """Return the prompts of a pasted text by line: JSON lines if the first one is a JSON object.

    Raises:
        ValueError: if there are too few or too many, or a line is wrong, which the message names.
    """
    lines = {number: line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    if not 1 <= len(lines) <= MOST:
        raise ValueError(f"Paste 1 to {MOST} prompts, one per line, not {len(lines)}.")
    has_objects = _object(next(iter(lines.values()))) is not None
    prompts = {}
    for number, line in lines.items():
        with _named(number):
            values = _object(line) if has_objects else {"prompt": line}
            if values is None:
                raise ValueError("This is not a JSON object, but the first line is.")
            prompts[number] = fields.validated(Prompt, values)
            refuse_long(prompts[number].prompt)
    return prompts


def _object(line: str) -> dict | None:
    try:
        values = from_json(line.encode(errors="surrogatepass"))  # browsers can send lone surrogates
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _read(text: str) -> dict | str:
    values = _object(text)
    return text.strip() if values is None else values


@contextmanager
def _named(line: int) -> Iterator[None]:
    """Name the line of a prompt in the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Line {line}: {error}") from None


# ------------------------------------------------------------------------------------- the results


def own_verdict(frontier: Frontier) -> str:
    """Return the speed and the equal answers of the judged setting in sentences; "" without any."""
    if (point := frontier.find(JUDGED)) is None:
        return ""
    speed, n, (low, high) = frontier.faster(point), point.n, frontier.faster_interval(point)
    compared = f"**{speed:.2f}× as fast as AR**"
    if high < 1:
        compared = f"**slower than AR**, at {speed:.2f}× its speed"
    elif low <= 1:
        compared += f" (95% interval {low:.2f}–{high:.2f}: no clear difference)"
    same, are = n - len(point.different), "s are" if n > 1 else " is"
    repeating = sum(is_loop(answer.text) for answer in point.outcomes)
    loops = f" {repeating} of its answers repeat themselves: no gain." if repeating else ""
    return (
        f"On your {n} prompt{'s' * (n > 1)}, MARS at τ = {TAU} is {compared}, "
        f"and {same} of {n} answer{are} AR's.{loops}{_with_shape(frontier, point)}"
    )


def _with_shape(frontier: Frontier, without: Point) -> str:
    shaped = next((p for p in frontier.points if p.setting.grammar and p.setting.tau == TAU), None)
    if shaped is None:
        return ""
    low, high = (f"{end:.2f}" for end in frontier.faster_interval(shaped))
    between = f" (95% interval {low}–{high})" if low < high else ""
    right = f", and {sum(shaped.graded)} of {len(shaped.graded)} are right instead of {sum(without.graded)}"
    return (
        f" With the shape it is {frontier.faster(shaped):.2f}× as fast as AR without it{between}"
        f"{right if shaped.graded else ''}."
    )


# ---------------------------------------------------------------------------------- the measurement


def races(
    checkpoint: Checkpoint, prompts: dict[int, Prompt], grammar: Grammar | None = None
) -> Iterator[tuple[Frontier, str]]:
    """Race each prompt at every setting; yield the results of the prompts so far, and the progress.

    As in a race, windows adapt to the costs of forwards. With a grammar, each setting is measured twice,
    without and with it.

    Raises:
        ValueError: if the checkpoint has no τ, or a prompt does not fit; the message names the line.
    """
    settings = grid(checkpoint, [CRITERION], TAUS[:3])
    if grammar:
        settings += [replace(setting, grammar=grammar) for setting in settings]
    requests = {setting: replace(setting.request(MAX_NEW_TOKENS), adaptive=True) for setting in settings}
    for line, prompt in prompts.items():
        with _named(line):
            read, *_ = prepare(checkpoint, [user(prompt.prompt)], requests[AR].fitted(checkpoint))
            require_caches(checkpoint, read.prompt_tokens + MAX_NEW_TOKENS, len(requests))
    chosen = [*prompts.values()]
    texts = tuple(question.prompt for question in chosen)
    frontier = Frontier(checkpoint.name, NAME, TITLE, 1, results.machine(checkpoint), texts)
    for done, message in points(checkpoint, chosen, requests):
        yield replace(frontier, points=done), message
