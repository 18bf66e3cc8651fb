"""How much a listed computation takes, for estimates of costs (native/batching/costs.py): counted from its shapes.

The process that read the model is not asked: what it says of itself could be anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfaot_pkg.analysis.program import elementwise
from tfaot_pkg.analysis.program.hlo import Computation, Instruction, Program, Shape, Unlike, read_program
from tfaot_pkg.worker_program.messages.listing import HloListing

_COMPUTING = elementwise.OPCODES - frozenset(
    "and bitcast-convert compare complex convert copy domain imag is-finite map not opt-barrier or real "
    "reduce-precision select stochastic-convert xor".split()
)
"""Elementwise opcodes, without those that choose, move or convert numbers."""
_MOST = 10**18
"""The limit of each amount, years of a core: sizes come from a worker, and a product of them may be anything."""
_BYTES = {"pred": 1, "c64": 8, "c128": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a model: bytes of all constants, and arithmetic operations of a run; a multiply-add is two.

    A run takes `operations_per_call`, and `operations_per_row` more for each row of the batch.
    """

    constant_bytes: int
    operations_per_call: float
    operations_per_row: float

    def __post_init__(self) -> None:
        amounts = (self.constant_bytes, self.operations_per_call, self.operations_per_row)
        if not all(math.isfinite(each) and each >= 0 for each in amounts):
            raise ValueError("amounts of work must be finite, and not negative")


def work_of_listing(listing: HloListing, inputs: int, stored_bytes: int) -> Work:
    """The work of a graph with so many `inputs`, whose files have `stored_bytes`.

    Of a graph without a listing, one product of each row with four bytes of its files is assumed. A loop counts as one
    iteration, a conditional as its longest branch.
    """
    try:
        program = read_program(listing.modules) if listing.modules else None
    except Unlike:
        program = None
    if program is None:
        return Work(constant_bytes=stored_bytes, operations_per_call=0.0, operations_per_row=2.0 * (stored_bytes // 4))
    counts = [_Count(program, place).of(program.computations[program.entry]) for place in (0, 1)]
    rows = program.batch_sizes[1] - program.batch_sizes[0]
    per_row = max(0.0, (min(counts[1], _MOST) - min(counts[0], _MOST)) / rows)
    per_call = max(0.0, min(counts[0], _MOST) - per_row * program.batch_sizes[0])
    return Work(
        constant_bytes=min(_constants(program, inputs), _MOST), operations_per_call=per_call, operations_per_row=per_row
    )


def _constants(program: Program, inputs: int) -> int:
    """The bytes of all constants but single numbers: large ones are parameters of the entry, after the inputs."""
    entry = program.computations[program.entry]
    return sum(
        _elements(each.shape, 0) * _width(each.shape.dtype)
        for computation in program.computations.values()
        for each in computation.instructions
        if (each.opcode == "constant" and each.shape.sizes)
        or (computation is entry and each.opcode == "parameter" and each.attribute("number") >= inputs)
    )


def _width(dtype: str) -> int:
    return _BYTES.get(dtype) or max(1, int("".join(filter(str.isdigit, dtype[:4])) or 8) // 8)


def _elements(shape: Shape, place: int) -> int:
    return math.prod(max(0, size[place]) for size in shape.sizes) if shape.parts is None else 0


class _Count:
    """Counts at one of the two batch sizes of a listing, each computation once however often it is called."""

    def __init__(self, program: Program, place: int) -> None:
        self._program, self._place = program, place
        self._known: dict[int, int] = {}

    def of(self, computation: Computation) -> int:
        shapes = {each.id: each.shape for each in computation.instructions}
        return sum(self._of(each, [shapes[i] for i in each.operands]) for each in computation.instructions)

    def _of(self, instruction: Instruction, operands: list[Shape]) -> int:
        opcode, result = instruction.opcode, _elements(instruction.shape, self._place)
        if opcode in _COMPUTING:
            return result
        if (rule := _RULES.get(opcode)) is not None:
            return rule(instruction, operands, self._place)
        inside = [self._called(number) for number in instruction.called]
        if opcode == "conditional":
            return max(inside, default=0)
        return sum(inside) if opcode in ("call", "while") else 0

    def _called(self, number: int) -> int:
        if number not in self._known:
            self._known[number] = self.of(self._program.computations[number])
        return self._known[number]


def _dot(instruction: Instruction, operands: list[Shape], place: int) -> int:
    lengths: list[int] = [operands[0].sizes[axis][place] for axis in instruction.attributes[place].contracting[0]]
    return 2 * _elements(instruction.shape, place) * math.prod(lengths)


def _convolution(instruction: Instruction, operands: list[Shape], place: int) -> int:
    attributes = instruction.attributes[place]
    outputs: int = max(1, operands[1].sizes[attributes.kernel[0]][place])
    # Zeros between the elements of a dilated array count as nothing.
    spread: int = max(1, math.prod(each[-1] for each in attributes.window))
    return 2 * _elements(instruction.shape, place) * _elements(operands[1], place) // outputs // spread


def _reduce(_instruction: Instruction, operands: list[Shape], place: int) -> int:
    return _elements(operands[0], place)


_RULES: Mapping[str, Callable[[Instruction, list[Shape], int], int]] = {
    "convolution": _convolution,
    "dot": _dot,
    "reduce": _reduce,
    "reduce-window": _reduce,
}
