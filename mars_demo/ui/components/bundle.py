"""JavaScript modules made one script.

Gradio runs a component's script as a function, where no `import` works. A module begins with its imports,
`import { a, b } from "./other.js";` and nothing else, and marks what it gives with `export` at the start of
a line. The file named `COMPONENT` exists nowhere: it stands for what Gradio hands to the script of each
component, and for the constants that Python has given it.
"""

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

COMPONENT = Path(__file__).resolve().parent / "component.js"
GIVEN = ("element", "props", "constants", "watch", "trigger", "server")
_IMPORT = re.compile(r'(?:\s|//.*\n)*import \{([\w\s,]+)\} from "([^"]+)";')
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)


def bundle(entry: Path, constants: Any = None) -> str:
    """The script that runs a module after all that it imports, each once. `constants` are JSON.

    Raises:
        ValueError: if modules import each other in a circle, or something that is not there.
    """
    return f"const constants = {json.dumps(constants)};\n{_bundled(entry.resolve())}"


@cache
def _bundled(entry: Path) -> str:
    given = f"const modules = {{ [{_key(COMPONENT)}]: {{ {', '.join(GIVEN)} }} }};\n"
    return given + "".join(_sources(entry, {COMPONENT: GIVEN}, ()))


def _sources(path: Path, done: dict[Path, tuple[str, ...]], above: tuple[Path, ...]) -> Iterator[str]:
    """A module's source and, first, those of its imports. `done` has the names that each module gives."""
    if path in done:
        return
    if path in above:
        circle = " → ".join(module.name for module in (*above[above.index(path) :], path))
        raise ValueError(f"These modules import each other in a circle: {circle}.")
    if not path.is_file():
        raise ValueError(f"{above[-1].name} imports {path.name}, which does not exist.")
    imports, body = _read(path)
    lines = []
    for names, source in imports:
        yield from _sources(source, done, (*above, path))
        if missing := [name for name in names if name not in done[source]]:
            raise ValueError(f"{path.name} imports {missing[0]}, which {source.name} does not export.")
        lines.append(f"const {{ {', '.join(names)} }} = modules[{_key(source)}];")
    done[path] = tuple(_EXPORT.findall(body))
    yield "\n".join(
        [
            f"modules[{_key(path)}] = (() => {{",
            *lines,
            _EXPORT.sub("", body),
            f"return {{ {', '.join(done[path])} }};",
            "})();\n",
        ]
    )


def _read(path: Path) -> tuple[list[tuple[list[str], Path]], str]:
    """The names that a module imports and from where, and the rest of it. Only its beginning is searched:
    further on, a text may look like an import.
    """
    text, at, imports = path.read_text("utf-8"), 0, []
    while found := _IMPORT.match(text, at):
        names = [name.strip() for name in found[1].split(",") if name.strip()]
        imports.append((names, (path.parent / found[2]).resolve()))
        at = found.end()
    return imports, text[at:]


def _key(path: Path) -> str:
    """What a module is called in the script."""
    return json.dumps(os.path.relpath(path, COMPONENT.parent))
