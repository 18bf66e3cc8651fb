"""HLO's batch normalization as operations that passes and the emitter know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Constant, Dimensions, Feature
from tfaot_pkg.compiler.passes.rewriting import Rewrite
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, NUMPY_TYPES, Attributes, Literal, Operation, Shape


def batch_norm_inference(program: Rewrite, operation: Operation, operand: Operation) -> Operation:
    """(x - mean) * (scale / sqrt(variance + epsilon)) + offset, by feature."""
    # In this order, so that constant statistics fold to one factor per feature.
    x, scale, offset, mean, variance = operation.operands
    shape, feature = operand.shape, Feature.of(operation).feature
    vector = Shape(shape.dtype, (shape.sizes[feature],))
    epsilon = np.array(Feature.of(operation).epsilon, NUMPY_TYPES[shape.dtype])

    def made(opcode: str, type_: Shape, *operands: int, attributes: Attributes = NO_ATTRIBUTES) -> Operation:
        return Operation(id=0, opcode=opcode, type=type_, operands=operands, attributes=attributes, node=operation.node)

    def along(value: int) -> int:
        return program.add(made("broadcast", shape, value, attributes=Dimensions(dimensions=(feature,))))

    constant = program.add(made("constant", Shape(shape.dtype, ()), attributes=Constant(literal=Literal(epsilon))))
    spread = program.add(made("broadcast", vector, constant, attributes=Dimensions(dimensions=())))
    deviation = program.add(made("rsqrt", vector, program.add(made("add", vector, variance, spread))))
    factor = program.add(made("multiply", vector, scale, deviation))
    centred = program.add(made("subtract", shape, x, along(mean)))
    scaled = program.add(made("multiply", shape, centred, along(factor)))
    return replace(made("add", shape, scaled, along(offset)), type=operation.type)
