"""Layers that the threads of a team may compute together (decision 091)."""

from __future__ import annotations

from tfaot_pkg.compiler.elements import Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.pieces import Piece
from tfaot_pkg.compiler.program import NUMPY_TYPES, Binding, Operation

TEAM = Variable("team")
_OF_BYTES = {"quantized_dense": 4, "quantized_conv2d": 4}
"""Multiply-adds of bytes that take as long as one of floats, by opcode (benchmarks/threads.py)."""


def is_divided(emitter: Emitter, operation: Operation) -> bool:
    """Whether a team of threads may compute the layer of one row together."""
    multiply_adds = OPERATIONS[operation.opcode].multiply_adds
    if multiply_adds is None:
        return False
    shapes = [emitter.known[value].shape for value in operation.operands]
    one_row = Binding(1, {each.name: each.maximum for each in emitter.program.symbols})
    return multiply_adds(operation, shapes, one_row) >= emitter.divided_from * _OF_BYTES.get(operation.opcode, 1)


def by_team(emitter: Emitter, function: str, scratch: int) -> str:
    """The name of `function` for a team, each of whose threads needs `scratch` floats."""
    _give_each(emitter, scratch)
    name, bracket, known = function.partition("<")
    return f"{name}ByTeam{bracket}{known}"


def team_of(emitter: Emitter, operation: Operation, scratch: int) -> Piece:
    """The team of a layer, each of whose threads needs `scratch` words; `nullptr` if the layer is too small."""
    if not is_divided(emitter, operation):
        return "nullptr"
    _give_each(emitter, scratch)
    return TEAM


def _give_each(emitter: Emitter, scratch: int) -> None:
    emitter.member_scratch = max(emitter.member_scratch or 0, NUMPY_TYPES["f32"].itemsize * scratch)
