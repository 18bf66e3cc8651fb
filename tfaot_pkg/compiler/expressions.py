"""C++ of single elements: types, numbers, and what elementwise operations are in the kernel library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.program import Literal, Operation, Shape, Unsupported

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
    "not": "negated",
    "power": "powerOf",
    "remainder": "remainderOf",
    "round-nearest-even": "roundedToEven",
    "select": "chosen",
    "sqrt": "squareRoot",
    "tanh": "hyperbolicTangent",
}

_FORMS = {
    "clamp": "minimum(maximum({0}, {1}), {2})",
    "negate": "-{0}",
    "rsqrt": "1.0f / squareRoot({0})",
}

ELEMENTWISE = frozenset({*_INFIX, *_FUNCTIONS, *_FORMS, "compare", "convert"})

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
    found: Literal = operation.attributes["literal"]
    if found.per_row is not None:
        start, step = (
            number_text(replace(operation, attributes={"literal": Literal(each)}))
            for each in (found.constant, found.per_row)
        )
        return f"static_cast<{C_TYPES[operation.shape.dtype]}>({start} + {step} * n)"
    value = found.constant.reshape(-1)[0]
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
    """The C++ of one elementwise operation; `by_vectors`: its operands' `types` and its own have vectors."""
    opcode, dtype = operation.opcode, operation.shape.dtype
    if opcode in _INFIX:
        return f"{operands[0]} {_INFIX[opcode]} {operands[1]}"
    if opcode in _FUNCTIONS:
        return f"{_FUNCTIONS[opcode]}({', '.join(operands)})"
    if opcode == "compare":
        return f"{operands[0]} {_COMPARED[operation.attributes['direction']]} {operands[1]}"
    if opcode != "convert":
        return _FORMS[opcode].format(*operands)
    if types[0] == dtype:
        return operands[0]
    if by_vectors:
        return f"{dtype}Of{types[0].capitalize()}({operands[0]})"
    return f"converted<{C_TYPES[dtype]}>({operands[0]})"
