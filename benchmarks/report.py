"""Rendering the tables of the benchmarks into README.md and docs/.

    python -m benchmarks.report

The text between `<!-- figures: NAME -->` and `<!-- end -->` is `benchmarks.NAME.table()`; further words are
its arguments, as in `<!-- figures: speed chat-speed.json -->`. A benchmark is one module: `measure()`
writes a file to assets/results/ with the command, the machine and the sample size, and `table()` renders it
as Markdown. A test compares documents with files.
"""

import argparse
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from benchmarks.tables import shown
from mars_demo.assets import read_json
from mars_demo.limits import all_limits
from mars_demo.models.names import CHAT

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- figures: ([\w-]+(?: [\w.-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return a document with its blocks rendered from the results files."""
    return BLOCK.sub(lambda block: f"{block[1]}{content(block[2])}\n{block[3]}", text)


def content(name: str) -> str:
    """Return the content of a block."""
    if name in OTHERS:
        return OTHERS[name]()
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


def recipe() -> str:
    """Return the table of the bundled chat model's trainings."""
    trainings = read_json(CHAT, "recipe.json")["trainings"]
    return shown(
        [
            {
                "training": "AR SFT" if one["objective"] == "ar" else "MARS",
                "steps": one["steps"],
                "million clean tokens": f"{one['tokens'] / 1e6:.2f}",
                "minutes": one["minutes"],
                "Muon learning rate": f"{one['muon_learning_rate']:g}",
                "machine": one["machine"],
            }
            for one in trainings
        ]
    )


OTHERS: dict[str, Callable[[], str]] = {"limits": limits, "recipe": recipe}  # blocks without a benchmark


def main() -> None:
    argparse.ArgumentParser(description="Render the tables into the documents.").parse_args()
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
