"""A lowered module with its ends as users see them, and where rows depend on one another."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.compiler.lowered import Lowered
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program, Symbol
from tfaot_pkg.frontends.aten_lowering.document import Document, Module
from tfaot_pkg.frontends.aten_lowering.lowering import lower
from tfaot_pkg.frontends.onnx_lowering.ends import analyzed, tensor_of
from tfaot_pkg.ground.signature import Signature


def lowered(module: Module, symbols: Sequence[Symbol]) -> Lowered:
    """The program of `module` with its ends, and what analyses of HLO find. Raises Unsupported."""
    return analyzed(
        lambda layers: lower(module, symbols, layers=layers), lambda program: _signature(module.document, program)
    )


def _signature(document: Document, program: Program) -> Signature:
    known = program.entry.by_id()
    taken = zip(document.inputs, (each.shape for each in program.entry.parameters), strict=True)
    given = zip(document.outputs, (known[result].shape for result in program.entry.results), strict=True)
    inputs, outputs = (
        tuple(tensor_of(end.name, shape, str(NUMPY_TYPES[shape.dtype]), program.symbols) for end, shape in ends)
        for ends in (taken, given)
    )
    return Signature(inputs=inputs, outputs=outputs)
