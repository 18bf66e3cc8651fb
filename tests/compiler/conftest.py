"""Networks as programs, and code of programs that runs."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.guarded import guarded
from tests.kept import REPOSITORY, kept
from tfaot_pkg.analysis.program import hlo
from tfaot_pkg.compiler.chains import Step
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.emit import Emitted, emit, loops_of
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.instructions import Call
from tfaot_pkg.compiler.loops import Block, Loops, Nest, Node
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program
from tfaot_pkg.compiler.rows import RowsLoop
from tfaot_pkg.compiler.tiles import TiledLoop
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.toolchain.definition import NO_CONTRACTION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.keys import files_below, sha256_bytes, sha256_file, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.messages.graph import Frozen
from tfaot_pkg.worker_program.messages.wire import decoded

MAKER = REPOSITORY / "tests" / "models" / "networks.py"
WORKER_PROGRAM = REPOSITORY / "tfaot_pkg" / "worker_program"
KERNELS = REPOSITORY / "recipes" / "tfaot-kernels" / "all"
FLAGS = (
    f"-O1 {NO_CONTRACTION} -std=c++17 -fPIC -Wall -Wextra -Werror -march=x86-64-v3 -fno-exceptions -fno-rtti".split()
)
HEADERS = (
    "arithmetic.h", "elementwise.h", "kernels_64_bit.h", "longrows.h", "order.h", "reachable_functions.h", "rows.h", "tiles.h",
    "trees.h",
)  # fmt: skip
INCLUDES = (f"-I{KERNELS / 'include'}", f"-I{KERNELS / 'src'}")


@dataclass(frozen=True, kw_only=True)
class Network:
    """A program as it was imported, inputs of 17 rows, and TensorFlow's outputs for them. `model` is the SavedModel."""

    model: Path
    program: Program
    inputs: Sequence[Array]
    outputs: Sequence[Array]


Networks = Callable[[str, str], Network]


def nests(program: Program) -> list[Loops]:
    """The loops over elements that the compiler makes of a program, in their order, with those in blocks."""
    return [*nests_in(loops_of(program).nodes)]


def nests_in(nodes: Iterable[Node]) -> Iterator[Loops]:
    for node in nodes:
        if isinstance(node, Nest):
            yield node.loops
        elif isinstance(node, Block):
            yield from nests_in(node.nodes)


def called_by(program: Program) -> list[str]:
    """The functions of the kernel library that the program's code calls outside of loops over elements, in their order."""
    return [*_called_in(loops_of(program).nodes)]


def _called_in(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Call):
            yield node.function
        elif isinstance(node, Block):
            yield from _called_in(node.nodes)


def opcodes_in(loops: Loops) -> list[str]:
    """What a loop computes for each element."""
    assert isinstance(loops, EachLoop | RowsLoop | TiledLoop | Step)
    return [each.operation.opcode for each in loops.inner.statements]


@pytest.fixture(scope="session")
def networks(shared_home_folder: Path) -> Networks:
    """`networks("2.17.1", "lstm")`: of tests/models/networks.py, as a toolchain lists it."""

    def network(version: str, name: str) -> Network:
        folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
        python = ensure(version, folders=folders, progress=Silent()).python
        worker = sha256_tree(WORKER_PROGRAM, [path for path in files_below(WORKER_PROGRAM) if path.suffix == ".py"])
        parts = {"maker": sha256_file(MAKER), "python": str(python), "worker": worker, "name": name}
        folder = kept(
            shared_home_folder,
            "networks",
            parts,
            lambda made: run([python, "-I", MAKER, made, WORKER_PROGRAM, name], timeout=900),
        )
        return read_network(folder)

    return network


def read_network(folder: Path) -> Network:
    frozen = decoded(Frozen, json.loads((folder / "frozen.json").read_text()), "frozen.json")
    program = import_program(hlo.read_program(frozen.hlo.modules), len(frozen.model.inputs), constants_of(folder))
    verify(program)
    answers = np.load(folder / "answers.npz")
    return Network(
        model=folder / "model",
        program=program,
        inputs=[answers[f"in_{tensor.name}"] for tensor in frozen.model.inputs],
        outputs=[answers[f"out_{tensor.name}"] for tensor in frozen.model.outputs],
    )


def constants_of(folder: Path) -> list[Array]:
    constants = []
    with (folder / "weights.bin").open("rb") as file:
        while file.peek(1):
            constants.append(np.load(file, allow_pickle=False))
    return constants


_PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, _PART, ctypes.c_void_p)


class _Team(ctypes.Structure):
    """tfaot_kernels::Team."""

    _fields_ = (("size", ctypes.c_size_t), ("run", _RUN))


@dataclass(frozen=True, kw_only=True)
class Team:
    """A team of so many threads, which computes parts one by one, the last one first, each in guarded memory.

    `parts` are the numbers of parts of the layers that it computed.
    """

    size: int
    parts: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Code:
    """A compiled program. All memory of its calls is guarded."""

    program: Program
    function: Any
    weights: Array
    scratch: int
    member_scratch: int | None

    @staticmethod
    def of(program: Program, emitted: Emitted, function: Any) -> Code:
        size = max([offset + values.nbytes for offset, values in emitted.constants], default=0)
        weights = guarded(size, alignment=_ALIGNED, is_last=True, fill=0)
        for offset, values in emitted.constants:
            weights[offset:][: values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
        return Code(
            program=program, function=function, weights=weights, scratch=emitted.scratch,
            member_scratch=emitted.member_scratch,
        )  # fmt: skip

    def __call__(self, *inputs: Array) -> list[Array]:
        """The outputs for inputs of any number of rows."""
        return self.at_sizes([], *inputs)

    def at_sizes(self, sizes: Sequence[int], *inputs: Array, team: Team | None = None) -> list[Array]:
        """The same, with the sizes of the program's symbols, and by a team.

        Two calls: arrays end at a guard in one, and begin at one in the other.
        """
        first, second = (self._called(sizes, inputs, is_last=is_last, team=team) for is_last in (True, False))
        for one, other in zip(first, second, strict=True):
            assert one.tobytes() == other.tobytes(), "answers depend on addresses, or on memory that was not written"
        return first

    def _called(
        self, sizes: Sequence[int], inputs: Sequence[Array], *, is_last: bool, team: Team | None
    ) -> list[Array]:
        rows = len(inputs[0])
        symbols = {symbol.name: size for symbol, size in zip(self.program.symbols, sizes, strict=True)}
        known = self.program.entry.by_id()
        shapes = [known[result].shape for result in self.program.entry.results]
        outputs = [_guarded(shape.at(rows, symbols), NUMPY_TYPES[shape.dtype], is_last=is_last) for shape in shapes]
        given = [_guarded(each.shape, each.dtype, is_last=is_last) for each in inputs]
        for own, each in zip(given, inputs, strict=True):
            own[...] = each
        scratch = guarded(self.scratch, alignment=_ALIGNED, is_last=is_last)
        brought = [(ctypes.c_size_t * len(sizes))(*sizes)] if sizes else []
        self.function(
            ctypes.c_size_t(rows), *brought, _addresses(given), _addresses(outputs), _address(self.weights),
            _address(scratch), None if team is None else ctypes.byref(self._lent(team, is_last=is_last)),
        )  # fmt: skip
        return outputs

    def _lent(self, team: Team, *, is_last: bool) -> _Team:
        def run(_: int, parts: int, part: Any, argument: int) -> None:
            team.parts.append(parts)
            for number in reversed(range(parts)):
                memory = guarded(self.member_scratch or 0, alignment=_ALIGNED, is_last=is_last)
                part(argument, number, _address(memory))

        return _Team(team.size, _RUN(run))


_ALIGNED = 64
"""Bytes to which weights and scratch are aligned. Inputs and outputs are as callers have them."""


def _guarded(shape: Sequence[int], dtype: np.dtype[Any] | type, *, is_last: bool) -> Array:
    type_ = np.dtype(dtype)
    memory = guarded(math.prod(shape) * type_.itemsize, alignment=type_.itemsize, is_last=is_last)
    return memory.view(type_).reshape(shape)


def _addresses(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])


def _address(memory: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(memory.ctypes.data)


Compile = Callable[[Program, int], Code]


@pytest.fixture(scope="session")
def kernels(shared_home_folder: Path) -> Path:
    """The kernel library as the tests' code links it, with precompiled headers for `library_of`."""
    return kernel_object(shared_home_folder, "g++", FLAGS, headers=HEADERS)


def kernel_object(home: Path, compiler: str, flags: Sequence[str], headers: Sequence[str] = ()) -> Path:
    """The kernel library compiled with `flags`, which takes longer than most programs that call it: once for all tests.

    Beside it is headers.h, which includes `headers`, precompiled.
    """
    parts = {
        "sources": sha256_tree(KERNELS, files_below(KERNELS)),
        "compiler": run([compiler, "--version"]).stdout,
        "flags": [compiler, *flags],
        "headers": [*headers],
    }

    def make(folder: Path) -> None:
        run(
            [compiler, *flags, *INCLUDES, "-c", KERNELS / "src" / "kernels.cpp", "-o", folder / "kernels.o"],
            timeout=600,
        )
        if headers:
            (folder / "headers.h").write_text("".join(f'#include "{name}"\n' for name in headers))
            precompiled: list[str | Path] = ["-x", "c++-header", folder / "headers.h", "-o", folder / "headers.h.gch"]
            run([compiler, *flags, *INCLUDES, *precompiled], timeout=600)

    return kept(home, "kernels", parts, make) / "kernels.o"


@pytest.fixture
def compiled(kernels: Path) -> Compile:
    """`compiled(program, block)`: its code, built by GCC for x86-64-v3."""

    def make(program: Program, block: int) -> Code:
        emitted = emit(program, "program", block)
        return Code.of(program, emitted, ctypes.CDLL(str(library_of(emitted.source, kernels))).program)

    return make


def library_of(source: str, kernels: Path, flags: Sequence[str] = FLAGS) -> Path:
    """The library of C++ with the kernel library: kept, since most code is the same in each run.

    `flags` are those of `kernels`. Most of the time would go into reading headers: GCC takes the precompiled ones, or
    reports an error.
    """
    parts = {"source": sha256_bytes(source.encode()), "kernels": kernels.parent.name, "flags": [*flags]}
    headers: list[str | Path] = ["-Winvalid-pch", "-include", kernels.with_name("headers.h")]

    def make(folder: Path) -> None:
        (folder / "program.cc").write_text(source)
        run(
            ["g++", *flags, *INCLUDES, *headers, "-shared", folder / "program.cc", kernels, "-o", folder / "program.so"]
        )

    return kept(kernels.parents[3], "programs", parts, make) / "program.so"


def compiled_together(
    programs: Mapping[str, Program], kernels: Path, block: int, flags: Sequence[str] = FLAGS
) -> dict[str, Code]:
    """One library for all programs; `flags` are those of `kernels`."""
    made = {name: emit(program, f"program_{i}", block) for i, (name, program) in enumerate(programs.items())}
    # All headers were read before: within a namespace, they would become part of it.
    text = [f"namespace unit_{i} {{\n{each.source}\n}}" for i, each in enumerate(made.values())]
    loaded = ctypes.CDLL(str(library_of("\n".join(text), kernels, flags)))
    return {
        name: Code.of(programs[name], emitted, getattr(loaded, f"program_{i}"))
        for i, (name, emitted) in enumerate(made.items())
    }
