"""Polynomials of constants: each step is a multiplication and an addition that are rounded once (decision 039)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tfaot_pkg.compiler.program import Operation, Region, used
from tfaot_pkg.compiler.use_def import Look

_LEAST = 3
"""Steps of the shortest series: shorter sums of products, which models contain for other reasons, keep their bits."""


def fused(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
    """`region` with `multiply-add` (sum, x, number) for each step of a series in Horner's scheme.

    A step multiplies the sum so far by x, which is the same in all steps, and adds a known number.
    """
    look = Look(region, outside, ids)
    steps: dict[tuple[int, int], tuple[int, int]] = {}  # by the new sum and x: the sum before, and the number
    length: dict[tuple[int, int], int] = {}
    for operation in region.operations:
        for before, x, number in _steps(look, operation):
            steps[operation.id, x] = (before, number)
            length[operation.id, x] = 1 + length.get((before, x), 0)
    # Backwards, because all steps of a series are as many as lead to its end.
    for (made, x), (before, _) in reversed(steps.items()):
        if (before, x) in length:
            length[before, x] = max(length[before, x], length[made, x])
    of_series = {
        made: (before, x, number) for (made, x), (before, number) in steps.items() if length[made, x] >= _LEAST
    }
    operations = [
        replace(each, opcode="multiply-add", operands=of_series[each.id]) if each.id in of_series else each
        for each in region.operations
    ]
    return Region(operations=used(operations, region.results), results=region.results)


def _steps(look: Look, operation: Operation) -> Iterator[tuple[int, int, int]]:
    """The sum before, x and the number of what may be a step. Either factor of its product may be x."""
    if operation.opcode != "add" or operation.shape.dtype not in ("f32", "f64"):
        return
    for value, number in (operation.operands, operation.operands[::-1]):
        product = look.made_by(value, "multiply", once=True)
        if product is not None and look.scalar(number) is not None:
            yield from (
                (before, x, number)
                for before, x in (product.operands, product.operands[::-1])
                if look.scalar(x) is None
            )
