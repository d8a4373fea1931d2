"""The bundler of the components: one script of all JavaScript modules, and one style sheet.

A module begins with its imports, all of the form `import { a, b } from "./other.js";`, and has each
`export` at the start of a line. The file `COMPONENT` does not exist: it stands for the arguments that
Gradio passes to a component's script, and for the constants from Python.
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
        ValueError: if a module imports a name that is not exported.
    """
    modules: dict[Path, str] = {}
    for name in names:
        _collect(FOLDER / name / f"{name}.js", modules)
    return (FOLDER / "start.js").read_text("utf-8") + "".join(modules.values())


def style(names: Iterable[str] = ALL) -> str:
    """Return the style sheets of these components."""
    return "".join((FOLDER / name / f"{name}.css").read_text("utf-8") for name in names)


def _collect(path: Path, modules: dict[Path, str]) -> tuple[str, ...]:
    """Add a module and its imports, recursively; return the names that it exports."""
    if path == COMPONENT:
        return GIVEN
    imports, body = _read(path)
    exported = tuple(_EXPORT.findall(body))
    if path in modules:
        return exported
    modules[path] = ""  # ends a cycle of imports
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
    """Return a module's imports, each as names and a file, and the rest of its text.

    Imports are read at the beginning only: later on, a string may look like one.
    """
    text, at, imports = path.read_text("utf-8"), 0, []
    while match := _IMPORT.match(text, at):
        names = [name.strip() for name in match[1].split(",") if name.strip()]
        imports.append((names, (path.parent / match[2]).resolve()))
        at = match.end()
    return imports, text[at:]


def _key(path: Path) -> str:
    """Return the key of a module in the script, as JSON."""
    return json.dumps(os.path.relpath(path, FOLDER))
