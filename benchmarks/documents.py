"""The documents' tables: rendered into README.md, docs/ and assets/our_tables.json.

    python -m benchmarks.documents

The text between `<!-- figures: NAME -->` and `<!-- end -->` is `benchmarks.NAME.table()`; further words are
its arguments, as in `<!-- figures: speed llama-cpp.json -->`. The lint compares documents with files.
"""

import argparse
import json
import re
from importlib import import_module
from pathlib import Path

from benchmarks import our_tables, report
from mars_demo.core.assets import ASSETS
from mars_demo.core.limits import all_limits

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- figures: ([\w-]+(?: [\w.-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


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
    return report.shown(
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
    argparse.ArgumentParser(description="Render the tables into the documents.").parse_args()
    rendered = json.dumps(our_tables.content(), indent=1, ensure_ascii=False) + "\n"
    (ASSETS / "our_tables.json").write_text(rendered, encoding="utf-8")
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
