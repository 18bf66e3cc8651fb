"""Calls of dense layers that skip the zeros of their weights (decision 095)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler import pruned
from tfaot_pkg.compiler.attributes import Layer
from tfaot_pkg.compiler.elements import Place
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import literal
from tfaot_pkg.compiler.instructions import Struct, Written
from tfaot_pkg.compiler.pieces import Piece
from tfaot_pkg.compiler.program import Operation, Program, Shape, Size
from tfaot_pkg.compiler.sharing import TEAM, by_team, is_divided
from tfaot_pkg.ground.arrays import Array

_FEW_COLUMNS, _MANY_INPUTS = 32, 128
"""Of isChained (vectors.h)."""


def lists_of(emitter: Emitter, operation: Operation, weights: NDArray[np.float32]) -> pruned.Lists | None:
    """The lists of a dense layer that is computed by them. Sums in chains have another order."""
    inputs, outputs = weights.shape
    if outputs <= _FEW_COLUMNS and inputs >= _MANY_INPUTS:
        return None
    given = [emitter.known[value] for value in operation.operands[2:]]
    bias = literal(given[0]) if given and given[0].opcode == "constant" else None
    return pruned.lists(weights, bias, _weights(emitter.program))


def _weights(program: Program) -> int:
    """Those of all layers."""
    constants = (each for each in program.entry.everything() if each.opcode == "constant")
    return sum(each.shape.elements.constant for each in constants)


def sparse_dense(
    emitter: Emitter, operation: Operation, source: str, packed: Place, bias: Piece, lists: pruned.Lists
) -> str:
    """`packed`: all weights."""
    inputs, outputs = emitter.known[operation.operands[0]].shape.sizes[-1].constant, operation.shape.sizes[-1].constant
    arrays: list[Array] = [lists.weights, lists.places, lists.columns, lists.counts]
    rest: tuple[Piece, ...] = (Size(lists.fewest), *map(emitter.constants.place, arrays))
    rows, needed = Shape("f32", operation.shape.sizes[:-1]).elements, pruned.ROWS * (inputs + 1 + outputs)
    target, work = emitter.target(operation), emitter.buffer("f32", Size(needed))
    emitter.touch(source)
    # Computed here and in C++, so that code with too little memory does not compile.
    emitter.remark(f"static_assert(sparseDenseScratch({inputs}, {outputs}) <= {needed});")
    activation = f"Activation::{Layer.of(operation).activation}"
    layer = Struct((Struct((Size(inputs), Size(outputs), packed, bias, activation)), *rest))
    read, written = Place(source, elements=rows * Size(inputs)), Place(target, elements=rows * Size(outputs))
    arguments = ("dispatch", layer, rows, read, Written(written), Written(Place(work, elements=Size(needed))))
    if is_divided(emitter, operation):
        emitter.call(by_team(emitter, "sparseDense", 0), TEAM, *arguments)
    else:
        emitter.call("sparseDense", *arguments)
    # Rows in which the product of a zero is seen are computed with all weights, as fewer rows are.
    emitter.reached[f"product({inputs}, {outputs}, {activation}, {{0, 1, kSparseRows}})"] = None
    for pointer in (source, target, work):
        emitter.touch(pointer)
    return target
