"""How much a program computes: the floating-point operations of its products, in all iterations of its loops. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tfaot_pkg.compiler.iterations import iterations_of
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import Binding, Operation, Program, Region

_SIZES = (3, 2)  # two batch sizes: the difference of their counts is the work of one row

_Known = Mapping[int, Operation]


@dataclass(frozen=True, slots=True)
class Counted:
    """Products in the code, and their operations; a multiply-add is two.

    The kernel library computes `kernels` and `in_kernels` of them; generated loops compute the rest. `by_type` are the
    operations by the element type of the second factor, the weights of layers. `open_loops` are nodes of loops with
    products whose number of iterations depends on values: one is counted of each.
    """

    products: int = 0
    kernels: int = 0
    operations: float = 0.0
    in_kernels: float = 0.0
    by_type: Mapping[str, float] = field(default_factory=dict)
    open_loops: tuple[str, ...] = ()

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            products=self.products + other.products,
            kernels=self.kernels + other.kernels,
            operations=self.operations + other.operations,
            in_kernels=self.in_kernels + other.in_kernels,
            by_type={
                dtype: self.by_type.get(dtype, 0.0) + other.by_type.get(dtype, 0.0)
                for dtype in {**self.by_type, **other.by_type}
            },
            open_loops=(*self.open_loops, *other.open_loops),
        )

    @property
    def share(self) -> float:
        """The share of the operations that the kernel library computes."""
        return self.in_kernels / self.operations if self.operations else 0.0

    def times(self, iterations: int) -> Counted:
        return replace(
            self,
            operations=self.operations * iterations,
            in_kernels=self.in_kernels * iterations,
            by_type={dtype: operations * iterations for dtype, operations in self.by_type.items()},
        )


def work_of_row(program: Program) -> Counted:
    """The work of one more row in a batch."""
    more, less = (work(program, size) for size in _SIZES)
    rows = _SIZES[0] - _SIZES[1]
    return replace(
        more,
        operations=(more.operations - less.operations) / rows,
        in_kernels=(more.in_kernels - less.in_kernels) / rows,
    )


def work_of_loops(program: Program) -> dict[int, float]:
    """The floating-point operations of each loop of the program itself, for one row."""
    sizes, known = Binding(1, {each.name: each.maximum for each in program.symbols}), program.entry.by_id()
    loops = [each for each in program.entry.operations if each.opcode == "while"]
    return {each.id: _of_operation(each, known, sizes).operations for each in loops}


def work(program: Program, batch_size: int) -> Counted:
    """The work of a run of `batch_size` rows, with all symbols at their maxima.

    For a conditional, the branch with the most operations counts.
    """
    return _of_region(program.entry, {}, Binding(batch_size, {each.name: each.maximum for each in program.symbols}))


def _of_region(region: Region, outside: _Known, sizes: Binding) -> Counted:
    known = {**outside, **region.by_id()}
    return sum((_of_operation(each, known, sizes) for each in region.operations), Counted())


def _of_operation(operation: Operation, known: _Known, sizes: Binding) -> Counted:
    if (multiply_adds := OPERATIONS[operation.opcode].multiply_adds) is not None:
        operations = 2.0 * multiply_adds(operation, [known[value].shape for value in operation.operands], sizes)
        is_float = known[operation.operands[0]].shape.dtype == "f32"
        by_type = {known[operation.operands[1]].shape.dtype: operations}
        if operation.opcode == "convolution" or (operation.opcode == "dot" and not is_float):
            return Counted(products=1, operations=operations, by_type=by_type)
        return Counted(products=1, kernels=1, operations=operations, in_kernels=operations, by_type=by_type)
    inside = [_of_region(region, known, sizes) for region in operation.regions]
    if operation.opcode == "while":
        return _of_loop(operation, known, sum(inside, Counted()))
    if operation.opcode == "conditional":
        return max(inside, key=lambda each: each.operations, default=Counted())
    return sum(inside, Counted())


def _of_loop(operation: Operation, known: _Known, inside: Counted) -> Counted:
    iterations = iterations_of(operation, known)
    if iterations is not None or not inside.products:
        return inside.times(iterations or 0)
    return replace(inside, open_loops=(*inside.open_loops, operation.node))
