"""A program gives the same bits for every target, however many rows it computes at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.compiler import test_pruned as pruned
from tests.compiler.conftest import HEADERS, INCLUDES, Network, Networks, kernel_object
from tests.compiler.test_answers import FAMILIES, models_of
from tests.compiler.test_bfloat16 import ATTENTION, NEAR, PROGRAMS, numbers
from tests.compiler.test_chains import normalization, softmax
from tests.compiler.test_few_rows import layers_of
from tests.compiler.test_narrow import PROGRAMS as NARROW
from tests.compiler.test_networks import NAMES
from tests.compiler.test_quantize import PROGRAMS as QUANTIZING
from tests.compiler.test_quantize import boundaries
from tests.compiler.test_tails import chain, inputs_of_chain, inputs_of_lstm, lstm
from tests.compiler.test_trees import grown, program_of, rows
from tests.kept import REPOSITORY
from tests.onnx_lowering.test_integers import QUANTIZED, quantized
from tfaot_pkg.compiler.emit import Emitted, emit
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program
from tfaot_pkg.frontends.toolchain.definition import NO_CONTRACTION
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.native.library import loop_flags

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]  # the first makes the models

_FLAGS = f"-O2 {NO_CONTRACTION} -std=c++17 -Wall -Wextra -Werror -fno-exceptions -fno-rtti -static".split()
_AVX512 = REPOSITORY / "tools" / "avx512" / "run.py"
_RUNNER = Path(__file__).with_name("rows.cpp")
_ROWS = (1, 3, 16, 37)
_WRONG_IN_BOCHS = {"types: from float64"}  # 2.7 makes doubles from 2^63 on the largest uint64; of floats it does not
_BLOCK = 8


@dataclass(frozen=True, kw_only=True)
class Machine:
    """How programs are compiled and run for one kind of CPU."""

    name: str
    compiler: str
    flags: tuple[str, ...]
    emulator: tuple[str, ...] = ()


_MACHINES = (
    Machine(name="x86-64-v3", compiler="g++", flags=TARGETS["x86-64-v3"].flags),
    # As many floats in a vector as x86-64-v4 has. Nothing is passed in vectors, so their ABI does not matter.
    Machine(
        name="sixteen",
        compiler="g++",
        flags=(*TARGETS["x86-64-v3"].flags, "-DTFAOT_KERNELS_SIXTEEN", "-Wno-psabi"),
    ),
    Machine(name="clang", compiler="clang++", flags=TARGETS["x86-64-v3"].flags),
    Machine(name="x86-64-v4", compiler="g++", flags=TARGETS["x86-64-v4"].flags),
    Machine(
        name="aarch64",
        compiler="aarch64-linux-gnu-g++",
        flags=TARGETS["aarch64"].flags,
        emulator=("qemu-aarch64", "-cpu", "cortex-a53"),
    ),
)

Results = list[list[Array]]
"""Outputs for each batch."""

Output = tuple[Path, tuple[int, ...], str]
"""File, sizes and type."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A program (rows.cpp), its standard input, and what it will write, by name and batch."""

    program: Path
    calls: bytes
    outputs: Mapping[str, Sequence[Sequence[Output]]]

    def results(self) -> dict[str, Results]:
        return {
            name: [
                [np.frombuffer(path.read_bytes(), NUMPY_TYPES[dtype]).reshape(sizes) for path, sizes, dtype in outputs]
                for outputs in listed
            ]
            for name, listed in self.outputs.items()
        }


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Compiles programs with the kernels for each machine, in a folder."""

    home: Path
    folder: Path
    machines: Sequence[Machine]

    def built(self, machine: Machine, programs: Mapping[str, Emitted]) -> Path:
        text = [f'#include "{name}"' for name in HEADERS]
        text += [f"namespace unit_{i} {{\n{each.source}\n}}" for i, each in enumerate(programs.values())]
        listed = ", ".join(f"unit_{i}::program_{i}" for i in range(len(programs)))
        text += [
            "using Team = tfaot_kernels::Team;",
            "using Memory = unsigned char;",
            "using Function = void (*)(std::size_t, const void* const*, void* const*, const Memory*, Memory*, const Team*);",
            f"extern const Function kPrograms[];\nconst Function kPrograms[] = {{{listed}}};",
        ]
        source, program = self.folder / f"{machine.name}.cc", self.folder / machine.name
        source.write_text("\n".join(text))
        flags = [*_FLAGS, *machine.flags]
        kernels = kernel_object(self.home, machine.compiler, flags)
        flags += loop_flags(is_gcc="clang" not in machine.compiler)  # which decide what becomes a vector
        run([machine.compiler, *flags, *INCLUDES, source, kernels, _RUNNER, "-o", program], timeout=600)
        return program

    def results(
        self, machine: Machine, programs: Mapping[str, Program], batches: Mapping[str, Sequence[Sequence[Array]]]
    ) -> dict[str, Results]:
        """What each program gives for each of its batches."""
        prepared = self.prepared(machine, programs, batches)
        run([*machine.emulator, prepared.program], stdin=prepared.calls, timeout=600)
        return prepared.results()

    def prepared(
        self, machine: Machine, programs: Mapping[str, Program], batches: Mapping[str, Sequence[Sequence[Array]]]
    ) -> Prepared:
        emitted = {name: emit(each, f"program_{i}", _BLOCK) for i, (name, each) in enumerate(programs.items())}
        built = self.built(machine, emitted)
        folder = self.folder / f"{machine.name}-files"
        folder.mkdir()
        lines: list[str] = []
        made: dict[str, list[list[Output]]] = {}
        for number, (name, program) in enumerate(programs.items()):
            weights = folder / f"{number}.weights"
            with weights.open("wb") as file:
                for offset, values in emitted[name].constants:
                    file.write(bytes(offset - file.tell()))
                    file.write(values.tobytes())
            known, made[name] = program.entry.by_id(), []
            for batch, inputs in enumerate(batches[name]):
                words: list[object] = [number, len(inputs[0]), emitted[name].scratch, weights, len(inputs)]
                for i, values in enumerate(inputs):
                    (path := folder / f"{number}.{batch}.in{i}").write_bytes(values.tobytes())
                    words.append(path)
                outputs = []
                for i, result in enumerate(program.entry.results):
                    shape = known[result].shape
                    outputs.append((folder / f"{number}.{batch}.out{i}", shape.at(len(inputs[0])), shape.dtype))
                words.append(len(outputs))
                for path, sizes, dtype in outputs:
                    words += [path, int(np.prod(sizes)) * NUMPY_TYPES[dtype].itemsize]
                made[name].append(outputs)
                lines.append(" ".join(map(str, words)))
        return Prepared(program=built, calls="".join(f"{line}\n" for line in lines).encode(), outputs=made)


@pytest.fixture(scope="session")
def machines(require_program: Callable[[str], str]) -> Sequence[Machine]:
    for program in ("qemu-aarch64", "aarch64-linux-gnu-g++", "clang++"):
        require_program(program)
    found = [each for each in _MACHINES if each.name not in TARGETS or runs_here(TARGETS[each.name]) or each.emulator]
    # The kernels of "sixteen" are those of x86-64-v4: it stands in where that does not run, and compiles for half a minute.
    return [each for each in found if each.name != "sixteen" or not runs_here(TARGETS["x86-64-v4"])]


@pytest.fixture
def bench(shared_home_folder: Path, tmp_path: Path, machines: Sequence[Machine]) -> Bench:
    return Bench(home=shared_home_folder, folder=tmp_path, machines=machines)


def _parts(names: Sequence[str], alone: str, size: int) -> list[list[str]]:
    """`names` in parts: what is compared together is compiled together, and compilers read the headers once for all."""
    others = [name for name in names if name != alone]
    return [[alone], *(others[i : i + size] for i in range(0, len(others), size))]


@pytest.mark.sweep(night=["attention", "lstm*"])
@pytest.mark.parametrize("names", _parts(NAMES, "attention", 3), ids=" ".join)
def test_networks_give_the_same_bits_on_every_cpu(networks: Networks, bench: Bench, names: Sequence[str]) -> None:
    _compare(bench, {name: networks("2.17.1", name) for name in names})


@pytest.mark.sweep(night=["types"])
@pytest.mark.parametrize("families", _parts(FAMILIES, "types", 5), ids=" ".join)
def test_operations_give_the_same_bits_on_every_cpu(
    shared_home_folder: Path, bench: Bench, families: Sequence[str]
) -> None:
    found = {family: models_of(shared_home_folder, "2.17.1", family) for family in families}
    _compare(bench, {f"{family}, {name}": each for family, models in found.items() for name, each in models.items()})


@pytest.mark.nightly
def test_forests_give_the_same_bits_on_every_cpu(bench: Bench) -> None:
    generator = np.random.default_rng(5)
    found = {
        "complete": grown(generator, 13, 20),
        "double": grown(generator, 9, 12, dtype="float64", total="float64"),
        "unbalanced": grown(generator, 11, 200, deep=True, outputs=3),
    }
    models = {
        name: Network(model=Path(), program=program_of(each), inputs=[rows(generator, each, 17)], outputs=[])
        for name, each in found.items()
    }
    _compare(bench, models)


@pytest.mark.nightly
def test_rows_that_share_vectors_give_the_same_bits_on_every_cpu(bench: Bench) -> None:
    found = {f"chain of {size}": (chain(size, flat=False), inputs_of_chain(size, 17)) for size in (9, 17, 20, 33, 50)}
    found["lstm"] = lstm(50, 3), inputs_of_lstm(50, 3, 17)
    found["layers"] = layers_of("tanh")[0], [np.random.default_rng(12).normal(size=(17, 300)).astype(np.float32)]
    for size in (3, 5, 9, 20, 40):
        values = np.random.default_rng(size).normal(size=(17, 5, size)).astype(np.float32)
        found[f"normalization of {size}"] = normalization(size), [values]
        found[f"softmax of {size}"] = softmax(size, joined=True), [values, values[..., 0].copy()]
        found[f"softmax of {size} alone"] = softmax(size, joined=False), [values]
    models = {
        name: Network(model=Path(), program=program, inputs=inputs, outputs=[])
        for name, (program, inputs) in found.items()
    }
    _compare(bench, models)


@pytest.mark.nightly
def test_layers_of_bytes_give_the_same_bits_on_every_cpu(bench: Bench) -> None:
    models = {}
    for op, width, domain in QUANTIZED:
        program, given, _ = quantized(op, width, domain)
        models[f"{op} of {width}"] = Network(model=Path(), program=program, inputs=[given], outputs=[])
    for name, program in QUANTIZING.items():
        given = boundaries(program.entry.parameters[0].shape.at(17, {}))
        models[name] = Network(model=Path(), program=program, inputs=[given], outputs=[])
    _compare(bench, models)


@pytest.mark.nightly
def test_layers_of_bfloat16_give_the_same_bits_on_every_cpu(bench: Bench) -> None:
    models = {
        name: Network(
            model=Path(), program=program, inputs=[numbers(program.entry.parameters[0].shape.at(17, {}))], outputs=[]
        )
        for name, program in {**PROGRAMS, **NEAR, **ATTENTION}.items()
    }
    _compare(bench, models)


@pytest.mark.nightly
def test_layers_with_narrow_weights_give_the_same_bits_on_every_cpu(bench: Bench) -> None:
    models = {
        name: Network(model=Path(), program=program, inputs=[numbers((17, 3, 513))], outputs=[])
        for name, program in NARROW.items()
    }
    _compare(bench, models)


@pytest.mark.nightly
def test_pruned_layers_give_the_same_bits_on_every_cpu(bench: Bench) -> None:
    special = pruned.values(37)
    special[5, 70], special[20, 0] = np.inf, np.nan
    models = {
        f"{zeros} of {given}": Network(
            model=Path(), program=pruned.layer(pruned.weights(zeros), activation="tanh"), inputs=[inputs], outputs=[]
        )
        for zeros in (0.75, 0.9)
        for given, inputs in (("plain", pruned.values(37)), ("special", special))
    }
    _compare(bench, models)


@pytest.mark.skipif("TFAOT_TEST_AVX512" not in os.environ, reason="takes a quarter of an hour; needs Bochs")
@pytest.mark.timeout(7200)
def test_networks_and_operations_give_the_same_bits_on_an_emulated_cpu_with_avx512(
    networks: Networks, shared_home_folder: Path, tmp_path: Path
) -> None:
    """All at once, because the emulated machine takes half a minute to start."""
    groups: dict[str, Mapping[str, Network]] = {f"network {name}": {name: networks("2.17.1", name)} for name in NAMES}
    groups |= {family: models_of(shared_home_folder, "2.17.1", family) for family in FAMILIES}
    known, tried = (next(each for each in _MACHINES if each.name == name) for name in ("x86-64-v3", "x86-64-v4"))
    expected: dict[str, Results] = {}
    wanted, calls = {}, []
    for group, models in groups.items():
        programs = {name: recognize(simplify(model.program)) for name, model in models.items()}
        batches = {name: _batches(model.inputs) for name, model in models.items()}
        folders = [tmp_path / machine.name / group.replace(" ", "-") for machine in (known, tried)]
        for folder in folders:
            folder.mkdir(parents=True)
        here, there = (Bench(home=shared_home_folder, folder=folder, machines=()) for folder in folders)
        expected |= {f"{group}: {name}": found for name, found in here.results(known, programs, batches).items()}
        wanted[group] = prepared = there.prepared(tried, programs, batches)
        (folders[1] / "calls").write_bytes(prepared.calls)
        calls.append(f"{folders[1] / 'calls'}\t/dev/null\t{prepared.program}\n")
    run([sys.executable, _AVX512, "--batch", tmp_path / tried.name], stdin="".join(calls).encode(), timeout=7000)
    found = {f"{group}: {name}": each for group, made in wanted.items() for name, each in made.results().items()}
    different = [
        f"{name}, batch {batch}"
        for name, results in found.items()
        for batch, (outputs, others) in enumerate(zip(results, expected[name], strict=True))
        if not _same(outputs, others) and name not in _WRONG_IN_BOCHS
    ]
    assert not different


def _compare(bench: Bench, models: Mapping[str, Network]) -> None:
    programs = {name: recognize(simplify(model.program)) for name, model in models.items()}
    batches = {name: _batches(model.inputs) for name, model in models.items()}
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda machine: bench.results(machine, programs, batches), bench.machines))
    different = []
    for name in models:
        reference = found[0][name]
        different += [
            f"{name}: {machine.name}"
            for machine, results in zip(bench.machines, found, strict=True)
            if not all(map(_same, results[name], reference))
        ]
        for kind in range(0, len(reference), len(_ROWS)):
            of_kind = reference[kind : kind + len(_ROWS)]
            whole = of_kind[-1]
            different += [
                f"{name}: {rows} rows"
                for rows, outputs in zip(_ROWS, of_kind, strict=True)
                if not _same(outputs, [each[-rows:] for each in whole])
            ]
    assert not different


def _batches(inputs: Sequence[Array]) -> list[list[Array]]:
    """The last rows of each kind of numbers, for each size of a batch."""
    kinds = [[kind(_repeated(each)) for each in inputs] for kind in (_plain, _large, _special, _denormal)]
    return [[each[-rows:] for each in kind] for kind in kinds for rows in _ROWS]


def _repeated(values: Array) -> Array:
    """As many rows as the largest batch, no two floats alike."""
    rows = np.concatenate([values] * (_ROWS[-1] // len(values) + 1))[: _ROWS[-1]]
    if rows.dtype.kind != "f":
        return rows
    numbers = np.random.default_rng(rows.size).uniform(0.5, 1.5, rows.shape)
    with np.errstate(all="ignore"):
        return (rows * numbers).astype(rows.dtype)


def _plain(values: Array) -> Array:
    return values


def _large(values: Array) -> Array:
    """Beyond what exponentials, integers and at last sums of float32 can hold."""
    if values.dtype.kind != "f":
        return values
    with np.errstate(all="ignore"):
        scales = np.float32(10) ** np.linspace(1, 38, len(values), dtype=np.float32)
        return np.asarray(values * scales.reshape(-1, *(1 for _ in values.shape[1:])), values.dtype)


def _special(values: Array) -> Array:
    """NaN, infinities and zeros among others."""
    if values.dtype.kind != "f":
        return values
    random = np.random.default_rng(values.size)
    numbers = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], values.dtype)
    return np.where(random.random(values.shape) < 0.2, random.choice(numbers, values.shape), values)


def _denormal(values: Array) -> Array:
    if values.dtype.kind != "f":
        return values
    with np.errstate(all="ignore"):
        return np.asarray(values * np.float32(1e-40), values.dtype)


def _same(outputs: Sequence[Array], others: Sequence[Array]) -> bool:
    return all(_bits(one) == _bits(other) for one, other in zip(outputs, others, strict=True))


def _bits(values: Array) -> bytes:
    """All NaN are one: their bits are not promised."""
    if values.dtype.kind != "f":
        return values.tobytes()
    return np.where(np.isnan(values), values.dtype.type(np.nan), values).tobytes()
