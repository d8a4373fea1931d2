"""The frontier of accuracy and speed: the points of a sweep, as JSON and as a table.

A point is one setting of the decoder on the prompts of a task set. This module does not import torch, so
that the page draws recorded points at once.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from pandas import DataFrame

from mars_demo.decoding.acceptance import Acceptance
from mars_demo.decoding.request import Request
from mars_demo.evaluation import bootstrap
from mars_demo.modes import MODES

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
    """Parse a τ grid, numbers separated by commas.

    Raises:
        ValueError: if it is empty or has anything but numbers from 0 to 1.
    """
    try:
        return checked_taus([float(part) for part in text.split(",")])
    except ValueError:
        raise ValueError(
            f"The τ grid must be numbers from 0 to 1, separated by commas, not {text!r}."
        ) from None


def checked_taus(taus: Iterable[float]) -> list[float]:
    """Return the values of τ without duplicates, the highest first.

    Raises:
        ValueError: if there are none, or one is not a number from 0 to 1.
    """
    values = list(taus)
    if not values:
        raise ValueError("The τ grid is empty; give at least one number from 0 to 1.")
    for tau in values:
        if not isinstance(tau, int | float) or not 0 <= tau <= 1:
            raise ValueError(f"τ must be a number from 0 to 1, not {tau}.")
    return sorted({float(tau) for tau in values}, reverse=True)


@dataclass(frozen=True)
class Outcome:
    """One answer at one setting; records can leave out `text` and have no `ids`."""

    number: int  # of the prompt, from 0
    right: bool
    tokens: int
    forwards: int
    leaves: int | None = None  # the index of the first difference from AR, if any
    text: str | None = None
    ids: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Point:
    """The answers to all prompts at one setting; `seconds` is the wall-clock time for all of them."""

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
        return [one for one in self.outcomes if not one.right]

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

    def find(self, setting: Setting) -> Point | None:
        return next((point for point in self.points if point.setting == setting), None)

    def lines(self) -> dict[str, list[Point]]:
        """Return the points by line, each line in the order of τ."""
        lines: dict[str, list[Point]] = {}
        for point in sorted(self.points, key=lambda point: -(point.setting.tau or 0)):
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
        for criterion in dict.fromkeys(filter(None, (point.setting.criterion for point in self.points))):
            own = [point for point in self.points if point.setting.criterion == criterion]
            kept = [point for point in own if point.accuracy >= ar.accuracy - AUP_LOSS]
            line = [
                (
                    point.tokens_per_forward,
                    100 * point.accuracy,
                    math.exp(AUP_DECAY * (point.accuracy / best - 1)),
                )
                for point in [ar, *sorted(kept, key=lambda point: point.tokens_per_forward)]
            ]
            area = line[0][0] * line[0][1]
            for (x, y, weight), (further, other, its) in pairwise(line):
                area += (further - x) * (y * weight + other * its) / 2
            areas[criterion] = area
        return areas

    def table(self) -> DataFrame:
        """Return a table of texts: the setting of each point and its `COLUMNS`."""
        return DataFrame(map(self.texts, self.points), columns=["setting", *COLUMNS])

    def texts(self, point: Point) -> dict[str, str]:
        cells = {name: column.text(self, point) for name, column in COLUMNS.items()}
        return {"setting": point.setting.title} | cells

    def frame(self) -> DataFrame:
        """Return a table of numbers: the setting of each point, its `COLUMNS` and their intervals."""
        return DataFrame([self._row(point) for point in self.points])

    def _row(self, point: Point) -> dict[str, Any]:
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
    """A measurement of points, with the format of its text and perhaps its interval."""

    value: Callable[[Frontier, Point], float | None]
    form: str
    interval: Callable[[Point], tuple[float, float]] | None = None

    def text(self, frontier: Frontier, point: Point) -> str:
        value = self.value(frontier, point)
        if value is None:
            return "–"
        ends = self.interval(point) if self.interval else ()
        between = f" ({'–'.join(self.form.format(end) for end in ends)})" if len({*ends}) > 1 else ""
        return self.form.format(value) + between


ACROSS = ("tokens per forward", "answers per second")  # the columns that accuracy is plotted against
# An entry here is all that a new column needs: the table, the CSV file and the chart read this dictionary.
COLUMNS = {
    "accuracy": Column(lambda _, point: point.accuracy, "{:.1%}", lambda point: point.accuracy_interval),
    "tokens per forward": Column(
        lambda _, point: point.tokens_per_forward,
        "{:.2f}",
        lambda point: point.tokens_per_forward_interval,
    ),
    "answers per second": Column(lambda _, point: point.n / point.seconds, "{:.2f}"),
    "faster than AR": Column(Frontier.faster, "{:.2f}×"),
    "different from AR": Column(lambda _, point: len(point.different), "{}"),
}


_FIELDS = ("model", "tasks", "title", "size", "machine")  # fields of a frontier in its record
_NONE = "-"


def _point_record(point: Point, texts: bool) -> dict[str, Any]:
    wrong = {str(one.number): one.text for one in point.wrong if texts and one.text is not None}
    return {
        "mode": point.setting.mode,
        "criterion": point.setting.criterion,
        "tau": point.setting.tau,
        "seconds": round(point.seconds, 3),
        "right": "".join(str(int(one.right)) for one in point.outcomes),
        "tokens": _joined(one.tokens for one in point.outcomes),
        "forwards": _joined(one.forwards for one in point.outcomes),
        "leaves": _joined(one.leaves for one in point.outcomes),
    } | ({"wrong": wrong} if wrong else {})


def _joined(numbers: Iterable[int | None]) -> str:
    return " ".join(_NONE if number is None else str(number) for number in numbers)


def _point(record: Mapping[str, Any]) -> Point:
    wrong, seconds = record.get("wrong", {}), float(record["seconds"])
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"seconds {seconds}")
    columns = [
        [None if part == _NONE else int(part) for part in record[name].split()]
        for name in ("tokens", "forwards", "leaves")
    ]
    outcomes = tuple(
        Outcome(number, right == "1", *counts, wrong.get(str(number)))
        for number, (right, *counts) in enumerate(zip(record["right"], *columns, strict=True))
    )
    return Point(Setting(record["mode"], record["criterion"], record["tau"]), outcomes, seconds)
