"""How much a model with loops computes: TensorFlow's count knows no loops (worker_program/freeze.py)."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.program import Program, Unsupported
from tfaot_pkg.compiler.simplify import simplify
from tfaot_pkg.compiler.work import work, work_of_row
from tfaot_pkg.frozen.model import FrozenModel
from tfaot_pkg.program.hlo import Unlike, read_program
from tfaot_pkg.toolchain.worker import from_worker
from tfaot_pkg.worker_program.messages.graph import Work

_SIZE = 2


def work_of(frozen: FrozenModel) -> Work:
    """TensorFlow's count; for a model with loops the operations of its products, in every turn of the loops.

    Of a loop whose turns depend on the inputs' values, one turn counts. If the model is no program (compiler/),
    TensorFlow's count is all that there is.
    """
    try:
        program = _program(frozen)
        if not any(operation.opcode == "while" for operation in program.entry.everything()):
            return frozen.work
        per_row = work_of_row(program).operations
        per_call = max(0.0, work(program, _SIZE).operations - per_row * _SIZE)
    except (Unsupported, Unlike):
        return frozen.work
    return replace(frozen.work, operations_per_call=per_call, operations_per_row=per_row)


def _program(frozen: FrozenModel) -> Program:
    with from_worker():
        listing = frozen.listing()
        if listing.fault:
            raise Unsupported(listing.fault)
        # Simplified, because the bounds of loops are constants then.
        return simplify(import_program(read_program(listing.modules), len(frozen.inputs), frozen.listed_constants()))
