"""Sorts of elements with their indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Comparison, Constant, Dimensions, Element, Slices, TopK, in_total_order
from tfaot_pkg.compiler.passes.zeros import of_one_zero
from tfaot_pkg.compiler.program import Operation, Region, Shape, Size, used
from tfaot_pkg.compiler.use_def import Look


def top_k(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
    """Sorts of elements and their indices by value become `top_k`; all elements if not only the first ones are used."""
    look = Look(region, outside, ids)
    changed: dict[int, Operation] = {}
    for sort in region.operations:
        largest = _is_sort_with_indices(look, sort)
        if largest is None:
            continue
        elements = [each for each in region.operations if each.operands == (sort.id,)]
        k = _used_elements(look, region, elements) or look.known[sort.operands[0]].shape.sizes[-1]
        shapes = tuple(Shape(t.dtype, (*t.sizes[:-1], k)) for t in sort.shapes)
        signed = of_one_zero(look, sort.operands[0])
        zeros, source = ("signed", sort.operands[0]) if signed is None else ("equal", signed)
        changed[sort.id] = replace(
            sort, opcode="top_k", type=shapes, operands=(source,), regions=(),
            attributes=TopK(k=k, largest=largest, zeros=zeros),
        )  # fmt: skip
        for each in elements:
            changed[each.id] = replace(each, type=shapes[Element.of(each).index])
    made = [changed.get(each.id, each) for each in region.operations]
    return Region(operations=used(made, region.results), results=region.results)


def _used_elements(look: Look, region: Region, elements: Sequence[Operation]) -> Size | None:
    """How many of the first elements the uses of sorted arrays read; None if that is not known, or all of them."""
    slices = {each.id: [s for s in region.operations if s.operands == (each.id,)] for each in elements}
    if any(each.id in region.results or look.uses[each.id] != len(slices[each.id]) for each in elements):
        return None
    uses = [each for found in slices.values() for each in found]
    if not uses or any(each.opcode != "slice" for each in uses):
        return None
    ends = [as_size(Slices.of(each).slices[-1][1]) for each in uses]
    return max(ends, key=lambda end: end.constant) if all(end.is_constant for end in ends) else None


def _is_sort_with_indices(look: Look, sort: Operation) -> bool | None:
    """Whether the largest come first; None if it is not a sort of float32 values with their indices."""
    if sort.opcode != "sort" or len(sort.operands) != 2 or not isinstance(sort.type, tuple):
        return None
    values, numbers = (look.known[operand] for operand in sort.operands)
    axis = values.shape.rank - 1
    if values.shape.dtype != "f32" or Dimensions.of(sort).dimensions != (axis,) or values.shape.sizes[-1].grows:
        return None
    if numbers.opcode != "iota" or numbers.shape.dtype != "s32" or Dimensions.of(numbers).dimensions != (axis,):
        return None
    region = sort.regions[0]
    # Constants of the comparison may stand outside its region.
    known, parameters = {**look.known, **region.by_id()}, [parameter.id for parameter in region.parameters]
    root = known[region.results[0]]
    if root.opcode == "select" and known[root.operands[0]].opcode == "constant":
        chosen = 1 if Constant.of(known[root.operands[0]]).literal.constant else 2
        root = known[root.operands[chosen]]
    if (
        root.opcode != "compare"
        or root.operands != tuple(parameters[:2])
        # Without a total order the position of NaN is undefined, and the kernel library's order might differ.
        or not in_total_order(root)
    ):
        return None
    return {"GT": True, "LT": False}.get(Comparison.of(root).direction)
