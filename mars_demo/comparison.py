"""The paper's tables, and what this project has measured of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mars_demo import results
from mars_demo.checkpoints import ASSETS
from mars_demo.evaluation import Row, average

PAPER = json.loads((ASSETS / "paper_tables.json").read_text(encoding="utf-8"))
BENCHMARKS = ("IFEval", "BBH", "MMLU-Pro", "GPQA", "GSM8K", "HumanEval")
CURVE = {"task": "GSM8K", "block_size": 8, "sft_loss": True}  # the lines of Table 8 that are drawn
WORLDS = ("word-problems", "letters")  # drawn beside the average: arithmetic too, and where τ costs most
SIZES = (4, 8, 16)  # block sizes that were trained
AR_IN_BATCHES = "AR, continuous"  # what speeds in batches are compared with

Cells = tuple[list[str], list[list[str]]]  # the names of columns, and rows


@dataclass(frozen=True)
class Table:
    columns: list[str]
    rows: list[list[str]]
    source: str


class Point(NamedTuple):
    """A point of a τ curve."""

    tau: float
    accuracy: float
    tokens_per_forward: float


@dataclass(frozen=True)
class Comparison:
    """A table of the paper by its key in `paper_tables.json`, and the file of results that answers to it."""

    title: str
    key: str
    theirs: Callable[[list[dict]], Cells]
    unit: str
    file: str
    ours: Callable[[Any], Cells]
    measured: Callable[[Any], str]


def paper(number: int) -> Table:
    """Table `number` of the paper."""
    chosen = TABLES[number]
    return Table(*chosen.theirs(PAPER[chosen.key]), f"the paper's Table {number}: {chosen.unit}.")


def here(number: int, folder: Path = results.FOLDER) -> Table | None:
    """This project's table beside the paper's; None where nothing of it has been measured yet."""
    chosen = TABLES[number]
    measured = results.read(chosen.file, folder)
    if measured is None:
        return None
    columns, rows = chosen.ours(measured)
    return Table(columns, rows, chosen.measured(measured)) if rows else None


def paper_curves() -> dict[str, list[Point]]:
    """The paper's τ sweep on one benchmark with one block size, a curve per scale."""
    curves: dict[str, list[Point]] = {}
    for row in PAPER["table8_tau_sweep"]:
        if all(row[key] == value for key, value in CURVE.items()):
            point = Point(row["tau"], row["accuracy"] / 100, row["tokens_per_forward"])
            curves.setdefault(row["scale"], []).append(point)
    return curves


def our_curves(folder: Path = results.FOLDER) -> dict[str, list[Point]]:
    """The τ sweep of `mars-tiny`: the average over all worlds and two of them; empty if not measured."""
    measured = results.read("tiny.json", folder)
    if measured is None:
        return {}
    sweep = _sweep(measured)
    return {
        world: [Point(tau, rows[world].accuracy, rows[world].tokens_per_forward) for tau, rows in sweep.items()]
        for world in ("average", *WORLDS)
    }


# ------------------------------------------------------------------------------ the paper's tables


def _model(row: dict) -> str:
    size = "" if row["block_size"] is None else f", B = {row['block_size']}"
    return f"{row['scale']} {row['model']}{size}{', without SFT loss' if row['sft_loss'] is False else ''}"


def _accuracies(rows: list[dict]) -> Cells:
    names = ("Avg", *BENCHMARKS)
    return ["model", "average", *BENCHMARKS], [
        [_model(row), *(f"{row[name]:.1f}" for name in names)] for row in rows
    ]


def _pairs(rows: list[dict]) -> Cells:
    return ["model", "average", *BENCHMARKS], [
        [
            f"{row['scale']} MARS, B = {row['block_size']}",
            *(
                f"{row['accuracy'][name]:.1f}, {row['tokens_per_forward'][name]:.2f}"
                for name in ("Avg", *BENCHMARKS)
            ),
        ]
        for row in rows
    ]
