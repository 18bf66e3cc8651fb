"""A program in float64: what it computes without the roundings of float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Constant
from tfaot_pkg.compiler.program import Literal, Operation, Program, Region, Shape, Type, Unsupported
from tfaot_pkg.ground.arrays import Array

_OF_BITS = frozenset(("bitcast-convert", "custom-call"))


def doubled(program: Program) -> Program:
    """`program` with float64 in place of float32, inputs and outputs too. Raises Unsupported if bits are read."""
    return replace(program, entry=_region(program.entry))


def _region(region: Region) -> Region:
    return replace(region, operations=tuple(map(_operation, region.operations)))


def _operation(operation: Operation) -> Operation:
    if operation.opcode in _OF_BITS:
        raise Unsupported(f"{operation.opcode} in float64")
    attributes = operation.attributes
    if isinstance(attributes, Constant):
        literal = attributes.literal
        growing = tuple((monomial, _array(values)) for monomial, values in literal.growing)
        attributes = replace(attributes, literal=Literal(_array(literal.constant), growing))
    return replace(
        operation, type=_type(operation.type), attributes=attributes, regions=tuple(map(_region, operation.regions))
    )


def _type(found: Type) -> Type:
    return tuple(map(_shape, found)) if isinstance(found, tuple) else _shape(found)


def _shape(shape: Shape) -> Shape:
    return Shape("f64", shape.sizes) if shape.dtype == "f32" else shape


def _array(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype == np.float32 else values
