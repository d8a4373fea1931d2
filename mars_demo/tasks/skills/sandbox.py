"""What a piece of Python defines, found out by running it in a child process with limits.

Only definitions are run: statements, names and calls that no dataclass, dictionary or list needs are
rejected before. The child has no files to write, little memory and one second.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys

SECONDS = 10  # to wait for a child, which has one second of its own
ALLOWED = (
    ast.Module, ast.ClassDef, ast.ImportFrom, ast.alias, ast.Assign, ast.AnnAssign, ast.Pass, ast.Expr,
    ast.Name, ast.Load, ast.Store, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp,
    ast.USub, ast.Subscript, ast.Call, ast.keyword,
)  # fmt: skip
CALLS = {"dataclass", "field", "dict", "list", "tuple"}
MODULES = {"dataclasses", "typing"}
CHILD = """
import dataclasses, resource, sys
source, name = sys.stdin.read().split("\\0")
for limit, most in (
    (resource.RLIMIT_CPU, 1), (resource.RLIMIT_AS, 1 << 29), (resource.RLIMIT_FSIZE, 1 << 16),
    (resource.RLIMIT_NOFILE, 16), (resource.RLIMIT_NPROC, 0),
):
    resource.setrlimit(limit, (most, most))
scope = {"__name__": "answer"}
sys.modules["answer"] = type(sys)("answer")
exec(compile(source, "answer", "exec"), scope)
found = scope[name]
if isinstance(found, type):
    found = [(f.name, getattr(f.type, "__name__", f.type), f.default) for f in dataclasses.fields(found)]
    found = [(name, kind, None if default is dataclasses.MISSING else (default,)) for name, kind, default in found]
print(repr(found), end="")
"""


@functools.lru_cache(maxsize=256)
def evaluated(code: str, name: str) -> str | None:
    """Return what `code` defines as `name` (of a dataclass its fields), or None if it is not such code."""
    if not _is_definition(code):
        return None
    try:
        child = subprocess.run(
            [sys.executable, "-I", "-S", "-c", CHILD],
            input=f"{code}\0{name}",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={},
        )
    except (subprocess.TimeoutExpired, UnicodeError):
        return None
    return child.stdout if child.returncode == 0 else None


def _is_definition(code: str) -> bool:
    """Whether code consists of nothing but imports of known modules and definitions of data."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in nodes:
        if not isinstance(node, ALLOWED) or "\0" in code:
            return False
        if isinstance(node, ast.ImportFrom) and node.module not in MODULES:
            return False
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in CALLS):
            return False
        if isinstance(node, ast.Name) and node.id.startswith("_"):
            return False
    return True
