"""What a Python needs to read to run: its standard library, its packages, the libraries that it is linked with."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.sandbox.root import is_narrow

_TIMEOUT = 60.0

# The libraries that these modules need tell where those of a Python lie that has its own.
_PROGRAM = """
import os, sys
for name in ("ctypes", "zlib", "bz2", "lzma", "hashlib"):
    try:
        __import__(name)
    except ImportError:
        pass
with open("/proc/self/maps") as maps:
    mapped = {line.split(None, 5)[5].rstrip("\\n") for line in maps if "/" in line}
base = getattr(sys, "_base_executable", "") or sys.executable
prefixes = [sys.prefix, sys.base_prefix]
found = [sys.executable, base] + [os.path.join(prefix, "pyvenv.cfg") for prefix in prefixes]
found += [os.path.join(prefix, library) for prefix in prefixes for library in ("lib", "lib64")]
found += sorted({os.path.dirname(path) for path in mapped if ".so" in path})
"""
_ANSWER = """
import json
print(json.dumps(found + sys.path))
"""

PACKAGE = Path(__file__).resolve().parents[1]
"""This package."""


def file_of(module: str) -> Path:
    """The source of a module of this package."""
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


@cache
def own_sites() -> tuple[Path, ...]:
    """The folders that what this package needs at run time is imported from, wherever they are."""
    specs = map(importlib.util.find_spec, ("numpy", "packaging"))
    return tuple({Path(spec.origin).parents[1]: None for spec in specs if spec is not None and spec.origin})


@cache
def readable_of(python: Path) -> tuple[Path, ...]:
    """The files and folders that the interpreter `python` reads; asked of it (some 30 ms) once per process.

    Raises ToolchainError if it does not run.
    """
    try:
        answer = json.loads(run([python, "-I", "-B", "-c", _PROGRAM + _ANSWER], timeout=_TIMEOUT).stdout)
        return _shown([python, *map(Path, answer)])
    except (CommandFailed, ValueError, TypeError) as error:
        raise ToolchainError(
            f"{python} is no working Python: {error}", hint="name the python program itself, for example ENV/bin/python"
        ) from error


@cache
def own_readable() -> tuple[Path, ...]:
    """What the Python that runs here reads, with this package and what it imports."""
    namespace: dict[str, Any] = {}
    exec(_PROGRAM, namespace)  # noqa: S102 (the text above)
    return _shown([*map(Path, namespace["found"]), PACKAGE, *own_sites()])


def _shown(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for path in paths if path.exists() and is_narrow(path)))
