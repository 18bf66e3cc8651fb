"""The table of operators: a function for each, which makes operations of a program of one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import DTYPES, Held, Listed, Short, Value, known, number_of, sizes_of
from tfaot_pkg.frontends.onnx_lowering.graph import Graph, Node, OtherType, Tensor
from tfaot_pkg.ground.arrays import Array

ONNX, ML, MICROSOFT = "ai.onnx", "ai.onnx.ml", "com.microsoft"
"""Domains of operators."""

_TYPES = {
    1: "f32", 2: "u8", 3: "s8", 4: "u16", 5: "s16", 6: "s32", 7: "s64", 9: "pred", 10: "f32", 11: "f64", 12: "u32",
    13: "u64", 16: "f32",
}  # fmt: skip
"""Numbers of ONNX's TensorProto.DataType -> element types of programs."""
_FEW_BITS = frozenset("int2 int4 uint2 uint4".split())
_OTHERS = {8: "text", 14: "complex64", 15: "complex128"}
SHORT: Mapping[int, Short] = {10: "f16", 16: "bf16"}
"""Numbers of the types that are computed in float32."""

Results = Held | tuple[Held | None, ...]


NAMED_PART = "change the part of the model that is named"
"""The hint of an error that has none of its own."""


class Refused(Unsupported):
    """What a program cannot represent, and what the model's author can do about it ("" if that is not known)."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A node with the values of its inputs; None for one that is left out. `version` is the opset of its domain.

    `run` lowers an inner graph: it takes the values of the graph's inputs, and returns those of its outputs.
    """

    node: Node
    version: int
    inputs: tuple[Held | None, ...]
    builder: Builder
    by_row: bool
    run: Callable[[Graph, Sequence[Held]], tuple[Held, ...]]

    @property
    def op(self) -> str:
        return self.node.op

    def like(self, op: str, *inputs: Value | None) -> Call:
        """The node as one of the operator `op` of ONNX's own domain, in its newest form, of other inputs."""
        return replace(self, node=replace(self.node, op=op, domain=ONNX), version=99, inputs=inputs)

    def fault(self, why: str, hint: str = "") -> Refused:
        return Refused(why, hint)

    # -- inputs --------------------------------------------------------------------------------------------------

    def held(self, place: int) -> Held | None:
        """An input, which may be a sequence; None if it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def maybe(self, place: int) -> Value | None:
        found = self.held(place)
        return None if found is None else self.value(found)

    def value(self, held: Held) -> Value:
        """`held` as an array. Raises Unsupported if it is a sequence."""
        if isinstance(held, Listed):
            raise self.fault("a sequence, or an optional value that is empty, where a tensor is needed")
        return held

    def values(self, graph: Graph, given: Sequence[Held]) -> tuple[Value, ...]:
        """What an inner graph gives, as arrays. Raises Unsupported if it gives a sequence."""
        return tuple(map(self.value, self.run(graph, given)))

    def input(self, place: int) -> Value:
        found = self.maybe(place)
        if found is None:
            raise self.fault(f"it has no input {place + 1}")
        return found

    @property
    def arrays(self) -> list[Value | None]:
        """The inputs, none of which is a sequence."""
        return [self.maybe(place) for place in range(len(self.inputs))]

    def all(self) -> list[Value]:
        return [self.input(place) for place in range(len(self.inputs))]

    def integers(self, place: int, what: str) -> list[int]:
        """The numbers in an input. Raises Unsupported if they are computed or depend on symbols."""
        return [self.number(size, what) for size in sizes_of(self.input(place), what)]

    def sizes(self, place: int, what: str) -> tuple[Size, ...]:
        """The sizes in an input. Raises Unsupported if they are computed."""
        return sizes_of(self.input(place), what)

    def floats(self, place: int, what: str) -> list[float]:
        found = self.input(place).numbers
        if found is None:
            raise self.fault(f"{what}: they depend on the inputs of the model")
        return [float(each) for each in found.reshape(-1)]

    def number(self, size: Size, what: str) -> int:
        found = number_of(size)
        if found is None:
            raise self.fault(f"{what}: a size of {size}, where a number is needed; give it one in model.shapes")
        return found

    # -- attributes ----------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        return name in self.node.attributes

    def whole(self, name: str, default: int | None = None) -> int:
        found = self.node.attributes.get(name, default)
        if type(found) is not int:
            raise self.fault(f"its attribute {name!r} is no integer")
        return found

    def real(self, name: str, default: float) -> float:
        found = self.node.attributes.get(name, default)
        if not isinstance(found, int | float):
            raise self.fault(f"its attribute {name!r} is no number")
        return float(found)

    def text(self, name: str, default: str) -> str:
        found = self.node.attributes.get(name, default)
        if not isinstance(found, str):
            raise self.fault(f"its attribute {name!r} is no text")
        return found

    def wholes(self, name: str) -> list[int] | None:
        found = self.node.attributes.get(name)
        if found is None:
            return None
        if not isinstance(found, tuple) or not all(type(each) is int for each in found):
            raise self.fault(f"its attribute {name!r} is no list of integers")
        return [each for each in found if isinstance(each, int)]

    def reals(self, name: str) -> list[float] | None:
        found = self.node.attributes.get(name)
        if found is None:
            return None
        if not isinstance(found, tuple):
            raise self.fault(f"its attribute {name!r} is no list of numbers")
        return [float(each) for each in found]

    def texts(self, name: str) -> list[str] | None:
        found = self.node.attributes.get(name)
        if found is None:
            return None
        if not isinstance(found, tuple):
            raise self.fault(f"its attribute {name!r} is no list")
        return [str(each) for each in found]

    def tensor(self, name: str) -> Array | None:
        found = self.node.attributes.get(name)
        if isinstance(found, OtherType):
            raise self.fault(f"element type {found.dtype}")
        if found is not None and not isinstance(found, np.ndarray):
            raise self.fault(f"its attribute {name!r} is no tensor")
        return found

    def constant_in(self, name: str) -> Value | None:
        """The value of a tensor in an attribute."""
        found = self.node.attributes.get(name)
        if isinstance(found, OtherType):
            return constant_of(found)
        return None if (array := self.tensor(name)) is None else constant_of(array)

    def graph(self, name: str) -> Graph:
        found = self.node.attributes.get(name)
        if not isinstance(found, Graph):
            raise self.fault(f"its attribute {name!r} is no graph")
        return found

    def dtype(self, number: int) -> str:
        """The element type with ONNX's number; that of float16 and bfloat16 is float32."""
        if number not in _TYPES:
            raise self.fault(f"element type {_OTHERS.get(number, number)}")
        return _TYPES[number]

    # -- axes ----------------------------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int) -> int:
        """`axis`, counted from the front."""
        if not -rank <= axis < max(rank, 1):
            raise self.fault(f"the axis {axis} is not one of {rank}")
        return axis % max(rank, 1)

    def axes(self, place: int, rank: int) -> list[int] | None:
        """The axes that an attribute or, in newer opsets, an input gives; None if none does."""
        found = self.wholes("axes") if self.maybe(place) is None else self.integers(place, "the axes")
        return None if found is None else [self.axis(each, rank) for each in found]

    # -- constants -----------------------------------------------------------------------------------------------

    def constant(self, value: float, like: Value) -> Value:
        """A scalar of the type of `like`."""
        return self.builder.constant(value, like.dtype)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OfFewBits(Value):
    """Constants of 2 or 4 bits, as bytes: weights, which only conversions and `DequantizeLinear` read."""


def _of_few_bits(array: OtherType) -> Value:
    bits, is_signed = int(array.dtype[-1]), array.dtype[0] == "i"
    numbers = array.bits & ((1 << bits) - 1)
    if is_signed:  # the highest bit counts negative
        numbers = (numbers ^ (1 << (bits - 1))).astype(np.int8) - np.int8(1 << (bits - 1))
    made = known(np.asarray(numbers), "s8" if is_signed else "u8")
    return OfFewBits(shape=made.shape, known=made.known)


def constant_of(array: Tensor) -> Value:
    """A known value with the elements of an array. Raises Unsupported for texts and the like."""
    if isinstance(array, OtherType):
        if array.dtype in _FEW_BITS:
            return _of_few_bits(array)
        if array.dtype != "bfloat16":
            raise Unsupported(f"element type {array.dtype}")
        # Its bits are the upper half of a float's.
        wide = np.asarray(array.bits.astype(np.uint32) << 16, np.uint32).view(np.float32)
        return replace(known(wide, "f32"), short="bf16")
    if array.dtype == np.float16:
        return replace(known(array.astype(np.float32), "f32"), short="f16")
    if array.dtype.name not in DTYPES:
        raise Unsupported(f"element type {'text' if array.dtype.kind in 'OUS' else array.dtype.name}")
    return known(array, DTYPES[array.dtype.name])


Function = Callable[[Call], Results]

OPERATORS: dict[tuple[str, str], Function] = {}
"""(domain, operator) -> its function."""


def operator(*names: str, domain: str = ONNX) -> Callable[[Function], Function]:
    """Register the decorated function for these operators."""

    def add(function: Function) -> Function:
        for name in names:
            assert (domain, name) not in OPERATORS, name
            OPERATORS[domain, name] = function
        return function

    return add
