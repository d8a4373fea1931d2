"""Calibration: how many slots with a score have AR's token, and what a threshold keeps.

`benchmarks.calibration` measures a model and a criterion; nothing is claimed about others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mars_demo.core.acceptance import CRITERIA, TAU
from mars_demo.evaluation import results

FILE = "calibration.json"
LOWER = 0.8  # a second τ, for comparison with the default
FEWEST = 20  # slots of a bin that is shown


class Bin(NamedTuple):
    """The slots whose scores are in an interval."""

    slots: str  # their numbers in the window, as text
    least: float  # the lower end of the interval
    n: int
    mean: float  # of their scores
    right: int  # how many have AR's token


@dataclass(frozen=True)
class Calibration:
    """A measurement of one model and criterion: its bins and, by τ, the counts of its answers."""

    criterion: str
    prompts: int
    bins: tuple[Bin, ...]
    rows: Mapping[float, Mapping[str, Any]]

    def share(self, score: float, slots: str | None = None) -> tuple[int, int]:
        """Return how many slots with at least a score have AR's token, and how many slots that are."""
        chosen = [one for one in self.bins if one.least >= score and slots in (None, one.slots)]
        return sum(one.right for one in chosen), sum(one.n for one in chosen)

    @property
    def slots(self) -> list[str]:
        """Return the names of the groups of slots."""
        return [*dict.fromkeys(one.slots for one in self.bins)]

    @property
    def sentence(self) -> str:
        right, n = self.share(TAU)
        parts = (f"{name} {_share(*self.share(TAU, name))}" for name in self.slots)
        return (
            f"Of {n:,} slots with a {CRITERIA[self.criterion].title} of at least {TAU:.0%}, "
            f"**{_share(right, n)}** have AR's token ({', '.join(parts)})."
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def recorded(model: str | None) -> dict[str, Calibration]:
    """Return the measurements of a model by criterion."""
    every = (results.read_results(FILE) or {"sweeps": ()})["sweeps"]
    return {one["criterion"]: _read(one) for one in every if one["model"] == model}


def _read(record: Mapping[str, Any]) -> Calibration:
    rows = {row["tau"]: row for row in record["rows"]}
    return Calibration(record["criterion"], record["prompts"], tuple(_bins(record)), rows)


def _bins(record: Mapping[str, Any]) -> Iterator[Bin]:
    for slots, cells in record["slots"].items():
        name = f"slot{'s' * ('–' in slots)} {slots}"
        for least, (n, total, right) in zip(record["edges"], cells):
            yield Bin(name, least, n, total / n if n else least, right)


def kept(model: str | None) -> str:
    """Return what τ keeps of a model's answers on its own prompts; nothing for a model without figures."""
    rows = recorded(model).get("probability", Calibration("", 0, (), {})).rows
    return "; ".join(
        f"at τ = {tau}, {_share(row['own'], row['accepted'])} of accepted slots are AR's own and "
        f"{_share(row['unchanged'], row['n'])} of answers unchanged"
        for tau, row in rows.items()
        if tau in (TAU, LOWER)
    )
