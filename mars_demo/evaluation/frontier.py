"""The frontier of accuracy and speed: the points of a sweep, as JSON and as a table.

A point is one setting of the decoder on the prompts of a task set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from pandas import DataFrame

from mars_demo.core.grammar import Grammar
from mars_demo.decoding.request import Request
from mars_demo.evaluation import bootstrap

TAUS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


@dataclass(frozen=True)
class Setting:
    """The decoder's setting for a point: the mode and, where it uses τ, the criterion and τ.

    grammar: of the answers, if they have a given shape.
    """

    mode: str
    criterion: str | None = None
    tau: float | None = None
    grammar: Grammar | None = None

    @property
    def line(self) -> str:
        """The name of the line through the points that differ in τ only."""
        return self.criterion or self.title

    @property
    def title(self) -> str:
        title = "AR" if self.mode == "ar" else self.mode
        if self.tau is not None:
            title = f"{self.criterion}, τ = {self.tau:g}"
        return f"{title}, with the shape" if self.grammar else title

    def request(self, max_new_tokens: int) -> Request:
        """Return the request of this setting.

        Raises:
            ValueError: if the mode or the criterion is unknown, or τ is not from 0 to 1.
        """
        scored = {} if self.tau is None else {"tau": self.tau, "criterion": self.criterion}
        return Request(self.mode, max_new_tokens=max_new_tokens, grammar=self.grammar, **scored)


AR = Setting("ar")  # the baseline


def parse_taus(text: str) -> list[float]:
    """Parse a τ grid, numbers separated by commas, without duplicates, the highest first.

    Raises:
        ValueError: if it is empty or has anything but numbers from 0 to 1.
    """
    message = f"The τ grid must be numbers from 0 to 1, separated by commas, not {text!r}."
    try:
        taus = {float(part) for part in text.split(",")}
    except ValueError:
        raise ValueError(message) from None
    if not all(0 <= tau <= 1 for tau in taus):
        raise ValueError(message)
    return sorted(taus, reverse=True)


@dataclass(frozen=True)
class Graded:
    """One answer at one setting; records can leave out `text`.

    right: None if the prompt has no reference answer. seconds: of an answer that was decoded alone.
    """

    number: int  # of the prompt, from 0
    right: bool | None
    tokens: int
    forwards: int
    leaves: int | None = None  # the index of the first difference from AR with the same shape, if any
    text: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Point:
    """The answers to all prompts at one setting; `seconds` is the time for all of them."""

    setting: Setting
    outcomes: tuple[Graded, ...]
    seconds: float

    @property
    def n(self) -> int:
        return len(self.outcomes)

    @cached_property
    def graded(self) -> list[bool]:
        """Return whether each answer to a prompt with a reference answer is right."""
        return [answer.right for answer in self.outcomes if answer.right is not None]

    @cached_property
    def accuracy(self) -> float | None:
        return sum(self.graded) / len(self.graded) if self.graded else None

    @cached_property
    def accuracy_interval(self) -> tuple[float, float]:
        return bootstrap.interval(self.graded, [1] * len(self.graded))

    @cached_property
    def tokens_per_forward(self) -> float:
        """The ratio of all tokens to all forwards."""
        return sum(answer.tokens for answer in self.outcomes) / sum(
            answer.forwards for answer in self.outcomes
        )

    @cached_property
    def tokens_per_forward_interval(self) -> tuple[float, float]:
        tokens, forwards = zip(*((answer.tokens, answer.forwards) for answer in self.outcomes))
        return bootstrap.interval(tokens, forwards)

    def row(self, task: str) -> dict[str, Any]:
        """Return the JSON form without the outcomes, with the name of their task."""
        names = ("n", "accuracy", "tokens_per_forward", "seconds")
        sums = {
            name: sum(getattr(answer, name) for answer in self.outcomes) for name in ("tokens", "forwards")
        }
        row = {"task": task, "tau": self.setting.tau} | sums
        return row | {name: getattr(self, name) for name in names}

    @property
    def wrong(self) -> list[Graded]:
        return [answer for answer in self.outcomes if answer.right is False]

    @property
    def different(self) -> list[Graded]:
        """The answers that differ from AR's."""
        return [answer for answer in self.outcomes if answer.leaves is not None]


@dataclass(frozen=True)
class Frontier:
    """The points of one model on one task set, AR first, then by line and falling τ."""

    model: str
    tasks: str
    title: str
    size: int  # sequences of a batch; 1 if each prompt was answered alone, as in a race
    machine: str
    prompts: tuple[str, ...]
    points: tuple[Point, ...] = ()
    command: str | None = None  # of a recorded sweep, if there still is one that makes it
    commit: str | None = None  # the code that measured a recorded sweep

    def find(self, setting: Setting) -> Point | None:
        return next((point for point in self.points if point.setting == setting), None)

    def named(self, title: str | None) -> Point | None:
        return next((point for point in self.points if point.setting.title == title), None)

    def faster(self, point: Point) -> float | None:
        """Return the speed-up over AR without a shape in seconds; None without AR."""
        ar = self.find(AR)
        return ar and ar.seconds / point.seconds

    def faster_interval(self, point: Point) -> tuple[float, ...]:
        """Return the interval of the speed-up, if the seconds of each prompt are known."""
        base, own = ([answer.seconds for answer in side.outcomes] for side in (self.find(AR), point))
        return () if None in own else bootstrap.interval(base, own)

    def speed_up(self, answer: Graded) -> float:
        """Return the speed-up over AR on one prompt whose seconds are known."""
        return self.find(AR).outcomes[answer.number].seconds / answer.seconds

    def table(self) -> DataFrame:
        """Return a table of texts, with a row per point."""
        return DataFrame(map(self.texts, self.points), columns=[*COLUMNS])

    def texts(self, point: Point) -> dict[str, str]:
        return {name: column.text(self, point) for name, column in COLUMNS.items()}

    def record(self, texts: bool = True) -> dict[str, Any]:
        """Return the JSON form; `texts` includes the wrong answers."""
        points = [_point_record(point, texts) for point in self.points]
        return vars(self) | {"prompts": list(self.prompts), "points": points}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Read the JSON form that `record` returns."""
        points = tuple(map(_point, record["points"]))
        return cls(**{**record, "prompts": tuple(record["prompts"]), "points": points})


@dataclass(frozen=True)
class Column:
    """A property of points, with the format of its text and perhaps its interval."""

    value: Callable[[Frontier, Point], float | str | None]
    form: str = "{}"
    interval: Callable[[Frontier, Point], tuple[float, ...]] = lambda *_: ()

    def text(self, frontier: Frontier, point: Point) -> str:
        value = self.value(frontier, point)
        if value is None:
            return "–"
        ends = self.interval(frontier, point)
        between = f" ({'–'.join(map(self.form.format, ends))})" if len({*ends}) > 1 else ""
        return self.form.format(value) + between


ACROSS = ("tokens per forward", "answers per second")  # the columns that accuracy is plotted against
# An entry here is all that a new column needs: tables and the chart read this dictionary.
COLUMNS = {
    "setting": Column(lambda _, point: point.setting.title),
    "accuracy": Column(lambda _, point: point.accuracy, "{:.1%}", lambda _, point: point.accuracy_interval),
    "tokens per forward": Column(
        lambda _, point: point.tokens_per_forward,
        "{:.2f}",
        lambda _, point: point.tokens_per_forward_interval,
    ),
    "answers per second": Column(lambda _, point: point.n / point.seconds, "{:.2f}"),
    "faster than AR": Column(Frontier.faster, "{:.2f}×", Frontier.faster_interval),
    "different from AR": Column(lambda _, point: len(point.different)),
}

_COUNTS = ("tokens", "forwards", "leaves")  # fields of an outcome, one text for all prompts
_NONE = "-"


def _point_record(point: Point, texts: bool) -> dict[str, Any]:
    counts = {name: [getattr(answer, name) for answer in point.outcomes] for name in _COUNTS}
    wrong = {str(answer.number): answer.text for answer in point.wrong if texts and answer.text is not None}
    return {
        **{name: getattr(point.setting, name) for name in ("mode", "criterion", "tau")},
        "seconds": round(point.seconds, 3),
        "right": "".join(str(int(answer.right)) for answer in point.outcomes),
        **{
            name: " ".join(_NONE if n is None else str(n) for n in column)
            for name, column in counts.items()
        },
        **({"wrong": wrong} if wrong else {}),
    }


def _point(record: Mapping[str, Any]) -> Point:
    wrong = record.get("wrong", {})
    counts = [[None if part == _NONE else int(part) for part in record[name].split()] for name in _COUNTS]
    outcomes = tuple(
        Graded(number, right == "1", *of_prompt, wrong.get(str(number)))
        for number, (right, *of_prompt) in enumerate(zip(record["right"], *counts, strict=True))
    )
    setting = Setting(record["mode"], record["criterion"], record["tau"])
    return Point(setting, outcomes, float(record["seconds"]))
