"""The ends of a lowered program as users see them."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.compiler.program import NUMPY_TYPES, ROWS, Program, Shape, Size, Symbol, Unsupported
from tfaot_pkg.onnx_lowering.graph import Model
from tfaot_pkg.signature import DType, Signature, Tensor


def signature_of(model: Model, program: Program) -> Signature:
    """Inputs and outputs in the order of the file, by the names of libraries. Raises Unsupported."""
    known = program.entry.by_id()
    taken = zip(model.inputs, (each.shape for each in program.entry.parameters), strict=True)
    given = zip(model.outputs, (known[result].shape for result in program.entry.results), strict=True)
    opcodes = {known[result].opcode for result in program.entry.results}
    if "bits-of-f16" in opcodes or any(each.dtype == "float16" for each in model.inputs):
        raise Unsupported("inputs or outputs of float16")
    return Signature(
        inputs=tuple(_tensor(each.name, shape, program.symbols) for each, shape in taken),
        outputs=tuple(_tensor(each.name, shape, program.symbols) for each, shape in given),
    )


def _tensor(name: str, shape: Shape, symbols: Sequence[Symbol]) -> Tensor:
    """Its axes have None for the batch, and maxima and names for symbols."""
    sizes: list[int | None] = []
    axes: list[str] = []
    largest = {each.name: each.maximum for each in symbols}
    for size in shape.sizes:
        symbol = next((each for each in largest if size == Size.symbol(each)), "")
        if size == ROWS:
            sizes.append(None)
        elif size.is_constant or symbol:
            sizes.append(largest[symbol] if symbol else size.constant)
        else:
            raise Unsupported(f"{name!r} has an axis of the size {size}")
        axes.append(symbol)
    dtype = DType(str(NUMPY_TYPES[shape.dtype]))
    return Tensor(name=name, dtype=dtype, shape=tuple(sizes), axes=tuple(axes) if any(axes) else ())
