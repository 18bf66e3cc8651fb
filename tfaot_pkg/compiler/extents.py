"""Whether a program stays inside of its arrays at all sizes that its symbols may have."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.program import Operation, Program, Size, Unsupported


def check_extents(program: Program) -> None:
    """Raise Unsupported if a size is negative, or a part larger than its array, where symbols are least or largest.

    TensorFlow rejects such inputs, or gives arrays whose sizes are no polynomials there.
    """
    if not program.symbols:
        return
    names = [symbol.name for symbol in program.symbols]
    corners = [
        dict(zip(names, sizes, strict=True))
        for sizes in product(*((symbol.minimum, symbol.maximum) for symbol in program.symbols))
    ]
    known = {operation.id: operation for operation in program.entry.everything()}
    for operation in known.values():
        for size, length in _parts(operation, known):
            for corner in corners:
                _require(operation, size.at(1, corner), length.at(1, corner) if length else None, corner)


def _parts(operation: Operation, known: Mapping[int, Operation]) -> list[tuple[Size, Size | None]]:
    """Sizes that must not be negative, each with what it must not exceed."""
    parts: list[tuple[Size, Size | None]] = [(size, None) for shape in operation.shapes for size in shape.sizes]
    if operation.opcode not in ("dynamic-slice", "gather", "slice"):
        return parts
    lengths = known[operation.operands[0]].shape.sizes
    taken = operation.attributes["slices" if operation.opcode == "slice" else "sizes"]
    for each, length in zip(taken, lengths, strict=True):
        ends = each[:2] if isinstance(each, tuple) else (each,)
        parts += [(as_size(end), length) for end in ends]
    return parts


def _require(operation: Operation, size: int, length: int | None, corner: Mapping[str, int]) -> None:
    if size >= 0 and (length is None or size <= length):
        return
    at = " and ".join(f"{name} = {value}" for name, value in corner.items())
    what = f"{size} elements" if length is None else f"{size} of {length} elements"
    raise Unsupported(
        f"{operation.opcode} (node {operation.node!r}) takes {what} at {at}: allow fewer sizes in model.shapes, "
        f"such as `8 <= {next(iter(corner))} <= 64`"
    )
