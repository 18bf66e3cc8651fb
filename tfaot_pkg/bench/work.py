"""How much a model with loops computes: TensorFlow's count knows no loops (worker_program/freeze.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.program import NUMPY_TYPES, Operation, Program, Unsupported
from tfaot_pkg.frozen.model import FrozenModel
from tfaot_pkg.program.hlo import Unlike, read_program
from tfaot_pkg.toolchain.worker import from_worker
from tfaot_pkg.worker_program.messages.graph import Work

_SIZES = (2, 3)  # batch sizes, between which the count grows with the batch


def work_of(frozen: FrozenModel) -> Work:
    """TensorFlow's count; for a model with loops the operations of its products, in every turn of the loops.

    A loop whose turns depend on the inputs' values takes as many as zeros take. If the model is no program
    (compiler/), TensorFlow's count is all that there is.
    """
    try:
        program = _program(frozen)
        if not any(operation.opcode == "while" for operation in program.entry.everything()):
            return frozen.work
        first, second = (operations(program, size) for size in _SIZES)
    except (Unsupported, Unlike):
        return frozen.work
    per_row = max(0.0, (second - first) / (_SIZES[1] - _SIZES[0]))
    per_call = max(0.0, first - per_row * _SIZES[0])
    return replace(frozen.work, operations_per_call=per_call, operations_per_row=per_row)


def _program(frozen: FrozenModel) -> Program:
    with from_worker():
        listing = frozen.listing()
        if listing.fault:
            raise Unsupported(listing.fault)
        return import_program(read_program(listing.modules), len(frozen.inputs), frozen.listed_constants())


def operations(program: Program, batch_size: int) -> float:
    """The floating-point operations of all products and convolutions of a run; a multiply-add is two.

    Raises Unsupported for an opcode that the interpreter does not know.
    """
    total = 0.0

    def count(operation: Operation, operands: Sequence[Any]) -> None:
        nonlocal total
        if operation.opcode == "dot":
            total += 2.0 * _of_dot(operation, operands[0], batch_size)
        elif operation.opcode == "convolution":
            total += 2.0 * _of_convolution(operation, operands[1], batch_size)

    shapes = (parameter.shape for parameter in program.entry.parameters)
    zeros = [np.zeros(shape.at(batch_size), NUMPY_TYPES[shape.dtype]) for shape in shapes]
    interpret.run(program, batch_size, zeros, watch=count)
    return total


def _of_dot(operation: Operation, left: Array, batch_size: int) -> float:
    contracted: Sequence[int] = operation.attributes["contracting"][0]
    return float(operation.shape.elements.at(batch_size) * prod(left.shape[axis] for axis in contracted))


def _of_convolution(operation: Operation, kernel: Array, batch_size: int) -> float:
    filters: int = operation.attributes["kernel"][0]
    # Of an array that was spread by `dilation`, the zeros in between count as nothing.
    spread = prod(float(dilation) for *_, dilation in operation.attributes["window"])
    return float(operation.shape.elements.at(batch_size) * kernel.size / kernel.shape[filters] / spread)
