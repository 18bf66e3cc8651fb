"""Nodes that the author of the model supplies (decision 053): calls of their C++ functions, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tfaot_pkg.compiler.attributes import CustomCall
from tfaot_pkg.compiler.program import NUMPY_TYPES, ROWS, Shape, Size
from tfaot_pkg.frontends.lowering.values import DTYPES, Value
from tfaot_pkg.frontends.onnx_lowering.table import ML, ONNX, Call
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.carriers import OPERATION

Reference = Callable[[str, Sequence[Array], Mapping[str, tuple[float, ...]]], Sequence[Array]]
"""(operation, inputs, attributes) -> its results. Raises ModelError for every fault of it."""

OWN_DOMAINS = frozenset((ONNX, ML, "ai.onnx.training"))
"""Domains whose operators keep their meaning."""
_PROBES = (5, 7)
_MOST_EXACT = 1 << 53  # a double represents every integer up to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The operations of the spec by `names`, and what runs their references. `used` are those that nodes call."""

    names: frozenset[str] = frozenset()
    reference: Reference = lambda *_: ()
    used: set[str] = field(default_factory=set)
    known: dict[tuple[object, ...], tuple[Shape, ...]] = field(default_factory=dict)
    """Types of results: a model is lowered twice, and a reference may be slow."""

    def are_authors(self, domain: str, op: str) -> bool:
        """Whether the author supplies this operator."""
        return domain not in OWN_DOMAINS and op in self.names

    def called(self, call: Call) -> tuple[Value, ...]:
        """The results of a node, of the types that its reference returns."""
        self.used.add(call.op)
        attributes = {key: _numbers(call, key, value) for key, value in call.node.attributes.items()}
        inputs = [_given(call, place) for place in range(len(call.inputs))]
        config = json.dumps({"attributes": attributes, "name": call.op}, sort_keys=True)
        question = (config, *((each.shape, None if each.known is None else each.known.tobytes()) for each in inputs))
        if question not in self.known:
            self.known[question] = self._types(call, inputs, {key: tuple(each) for key, each in attributes.items()})
        types = self.known[question]
        return call.builder.ops(
            "custom-call", *inputs, attributes=CustomCall(target=OPERATION, config=config), stated=types
        )

    def _types(
        self, call: Call, inputs: Sequence[Value], attributes: Mapping[str, tuple[float, ...]]
    ) -> tuple[Shape, ...]:
        # Found by calls at two batch sizes: a Python function does not declare the shapes of its results.
        small, large = (
            self.reference(call.op, [_ones(call, place, each, rows) for place, each in enumerate(inputs)], attributes)
            for rows in _PROBES
        )
        if len(small) != len(call.node.outputs) or len(large) != len(small):
            raise call.fault(
                f"its reference returns {len(small)} arrays, and the node has {len(call.node.outputs)} outputs"
            )
        return tuple(_shape(call, one, two) for one, two in zip(small, large, strict=True))


def _given(call: Call, place: int) -> Value:
    found = call.maybe(place)
    if found is None:
        raise call.fault("an operation of the author's has no inputs that are left out")
    if found.short:
        raise call.fault(f"its input {place} is of float16", "insert a Cast node to float32")
    return found


def _numbers(call: Call, key: str, value: object) -> list[float]:
    values = value if isinstance(value, tuple) else (value,)
    found = []
    for each in values:
        # `not ... <=` instead of `>`, so that NaN is rejected too.
        if not isinstance(each, int | float) or not abs(each) <= _MOST_EXACT:
            raise call.fault(
                f"the attribute {key!r} of the operation {call.op!r} is not a number, or list of numbers, that a "
                "double can represent",
                "give an operation numbers, and choose among kinds by a number",
            )
        found.append(float(each))
    return found


def _ones(call: Call, place: int, value: Value, rows: int) -> Array:
    if value.numbers is not None:
        return value.numbers
    if not all(size.is_constant for size in value.sizes[1:]) or not _may_be_first(value.sizes[:1]):
        raise call.fault(
            f"the shape of its input {place} is not known: {value.shape}",
            "give the axes of the model's inputs sizes (model.shapes); only the first may be the batch",
        )
    sizes = [rows if size == ROWS else size.constant for size in value.sizes]
    return np.ones(sizes, NUMPY_TYPES[value.dtype])


def _may_be_first(sizes: Sequence[Size]) -> bool:
    return all(size == ROWS or size.is_constant for size in sizes)


def _shape(call: Call, small: Array, large: Array) -> Shape:
    if small.shape[:1] != _PROBES[:1] or large.shape[:1] != _PROBES[1:] or small.shape[1:] != large.shape[1:]:
        raise call.fault(
            f"its reference returns the shape {list(small.shape)} for {_PROBES[0]} rows, and {list(large.shape)} for "
            f"{_PROBES[1]}",
            "the first axis must be the batch, and others have the same sizes always",
        )
    if small.dtype.name not in DTYPES:
        raise call.fault(f"its reference returns {small.dtype.name}")
    return Shape(DTYPES[small.dtype.name], (ROWS, *map(Size, small.shape[1:])))
