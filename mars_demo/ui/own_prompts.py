"""The prompts of a visitor: each one is raced at every setting, as the Race tab would."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

from pandas import DataFrame
from pydantic import BaseModel, StringConstraints
from pydantic_core import from_json

from mars_demo.core import fields
from mars_demo.core.acceptance import TAU
from mars_demo.core.limits import refuse_long
from mars_demo.core.messages import user
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import prepare
from mars_demo.decoding.request import Request
from mars_demo.evaluation import bootstrap, results
from mars_demo.evaluation.frontier import AR, Frontier, Outcome, Point, Setting
from mars_demo.evaluation.sweep import first_difference, grid
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.training.distillation import is_loop
from mars_demo.ui.racing import decode, race

NAME, TITLE = "own", "your prompts"
MOST = 50  # prompts
CRITERION = "probability"  # the paper's
TAUS = (0.99, TAU, 0.9)
JUDGED = Setting("mars", CRITERION, TAU)  # the setting of the verdict
MAX_NEW_TOKENS = Request.max_new_tokens  # as in the Race tab
WARM_TOKENS = 2
HELP = (
    f"At most {MOST}: one per line, or JSON lines with “prompt” and, to count right answers, “answer”, "
    "which must match exactly."
)


# ---------------------------------------------------------------------------------- the pasted text


class Line(BaseModel):
    """A JSON line; other fields are ignored."""

    prompt: Annotated[fields.Text, StringConstraints(strip_whitespace=True, min_length=1)]
    answer: fields.Text | None = None


@dataclass(frozen=True)
class Prompt:
    """A prompt, the number of its line, and perhaps its reference answer."""

    line: int
    text: str
    answer: str | None = None

    def grade(self, run: Run) -> bool | None:
        """Return whether an answer is the reference answer, apart from space around it."""
        return None if self.answer is None else run.text.strip() == self.answer.strip()


def parse(text: str) -> list[Prompt]:
    """Return the prompts of a pasted text: one per line, or JSON lines if every line is a JSON object.

    Raises:
        ValueError: if there are too few or too many, or a line is wrong, which the message names.
    """
    lines = {number: line.strip() for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    if not 1 <= len(lines) <= MOST:
        raise ValueError(f"Paste 1 to {MOST} prompts, one per line, not {len(lines)}.")
    objects = {number: _object(line) for number, line in lines.items()}
    plain = [number for number, values in objects.items() if values is None]
    if len(plain) == len(lines):
        prompts = [Prompt(number, line) for number, line in lines.items()]
    elif plain:
        raise ValueError(f"Line {plain[0]} is not a JSON object, but other lines are.")
    else:
        prompts = [_prompt(number, values) for number, values in objects.items()]
    for prompt in prompts:
        with _named(prompt.line):
            refuse_long(prompt.text)
    return prompts


def _object(line: str) -> dict | None:
    try:
        values = from_json(line.encode(errors="surrogatepass"))
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _prompt(number: int, values: dict) -> Prompt:
    with _named(number):
        line = fields.checked(Line, values)
    return Prompt(number, line.prompt, line.answer)


@contextmanager
def _named(line: int) -> Iterator[None]:
    """Name the line of a prompt in the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Line {line}: {error}") from None


# ------------------------------------------------------------------------------------- the results


@dataclass(frozen=True)
class OwnFrontier(Frontier):
    """The points of a model on the prompts of a visitor that have been answered at all settings so far.

    loops: the number of answers of the judged setting that repeat themselves, whose speed is no gain.
    """

    loops: int = 0

    @staticmethod
    def name(setting: Setting) -> str:
        return setting.title if setting.tau is None else f"MARS τ = {setting.tau:g}"

    def speed_up(self, one: Outcome) -> float:
        """Return the speed-up over AR on one prompt."""
        return self.find(AR).outcomes[one.number].seconds / one.seconds

    def extremes(self) -> dict[str, Outcome]:
        """Return the answers of the judged setting with the lowest and the highest speed-up, if any."""
        if not self.points:
            return {}
        outcomes = self.find(JUDGED).outcomes
        return {"slowest": min(outcomes, key=self.speed_up), "fastest": max(outcomes, key=self.speed_up)}

    def table(self) -> DataFrame:
        return DataFrame(map(self._texts, self.points))

    def _texts(self, point: Point) -> dict[str, str]:
        graded = [one.right for one in point.outcomes if one.right is not None]
        low, high = self._interval(point)
        between = f" ({low:.2f}–{high:.2f})" if low < high else ""
        return {
            "setting": self.name(point.setting),
            "speed, × AR": f"{self.faster(point):.2f}{between}",
            "tokens per forward": f"{point.tokens_per_forward:.2f}",
            "answers equal to AR's": _share(point.n - len(point.different), point.n),
            **({"right answers": _share(sum(graded), len(graded))} if graded else {}),
        }

    def _interval(self, point: Point) -> tuple[float, float]:
        """Return the confidence interval of the speed-up over prompts."""
        one, other = ([o.seconds for o in each.outcomes] for each in (self.find(AR), point))
        return bootstrap.interval(one, other)

    def verdict(self) -> str:
        """Return the speed and the equal answers of the judged setting in a sentence; "" without any."""
        if not self.points:
            return ""
        point = self.find(JUDGED)
        speed, n, (low, high) = self.faster(point), point.n, self._interval(point)
        compared = f"**{speed:.2f}× as fast as AR**"
        if high < 1:
            compared = f"**slower than AR**, at {speed:.2f}× its speed"
        elif low <= 1:
            compared += f" (95% interval {low:.2f}–{high:.2f}: no clear difference)"
        same, are = n - len(point.different), "s are" if n > 1 else " is"
        loops = f" {self.loops} of its answers repeat themselves: no gain." if self.loops else ""
        return (
            f"On your {n} prompt{'s' * (n > 1)}, MARS at τ = {TAU} is {compared}, "
            f"and {same} of {n} answer{are} AR's.{loops}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})"


# ---------------------------------------------------------------------------------- the measurement


def nothing(model: str, machine: str = "") -> OwnFrontier:
    """Return a frontier before its first prompt."""
    return OwnFrontier(model, NAME, TITLE, 1, machine, ())


def measure(checkpoint: Checkpoint, prompts: list[Prompt]) -> Iterator[OwnFrontier | None]:
    """Race each prompt at every setting; yield the growing frontier, and None after each forward.

    Raises:
        ValueError: if the checkpoint has no τ, or a prompt does not fit; the message names the line.
    """
    settings = grid(checkpoint, [CRITERION], TAUS)
    for prompt in prompts:
        with _named(prompt.line):
            prepare(checkpoint, [user(prompt.text)], AR.request(MAX_NEW_TOKENS).fitted(checkpoint))
    frontier = nothing(checkpoint.name, results.machine(checkpoint))
    outcomes: dict[Setting, list[Outcome]] = {setting: [] for setting in settings}
    yield frontier
    yield from _raced(checkpoint, prompts[0], settings, WARM_TOKENS)  # the first forwards are slower
    for number, prompt in enumerate(prompts):
        runs = yield from _raced(checkpoint, prompt, settings, MAX_NEW_TOKENS)
        for setting, run in runs.items():
            outcomes[setting].append(_outcome(number, prompt, run, runs[AR]))
        frontier = replace(
            frontier,
            prompts=(*frontier.prompts, prompt.text),
            points=tuple(_point(setting, outcomes[setting]) for setting in settings),
            loops=frontier.loops + is_loop(runs[JUDGED].text),
        )
        yield frontier


def _raced(
    checkpoint: Checkpoint, prompt: Prompt, settings: Sequence[Setting], max_new_tokens: int
) -> Generator[None, None, dict[Setting, Run]]:
    """Race a prompt at every setting; yield after each forward, and return the runs."""
    with ExitStack() as stack:
        runs = {
            setting: stack.enter_context(
                closing(decode(checkpoint, prompt.text, setting.request(max_new_tokens)))
            )
            for setting in settings
        }
        for _ in race(runs):
            yield
    return runs


def _outcome(number: int, prompt: Prompt, run: Run, ar: Run) -> Outcome:
    return Outcome(
        number,
        right=prompt.grade(run),
        tokens=run.tokens,
        forwards=run.forwards,
        leaves=first_difference(ar.token_ids, run.token_ids),
        text=run.text,
        seconds=run.seconds,
    )


def _point(setting: Setting, outcomes: Sequence[Outcome]) -> Point:
    return Point(setting, tuple(outcomes), sum(one.seconds for one in outcomes))
