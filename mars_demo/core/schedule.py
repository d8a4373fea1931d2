"""The schedule of a batch: what each sequence does in each forward."""

from dataclasses import dataclass, field

COMPUTE, WAIT, COMMIT, FREE = "compute", "wait", "commit", "free"


@dataclass
class Schedule:
    """A schedule; `steps[s][r]` is the state of row r at step s, one forward of the whole batch."""

    title: str
    rows: list[str]
    steps: list[list[str]] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)  # of measured steps
    positions: list[int] = field(default_factory=list)  # of derived steps, padding included
