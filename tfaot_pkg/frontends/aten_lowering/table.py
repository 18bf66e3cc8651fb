"""The table of operators: a function for each, which makes operations of a program of one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.compiler.program import NUMPY_TYPES, Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.document import ElementType, Node
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import DTYPES, Held, Short, Value, known, number_of, sizes_of
from tfaot_pkg.frontends.onnx_lowering import table as onnx
from tfaot_pkg.frontends.onnx_lowering.fourier import Parts
from tfaot_pkg.frontends.onnx_lowering.graph import Attribute, Graph
from tfaot_pkg.frontends.onnx_lowering.graph import Node as OnnxNode
from tfaot_pkg.frontends.onnx_lowering.lowering import FILLED_BY

Resolved = None | bool | int | float | complex | str | Size | Value | Parts | ElementType | tuple["Resolved", ...]
"""An argument: references are replaced by what they name, a tensor (or its complex parts), a size, or several."""
Results = Resolved

_ONNX = FILLED_BY
"""These modules fill ONNX's table, some of whose functions serve here, too."""
MINUS = Size(-1)
COMPARISONS = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
"""PyTorch's names -> those of directions of HLO."""
SHORT: Mapping[str, Short] = {"bfloat16": "bf16", "float16": "f16"}
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A node with its arguments. `used` are the numbers of those results that other nodes read.

    `origins` are nodes by the names of values that arguments name.
    """

    node: Node
    arguments: Mapping[str, Resolved]
    builder: Builder
    used: frozenset[int]
    origins: Mapping[str, Call]

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def short(self) -> Short:
        """The short type of floats that its first result has; "" if it has another one."""
        result = next(iter(self.node.results), None)
        return "" if result is None else SHORT.get(result.dtype, "")

    def get(self, name: str) -> Resolved:
        return self.arguments.get(name)

    def has(self, name: str) -> bool:
        return self.get(name) is not None

    # -- tensors -------------------------------------------------------------------------------------------------

    def value(self, name: str) -> Value:
        """A tensor; a number counts as a scalar."""
        found = self._tensor(self.get(name))
        if found is None:
            raise Unsupported(f"its argument {name!r} is no tensor")
        return found

    def maybe(self, name: str) -> Value | None:
        return self.value(name) if self.has(name) else None

    def values(self, name: str) -> list[Value]:
        found = [self._tensor(each) for each in self._list(name)]
        if any(each is None for each in found):
            raise Unsupported(f"its argument {name!r} is no list of tensors")
        return [each for each in found if each is not None]

    def optional_values(self, name: str) -> list[Value | None]:
        return [self._tensor(each) for each in self._list(name)]

    def _tensor(self, found: Resolved) -> Value | None:
        if isinstance(found, Value):
            return found
        if isinstance(found, bool):
            return self.builder.constant(found, "pred")
        if isinstance(found, int | float):
            return self.builder.constant(found, "s64" if isinstance(found, int) else "f32")
        return self.builder.size(found) if isinstance(found, Size) else None

    def _list(self, name: str) -> tuple[Resolved, ...]:
        found = self.get(name)
        if not isinstance(found, tuple):
            raise Unsupported(f"its argument {name!r} is no list")
        return found

    # -- sizes and numbers ---------------------------------------------------------------------------------------

    def size(self, name: str) -> Size:
        return self._size(self.get(name), name)

    def sizes(self, name: str) -> list[Size]:
        return [self._size(each, name) for each in self._list(name)]

    def _size(self, found: Resolved, name: str) -> Size:
        if isinstance(found, Size):
            return found
        if isinstance(found, int):
            return Size(int(found))
        if isinstance(found, Value) and found.rank == 0:
            (size,) = sizes_of(found, f"its argument {name!r}")
            return size
        raise Unsupported(f"its argument {name!r} is no size")

    def whole(self, name: str, default: int | None = None) -> int:
        if default is not None and not self.has(name):
            return default
        return self.number(self.size(name), f"its argument {name!r}")

    def wholes(self, name: str) -> list[int]:
        found = self.get(name)
        if found is None:
            return []
        if not isinstance(found, tuple):
            return [self.whole(name)]
        return [self.number(each, f"its argument {name!r}") for each in self.sizes(name)]

    def number(self, size: Size, what: str) -> int:
        found = number_of(size)
        if found is None:
            raise Unsupported(f"{what}: a size of {size}, where a number is needed; export with a number for that axis")
        return found

    def real(self, name: str, default: float | None = None) -> float:
        found = self.get(name)
        if found is None and default is not None:
            return default
        if isinstance(found, Value) and found.numbers is not None and found.numbers.size == 1:
            return float(found.numbers.item())
        if not isinstance(found, int | float):
            raise Unsupported(f"its argument {name!r} is no number")
        return float(found)

    def flag(self, name: str) -> bool:
        return bool(self.get(name))

    def text(self, name: str) -> str:
        found = self.get(name)
        return found if isinstance(found, str) else ""

    # -- axes, types ---------------------------------------------------------------------------------------------

    def axis(self, name: str, rank: int, default: int | None = None) -> int:
        return axis_of(self.whole(name, default), rank)

    def axes(self, name: str, rank: int) -> list[int]:
        """The axes that an argument names; all of them if it is missing or empty."""
        found = self.wholes(name)
        return sorted({axis_of(each, rank) for each in found}) if found and rank else list(range(rank))

    def dtype(self, name: str = "dtype") -> str | None:
        found = self.get(name)
        return dtype_of(found.name) if isinstance(found, ElementType) else None

    # -- operators of ONNX that mean the same --------------------------------------------------------------------

    def onnx(self, op: str, *inputs: Value | None, **attributes: Attribute) -> tuple[Value | None, ...]:
        """What ONNX's operator `op` makes of `inputs`."""

        def run(_graph: Graph, _given: Sequence[Held]) -> tuple[Held, ...]:
            raise Unsupported("an inner graph")

        node = OnnxNode(
            op=op, domain=onnx.ONNX, name=self.node.name, scope=self.node.module, attributes=attributes,
            inputs=tuple("" if each is None else str(place) for place, each in enumerate(inputs)),
            outputs=tuple(str(place) if place in self.used or not place else "" for place in range(3)),
        )  # fmt: skip
        made = onnx.OPERATORS[onnx.ONNX, op](
            onnx.Call(node=node, version=99, inputs=inputs, builder=self.builder, by_row=False, run=run)
        )
        # Lists of arrays are results of other operators alone.
        several = made if isinstance(made, tuple) else (made,)
        return tuple(each if isinstance(each, Value) else None for each in several)

    def onnx_one(self, op: str, *inputs: Value | None, **attributes: Attribute) -> Value:
        """The first result of `onnx`."""
        found = self.onnx(op, *inputs, **attributes)[0]
        assert found is not None
        return found


def axis_of(axis: int, rank: int) -> int:
    """`axis`, counted from the front."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise Unsupported(f"the axis {axis} is not one of {rank}")
    return axis % max(rank, 1)


def dtype_of(name: str) -> str:
    """The program's name of an element type of PyTorch. Floats of 16 bits are rounded ones of 32 (decision 073)."""
    if name in SHORT:
        return "f32"
    if name not in DTYPES:
        raise Unsupported(f"the element type {name}: export the model in float32, model.float()")
    return DTYPES[name]


def promoted(values: Sequence[Value | float]) -> str:
    """The element type of a result of operands, by PyTorch's rules.

    Tensors with axes decide; scalars of a higher kind (truth values, integers, floats) come next, then numbers.
    """
    groups: tuple[list[str], list[str], list[str]] = ([], [], [])
    for each in values:
        if isinstance(each, Value):
            groups[0 if each.rank else 1].append(each.dtype)
        else:
            groups[2].append("pred" if isinstance(each, bool) else "s64" if isinstance(each, int) else "f32")
    found: str | None = None
    for group in groups:
        if group:
            best = max(_KINDS[NUMPY_TYPES[each].kind] for each in group)
            types = [NUMPY_TYPES[each] for each in group if _KINDS[NUMPY_TYPES[each].kind] == best]
            if found is None or best > _KINDS[NUMPY_TYPES[found].kind]:
                found = DTYPES[np.result_type(*types).name]
    assert found is not None
    return found


def sizes_value(sizes: Sequence[Size]) -> Value:
    """A vector of sizes, as ONNX's operators take them."""
    array = np.empty(len(sizes), object)
    array[:] = list(sizes)
    return known(array, "s64")


Function = Callable[[Call], Results]

OPERATORS: dict[str, Function] = {}
"""The functions by the names of operators."""


def operator(*names: str) -> Callable[[Function], Function]:
    """Register the decorated function: for "aten.NAME.default", or with an overload, NAME.OVERLOAD."""

    def add(function: Function) -> Function:
        for name in names:
            full = f"aten.{name}" if "." in name else f"aten.{name}.default"
            assert full not in OPERATORS, full
            OPERATORS[full] = function
        return function

    return add
