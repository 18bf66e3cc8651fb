"""The code of the tool itself: the modules of each stage, and their digest (decision 031).

The code of a stage is its module and everything that this module imports, directly or indirectly. So a changed line in
that code changes the key of the stage, without a version number to raise by hand. No stage imports commands, the
nightly or the catalogue, so they change no key. Templates, headers, the kernel library and the worker program are not
modules: keys contain their digests separately (resources.py, frontends/frozen/model.py).
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import sha256_listing

_FOLDER = Path(__file__).resolve().parents[1]
_PACKAGE = "tfaot_pkg"
# Python does not record when it read a module, so a file counts as changed if it is newer than this process.
_STARTED = time.time_ns()
_PROGRAM = re.compile(r'"(tfaot_pkg(?:\.\w+)+)"')
"""A module that is run as a program: `python -m MODULE`. Imports do not show these."""
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n(]+)"
    r"|import[ \t]+(?P<alone>[^\n#]+))",
    re.MULTILINE,
)
_FOR_TYPES = re.compile(r"^([ \t]*)if TYPE_CHECKING:\n(?:\1[ \t]+[^\n]*\n|\n)+", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")


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


def is_changed() -> bool:
    """Whether a module of the tool was written since this process imported this one, or a file since its digest."""
    now = time.time_ns()
    written = (_STARTED < os.stat(file).st_mtime_ns <= now for file in _FOLDER.rglob("*.py"))
    return any(written) or resources.are_touched()


@cache
def _needs(name: str) -> frozenset[str]:
    """The modules that `name` needs. The package's own `__init__` only offers names to users, so it needs none."""
    file = _file(name)
    if file is None:
        raise ValueError(f"no module {name}")
    # Python runs it before every module; if it counted, each stage would contain the loader.
    if name == _PACKAGE:
        return frozenset()
    source = file.read_text(encoding="utf-8")
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    named = {one for one in {*imported(source, package), *_PROGRAM.findall(source)} if _file(one) is not None}
    return frozenset(named | {parent for one in {name, *named} for parent in _parents(one)})


def imported(source: str, package: str) -> Iterator[str]:
    """Modules of this tool that `source`, of a module in `package`, imports anywhere, and imported names.

    These may be modules, too. Imports for type checkers only do not run, and do not count.
    """
    # Python's own parser gives the same (tests/test_code.py), and would take most of the time of a plan.
    for found in _IMPORT.finditer(_FOR_TYPES.sub("", source)):
        if found["alone"]:
            yield from (each.split()[0] for each in found["alone"].split(",") if _is_ours(each.split()[0]))
            continue
        module, names = found["module"], _COMMENT.sub("", found["names"]).strip("() \n")
        # An import that is not followed would leave code out of a key without notice.
        if module.startswith("..") or module == ".":
            raise ValueError(f"{found[0].strip()}: only `from .module import name` is followed")
        if module.startswith("."):  # as in worker_program/messages
            module = f"{package}{module}"
        elif not _is_ours(module):
            continue
        yield module
        yield from (f"{module}.{each.split()[0]}" for each in names.split(",") if each.strip())


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
