"""C++ of single elements: types, numbers, and what elementwise operations are in the kernel library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.program import Operation, Shape, Unsupported

C_TYPES = {
    "pred": "bool", "s8": "std::int8_t", "s16": "std::int16_t", "s32": "std::int32_t", "s64": "std::int64_t",
    "u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t", "u64": "std::uint64_t", "f32": "float",
    "f64": "double",
}  # fmt: skip

VECTOR_TYPES = {"f32": "Vector", "s32": "Integers", "pred": "Mask"}

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^"}

_COMPARED = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}

_FUNCTIONS = {
    "abs": "magnitude",
    "ceil": "roundedUp",
    "erf": "errorFunction",
    "exponential": "exponentialOf",
    "exponential-minus-one": "exponentialMinusOne",
    "floor": "roundedDown",
    "logistic": "logistic",
    "maximum": "maximum",
    "minimum": "minimum",
    "round-nearest-even": "roundedToEven",
    "sqrt": "squareRoot",
    "tanh": "hyperbolicTangent",
}

ELEMENTWISE = frozenset({*_INFIX, *_FUNCTIONS, "compare", "select", "negate", "not", "rsqrt", "clamp", "convert"})

MOVING = frozenset({"broadcast", "transpose", "slice", "reverse", "reshape", "iota", "dynamic-slice"})


def c_type(shape: Shape) -> str:
    if shape.dtype not in C_TYPES:
        raise Unsupported(f"arrays of {shape.dtype}")
    return C_TYPES[shape.dtype]


def literal(operation: Operation) -> Array:
    literal = operation.attributes["literal"]
    if literal.per_row is not None:
        raise Unsupported("a constant that depends on the batch")
    values: Array = literal.constant
    return values


def number_text(operation: Operation) -> str:
    """A constant without axes as C++."""
    if operation.opcode != "constant":
        raise Unsupported(f"{operation.opcode} where a constant is needed")
    value = literal(operation).reshape(-1)[0]
    match operation.shape.dtype:
        case "f32":
            # C++ has no literals for infinities and NaN; hexadecimal ones are exact.
            bits = int(np.float32(value).view(np.uint32))
            return (
                f"bitsAs<float>(std::uint32_t{{{bits:#010x}}})" if not np.isfinite(value) else f"{float(value).hex()}f"
            )
        case "s32":
            # In C++, -2147483648 is the negation of a number that does not fit the type.
            return f"std::int32_t{{{int(value)}}}" if value > -(2**31) else "std::numeric_limits<std::int32_t>::min()"
        case "pred":
            return "true" if value else "false"
        case "f64":
            bits = int(np.float64(value).view(np.uint64))
            return f"bitsAs<double>(std::uint64_t{{{bits:#018x}u}})"
    return f"static_cast<{C_TYPES[operation.shape.dtype]}>({int(value)}{'' if value < 2**63 else 'u'})"


def expression(operation: Operation, operands: Sequence[str], types: Sequence[str], *, by_vectors: bool) -> str:
    opcode = operation.opcode
    if opcode in _INFIX:
        return f"{operands[0]} {_INFIX[opcode]} {operands[1]}"
    if opcode in _FUNCTIONS:
        return f"{_FUNCTIONS[opcode]}({', '.join(operands)})"
    match opcode:
        case "compare":
            return f"{operands[0]} {_COMPARED[operation.attributes['direction']]} {operands[1]}"
        case "select":
            return f"chosen({', '.join(operands)})"
        case "negate":
            return f"-{operands[0]}"
        case "not":
            return f"negated({operands[0]})"
        case "convert" if types[0] == operation.shape.dtype:
            return operands[0]
        case "convert" if by_vectors:
            return f"{operation.shape.dtype}Of{types[0].capitalize()}({operands[0]})"
        case "convert":
            return f"converted<{C_TYPES[operation.shape.dtype]}>({operands[0]})"
        case "rsqrt":
            return f"1.0f / squareRoot({operands[0]})"
        case "clamp":
            return f"minimum(maximum({operands[0]}, {operands[1]}), {operands[2]})"
    raise Unsupported(opcode)
