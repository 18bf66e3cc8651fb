"""The programs `NAME_test` and `NAME_benchmark` of a package: linked with the static library, for all CPUs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.cache import BuildCache
from tfaot_pkg.code import code_digest
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.keys import Key, key_of
from tfaot_pkg.native.library import NativeLibrary, together
from tfaot_pkg.progress import Progress
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS, lowest

STAGE = "tools"
_TOOLS = ("test", "benchmark")
_WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def tools_key(native: Key) -> Key:
    sources = resources.digest(resources.templates() / "tools")
    return key_of(STAGE, code_digest(__name__), {"native": native, "sources": sources})


def build_tools(
    spec: ModelSpec, library: NativeLibrary, *, key: Key, compiler: Compiler, cache: BuildCache, progress: Progress
) -> tuple[Path, ...]:
    """The programs, from the cache where they are there; none where the spec does not ask for them.

    Raises CompilerError, StorageError.
    """
    if not spec.package.tools:
        return ()
    names = {tool: f"{spec.model.name}_{tool}" for tool in _TOOLS}
    with progress.step("tools", total=len(names), unit="programs") as step:
        if cache.has(STAGE, key):
            step.skip("cached")

        def make(folder: Path) -> None:
            together([partial(_program, spec, library, compiler, tool, folder / names[tool]) for tool in _TOOLS])

        folder = cache.get_or_make(STAGE, key, make)
    return tuple(folder / name for name in names.values())


def _program(spec: ModelSpec, library: NativeLibrary, compiler: Compiler, tool: str, output: Path) -> Path:
    code = output.with_name(f"{tool}.o")
    architecture = TARGETS[spec.compilation.targets[0]].architecture
    flags = [*lowest(architecture).flags, *_WARNINGS, f"-DTFAOT_MODEL_SYMBOL={library.symbol}"]
    flags.append(f'-DTFAOT_PACKAGE="{library.name}"')
    sources = resources.templates() / "tools"
    compiler.compile(
        sources / f"{tool}.cc", code, flags=[*flags, "-I", sources, "-I", resources.headers()], folder=output.parent
    )
    compiler.link_program([code, library.static], output)
    code.unlink()
    return output
