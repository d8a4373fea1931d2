"""The figures of the documents are those of the result files, and none stands beside them."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks import report
from mars_demo.evaluation import results

FIGURE = re.compile(
    r"\d[\d.,]*\s?(%|×|ms\b|points?\b|tokens? per (forward|second)|times\b|minutes\b|seconds\b|MB\b)"
)


def text(name: str) -> str:
    return (report.ROOT / name).read_text(encoding="utf-8")


def rows(name: str) -> list[list[str]]:
    """The cells of all table rows of a document."""
    lines = (line for line in text(name).splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("name", report.DOCUMENTS)
def test_documents_are_current(name):
    assert report.filled(text(name)) == text(name), "run python -m benchmarks.report"


@pytest.mark.parametrize("name", report.DOCUMENTS)
def test_no_measured_figure_stands_outside_the_generated_blocks(name):
    prose = re.sub(r"```.*?```|`[^`]*`", "", report.BLOCK.sub("", text(name)), flags=re.DOTALL)
    assert [found[0] for found in FIGURE.finditer(prose)] == []


def anchors(name: str) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    titles = re.findall(r"^#+ (.+)$", text(name), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", report.DOCUMENTS)
def test_links_lead_to_files_and_headings_that_exist(name):
    for target in re.findall(r"\]\((?!https?:)([^)]*)\)", text(name)):
        path, _, anchor = target.partition("#")
        page = (report.ROOT / name).parent / path if path else report.ROOT / name
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page.resolve().relative_to(report.ROOT)), target


EXAMPLES = [
    pytest.param(code, id=f"{name}-{number}")
    for name in report.DOCUMENTS
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", text(name), re.DOTALL))
    if "from mars_demo" in code
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code):
    with ThreadPoolExecutor(1) as beside:  # in this thread a browser's loop may be running
        beside.submit(exec, compile(code, "example", "exec"), {}).result()


def test_every_kind_of_figure_is_used_and_every_block_names_one():
    used = {found[2] for name in report.DOCUMENTS for found in report.BLOCK.finditer(text(name))}
    assert used == set(report.FIGURES)


def test_every_file_of_results_names_its_command_and_its_machine():
    for path in results.FOLDER.glob("*.json"):
        measured = json.loads(path.read_text(encoding="utf-8"))
        assert re.match(r"python -m (benchmarks\.|mars_demo )", measured["command"]), path.name
        assert "/tmp" not in measured["command"] and measured["machine"], path.name


def test_every_command_that_is_named_exists():
    for path in results.FOLDER.glob("*.json"):
        module = json.loads(path.read_text(encoding="utf-8"))["command"].split()[2].replace(".", "/")
        names = (f"{module}.py", f"{module}/__main__.py")
        assert any((report.ROOT / name).exists() for name in names), path.name


def test_some_cells_are_those_of_the_files_worked_out_here():
    shown = rows("docs/measurements.md")
    found = json.loads((results.FOLDER / "tiny.json").read_text())["methods"]["τ = 0.95"]
    share = sum(row["accuracy"] for row in found) / len(found)
    rate = sum(row["tokens"] for row in found) / sum(row["forwards"] for row in found)
    assert ["0.95", f"{share:.1%}", f"{rate:.2f}"] in shown
    batches = json.loads((results.FOLDER / "batches.json").read_text())["rows"]
    eight = {row["method"]: row["seconds"] for row in batches if row["size"] == 8}
    ratios = sorted(
        ar / own for ar, own in zip(eight["AR, continuous"], eight["MARS τ = 0.95, cursor cache"])
    )
    faster = f"{ratios[len(ratios) // 2]:.2f}× ({ratios[0]:.2f}–{ratios[-1]:.2f})"
    eight = next(row for row in shown if row[:2] == ["8", "MARS τ = 0.95, cursor cache"])
    assert eight[3] == faster
