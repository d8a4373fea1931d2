"""Imports between packages, commands that start without torch, and Python examples of the documents."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "mars_demo"

# The packages, bottom to top. A module imports from its own level and the ones below.
FLOORS = (
    ("__init__", "assets", "limits", "markdown", "modes", "progress", "scheduler"),
    ("tasks",),
    ("models",),
    ("quantization",),
    ("decoding",),
    ("export",),
    ("serving",),
    ("evaluation",),
    ("training",),
    ("views",),
    ("recipes",),
    ("ui",),
    ("cli", "__main__"),
)
LIBRARIES = {"gradio": ("ui",), "plotly": ("ui", "views")}  # the rooms that may import them
# The lm-evaluation-harness need not be installed: one folder imports it, one command that folder.
HARNESS = "mars_demo.evaluation.harness"
START_WITHOUT_TORCH = ("mars_demo.cli", "mars_demo.ui.page", "mars_demo.ui.endpoint", "mars_demo.tasks")


class Import(NamedTuple):
    """`name` is a module, or something in one; a `*` at its end stands for any module of a package."""

    name: str
    line: int
    typing: bool  # under TYPE_CHECKING: it never runs


class Arrow(NamedTuple):
    """One module of the package imports another."""

    source: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


@functools.cache
def modules() -> dict[str, Path]:
    """Return all modules of the package by their dotted names."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.AST) -> Iterator[tuple[str | None, ast.Call]]:
    """Yield the calls in a syntax tree, each with the name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", getattr(node.func, "id", None)), node


@functools.cache
def imports(path: Path) -> list[Import]:
    """Return what a file imports: at its top, in functions, by name with `import_module`."""
    tree = parsed(path)
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = [(_pattern(call.args[0]), call) for name, call in calls(tree) if name == "import_module"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(f"{node.module}.{alias.name}", node) for alias in node.names]
    return [Import(name, node.lineno, id(node) in typing) for name, node in found]


def _pattern(argument: ast.expr) -> str:
    """A string in the code; what is computed at its end becomes a `*`."""
    return argument.value if isinstance(argument, ast.Constant) else f"{argument.values[0].value}*"


@functools.cache
def arrows() -> list[Arrow]:
    """Return the imports of one module of the package by another. Types may come from anywhere: such an
    import never runs."""
    known, found = modules(), []
    for source, path in known.items():
        for name, line, typing in imports(path):
            if name.endswith("*"):
                targets = [module for module in known if module.startswith(name.rstrip("*"))]
            else:
                targets = [module for module in (name, name.rpartition(".")[0]) if module in known][:1]
            found += [Arrow(source, target, line) for target in targets if target != source and not typing]
    return found


def room(module: str) -> str:
    return (*module.split("."), "__init__")[1]


def floor(module: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room(module) in rooms)


def test_every_module_has_a_floor():
    assert {room(module) for module in modules()} == {name for rooms in FLOORS for name in rooms}


def test_arrows_run_down():
    assert len(arrows()) > 200
    assert [str(arrow) for arrow in arrows() if floor(arrow.target) > floor(arrow.source)] == []


def test_no_cycles():
    imported = {module: set() for module in modules()}
    for arrow in arrows():
        imported[arrow.source].add(arrow.target)
    graphlib.TopologicalSorter(imported).prepare()  # it names the cycle that it finds


def test_gradio_and_plotly_stay_at_the_top():
    assert [
        f"{module}:{found.line} imports {found.name}"
        for module, path in modules().items()
        for found in imports(path)
        if room(module) not in LIBRARIES.get(found.name.split(".")[0], (room(module),))
    ] == []


def test_only_its_adapter_imports_the_harness():
    libraries = {
        module
        for module, path in modules().items()
        for found in imports(path)
        if found.name.split(".")[0] == "lm_eval"
    }
    assert libraries == {f"{HARNESS}.{name}" for name in ("__main__", "model", "suite")}
    users = {arrow.source for arrow in arrows() if arrow.target.startswith(HARNESS)}
    assert {user for user in users if not user.startswith(HARNESS)} == {"mars_demo.cli.benchmark"}


def test_the_app_and_the_commands_start_without_torch():
    """`python -X importtime` shows what brings it in."""
    program = "import importlib, sys; [*map(importlib.import_module, sys.argv[1:])]; print(*sys.modules)"
    started = [sys.executable, "-c", program, *START_WITHOUT_TORCH]
    run = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "torch" not in run.stdout.split()


def test_the_engine_knows_no_text():
    path = ROOT / PACKAGE / "decoding" / "engine.py"
    names = [found.name for found in imports(path)]
    assert not any("token" in name.lower() for name in names)
    assert {name for name in names if name.startswith(PACKAGE)} == {
        "mars_demo.decoding.layout.Layout",
        "mars_demo.models.logits.logits_of",
    }


def test_no_remote_code_runs():
    """Whatever loads from a folder or a hub says no to code that comes with the weights or the data."""
    loading = 0
    for folder in (PACKAGE, "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for name, call in calls(parsed(path)):
                given = [ast.unparse(k.value) for k in call.keywords if k.arg == "trust_remote_code"]
                if name in ("from_pretrained", "from_config", "load_dataset"):
                    loading += 1
                    assert given == ["False"], f"{path}:{call.lineno}"
                # The tests run the decoder that they have just exported.
                allowed = {"False", "True"} if (folder, name) == ("tests", "generate") else {"False"}
                assert set(given) <= allowed, f"{path}:{call.lineno}"
    assert loading > 10


EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{number}", marks=pytest.mark.full if "smollm2" in code else ())
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    if "from mars_demo" in code
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code):
    with ThreadPoolExecutor(1) as beside:  # an example may call asyncio.run, and a browser has a loop here
        beside.submit(exec, compile(code, "example", "exec"), {}).result()
