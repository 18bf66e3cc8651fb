"""The modules that call a library, as a part of a Python package that needs NumPy alone.

They are this tool's own modules, copied: a wheel converts, rejects and composes batches as `tfaot_pkg.load` does. What
they import at their head comes along; what functions import does not, and is optional there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_TOOL = _ROOT.name
_EXAMPLE = "tfaot_model_digits"
"""The package in the docstrings of both modules."""
_MODULE, _PROGRAM = f"{_TOOL}.runtime.as_module", f"{_TOOL}.runtime.as_program"


def vendored(module: str) -> dict[str, str]:
    """The Python files of the package `module`, by their paths in it."""
    home = f"{module}._vendor.{_TOOL}"
    files = {"__init__.py": _MODULE, "__main__.py": _PROGRAM}
    found = {path: _renamed(_source(name), module, home).replace(_EXAMPLE, module) for path, name in files.items()}
    for name in _needed():
        if name not in files.values():
            found[_place(name)] = _renamed(_source(name), module, home)
    folders = {parent for path in found if "/" in path for parent in list(Path(path).parents)[:-1]}
    return {**{f"{folder.as_posix()}/__init__.py": "" for folder in folders}, **found, "py.typed": ""}


def _place(name: str) -> str:
    below = "/".join(name.split("."))
    return f"_vendor/{below}/__init__.py" if (_ROOT.parent / below).is_dir() else f"_vendor/{below}.py"


def _renamed(source: str, module: str, home: str) -> str:
    """`source` with its imports of the tool's modules leading into the package."""
    lines = source.splitlines(keepends=True)
    for line, name, _ in _imports(source):
        wanted = module if name == _MODULE else f"{home}{name.removeprefix(_TOOL)}"
        if name.startswith(f"{_TOOL}."):
            lines[line - 1] = lines[line - 1].replace(f"from {name} import", f"from {wanted} import", 1)
    return "".join(lines)


@cache
def _needed() -> tuple[str, ...]:
    found: set[str] = set()
    waiting = [_MODULE, _PROGRAM, f"{_TOOL}.runtime.model"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [each for _, each, at_head in _imports(_source(name), name) if at_head]
    return tuple(sorted(found))


def _imports(source: str, name: str = "") -> Iterator[tuple[int, str, bool]]:
    """The line and the module of each `from ... import` of the tool's modules, and whether it stands at the head.

    Without the module's own `name`, relative ones are left out.
    """
    tree = ast.parse(source)
    heads = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level == 0 and (node.module or "").split(".")[0] == _TOOL:
            yield node.lineno, str(node.module), id(node) in heads
        elif node.level == 1 and name and node.module:
            yield node.lineno, f"{name.rpartition('.')[0]}.{node.module}", id(node) in heads


def _source(name: str) -> str:
    below = _ROOT.parent.joinpath(*name.split("."))
    return (below / "__init__.py" if below.is_dir() else below.with_suffix(".py")).read_text(encoding="utf-8")
