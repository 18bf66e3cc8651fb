"""The code of the tool itself: the modules of each stage, and their digest (decision 031).

The code of a stage is its module and everything that this module imports, directly or indirectly. So a changed line in
that code changes the key of the stage, without a version number to raise by hand. No stage imports commands, the
nightly or the catalogue, so they change no key. Templates, headers, the kernel library and the worker program are not
modules: keys contain their digests separately (resources.py, frozen/model.py).
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
# Python does not record when it read a module, so a file counts as changed if it is newer than this process.
_STARTED = time.time_ns()
_PROGRAM = re.compile(rb'"(tfaot_pkg(?:\.\w+)+)"')
"""A module that is run as a program: `python -m MODULE`. Imports do not show these."""


@cache
def code_digest(*modules: str) -> str:
    """SHA-256 of the source of `modules` and of all modules of this package that they import. Computed once."""
    files = {name: _file(name) for name in modules_of(*modules)}
    for name, file in files.items():
        if file is not None:
            _require_as_loaded(name, file)
    return sha256_listing({name: resources.digest(file) for name, file in files.items() if file is not None})


@cache
def modules_of(*modules: str) -> frozenset[str]:
    """The dotted names of `modules` and of all modules that they import or run as programs, directly or indirectly."""
    found: set[str] = set()
    waiting = [*modules]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _needs(name)
    return frozenset(found)


def _require_as_loaded(name: str, file: Path) -> None:
    """Raise StorageError if `file` was written after this process loaded it: other code runs than the file has."""
    # A time in the future comes from a wrong clock, not from a change.
    if name in sys.modules and _STARTED < os.stat(file).st_mtime_ns <= time.time_ns():
        raise StorageError(
            f"a part of tfaot-pkg itself was changed while it ran: {file}",
            hint="repeat the command; no result was kept",
        )


@cache
def _needs(name: str) -> frozenset[str]:
    """The modules that `name` needs. The package's own `__init__` only offers names to users, so it needs none."""
    file = _file(name)
    if file is None:
        raise ValueError(f"no module {name}")
    # Python runs it before every module; if it counted, each stage would contain the loader.
    if name == _PACKAGE:
        return frozenset()
    source = file.read_bytes()
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    imported = set(_imported(ast.parse(source, filename=str(file)).body, package))
    programs = {match[1].decode() for match in _PROGRAM.finditer(source)}
    named = {one for one in imported | programs if _file(one) is not None}
    return frozenset(named | {parent for one in {name, *named} for parent in _parents(one)})


def _imported(statements: Iterable[ast.stmt], package: str) -> Iterator[str]:
    """Modules of this tool that `statements` of a module in `package` import, at any depth.

    Also imported names, which may be modules.
    """
    for statement in statements:
        match statement:
            case ast.ImportFrom(module=module, names=names, level=0) if module and _is_ours(module):
                yield module
                yield from (f"{module}.{each.name}" for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=1):  # as in worker_program/messages
                yield f"{package}.{module}"
                yield from (f"{package}.{module}.{each.name}" for each in names)
            # An import that is not followed would leave code out of a key without notice.
            case ast.ImportFrom(level=level) if level > 0:
                raise ValueError(f"line {statement.lineno}: only `from .module import name` is followed")
            case ast.Import(names=names):
                yield from (each.name for each in names if _is_ours(each.name))
            # Imports for type checkers only do not run.
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
