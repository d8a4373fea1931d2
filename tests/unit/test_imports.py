"""Imports between packages, commands that start without torch, and Python examples in the docs."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "mars_demo"

# Layers of packages, bottom to top. A module imports from its own package and from the layers below.
LAYERS = (
    ("__init__", "core"),
    ("tasks", "models", "vllm", "show"),
    ("decoding", "static"),
    ("serving",),
    ("training",),
    ("evaluation",),
    ("recipes", "ui"),
    ("cli",),
    ("__main__",),
)
FOLDERS = ("hosting", "lessons", "tabs")  # of ui, bottom to top
LIBRARIES = {"gradio": ("ui",), "plotly": ("ui",)}  # packages that may import them
START_WITHOUT_TORCH = (
    "mars_demo.cli",
    "mars_demo.cli.page",
    "mars_demo.tasks",
    "mars_demo.show.recordings",
)


@functools.cache
def modules(*folders: str) -> dict[str, Path]:
    """Return all modules of the package, and of other folders, by their dotted names."""
    paths = {}
    for path in sorted(path for folder in (PACKAGE, *folders) for path in (ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.AST) -> Iterator[tuple[str | None, ast.Call]]:
    """Yield the calls in a syntax tree, each with the name of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", getattr(node.func, "id", None)), node


@functools.cache
def imports(path: Path) -> list[str]:
    """Return all imports of a file: top-level, in functions, and by name with `import_module`."""
    tree = parsed(path)
    names = [_pattern(call.args[0]) for name, call in calls(tree) if name == "import_module"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _pattern(argument: ast.expr) -> str:
    """Return the constant string of an expression; a computed end becomes `*`, for any module."""
    return argument.value if isinstance(argument, ast.Constant) else f"{argument.values[0].value}*"


@functools.cache
def arrows(*folders: str) -> list[tuple[str, str]]:
    """Return (source, target) of all imports of one of these modules by another, also those for types."""
    paths, pairs = modules(*folders), []
    for source, path in paths.items():
        for name in imports(path):
            if name.endswith("*"):
                targets = [module for module in paths if module.startswith(name.rstrip("*"))]
            else:
                targets = [module for module in (name, name.rpartition(".")[0]) if module in paths][:1]
            pairs += [(source, target) for target in targets if target != source]
    return pairs


def package_of(module: str) -> str:
    return (*module.split("."), "__init__")[1]


def layer(module: str) -> int:
    return next(number for number, packages in enumerate(LAYERS) if package_of(module) in packages)


def test_every_module_has_a_layer():
    assert {package_of(module) for module in modules()} == {name for names in LAYERS for name in names}


def test_imports_go_down_the_layers():
    assert len(arrows()) > 200
    between = [pair for pair in arrows() if len({*map(package_of, pair)}) == 2]
    assert [(source, target) for source, target in between if layer(target) >= layer(source)] == []


def test_no_cycles():
    folders = ("benchmarks", ".ci")
    imported = {module: set() for module in modules(*folders)}
    for source, target in arrows(*folders):
        imported[source].add(target)
    graphlib.TopologicalSorter(imported).prepare()  # the error names the cycle


def folder_of(module: str) -> str:
    """Return the folder of a module of ui, or the module itself beside the folders."""
    return (*module.split("."), "")[2]


def test_the_folders_of_ui_have_layers_without_cycles():
    """Modules beside the folders may be anywhere between them, as long as no cycle passes through them."""
    imported = {}
    for pair in arrows():
        if {*map(package_of, pair)} != {"ui"}:
            continue
        source, target = map(folder_of, pair)
        if source != target:
            imported.setdefault(source, set()).add(target)
        if source in FOLDERS and target in FOLDERS:
            assert FOLDERS.index(source) >= FOLDERS.index(target), pair
    folders = {path.parent.name for path in (ROOT / PACKAGE / "ui").glob("*/__init__.py")}
    assert folders == set(FOLDERS)
    graphlib.TopologicalSorter(imported).prepare()


def test_no_tab_imports_a_tab():
    tabs = {module for module in modules() if module.startswith("mars_demo.ui.tabs.")}
    assert [pair for pair in arrows() if tabs.issuperset(pair)] == []


def test_gradio_and_plotly_are_imported_only_in_the_top_layers():
    assert [
        (module, name)
        for module, path in modules().items()
        for name in imports(path)
        if package_of(module) not in LIBRARIES.get(name.split(".")[0], (package_of(module),))
    ] == []


def test_a_public_name_stands_in_one_module():
    """Interfaces are exceptions: several modules have the same function, each for its own kind."""
    interfaces = {"build", "follow_up", "generate", "grade", "make", "register", "run", "strategy"}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    places = {}
    for module, path in modules().items():
        for node in parsed(path).body:
            if isinstance(node, kinds) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: homes for name, homes in places.items() if homes[1:] and name not in interfaces} == {}


def test_the_commands_start_without_torch():
    """Import the commands in a new process; `python -X importtime` shows the import at fault."""
    program = "import importlib, sys; [*map(importlib.import_module, sys.argv[1:])]; print(*sys.modules)"
    started = [sys.executable, "-c", program, *START_WITHOUT_TORCH]
    run = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"torch", "transformers"}.intersection(run.stdout.split())


def test_no_remote_code_runs():
    """Require `trust_remote_code=False` wherever models, tokenizers or data sets are loaded."""
    loading = 0
    for folder in (PACKAGE, "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for name, call in calls(parsed(path)):
                values = [ast.unparse(k.value) for k in call.keywords if k.arg == "trust_remote_code"]
                if name in ("from_pretrained", "from_config", "load_dataset"):
                    loading += 1
                    assert values == ["False"], f"{path}:{call.lineno}"
                # Tests run the decoder that they export themselves.
                allowed = {"False", "True"} if (folder, name) == ("tests", "generate") else {"False"}
                assert set(values) <= allowed, f"{path}:{call.lineno}"
    assert loading > 10


EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{number}", marks=pytest.mark.full if "smollm2" in code else ())
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    if "from mars_demo" in code
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_in_the_docs_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one saves a checkpoint
    short = re.sub(r"max_steps=\d+", "max_steps=2", code)
    with ThreadPoolExecutor(1) as beside:  # for asyncio.run: this thread may have a loop
        beside.submit(exec, compile(short, "example", "exec"), {}).result()
