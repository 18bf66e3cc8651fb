"""Python interpreters: what one is and has, asked without importing TensorFlow, and which one to use."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.toolchain.definition import Toolchain

_TIMEOUT = 60.0
_MINORS = range(20, 7, -1)  # newest first; the toolchain's range decides

# Run with -I: neither the current folder nor PYTHONPATH changes the answer, as in the worker processes.
_PROGRAM = """
import importlib.metadata, importlib.util, json, os, sys

def version():
    for name in ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-rocm"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return ""

spec = importlib.util.find_spec("tensorflow")
origin = spec.origin if spec and spec.origin else ""
print(json.dumps({
    "python": "%d.%d.%d" % sys.version_info[:3],
    "pip": bool(importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv")),
    "tensorflow": version() if origin else "",
    "site_packages": os.path.dirname(os.path.dirname(origin)) if origin else "",
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python that runs.

    `python` is its full version, `pip` says whether it can make virtual environments with pip in them, `tensorflow`
    and `site_packages` are the version and the folder of the TensorFlow in it, empty where there is none.
    """

    path: Path
    python: str
    pip: bool
    tensorflow: str
    site_packages: str

    @property
    def minor(self) -> str:
        """`3.11`."""
        return ".".join(self.python.split(".")[:2])

    def suits(self, toolchain: Toolchain) -> bool:
        return self.python in SpecifierSet(toolchain.python)


def inspect(path: Path) -> Interpreter:
    """Ask the Python at `path` (some 50 ms). Raises ToolchainError where it is none that works."""
    try:
        finished = run([path, "-I", "-c", _PROGRAM], timeout=_TIMEOUT)
        answer = json.loads(finished.stdout)
        return Interpreter(path=path, **answer)
    except (CommandFailed, ValueError, TypeError) as error:
        reason = error.reason if isinstance(error, CommandFailed) else "its answer makes no sense"
        raise ToolchainError(
            f"{path} is no working Python: {reason}", hint="name the python program itself, for example ENV/bin/python"
        ) from error


def choose(toolchain: Toolchain) -> Interpreter:
    """The Python to make `toolchain`'s environment with: the running one, else the newest suitable on the PATH.

    Raises ToolchainError where there is none, or where those that suit cannot make virtual environments.
    """
    suitable: list[Interpreter] = []
    for path in _candidates():
        try:
            interpreter = inspect(path)
        except ToolchainError:
            continue  # a broken one on the PATH, for example the shim of a version that is not active
        if not interpreter.suits(toolchain):
            continue
        if interpreter.pip:
            return interpreter
        suitable.append(interpreter)
    if suitable:
        raise no_venv(suitable[0])
    raise ToolchainError(
        f"TensorFlow {toolchain.version} needs Python {toolchain.python}, and none is on the PATH",
        hint="install such a Python, or name an interpreter that has TensorFlow already (--toolchain-python)",
    )


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    for name in [*(f"python3.{minor}" for minor in _MINORS), "python3"]:
        found = shutil.which(name)
        if found and not os.path.samefile(found, sys.executable):
            yield Path(found)


def no_venv(interpreter: Interpreter) -> ToolchainError:
    """The error for an interpreter that no environment can be made with."""
    return ToolchainError(
        f"{interpreter.path} (Python {interpreter.python}) cannot make virtual environments: no venv or no ensurepip",
        hint=f"on Debian and Ubuntu: apt install python3-venv (or python{interpreter.minor}-venv)",
    )
