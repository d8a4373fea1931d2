"""A sandbox that runs Python definitions of data in a child process with limits.

Only definitions of data run: a check rejects any statement, name or call that no dataclass, dictionary or
list needs. The child has one second of CPU time, little memory, and cannot open files or start processes.
"""

import ast
import builtins
import functools
import subprocess
import sys

SECONDS = 300  # long, so that a busy machine does not change a grade; the child has one second of CPU time
NODES = (
    ast.Module, ast.ClassDef, ast.ImportFrom, ast.alias, ast.Assign, ast.AnnAssign, ast.Pass, ast.Expr,
    ast.Name, ast.Load, ast.Store, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp,
    ast.USub, ast.Subscript, ast.Call, ast.keyword,
)  # fmt: skip
TYPES = {"str", "int", "float", "bool", "list", "dict", "tuple", "set"}
CALLS = {"dataclass", "field", "dict", "list", "tuple", "set"}
IMPORTS = {"dataclasses": {"dataclass", "field"}, "typing": {"Any", "Dict", "List", "Optional", "Tuple"}}
CHILD = """
import contextlib, dataclasses, resource, sys, typing

source, name = sys.stdin.read().split("\\0")
for limit, most in (
    (resource.RLIMIT_CPU, 1),
    (resource.RLIMIT_AS, 1 << 29),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_NOFILE, 3),
    (resource.RLIMIT_NPROC, 0),
):
    with contextlib.suppress(ValueError, OSError):  # a system may lack one
        resource.setrlimit(limit, (most, most))
sys.modules["answer"] = type(sys)("answer")  # dataclasses look up the module of a class
scope = {"__name__": "answer"}
exec(compile(source, "answer", "exec"), scope)
value = scope[name]
if isinstance(value, type):
    value = [
        (field.name, field.type, None if field.default is dataclasses.MISSING else (field.default,))
        for field in dataclasses.fields(value)
    ]
print(repr(value), end="")
"""


@functools.lru_cache(maxsize=256)
def evaluated(code: str, name: str) -> str | None:
    """Return the value of `name` in `code` (the fields of a dataclass), or None if it is rejected."""
    if not _is_data(code):
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
    return child.stdout or None if child.returncode == 0 else None


def _is_data(code: str) -> bool:
    """Return whether code has only allowed imports and definitions of data."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(isinstance(node, NODES) and _is_harmless(node) for node in nodes)


def _is_harmless(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(module=module, names=names):
            allowed = IMPORTS.get(module, set())
            return all(alias.name in allowed and alias.asname is None for alias in names)
        case ast.Call(func=function):
            return isinstance(function, ast.Name) and function.id in CALLS
        case ast.Name(id=name, ctx=ast.Load()):
            return name in TYPES | CALLS or not (name.startswith("_") or hasattr(builtins, name))
        case ast.Name(id=name) | ast.ClassDef(name=name):
            return name not in CALLS and not hasattr(builtins, name)
    return True
