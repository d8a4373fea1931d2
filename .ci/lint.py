"""Checks of what the repository says: documents, figures, links, requirements and the Space's front matter.

    PYTHONPATH=. python .ci/lint.py

prints a line per complaint and exits with 1 if there is one. Code is checked by ruff, behaviour by tests.
"""

import contextlib
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import yaml

from benchmarks import documents, our_tables, report
from mars_demo.core.assets import read_json
from mars_demo.evaluation import results

ROOT = documents.ROOT
REQUIREMENTS = (*sorted(path.name for path in ROOT.glob("requirements*.txt")), "tests/requirements.txt")
FIGURE = re.compile(
    r"\d[\d.,]*\s?(%|×|ms\b|points?\b|tokens? per (forward|second)|times\b|minutes\b|seconds\b|MB\b)"
)
COMMIT = re.compile(r"`[0-9a-f]{7}`")
TEXTS = {name: (ROOT / name).read_text("utf-8") for name in documents.DOCUMENTS}


def figures() -> Iterator[str]:
    """Every measured figure stands in a generated block, or beside the commit whose result file has it."""
    used = set()
    for name, text in TEXTS.items():
        used |= {block[2].split()[0] for block in documents.BLOCK.finditer(text)}
        if documents.filled(text) != text:
            yield f"{name}: its figures are not those of assets/results; run python -m benchmarks.documents"
        prose = re.sub(r"```.*?```", "", documents.BLOCK.sub("", text), flags=re.DOTALL)
        for part in re.split(r"\n\n|\n(?=\||- )", prose):
            found = FIGURE.search(re.sub(r"`[^`]*`", "", part))
            if found and not COMMIT.search(part):
                yield f"{name}: the figure “{found[0]}” stands outside the generated blocks"
    if our_tables.content() != read_json("our_tables.json"):
        yield "assets/our_tables.json: not of these result files; run python -m benchmarks.documents"
    for unused in benchmarks() - used:
        yield f"benchmarks/{unused}.py: no document shows its table"


def benchmarks() -> set[str]:
    """Return the modules that have a table."""
    modules = (ROOT / "benchmarks").glob("*.py")
    return {path.stem for path in modules if "\ndef table(" in path.read_text("utf-8")}


def links() -> Iterator[str]:
    """Links inside the repository lead to files and headings that exist."""
    for name, text in TEXTS.items():
        for target in re.findall(r"\]\((?!https?:)([^)]*)\)", text):
            path, _, anchor = target.partition("#")
            page = ((ROOT / name).parent / path if path else ROOT / name).resolve()
            if not page.exists():
                yield f"{name}: the link {target} leads nowhere"
            elif anchor and anchor not in _anchors(page.read_text("utf-8")):
                yield f"{name}: the link {target} names a heading that is not there"


def _anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def result_files() -> Iterator[str]:
    """Results name their machine and commit and, if one makes them, a command that its parser accepts."""
    for path in results.FOLDER.glob("*.json"):
        content = json.loads(path.read_text("utf-8"))
        for record in content.get("sweeps", [content]):
            if not (record.get("machine") and COMMIT.fullmatch(f"`{record.get('commit')}`")):
                yield f"{path.name}: it names no machine, or no commit"
            if "command" in record and (problem := rejected(record["command"] or "")):
                yield f"{path.name}: {problem}"


def rejected(command: str) -> str | None:
    """Return what is wrong with the command of a benchmark; None if today's parser accepts it."""
    parts = re.fullmatch(r"python -m benchmarks\.(\w+)(.*)", command)
    if not parts or parts[1] not in benchmarks():
        return f"the command “{command}” is not one of a benchmark"
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            report.parser(import_module(f"benchmarks.{parts[1]}")).parse_args(shlex.split(parts[2]))
    except SystemExit:
        return f"the command “{command}” is wrong: {said.getvalue().rpartition('error: ')[2].strip()}"
    return f"the command “{command}” names a temporary folder" if "/tmp" in command else None


def requirements() -> Iterator[str]:
    """Every requirement is pinned."""
    for file in REQUIREMENTS:
        for line in (ROOT / file).read_text("utf-8").splitlines():
            if not line.startswith(("-", "#")) and "==" not in line:
                yield f"{file}: {line} is not pinned"


def front_matter() -> Iterator[str]:
    """The README opens with the card of the Space, which the hub accepts."""
    card = yaml.safe_load((ROOT / "space.yaml").read_text("utf-8"))
    if yaml.safe_load(TEXTS["README.md"].split("---\n")[1]) != card:
        yield "README.md: its front matter is not space.yaml"
    if len(card["short_description"]) > 60:
        yield "space.yaml: short_description may have 60 characters"
    if f"gradio[mcp]=={card['sdk_version']}" not in (ROOT / "requirements.txt").read_text("utf-8"):
        yield "space.yaml: sdk_version is not the gradio of requirements.txt"
    if not Path(ROOT / card["app_file"]).is_file():
        yield f"space.yaml: there is no {card['app_file']}"


CHECKS = (figures, links, result_files, requirements, front_matter)

if __name__ == "__main__":
    complaints = [complaint for check in CHECKS for complaint in check()]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    sys.exit(bool(complaints))
