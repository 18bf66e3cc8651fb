"""Loops over steps: the first value of the state counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Comparison, Sizes
from tfaot_pkg.compiler.program import ONE, Shape, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value

Body = Callable[[Value, Sequence[Value]], Sequence[Value]]
"""Of the number of a step, int32, and the state before it: the state after it."""


Condition = Callable[[Sequence[Value]], Value]
"""Of a state: a truth value that says whether a further step follows."""


def repeated(
    b: Builder, steps: Size | None, state: Sequence[Value], body: Body, *, going: Condition | None = None
) -> list[Value]:
    """The state after `steps` steps, or fewer if `going` says so."""
    counter = b.constant(0, "s32")
    types = [counter.shape, *(each.shape for each in state)]

    def step(given: Sequence[Value]) -> list[Value]:
        return [b.op("add", given[0], b.constant(1, "s32")), *body(given[0], given[1:])]

    def is_before(given: Sequence[Value]) -> list[Value]:
        goes_on = None if going is None else going(given[1:])
        if steps is None:
            assert goes_on is not None
            return [goes_on]
        more = b.op("compare", given[0], b.size(steps, "s32"), attributes=Comparison(direction="LT"))
        return [more if goes_on is None else b.op("and", more, goes_on)]

    regions = [b.region(types, step), b.region(types, is_before)]
    return list(b.ops("while", counter, *state, regions=regions)[1:])


def read(b: Builder, x: Value, step: Value) -> Value:
    """Element `step` of the first axis."""
    sizes = (1, *(plain(size) for size in x.sizes[1:]))
    zero = b.constant(0, step.dtype)
    found = b.op("dynamic-slice", x, step, *[zero] * (x.rank - 1), attributes=Sizes(sizes=sizes))
    return b.reshape(found, x.sizes[1:])


def written(b: Builder, x: Value, step: Value, value: Value) -> Value:
    """`x` with `value` as element `step` of the first axis."""
    zero = b.constant(0, step.dtype)
    return b.op("dynamic-update-slice", x, b.reshape(value, [ONE, *value.sizes]), step, *[zero] * value.rank)


def room(b: Builder, steps: Size, shape: Shape) -> Value:
    """An array for `steps` values of the type `shape`."""
    return b.spread(b.constant(0, shape.dtype), [steps, *shape.sizes])
