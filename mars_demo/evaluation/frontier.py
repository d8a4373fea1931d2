"""The frontier of accuracy and speed: the points of a sweep, as JSON and as a table.

A point is one setting of the decoder on the prompts of a task set.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from pandas import DataFrame

from mars_demo.core.acceptance import CRITERIA, Acceptance
from mars_demo.core.modes import MODES
from mars_demo.decoding.request import Request
from mars_demo.evaluation import bootstrap

AUP_DECAY, AUP_LOSS = 3.0, 0.05  # as in d3LLM (arXiv 2601.07568)
TAUS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


@dataclass(frozen=True)
class Setting:
    """The decoder's setting for a point: the mode and, where it uses τ, the criterion and τ.

    Raises:
        ValueError: if the mode or criterion is unknown, τ is not a number from 0 to 1, or criterion and τ
            do not suit the mode.
    """

    mode: str
    criterion: str | None = None
    tau: float | None = None

    def __post_init__(self):
        if self.mode not in MODES or MODES[self.mode].needs_draft:
            alone = [name for name, mode in MODES.items() if not mode.needs_draft]
            raise ValueError(f"Unknown mode {self.mode!r}. Choose from {', '.join(alone)}.")
        uses_tau = MODES[self.mode].uses_tau
        if not uses_tau == (self.criterion is not None) == (self.tau is not None):
            verb = "needs a criterion and a τ" if uses_tau else "takes neither a criterion nor a τ"
            raise ValueError(f"Mode {self.mode} {verb}.")
        if self.tau is not None:
            Acceptance(self.criterion, self.tau)

    @property
    def line(self) -> str:
        """The name of the line through the points that differ in τ only."""
        return self.criterion or self.title

    @property
    def title(self) -> str:
        if self.tau is not None:
            return f"{self.criterion}, τ = {self.tau:g}"
        return "AR" if self.mode == "ar" else self.mode

    def request(self, max_new_tokens: int) -> Request:
        scored = {} if self.tau is None else {"tau": self.tau, "criterion": self.criterion}
        return Request(self.mode, max_new_tokens=max_new_tokens, **scored)


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
class Outcome:
    """One answer at one setting; records can leave out `text` and have no `ids`.

    right: None if the prompt has no reference answer. seconds: of an answer that was decoded alone.
    """

    number: int  # of the prompt, from 0
    right: bool | None
    tokens: int
    forwards: int
    leaves: int | None = None  # the index of the first difference from AR, if any
    text: str | None = None
    ids: tuple[int, ...] = field(default=(), repr=False)
    seconds: float | None = None


@dataclass(frozen=True)
class Point:
    """The answers to all prompts at one setting; `seconds` is the time for all of them."""

    setting: Setting
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def n(self) -> int:
        return len(self.outcomes)

    @cached_property
    def accuracy(self) -> float:
        return sum(one.right for one in self.outcomes) / self.n

    @cached_property
    def tokens_per_forward(self) -> float:
        """The ratio of all tokens to all forwards."""
        return sum(one.tokens for one in self.outcomes) / sum(one.forwards for one in self.outcomes)

    @cached_property
    def accuracy_interval(self) -> tuple[float, float]:
        return bootstrap.interval([one.right for one in self.outcomes], [1] * self.n)

    @cached_property
    def tokens_per_forward_interval(self) -> tuple[float, float]:
        tokens, forwards = zip(*((one.tokens, one.forwards) for one in self.outcomes))
        return bootstrap.interval(tokens, forwards)

    @property
    def wrong(self) -> list[Outcome]:
        return [one for one in self.outcomes if one.right is False]

    @property
    def different(self) -> list[Outcome]:
        """The answers that differ from AR's."""
        return [one for one in self.outcomes if one.leaves is not None]


@dataclass(frozen=True)
class Frontier:
    """The points of one model on one task set, AR first."""

    model: str
    tasks: str
    title: str
    size: int  # sequences of a batch
    machine: str
    prompts: tuple[str, ...]
    points: tuple[Point, ...] = ()

    @staticmethod
    def name(setting: Setting) -> str:
        """Return the name of a point in the table."""
        return setting.title

    def find(self, setting: Setting) -> Point | None:
        return next((point for point in self.points if point.setting == setting), None)

    def lines(self) -> dict[str, list[Point]]:
        """Return the points by line, those without a τ first, then each line in the order of τ."""
        lines: dict[str, list[Point]] = {}
        for point in sorted(
            self.points, key=lambda p: -math.inf if p.setting.tau is None else -p.setting.tau
        ):
            lines.setdefault(point.setting.line, []).append(point)
        return lines

    def faster(self, point: Point) -> float | None:
        """Return the speed-up over AR in seconds; None without AR."""
        ar = self.find(AR)
        return ar and ar.seconds / point.seconds

    def aup(self) -> dict[str, float]:
        """Return the accuracy under parallelism (AUP) of each criterion (d3LLM, arXiv 2601.07568).

        AUP is the area under the curve of accuracy in percent over tokens per forward, from AR on. A point
        weighs less the lower its accuracy is than the best; more than `AUP_LOSS` below AR it is left out.
        Empty without AR.
        """
        ar = self.find(AR)
        best = max((point.accuracy for point in self.points), default=0.0)
        if ar is None or not best:
            return {}
        areas = {}
        for name, points in self.lines().items():
            if name in CRITERIA:
                kept = [point for point in points if point.accuracy >= ar.accuracy - AUP_LOSS]
                line = [ar, *sorted(kept, key=lambda point: point.tokens_per_forward)]
                accuracy = np.array([point.accuracy for point in line])
                weighted = accuracy * np.exp(AUP_DECAY * (accuracy / best - 1))
                area = np.trapezoid(weighted, [point.tokens_per_forward for point in line])
                areas[name] = 100 * float(ar.accuracy * ar.tokens_per_forward + area)
        return areas

    def table(self) -> DataFrame:
        """Return a table of texts, with a row per point."""
        return DataFrame(map(self.texts, self.points), columns=[*COLUMNS])

    def texts(self, point: Point) -> dict[str, str]:
        return {name: column.text(self, point) for name, column in COLUMNS.items()}

    def frame(self) -> DataFrame:
        """Return a table of numbers and their intervals, with a row per point."""
        return DataFrame(map(self._numbers, self.points))

    def _numbers(self, point: Point) -> dict[str, Any]:
        row = {"model": self.model, "tasks": self.tasks} | asdict(point.setting) | {"n": point.n}
        for name, column in COLUMNS.items():
            name = name.replace(" ", "_")
            row[name] = column.value(self, point)
            if column.interval:
                row[f"{name}_low"], row[f"{name}_high"] = column.interval(point)
        return row | {"rows": self.size, "machine": self.machine}

    def record(self, texts: bool = True) -> dict[str, Any]:
        """Return the JSON form; `texts` includes the wrong answers."""
        points = [_point_record(point, texts) for point in self.points]
        return {name: getattr(self, name) for name in _FIELDS} | {
            "prompts": list(self.prompts),
            "points": points,
        }

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Read the JSON form that `record` returns.

        Raises:
            ValueError: if it is invalid.
        """
        try:
            prompts, points = tuple(record["prompts"]), tuple(_point(each) for each in record["points"])
            if any(point.n != len(prompts) or not point.n for point in points):
                raise ValueError("a point lacks prompts")
            return cls(*(record[name] for name in _FIELDS), prompts, points)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"Not a valid record of a sweep ({error}).") from error


@dataclass(frozen=True)
class Column:
    """A property of points, with the format of its text and perhaps its interval."""

    value: Callable[[Frontier, Point], float | str | None]
    form: str = "{}"
    interval: Callable[[Point], tuple[float, float]] | None = None

    def text(self, frontier: Frontier, point: Point) -> str:
        value = self.value(frontier, point)
        if value is None:
            return "–"
        ends = self.interval(point) if self.interval else ()
        between = f" ({'–'.join(self.form.format(end) for end in ends)})" if len({*ends}) > 1 else ""
        return self.form.format(value) + between


ACROSS = ("tokens per forward", "answers per second")  # the columns that accuracy is plotted against
# An entry here is all that a new column needs: tables, the CSV file and the chart read this dictionary.
COLUMNS = {
    "setting": Column(lambda _, point: point.setting.title),
    "accuracy": Column(lambda _, point: point.accuracy, "{:.1%}", lambda point: point.accuracy_interval),
    "tokens per forward": Column(
        lambda _, point: point.tokens_per_forward,
        "{:.2f}",
        lambda point: point.tokens_per_forward_interval,
    ),
    "answers per second": Column(lambda _, point: point.n / point.seconds, "{:.2f}"),
    "faster than AR": Column(Frontier.faster, "{:.2f}×"),
    "different from AR": Column(lambda _, point: len(point.different)),
}

_FIELDS = ("model", "tasks", "title", "size", "machine")  # fields of a frontier in its record
_COUNTS = ("tokens", "forwards", "leaves")  # fields of an outcome, one text for all prompts
_NONE = "-"


def _point_record(point: Point, texts: bool) -> dict[str, Any]:
    counts = {name: [getattr(one, name) for one in point.outcomes] for name in _COUNTS}
    wrong = {str(one.number): one.text for one in point.wrong if texts and one.text is not None}
    return {
        **asdict(point.setting),
        "seconds": round(point.seconds, 3),
        "right": "".join(str(int(one.right)) for one in point.outcomes),
        **{
            name: " ".join(_NONE if n is None else str(n) for n in column)
            for name, column in counts.items()
        },
        **({"wrong": wrong} if wrong else {}),
    }


def _joined(numbers: list[int | None]) -> str:
    return " ".join(_NONE if number is None else str(number) for number in numbers)


def _point(record: Mapping[str, Any]) -> Point:
    wrong, seconds = record.get("wrong", {}), float(record["seconds"])
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"seconds {seconds}")
    counts = [[None if part == _NONE else int(part) for part in record[name].split()] for name in _COUNTS]
    outcomes = tuple(
        Outcome(number, right == "1", *of_prompt, wrong.get(str(number)))
        for number, (right, *of_prompt) in enumerate(zip(record["right"], *counts, strict=True))
    )
    return Point(Setting(record["mode"], record["criterion"], record["tau"]), outcomes, seconds)
