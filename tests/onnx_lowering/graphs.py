"""Graphs that the front-end's environment reads, and programs of them that the interpreter runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import Program, Symbol, Unsupported
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.onnx_lowering.counted import Uncounted
from tfaot_pkg.frontends.onnx_lowering.graph import Model, read
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.from_onnx.graphs import GRAPH, TENSORS

WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"


def frontend(home: Path) -> Path:
    """Python of the environment with ONNX and ONNX Runtime."""
    folders = Folders(cache=home / "cache", data=home / "data")
    return FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"]).python


def model_in(folder: Path) -> Model:
    return read((folder / GRAPH).read_bytes(), read_arrays(folder / TENSORS))


def symbols_of(model: Model, least: int, most: int) -> list[Symbol]:
    names = {axis for each in model.inputs for axis in each.axes or () if isinstance(axis, str)}
    return [Symbol(name, most, least) for name in sorted(names)]


def valid(model: Model, symbols: Sequence[Symbol] = (), *, layers: bool = True) -> Program:
    """The program of `model`, verified. Counts of rows that values decide are outputs behind it. Raises Unsupported."""
    try:
        program = lower(model, symbols, layers=layers)
    except Uncounted as error:
        counts = {each: f"{each}_count" for each in error.outputs}
        program = lower(model, symbols, counts=counts, layers=layers)
    verify(program)
    return program


def arrays_of(path: Path) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """Inputs and answers in a file with "in/KEY" and "out/KEY"."""
    with np.load(path) as file:
        found = dict(file)
    inputs, answers = (
        {name.removeprefix(kind): values for name, values in found.items() if name.startswith(kind)}
        for kind in ("in/", "out/")
    )
    return inputs, answers


def answers_of(program: Program, model: Model, inputs: Mapping[str, Array], rows: int = 1) -> dict[str, Array]:
    """What the interpreter makes of the inputs, by the keys of outputs."""
    sizes = {
        axis: size
        for each in model.inputs
        for axis, size in zip(each.axes or (), inputs[each.key].shape, strict=True)
        if isinstance(axis, str)
    }
    given = [inputs[each.key] for each in model.inputs]
    # Float16 comes as its bits.
    given = [values.view(np.uint16) if values.dtype == np.float16 else values for values in given]
    made = interpret.run(program, rows, given, sizes)
    counts = dict(zip(_uncounted(model, program), made[len(model.outputs) :], strict=True))
    # Padding is left out.
    found = zip(model.outputs, made, strict=False)
    return {each.key: values[: counts[each.name]] if each.name in counts else values for each, values in found}


def _uncounted(model: Model, program: Program) -> tuple[str, ...]:
    """The outputs that `valid` gave counts."""
    if len(program.entry.results) > len(model.outputs):
        try:
            lower(model, program.symbols)
        except Uncounted as error:
            return error.outputs
    return ()


def with_sizes(model: Model, inputs: Mapping[str, Array]) -> Model:
    """`model` for just these inputs."""
    return replace(model, inputs=tuple(replace(each, axes=tuple(inputs[each.key].shape)) for each in model.inputs))


def program_of_test(model: Model, inputs: Mapping[str, Array]) -> tuple[Program, Model]:
    """The program of a test of ONNX's; what it gives as inputs and models as constants (axes, sizes) may be constant."""
    sized = with_sizes(model, inputs)
    try:
        return valid(sized), sized
    except Unsupported:
        first = sized.inputs[0].key if sized.inputs else ""
        moved = {key: x for key, x in inputs.items() if x.ndim < 2 and (key != first or x.ndim == 0)}
        if not moved:
            raise
        graph = replace(
            sized.graph, tensors={**sized.graph.tensors, **moved},
            inputs=tuple(each for each in sized.graph.inputs if each not in moved),
        )  # fmt: skip
        rest = replace(sized, graph=graph, inputs=tuple(each for each in sized.inputs if each.key not in moved))
        return valid(rest), rest
