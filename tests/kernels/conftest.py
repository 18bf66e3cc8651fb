"""The kernel library for every target that this machine can run, itself or by an emulator."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.library import REPOSITORY, Kernels, compile_library, compile_server
from tests.kernels.machines import Elsewhere, Here, Machine
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.targets import TARGETS, lowest, runs_here

FOLDER = REPOSITORY / "build" / "kernels"
READY = os.environ.get("TFAOT_TEST_KERNELS")  # a library that the caller has built otherwise, for one target
RUNNABLE = [lowest("x86_64")] if READY else [target for target in TARGETS.values() if runs_here(target)]

AARCH64 = TARGETS["aarch64"]
CPU = "cortex-a53"  # has what the target's flags ask for, and no more
# Compilers for the target by the names of what the tests run; Clang takes headers and linker from GCC's packages.
COMPILERS = {
    "aarch64": ("aarch64-linux-gnu-g++",),
    "aarch64-clang": ("clang++", "--target=aarch64-linux-gnu"),
}
EMULATED = () if READY or AARCH64 in RUNNABLE else tuple(COMPILERS)

Server = Callable[[str], Sequence[str | Path]]


@pytest.fixture(scope="session")
def server(require_program: Callable[[str], str]) -> Server:
    """`server("aarch64")`: the command that runs server.cpp under an emulator."""

    def command(name: str) -> Sequence[str | Path]:
        emulator = require_program("qemu-aarch64")
        compiler, *more = COMPILERS[name]
        for program in (compiler, "aarch64-linux-gnu-g++"):
            require_program(program)
        return [emulator, "-cpu", CPU, compile_server(FOLDER, AARCH64, compiler=compiler, more=more)]

    return command


AVX512 = "x86-64-v4-emulated"  # only if TFAOT_TEST_AVX512 asks for it, and then alone
_NAMES = [AVX512] if "TFAOT_TEST_AVX512" in os.environ else [*(target.name for target in RUNNABLE), *EMULATED]
_DAILY = ("x86-64-v3", "aarch64", AVX512)
_BEFORE_RELEASES = ("aarch64-clang",)


def _of(name: str) -> Any:
    """The parameter of the fixture, with when it is tried."""
    if name in _DAILY:
        return name
    return pytest.param(name, marks=pytest.mark.release if name in _BEFORE_RELEASES else pytest.mark.nightly)


@pytest.fixture(
    scope="session",
    params=[_of(name) for name in _NAMES],
)
def kernels(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernels]:
    """The kernels of one target, by the system's C++ compiler if nothing else is said. Arrays end at a forbidden page."""
    name: str = request.param
    if name == AVX512:
        with recorded(tmp_path_factory.mktemp("avx512")) as machine:
            yield Kernels(machine)
    elif name in EMULATED:
        with Elsewhere(server(name)) as machine:
            yield Kernels(machine)
    else:
        yield Kernels(Here(Path(READY) if READY else compile_library(FOLDER, TARGETS[name], compiler="c++")))


@contextmanager
def recorded(folder: Path) -> Iterator[Machine]:
    """The kernels for x86-64-v3; then those for x86-64-v4 must give the same bits for all commands, on an emulated CPU."""
    known, tried = (compile_server(FOLDER, TARGETS[name], compiler="c++") for name in ("x86-64-v3", "x86-64-v4"))
    commands, answers, found = (folder / name for name in ("commands", "answers", "found"))
    with Elsewhere(["bash", "-c", 'tee "$1" | "$2" | tee "$3"', "-", commands, known, answers]) as machine:
        yield machine
    wanted = np.fromfile(answers, np.float32)
    answers.unlink()  # the emulated machine does not need it
    program = shutil.copy(tried, folder / "program")
    emulator = REPOSITORY / "tools" / "avx512" / "run.py"
    run([sys.executable, emulator, "--batch", folder], stdin=f"{commands}\t{found}\t{program}\n".encode(), timeout=7200)
    given = np.fromfile(found, np.float32)
    # Sizes and addresses are answers, too, as two numbers each. Signs of NaN are not promised.
    same = (given.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(given) & np.isnan(wanted))
    assert same.all(), f"{np.count_nonzero(~same)} of {same.size} numbers differ"


@pytest.fixture(scope="session")
def sixteen() -> Kernels:
    """The blocks of x86-64-v4, of vectors of 16 floats, with the instructions of x86-64-v3."""
    target = TARGETS["x86-64-v3"]
    if READY or target not in RUNNABLE:
        pytest.skip("this machine, or the library that is given, is another one")
    more = ("-DTFAOT_KERNELS_SIXTEEN", "-Wno-psabi")
    return Kernels(Here(compile_library(FOLDER, target, compiler="c++", more=more)))


@pytest.fixture(scope="session")
def tiled() -> Kernels:
    """The kernels for x86-64-v4 on a CPU with AMX, which this process may use from now on."""
    target = TARGETS["x86-64-v4"]
    if READY or target not in RUNNABLE:
        pytest.skip("this machine, or the library that is given, is another one")
    kernels = Kernels(Here(compile_library(FOLDER, target, compiler="c++")))
    if not kernels.may_use_tiles():
        pytest.skip("this CPU has no AMX, or Linux does not permit it")
    return kernels
