"""Graphs that the front-end's environment reads, and programs of them that the interpreter runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.listing import listing_of
from tfaot_pkg.compiler.program import Program, Symbol, Unsupported
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.onnx_lowering.counted import Uncounted
from tfaot_pkg.frontends.onnx_lowering.graph import Model, Node, read
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.from_onnx.graphs import GRAPH, TENSORS

WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"

TURNED = "/turned"
"""What the keys of outputs end in that are transposed."""


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
    """The program of `model`, verified, that the analyses of rows can read. Raises Unsupported.

    Outputs whose number of rows depends on values have counts as further outputs.
    """
    counts: dict[str, str] = {}
    try:
        program = lower(model, symbols, layers=layers)
    except Uncounted as error:
        counts = {each: f"{each}_count" for each in error.outputs}
        program = lower(model, symbols, counts=counts, layers=layers)
    verify(program)
    plain = lower(model, symbols, counts=counts, layers=False)
    try:
        listing_of(plain)
    except Unsupported as error:  # the file has a program, so it is not refused
        raise AssertionError(f"no listing: {error}") from error
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
    cut = {each.key: values[: counts[each.name]] if each.name in counts else values for each, values in found}
    return {key.removesuffix(TURNED): values.T if key.endswith(TURNED) else values for key, values in cut.items()}


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
    small = {key: x for key, x in inputs.items() if x.ndim < 2}
    first = sized.inputs[0].key if sized.inputs else ""
    others = {key: x for key, x in small.items() if key != first or x.ndim == 0}
    integers = {key: x for key, x in small.items() if x.dtype.kind == "i"}
    faults: list[Unsupported] = []
    for moved in ({}, others, integers):
        rest = _with_constants(sized, moved)
        try:
            return _turned_if_needed(rest)
        except Unsupported as fault:
            faults.append(fault)
    raise faults[0 if others == {} else 1]


def _with_constants(model: Model, moved: Mapping[str, Array]) -> Model:
    """`model` with these inputs as constants."""
    graph = replace(
        model.graph, tensors={**model.graph.tensors, **moved},
        inputs=tuple(each for each in model.graph.inputs if each not in moved),
    )  # fmt: skip
    return replace(model, graph=graph, inputs=tuple(each for each in model.inputs if each.key not in moved))


def _turned_if_needed(model: Model) -> tuple[Program, Model]:
    """Values may decide the size of an output's first axis: matrices that have such columns are transposed."""
    try:
        return valid(model), model
    except ModelError as error:
        if "transpose" not in error.hint:
            raise
    outputs = tuple(replace(each, key=each.key + TURNED) for each in model.outputs)
    nodes = tuple(
        Node(
            op="Transpose", domain="ai.onnx", name="", scope="", inputs=(each.key,), outputs=(each.key + TURNED,),
            attributes={},
        )
        for each in model.outputs
    )  # fmt: skip
    graph = replace(model.graph, nodes=(*model.graph.nodes, *nodes), outputs=tuple(each.key for each in outputs))
    turned = replace(model, outputs=outputs, graph=graph)
    return valid(turned), turned
