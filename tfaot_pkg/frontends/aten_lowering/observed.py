"""Which values of a lowered module decide whether PyTorch leaves the result of an operator open.

worker_program/messages/open_results.py looks at their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.compiler.program import BATCH
from tfaot_pkg.frontends.aten_lowering.document import ElementType, Node
from tfaot_pkg.frontends.aten_lowering.table import SHORT, Resolved
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.fourier import Parts
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.open_results import watched

_FIRST = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "searchsorted": ("self",)}
"""The operands that come first, because they have the rows, or are what is searched for."""
_WITH_PLACES = frozenset(("max", "min"))
_SORTS = frozenset(("kthvalue", "median", "sort", "topk"))
_OF_AXIS = frozenset(("argmax", "argmin", "max", "min", *_SORTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """An operator, "aten.NAME", with its operands, values or numbers; `to` is the element type of a conversion.

    `axis` is that of a sort or a maximum; None is all elements. A sort may be `without_rule` for equal elements. If its
    first operand is not `by_row`, any row of the batch may depend on each of its elements.
    """

    name: str
    operation: str
    operands: tuple[Value | Array, ...]
    to: str | None
    axis: int | None
    without_rule: bool
    by_row: bool


def observed(node: Node, arguments: Mapping[str, Resolved]) -> Observed | None:
    """None if PyTorch defines the results of `node`, whatever its operands are."""
    _, name, overload = (*node.op.split("."), "", "")[:3]
    operation = f"aten.{name}"
    if not watched(operation) or (name in _WITH_PLACES and overload != "dim"):
        return None
    to = arguments.get("dtype") if name == "_to_copy" else None
    # A quotient that is not rounded has no step, and is not undefined.
    if (name == "_to_copy" and to is None) or (name == "div" and not arguments.get("rounding_mode")):
        return None
    order = [*_FIRST.get(name, ()), *(each for each in arguments if each not in _FIRST.get(name, ()))]
    operands = tuple(operand for each in order for operand in _operands(arguments.get(each), name, each))
    first = operands[0] if operands else None
    if not isinstance(first, Value):
        return None
    axis = arguments.get("dim", -1) if name in _OF_AXIS else -1
    return Observed(
        name=node.name,
        operation=operation,
        operands=operands,
        to=_held_as(to.name) if isinstance(to, ElementType) else None,
        axis=axis if isinstance(axis, int) else None,
        without_rule=name in _SORTS and not arguments.get("stable"),
        by_row=bool(first.sizes) and _grows_by_rows(first),
    )


def _held_as(dtype: str) -> str:
    return "float32" if dtype in SHORT else dtype


def _grows_by_rows(value: Value) -> bool:
    terms = value.sizes[0].terms
    return bool(terms) and all(BATCH in monomial for monomial, _ in terms)


def _operands(argument: Resolved, operator: str, name: str) -> Iterator[Value | Array]:
    if isinstance(argument, Value):
        yield argument
    elif isinstance(argument, Parts):
        yield from (each for each in (argument.real, argument.imaginary) if each is not None)
    elif isinstance(argument, tuple):
        for each in argument:
            yield from _operands(each, operator, "")
    # A number beside a tensor in a comparison or a quotient; others are settings.
    elif name == "other" and isinstance(argument, int | float):
        yield np.asarray(argument, np.float64 if isinstance(argument, float) else None)
