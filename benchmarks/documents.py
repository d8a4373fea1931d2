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

from benchmarks import our_tables, paper, report
from mars_demo.core.assets import ASSETS
from mars_demo.core.limits import all_limits
from mars_demo.evaluation.paper_tables import PAPER

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- figures: ([\w-]+(?: [\w.-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return a document with its blocks rendered from the results files."""
    return BLOCK.sub(lambda block: f"{block[1]}{content(block[2])}\n{block[3]}", text)


def content(name: str) -> str:
    """Return the content of a block."""
    if own := WITHOUT_BENCHMARK.get(name):
        return own()
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


def seven_billion() -> str:
    """Return a sentence about the paper's 7B model."""
    accuracy = paper.in_paper("7B")
    name = "MARS, B = 4"
    rows = {row["name"]: row["tokens_per_forward"]["Avg"] for row in PAPER["table4_multi_token"]}
    fastest = max(PAPER["table5_batch_wall_clock"], key=lambda row: row["speedup"])
    return (
        f"> Qwen2.5-7B, in the paper, with B = 4 and τ = 0.95: {rows[f'7B {name}']} tokens per forward and "
        f"{accuracy[f'{name}, τ = 0.95']}% average accuracy, against {accuracy['AR SFT']}% of AR SFT and "
        f"{accuracy[name]}% of MARS at one token per forward; at best {fastest['speedup']}× as fast as AR, "
        f"in batches of {fastest['batch_size']}."
    )


WITHOUT_BENCHMARK = {"limits": limits, "seven-billion": seven_billion}


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
