"""What benchmarks share: their command, and tables with sources and speeds as ratios of rounds."""

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
    """Measure what the command line asks for, write the result file and print its table."""
    parser.add_argument("--output", type=Path, default=results.FOLDER / file)
    arguments = parser.parse_args()
    measure(**vars(arguments))
    print(table(arguments.output.resolve()))


def shown(rows: Sequence[dict]) -> str:
    """Return rows, each with its cells by column, as a Markdown table."""
    return table(DataFrame(rows))


def source(measured: dict, *more: str) -> str:
    """Return the line below a table: the command, the machine and what else its reader must know."""
    return f"\n\n<sub>`{measured['command']}` · {' · '.join([measured['machine'], *more])}</sub>"


def prompts(measured: dict) -> str:
    """Say how many prompts were answered, and how long answers could get."""
    longest = measured.get("max_new_tokens")
    limit = f", at most {longest} tokens each" if longest else ""
    return f"{measured['prompts']} held-out prompts{limit}"


def rounds(measured: dict) -> str:
    """Say how many rounds a benchmark with `timing.take_turns` had."""
    count = len(measured["rows"][0]["seconds"])
    return f"{count} rounds in which the methods take turns: median (smallest–largest)"


def faster(seconds: Sequence[float], base: Sequence[float]) -> str:
    """Return how many times as fast as the base a method was, over the rounds."""
    return results.ranged(results.ratios(seconds, base), unit="×")


def per_forward(row: Mapping) -> str:
    """Return the tokens per forward of a row."""
    return f"{row['tokens'] / row['forwards']:.2f}"


def percentiles(values: Mapping[str, float], form: str = ".2f") -> str:
    """Return p50, p95 and, where there is one, p99."""
    return ", ".join(f"{value:{form}}" for value in values.values())


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def fastest(times: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the method with the smallest median time, then each that was at least as fast in some round:
    the measurement cannot tell these apart."""
    best = min(times, key=lambda name: median(times[name]))
    others = [name for name in times if name != best and max(results.ratios(times[name], times[best])) >= 1]
    return [best, *others]
