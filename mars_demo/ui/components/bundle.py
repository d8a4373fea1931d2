"""The components' JavaScript modules as one script, and their style sheets as one.

A module begins with its imports, `import { a, b } from "./other.js";` and nothing else, and marks what it
gives with `export` at the start of a line. The file named `COMPONENT` exists nowhere: it stands for what
Gradio hands to the script of a component, and for the constants from Python.
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
COMPONENT = FOLDER / "component.js"
GIVEN = ("element", "props", "constants", "watch", "trigger", "server")
ALL = tuple(sorted(path.parent.name for path in FOLDER.glob("*/*.css")))
_IMPORT = re.compile(r'(?:\s|//.*\n)*import \{([\w\s,]+)\} from "([^"]+)";')
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)


def script(names: Iterable[str] = ALL) -> str:
    """Return the script with the modules of these components, each once.

    Raises:
        ValueError: if a module imports something that is not there.
    """
    modules: dict[Path, str] = {}
    for name in names:
        _collect(FOLDER / name / f"{name}.js", modules)
    return (FOLDER / "start.js").read_text("utf-8") + "".join(modules.values())


def style(names: Iterable[str] = ALL) -> str:
    """Return the style sheets of these components."""
    return "".join((FOLDER / name / f"{name}.css").read_text("utf-8") for name in names)


def _collect(path: Path, modules: dict[Path, str]) -> tuple[str, ...]:
    """Add a module and all that it imports; return the names that it exports."""
    if path == COMPONENT:
        return GIVEN
    imports, body = _read(path)
    exported = tuple(_EXPORT.findall(body))
    if path in modules:
        return exported
    modules[path] = ""  # a circle of imports ends here
    lines = []
    for names, source in imports:
        if missing := set(names) - set(_collect(source, modules)):
            raise ValueError(f"{path.name} imports {min(missing)}, which {source.name} does not export.")
        lines.append(f"const {{ {', '.join(names)} }} = use({_key(source)});\n")
    modules[path] = (
        f"marsDemo.modules[{_key(path)}] = (use) => {{\n{''.join(lines)}{_EXPORT.sub('', body)}"
        f"\nreturn {{ {', '.join(exported)} }};\n}};\n"
    )
    return exported


def _read(path: Path) -> tuple[list[tuple[list[str], Path]], str]:
    """Return the names that a module imports and from where, and the rest of it. Only its beginning is
    searched: further on, a text may look like an import.
    """
    text, at, imports = path.read_text("utf-8"), 0, []
    while found := _IMPORT.match(text, at):
        names = [name.strip() for name in found[1].split(",") if name.strip()]
        imports.append((names, (path.parent / found[2]).resolve()))
        at = found.end()
    return imports, text[at:]


def _key(path: Path) -> str:
    """Return the name of a module in the script."""
    return json.dumps(os.path.relpath(path, FOLDER))
