"""Helpers shared by benchmarks: the command line, and tables with sources and speed ratios."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from pandas import DataFrame

from mars_demo.evaluation import results
from mars_demo.markdown import table


def run(
    parser: argparse.ArgumentParser, measure: Callable[..., None], table: Callable[..., str], file: str
) -> None:  # fmt: skip
    """Run `measure` with the command-line arguments, and print the table of its results file."""
    parser.add_argument("--output", type=Path, default=results.FOLDER / file)
    arguments = parser.parse_args()
    measure(**vars(arguments))
    print(table(arguments.output.resolve()))


def shown(rows: Sequence[dict]) -> str:
    """Return rows, as cells by column, as a Markdown table."""
    return table(DataFrame(rows))


def source(measured: dict, *more: str) -> str:
    """Return the line below a table: the command, the machine and further facts."""
    return f"\n\n<sub>`{measured['command']}` · {' · '.join([measured['machine'], *more])}</sub>"


def prompts(measured: dict) -> str:
    """Return the number of prompts and the limit on answers as text."""
    longest = measured.get("max_new_tokens")
    limit = f", at most {longest} tokens each" if longest else ""
    return f"{measured['prompts']} held-out prompts{limit}"


def rounds(measured: dict) -> str:
    """Return the number of rounds of `timing.take_turns` as text."""
    count = len(measured["rows"][0]["seconds"])
    return f"{count} rounds in which the methods take turns: median (smallest–largest)"


def faster(seconds: Sequence[float], base: Sequence[float]) -> str:
    """Return the speed-up of a method over the base as text, over the rounds."""
    return results.ranged(results.ratios(seconds, base), unit="×")


def per_forward(row: Mapping) -> str:
    """Return the tokens per forward of a row as text."""
    return f"{row['tokens'] / row['forwards']:.2f}"


def percentiles(values: Mapping[str, float], form: str = ".2f") -> str:
    """Return p50, p95 and, if present, p99 as text."""
    return ", ".join(f"{value:{form}}" for value in values.values())


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def fastest(times: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the method with the smallest median time, and those that the measurement cannot tell apart.

    These were at least as fast as the first in some round.
    """
    best = min(times, key=lambda name: median(times[name]))
    others = [name for name in times if name != best and max(results.ratios(times[name], times[best])) >= 1]
    return [best, *others]
