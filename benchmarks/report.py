"""The command line and the tables of the benchmarks.

A benchmark is one module: `measure()`, with the `OPTIONS` of the command line, writes `FILE` to
assets/results/ with the command, its commit, the machine and the sample size, and `table()` renders it as
Markdown.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from types import ModuleType

from pandas import DataFrame

from mars_demo.core.markdown import table as markdown
from mars_demo.evaluation import results


def parser(benchmark: ModuleType) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's options.

    Its `OPTIONS` has the default of each; a type if the option is required, a list if it takes several.
    """
    parser = argparse.ArgumentParser(
        description=benchmark.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name, default in (benchmark.OPTIONS | {"output": results.FOLDER / benchmark.FILE}).items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default, required=True)
        elif isinstance(default, list):
            parser.add_argument(flag, type=type(default[0]), nargs="+", default=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    return parser


def run() -> None:
    """Run the benchmark that is the program, and print the table of its results file."""
    benchmark = sys.modules["__main__"]
    arguments = parser(benchmark).parse_args()
    benchmark.measure(**vars(arguments))
    print(benchmark.table(arguments.output.resolve()))


def provenance() -> dict[str, str]:
    """Return the running command and the commit of its code, which must not have been changed."""
    program = getattr(sys.modules["__main__"].__spec__, "name", Path(sys.argv[0]).stem)
    command = shlex.join(["python", "-m", program, *sys.argv[1:]])
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    done = subprocess.run(describe, cwd=results.FOLDER, capture_output=True, text=True, check=True)
    return {"command": command, "commit": done.stdout.strip()}


def save(path: Path, machine: str, content: Mapping) -> None:
    """Write a results file: the running command, its commit, the machine, and the measurements."""
    write(path, provenance() | {"machine": machine} | content)


def write(path: Path, record: Mapping) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def shown(rows: Sequence[dict]) -> str:
    """Return rows, as cells by column, as a Markdown table."""
    return markdown(DataFrame(rows))


def source(measured: dict, *more: str) -> str:
    """Return the line below a table: the command, the commit, the machine and more."""
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
