"""What holds for the project as a whole."""

import ast
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_nothing_below_the_ui_imports_it_or_gradio():
    for path in (ROOT / "mars_demo").glob("*.py"):
        for name in imports(path):
            assert not name.startswith(("gradio", "mars_demo.ui")), (path.name, name)


def calls(path: Path) -> list[ast.Call]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Call)]


def test_no_remote_code_runs():
    """Whatever loads from a folder or a hub says no to code that lies beside the weights or the data."""
    loading = 0
    for folder in ("mars_demo", "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for call in calls(path):
                name = getattr(call.func, "attr", getattr(call.func, "id", None))
                said = [ast.unparse(k.value) for k in call.keywords if k.arg == "trust_remote_code"]
                if name in ("from_pretrained", "from_config", "load_dataset"):
                    loading += 1
                    assert said == ["False"], f"{path}:{call.lineno}"
                assert set(said) <= {"False"}, f"{path}:{call.lineno}"
    assert loading > 10


def test_arrows_run_one_way():
    order = ["layout", "engine", "decoding", "evaluation"]
    for index, module in enumerate(order):
        used = imports(ROOT / "mars_demo" / f"{module}.py")
        for later in order[index + 1 :]:
            assert not any(name.startswith(f"mars_demo.{later}") for name in used), (module, later)
    assert not any(
        "transformers" in name and "Token" in name for name in imports(ROOT / "mars_demo/engine.py")
    )


def test_the_readme_opens_with_the_card_of_the_space():
    front_matter = (ROOT / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    card = yaml.safe_load((ROOT / "space.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(front_matter) == card
    assert len(card["short_description"]) <= 60
    assert f"gradio=={card['sdk_version']}" in (ROOT / "requirements.txt").read_text()
    assert (ROOT / card["app_file"]).is_file()


def test_requirements_are_pinned():
    for file in ("requirements.txt", "tests/requirements.txt"):
        for line in (ROOT / file).read_text().splitlines():
            assert line.startswith("-r ") or "==" in line, line
