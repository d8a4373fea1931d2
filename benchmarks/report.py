"""The command line and the tables of the benchmarks.

A benchmark is one module: `measure()` writes a file to assets/results/ with the command, the machine and
the sample size, and `table()` renders it as Markdown.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from pandas import DataFrame

from mars_demo.core.markdown import table as markdown
from mars_demo.evaluation import results


def run(measure: Callable[..., None], table: Callable[..., str], file: str, **options) -> None:
    """Run `measure` with options of the command line, and print the table of its results file.

    options: the default of each option; a type if the option is required, a list if it takes several.
    """
    parser = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (options | {"output": results.FOLDER / file}).items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default, required=True)
        elif isinstance(default, list):
            parser.add_argument(flag, type=type(default[0]), nargs="+", default=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    arguments = parser.parse_args()
    measure(**vars(arguments))
    print(table(arguments.output.resolve()))


def shown(rows: Sequence[dict]) -> str:
    """Return rows, as cells by column, as a Markdown table."""
    return markdown(DataFrame(rows))


def source(measured: dict, *more: str) -> str:
    """Return the line below a table: the command, the machine and more."""
    return f"\n\n<sub>{' · '.join([results.origin(measured), measured['machine'], *more])}</sub>"


def prompts(measured: dict) -> str:
    """Return the number of prompts and the limit on answers as text."""
    longest = measured.get("max_new_tokens")
    limit = f", at most {longest} tokens each" if longest else ""
    return f"{measured['prompts']} held-out prompts{limit}"


def rounds(measured: dict) -> str:
    """Return the number of rounds of `timing.take_turns` as text."""
    count = len(measured["rows"][0]["seconds"])
    return f"median (smallest–largest) of {count} rounds" if count > 1 else "1 round"


def ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return the speed-up over the base per round; methods that take turns share a round's noise."""
    return [slow / fast for slow, fast in zip(base, times, strict=True)]


def faster(times: Sequence[float], base: Sequence[float]) -> str:
    """Return the median speed-up over the base as text, with the range if there are several rounds."""
    speeds = ratios(times, base)
    middle = f"{median(speeds):.2f}×"
    return middle if len(speeds) == 1 else f"{middle} ({min(speeds):.2f}–{max(speeds):.2f})"


def per_forward(row: Mapping) -> str:
    """Return the tokens per forward of a row as text."""
    return f"{row['tokens'] / row['forwards']:.2f}"
