"""The runtime of libraries alone (templates/native/runtime.cc): calls that end early, signals, forks, many threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.native.conftest import HERE
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.binary.elf import undefined_symbols
from tfaot_pkg.package.binary.findings import CPP_SYMBOLS, OBJECT

CASES = ("left", "nested", "many", "forked", "variables", "constants")
NATIVE = resources.templates() / "native"
FLAGS = (
    "-std=c++17",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-exceptions",
    "-fno-rtti",
    "-pthread",
    *(f"-I{folder}" for folder in (NATIVE, NATIVE / "thunks", NATIVE / "absl")),
    "-D__dso_handle=library_handle",  # programs have one of their own
)


COMPILERS = ("g++", "clang++", "aarch64-linux-gnu-g++", "clang++ --target=aarch64-linux-gnu")
ARM = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
# QEMU 7.2 itself fails in the child of a process with threads.
RUNS = [(compiler, case) for compiler in COMPILERS for case in CASES if "aarch64" not in compiler or case != "forked"]


@pytest.fixture(scope="module")
def guarded(
    require_program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[str | Path]]:
    """The program cpp/guarded.cpp, linked with the runtime by a compiler, as it is started on this machine."""

    @cache
    def program(words: str) -> list[str | Path]:
        compiler, *options = words.split()
        output = tmp_path_factory.mktemp("guarded") / "guarded"
        sources = (HERE / "cpp" / "guarded.cpp", NATIVE / "runtime.cc")
        run([require_program(compiler), *options, *FLAGS, *sources, "-o", output])
        if "aarch64" not in words:
            return [output]
        require_program("aarch64-linux-gnu-g++")  # whose C library the program runs with
        return [require_program(ARM[0]), *ARM[1:], output]

    return program


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "case"), RUNS)
def test_guarded_calls(guarded: Callable[[str], list[str | Path]], compiler: str, case: str) -> None:
    """Each case is explained in cpp/guarded.cpp."""
    run([*guarded(compiler), case])


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["aarch64-linux-gnu-g++", "clang++ --target=aarch64-linux-gnu"])
def test_the_runtime_for_aarch64_needs_what_libraries_may_need(
    compiler: str, require_program: Callable[[str], str], tmp_path: Path
) -> None:
    program, *options = compiler.split()
    require_program("aarch64-linux-gnu-g++")
    run(
        [
            require_program(program),
            *options,
            *FLAGS,
            "-fPIC",
            "-mno-outline-atomics",
            "-c",
            NATIVE / "runtime.cc",
            "-o",
            tmp_path / "runtime.o",
        ]
    )
    assert undefined_symbols(tmp_path / "runtime.o") - {"library_handle"} <= OBJECT | CPP_SYMBOLS


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", ["cpu.cc", "library.cc", "runtime.cc", "state.cc", "thread_pool.cc"])
def test_no_compiler_warns_of_the_librarys_own_code(
    require_program: Callable[[str], str], compiler: str, source: str
) -> None:
    """Builds do not stop at warnings, because nobody knows those of all compilers."""
    command = compiler.split()
    require_program(command[0])
    includes = [f"-I{resources.headers()}", f"-I{resources.kernels() / 'include'}"]
    run([*command, *FLAGS, *includes, "-fsyntax-only", NATIVE / source])
