"""Calibration: how many slots with a score have AR's token, and what a threshold keeps of the answers.

`benchmarks.calibration` measures a model and a criterion; nothing is claimed about other models.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mars_demo.core.acceptance import TAU
from mars_demo.evaluation import results

FILE = "calibration.json"
TOLD = (TAU, 0.8)  # τ of the control's help


class Bin(NamedTuple):
    """The slots whose scores are in an interval."""

    slots: str  # their numbers in the window
    least: float  # the lower end of the interval
    count: int
    score: float  # the mean
    right: int  # how many have AR's token


@dataclass(frozen=True)
class Calibration:
    """A measurement of a model and a criterion. rows: the counts of the answers at some τ."""

    bins: tuple[Bin, ...]
    rows: tuple[Mapping[str, Any], ...]

    @property
    def slots(self) -> list[str]:
        """Return the groups of slots."""
        return [*dict.fromkeys(one.slots for one in self.bins)]

    def right(self, score: float, slots: str | None = None) -> tuple[int, int]:
        """Return how many slots with at least this score have AR's token, and the number of these slots."""
        chosen = [one for one in self.bins if one.least >= score and slots in (None, one.slots)]
        return sum(one.right for one in chosen), sum(one.count for one in chosen)

    @property
    def sentence(self) -> str:
        """Return what the default τ promises for a slot."""
        right, count = self.right(TAU)
        parts = ", ".join(f"{slots}: {_share(*self.right(TAU, slots))}" for slots in self.slots)
        return (
            f"Of {count:,} slots with a score of at least {TAU}, **{_share(right, count)}** have the token "
            f"that AR writes there ({parts})."
        )


def calibrations(model: str | None) -> dict[str, Calibration]:
    """Return the measurements of a model by criterion."""
    measured = results.read_results(FILE)["sweeps"]
    return {
        one["criterion"]: Calibration(tuple(_bins(one)), tuple(one["rows"]))
        for one in measured
        if one["model"] == model
    }


def _bins(record: Mapping[str, Any]) -> Iterator[Bin]:
    for slots, cells in record["slots"].items():
        for least, (count, total, right) in zip(record["edges"], cells):
            yield Bin(f"slot{'s' * ('–' in slots)} {slots}", least, count, total / max(1, count), right)


def kept(model: str | None) -> str:
    """Return what two τ keep of AR's answers to a model's held-out prompts; "" if it is not measured."""
    measured = calibrations(model).get("probability")
    if measured is None:
        return ""
    rows = {row["tau"]: row for row in measured.rows}
    high, low = (
        (_share(row["unchanged"], row["n"]), _share(row["own"], row["accepted"]))
        for row in map(rows.get, TOLD)
    )
    return (
        f"On this model's test prompts, {TOLD[0]} leaves {high[0]} of answers unchanged "
        f"({high[1]} of accepted slots are AR's own); {TOLD[1]} leaves {low[0]} ({low[1]})."
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"
