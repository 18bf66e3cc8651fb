"""The C++ programs of the benchmark (templates/bench), compiled on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.errors import CompilerError
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.targets import TARGETS

_TIMEOUT = 300.0
_FLAGS = ("-std=c++17", "-O2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """`library` runs model libraries, `calls` times C functions for Python, `limits` measure the machine by target."""

    library: Path
    calls: Path
    limits: dict[str, Path]


def compile_programs(compiler: Compiler, targets: Sequence[str], folder: Path) -> Programs:
    """Raises CompilerError."""
    sources = resources.templates() / "bench"

    def compiled(source: str, name: str, *flags: str | Path) -> Path:
        output = folder / name
        try:
            run([*compiler.command, *_FLAGS, *flags, sources / source, "-o", output, "-ldl"], timeout=_TIMEOUT)
        except CommandFailed as error:
            raise CompilerError(f"the benchmark's {source} does not compile ({error.reason}):\n{error.tail}") from error
        return output

    return Programs(
        library=compiled("library.cc", "library", "-I", resources.headers()),
        calls=compiled("calls.cc", "calls.so", "-shared", "-fPIC"),
        limits={name: compiled("limits.cc", f"limits-{name}", *TARGETS[name].flags) for name in targets},
    )
