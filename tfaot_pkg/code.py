"""The code of the tool itself: which of its modules make a stage, and their digest.

A stage is made by its module and by everything that this module imports, directly or not. So a changed line anywhere in
that code changes the key of the stage, and nobody has to remember to raise a number. Commands, the nightly and the
catalogue are imported by no stage and change no key. Templates, headers, the kernel library and the worker program are
no modules: keys hold their digests apart (resources.py, frozen/model.py).
"""

from __future__ import annotations

import ast
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.errors import StorageError
from tfaot_pkg.keys import sha256_listing

_FOLDER = Path(__file__).resolve().parent
_PACKAGE = "tfaot_pkg"
_STARTED = time.time_ns()
_PROGRAM = re.compile(rb'"(tfaot_pkg(?:\.\w+)+)"')
"""A module that is run as a program of its own: `python -m MODULE`."""


@cache
def code_digest(*modules: str) -> str:
    """SHA-256 of the source of `modules` and of all modules of this package that they import. Taken once."""
    files = {name: _file(name) for name in modules_of(*modules)}
    for name, file in files.items():
        if file is not None:
            _require_as_loaded(name, file)
    return sha256_listing({name: resources.digest(file) for name, file in files.items() if file is not None})


@cache
def modules_of(*modules: str) -> frozenset[str]:
    """`modules`, what they import from this package or run as programs, and so on: names with dots."""
    found: set[str] = set()
    waiting = [*modules]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _needs(name)
    return frozenset(found)


def _require_as_loaded(name: str, file: Path) -> None:
    """Raise StorageError if the code in `file` is not the code that runs: it was written after that was loaded."""
    if name in sys.modules and _STARTED < os.stat(file).st_mtime_ns <= time.time_ns():
        raise StorageError(
            f"a part of tfaot-pkg itself was changed while it ran: {file}",
            hint="repeat the command; nothing that was made with it was kept",
        )


@cache
def _needs(name: str) -> frozenset[str]:
    """The modules that run because `name` does. The package's own `__init__` offers names to users only."""
    file = _file(name)
    if file is None:
        raise ValueError(f"no module {name}")
    if name == _PACKAGE:
        return frozenset()
    source = file.read_bytes()
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    imported = set(_imported(ast.parse(source, filename=str(file)).body, package))
    programs = {match[1].decode() for match in _PROGRAM.finditer(source)}
    named = {one for one in imported | programs if _file(one) is not None}
    return frozenset(named | {parent for one in {name, *named} for parent in _parents(one)})


def _imported(statements: Iterable[ast.stmt], package: str) -> Iterator[str]:
    """What `statements` of a module in `package`, and those inside of them, import from this tool.

    Modules, and names that may be modules.
    """
    for statement in statements:
        match statement:
            case ast.ImportFrom(module=module, names=names, level=0) if module and _is_ours(module):
                yield module
                yield from (f"{module}.{each.name}" for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=1):  # as in worker_program/messages
                yield f"{package}.{module}"
                yield from (f"{package}.{module}.{each.name}" for each in names)
            case ast.ImportFrom(level=level) if level > 0:
                raise ValueError(f"line {statement.lineno}: only `from .module import name` is followed")
            case ast.Import(names=names):
                yield from (each.name for each in names if _is_ours(each.name))
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=otherwise):
                yield from _imported(otherwise, package)
            case _:
                yield from _imported(_inside(statement), package)


def _inside(statement: ast.stmt) -> Iterator[ast.stmt]:
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(statement, field, ()):
            if isinstance(each, ast.stmt):
                yield each
            else:  # a handler of exceptions, a case of a match
                yield from each.body


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


def _parents(name: str) -> Iterator[str]:
    """The packages that Python imports before `name`."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


@cache
def _file(name: str) -> Path | None:
    """The source of a module of this package; None if there is no such module."""
    place = _FOLDER.joinpath(*name.split(".")[1:])
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)
