"""The tables of the benchmarks, and rendering them into README.md, docs/ and assets/our_tables.json.

    python -m benchmarks.report

The text between `<!-- figures: NAME -->` and `<!-- end -->` is `benchmarks.NAME.table()`; further words are
its arguments, as in `<!-- figures: speed llama-cpp.json -->`. A benchmark is one module: `measure()`
writes a file to assets/results/ with the command, the machine and the sample size, and `table()` renders it
as Markdown. The lint compares documents with files.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median

from pandas import DataFrame

from mars_demo.core.assets import ASSETS
from mars_demo.core.limits import all_limits
from mars_demo.core.markdown import table as markdown
from mars_demo.evaluation import results

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- figures: ([\w-]+(?: [\w.-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


# ------------------------------------------------------------------------------------- benchmarks


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


# -------------------------------------------------------------------------------------- documents


def filled(text: str) -> str:
    """Return a document with its blocks rendered from the results files."""
    return BLOCK.sub(lambda block: f"{block[1]}{content(block[2])}\n{block[3]}", text)


def content(name: str) -> str:
    """Return the content of a block."""
    if name == "limits":  # without a benchmark
        return limits()
    module, *arguments = name.split()
    return import_module(f"benchmarks.{module}").table(*arguments)


def limits() -> str:
    """Return the table of limits that an operator can set, with the defaults."""
    return shown(
        [
            {
                "variable": f"`{limit.variable}`",
                "default": f"{limit.default}",
                "limits": limit.about + ("" if limit.least else "; 0 switches it off"),
            }
            for limit in all_limits().values()
        ]
    )


def main() -> None:
    from benchmarks import our_tables  # imports this module

    argparse.ArgumentParser(description="Render the tables into the documents.").parse_args()
    rendered = json.dumps(our_tables.content(), indent=1, ensure_ascii=False) + "\n"
    (ASSETS / "our_tables.json").write_text(rendered, encoding="utf-8")
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
