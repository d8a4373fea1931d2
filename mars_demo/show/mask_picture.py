"""The picture of an attention mask, with labels for its rows, columns and regions."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Cell:
    """The label of a row or column.

    stream: clean, noisy, cached, new, mask, draft or group. block: the number of the block or group, if
    any. target: the token that the row is trained to predict. offset: the target's distance from the last
    real token that the row sees.
    """

    label: str
    stream: str
    position: int
    block: int | None = None
    target: str | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Region:
    """A named rectangle of the picture, with half-open ranges [first, end) of rows and columns."""

    text: str
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The mask of a layout of one sequence, with a `Cell` per row and column.

    visible: a string of 0 and 1 per row, a character per column. weights: [rows, columns] attention
    weights, if requested.
    """

    kind: str
    visible: list[str]
    rows: list[Cell]
    columns: list[Cell]
    regions: list[Region]
    weights: list[list[float]] | None = None

    def line(self, caption: str = "") -> str:
        """Return the picture as JSON."""
        cells = {
            name: [asdict(cell) for cell in getattr(self, name)] for name in ("rows", "columns", "regions")
        }
        shown = {"kind": self.kind, "caption": caption, "visible": self.visible, "weights": self.weights}
        return json.dumps(shown | cells, ensure_ascii=False)
