"""Who may import whom, and what starts without torch.

Each check takes the folder that holds the package and returns complaints, so that it is also run on small
trees that break its rule.
"""

import ast
import functools
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterator
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
    ("decoding",),
    ("export",),
    ("serving",),
    ("evaluation",),
    ("training",),
    ("quantization",),
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
    typing: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


@functools.cache
def modules(root: Path) -> dict[str, Path]:
    """Return all modules of the package by their dotted names."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
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
def imports(root: Path, path: Path) -> list[Import]:
    """Return what a file imports: at its top, in functions, by name with `import_module`."""
    tree, found = parsed(path), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(f"{node.module}.{alias.name}", node) for alias in node.names]
    for name, call in calls(tree):
        if name == "import_module" and call.args:
            found += [(_pattern(call.args[0]), call)]
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return [Import(name, node.lineno, id(node) in typing) for name, node in found]


def _pattern(argument: ast.expr) -> str:
    """A string in the code; what is computed at its end becomes a `*`."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    text = str(parts[0].value) if isinstance(parts[0], ast.Constant) else ""
    return text if text and len(parts) == 1 else f"{text}*"


@functools.cache
def arrows(root: Path) -> list[Arrow]:
    known, found = modules(root), []
    for source, path in known.items():
        for name, line, typing in imports(root, path):
            if name.startswith(f"{PACKAGE}.") and name.endswith("*"):
                targets = [module for module in known if module.startswith(name.rstrip("*"))]
            else:
                targets = [module for module in (name, name.rpartition(".")[0]) if module in known][:1]
            found += [Arrow(source, target, line, typing) for target in targets if target != source]
    return found


def room(module: str) -> str:
    return (*module.split("."), "__init__")[1]


def floor(module: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room(module) in rooms)


def arrows_that_run_up(root: Path) -> list[str]:
    """Types may come from above: such an import never runs."""
    return [str(a) for a in arrows(root) if not a.typing and floor(a.target) > floor(a.source)]


def cycles(root: Path) -> list[str]:
    imported = {module: set() for module in modules(root)}
    for arrow in arrows(root):
        if not arrow.typing:
            imported[arrow.source].add(arrow.target)
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as error:
        cycle = error.args[1][:0:-1]
        first = cycle.index(min(cycle))
        return [" imports ".join([*cycle[first:], *cycle[: first + 1]])]
    return []


def libraries_out_of_place(root: Path) -> list[str]:
    return [
        f"{module}:{found.line} imports {found.name}"
        for module, path in modules(root).items()
        for found in imports(root, path)
        if room(module) not in LIBRARIES.get(found.name.split(".")[0], (room(module),))
    ]


WATCH_TORCH = """
import importlib, sys, traceback

class Watch:
    files = []

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            self.files += [frame.filename for frame in traceback.extract_stack()]

sys.meta_path.insert(0, Watch())
for module in sys.argv[1:]:
    importlib.import_module(module)
if "torch" in sys.modules:
    print(*Watch.files, sep="\\n")
"""


def torch_at_start(root: Path, *started: str) -> list[str]:
    """The file of the package, if any, that brings torch in when these modules are imported."""
    run = subprocess.run(
        [sys.executable, "-c", WATCH_TORCH, *started],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    files = [Path(line) for line in run.stdout.splitlines() if line.startswith(str(root / PACKAGE))]
    return [f"{file.relative_to(root)} imports torch" for file in files[-1:]]


def test_every_module_has_a_floor():
    assert {room(module) for module in modules(ROOT)} == {name for rooms in FLOORS for name in rooms}


def test_arrows_run_down():
    assert len(arrows(ROOT)) > 200
    assert arrows_that_run_up(ROOT) == []


def test_no_cycles():
    assert cycles(ROOT) == []


def test_gradio_and_plotly_stay_at_the_top():
    assert libraries_out_of_place(ROOT) == []


def test_only_its_adapter_imports_the_harness():
    libraries = {
        module
        for module, path in modules(ROOT).items()
        for found in imports(ROOT, path)
        if found.name.split(".")[0] == "lm_eval"
    }
    assert libraries == {f"{HARNESS}.{name}" for name in ("__main__", "model", "suite")}
    users = {arrow.source for arrow in arrows(ROOT) if arrow.target.startswith(HARNESS)}
    assert {user for user in users if not user.startswith(HARNESS)} == {"mars_demo.cli.benchmark"}


def test_the_app_and_the_commands_start_without_torch():
    assert torch_at_start(ROOT, *START_WITHOUT_TORCH) == []


def test_the_engine_knows_no_text():
    path = ROOT / PACKAGE / "decoding" / "engine.py"
    names = [found.name for found in imports(ROOT, path)]
    assert not any("token" in name.lower() for name in names)
    assert {name for name in names if name.startswith(PACKAGE)} == {"mars_demo.decoding.layout.Layout"}


# The checks on small trees: one that follows the rules, and that tree with one file that breaks one.

GOOD = {
    "modes.py": '"""Modes."""',
    "models/load.py": (
        '"""Load."""\n'
        "from typing import TYPE_CHECKING\n"
        "from mars_demo import modes\n"
        "if TYPE_CHECKING:\n"
        "    from mars_demo.decoding.decode import decode\n"
        "def load():\n"
        "    import torch\n"
    ),
    "decoding/decode.py": "from mars_demo.models.load import load\ndef decode(): ...\n",
    "decoding/request.py": "from mars_demo.decoding.decode import decode\n",
    "views/plots.py": "import plotly.graph_objects as go\n",
    "cli/__init__.py": "from mars_demo.cli import generate\n",
    "cli/generate.py": "from mars_demo.models.load import load\n",
    "ui/page.py": "import gradio as gr\nfrom mars_demo.views import plots\n",
}


def planted(folder: Path, files: dict[str, str]) -> Path:
    """A folder with the package of these files, and stand-ins for the libraries that they import."""
    for name in ("torch.py", "gradio.py", "plotly/__init__.py", "plotly/graph_objects.py"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for name, text in files.items():
        path = folder / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


CHECKS = (arrows_that_run_up, cycles, libraries_out_of_place)


@pytest.mark.parametrize(
    ("check", "file", "text", "complaint"),
    [
        (
            arrows_that_run_up,
            "models/within.py",
            '"""Up, in a function."""\ndef f():\n    import mars_demo.views.plots\n',
            "mars_demo.models.within:3 imports mars_demo.views.plots",
        ),
        (
            arrows_that_run_up,
            "decoding/by_name.py",
            '"""Up, by name."""\nfrom importlib import import_module\n'
            'def f(name):\n    return import_module(f"mars_demo.views.{name}")\n',
            "mars_demo.decoding.by_name:4 imports mars_demo.views.plots",
        ),
        (
            cycles,
            "decoding/decode.py",
            '"""Each needs the other, one of them in a function."""\n'
            "def decode():\n    from mars_demo.decoding.request import Request\n",
            "mars_demo.decoding.decode imports mars_demo.decoding.request imports "
            "mars_demo.decoding.decode",
        ),
        (
            cycles,
            "cli/generate.py",
            '"""A module that imports its package, which imports it."""\nfrom mars_demo.cli import main\n',
            "mars_demo.cli imports mars_demo.cli.generate imports mars_demo.cli",
        ),
        (
            libraries_out_of_place,
            "views/page.py",
            '"""Gradio below the page."""\nfrom gradio import Blocks\n',
            "mars_demo.views.page:2 imports gradio.Blocks",
        ),
    ],
)
def test_a_check_finds_what_breaks_its_rule(tmp_path, check, file, text, complaint):
    root = planted(tmp_path, GOOD | {file: text})
    assert check(root) == [complaint]
    others = [other for other in CHECKS if other is not check]
    assert not any(other(root) for other in others)


def test_a_tree_that_follows_the_rules_passes(tmp_path):
    root = planted(tmp_path, GOOD)
    assert not any(check(root) for check in CHECKS)
    assert torch_at_start(root, "mars_demo.cli") == []


def test_torch_at_start_is_found_where_it_comes_from(tmp_path):
    root = planted(tmp_path, GOOD | {"modes.py": '"""Modes."""\nimport torch\n'})
    assert torch_at_start(root, "mars_demo.cli") == ["mars_demo/modes.py imports torch"]


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
