"""C++ of single elements: types, numbers, and the kernel library's functions for elementwise operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import cpp
from tfaot_pkg.compiler.attributes import Comparison, Constant, Quantize, in_total_order
from tfaot_pkg.compiler.program import Literal, Operation, Shape, Size, Unsupported
from tfaot_pkg.compiler.quotients import factors_of
from tfaot_pkg.ground.arrays import Array

C_TYPES = {
    "pred": "bool", "s8": "std::int8_t", "s16": "std::int16_t", "s32": "std::int32_t", "s64": "std::int64_t",
    "u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t", "u64": "std::uint64_t", "f32": "float",
    "f64": "double",
}  # fmt: skip

COMBINED = {"add": "Adding", "multiply": "Multiplying", "maximum": "TakingLargest", "minimum": "TakingSmallest"}
"""The kernel library's functions that combine two values in reductions, by opcode."""

COMBINED_TRUTHS = {
    "or": "Either",
    "add": "Either",
    "maximum": "Either",
    "and": "Both",
    "multiply": "Both",
    "minimum": "Both",
}
"""The same for truth values."""

VECTOR_TYPES = {"f32": "Vector", "s32": "Integers", "pred": "Mask"}

NARROW_TYPES = {"s8": "Integers", "u8": "Integers", "u16": "Integers"}
"""Those that lie in the lanes of integers: memory has a vector of fewer bits."""

MOVED_TYPES = {**VECTOR_TYPES, **NARROW_TYPES}
"""The types of loaded and stored vectors. Of narrow types, vectors compute only what `is_of_lanes` names."""

WIDE_TYPES = {"f64": "Doubles", "s64": "Longs"}
"""Those of which vectors have half as many elements. The kernel library has few functions of them (`IN_WIDE_VECTORS`):
compilers make vectors of most loops."""

_OF_BITS = ("bf16-of-bits", "bits-of-bf16", "bits-of-f16", "f16-of-bits")

_OF_BYTES = ("and", "clamp", "compare", "convert", "maximum", "minimum", "or", "quantize", "select", "xor")
"""Operations that give the same for bytes with more bits; of what a conversion gives, the last ones are kept."""

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^"}

_OF_TRUTH = {"add": "|", "maximum": "|", "multiply": "&", "minimum": "&"}
"""The same on truth values. True is -1 in vectors, so arithmetic would give other results."""

_COMPARED = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}

# For the same reason, as logic: false < true is "not a, and b".
_TRUTH_COMPARED = {
    "LT": "negated({0}) & {1}", "LE": "negated({0}) | {1}", "GT": "{0} & negated({1})", "GE": "{0} | negated({1})",
}  # fmt: skip

_OF_INTEGERS = {
    "abs": "magnitudeOf",
    "add": "sumOf",
    "divide": "quotientOf",
    "multiply": "productOf",
    "negate": "oppositeOf",
    "subtract": "differenceOf",
}
"""Functions of the kernel library that wrap around: C++ leaves overflow and division by zero undefined."""

_BY_NUMBERS = {"divide": "quotientBy", "remainder": "remainderBy"}
"""The same for vectors divided by a known number."""

_FUNCTIONS = {
    "abs": "magnitude",
    "atan2": "angleOf",
    "bf16-of-bits": "brainOfBits",
    "bits-of-bf16": "bitsOfBrain",
    "bits-of-f16": "bitsOfHalf",
    "cbrt": "cubeRootOf",
    "ceil": "roundedUp",
    "cosine": "cosineOf",
    "count-leading-zeros": "leadingZerosOf",
    "erf": "errorFunction",
    "exponential": "exponentialOf",
    "exponential-minus-one": "exponentialMinusOne",
    "f16-of-bits": "halfOfBits",
    "floor": "roundedDown",
    "gelu-erf": "geluErf",
    "gelu-tanh": "geluTanh",
    "hard-swish": "hardSwish",
    "is-finite": "isFinite",
    "log": "logarithmOf",
    "log-plus-one": "logarithmOfOnePlus",
    "logistic": "logistic",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply-add": "multiplyAdd",
    "not": "negated",
    "one-nan": "oneNan",
    "popcnt": "onesOf",
    "power": "powerOf",
    "remainder": "remainderOf",
    "round-nearest-afz": "roundedAway",
    "round-nearest-even": "roundedToEven",
    "round-to-bf16": "roundedToBrain",
    "round-to-f16": "roundedToHalf",
    "select": "chosen",
    "shift-left": "shiftedLeft",
    "shift-right-arithmetic": "shiftedWithSign",
    "shift-right-logical": "shiftedRight",
    "sign": "signOf",
    "sine": "sineOf",
    "sqrt": "squareRoot",
    "swish": "swish",
    "tan": "tangentOf",
    "tanh": "hyperbolicTangent",
}

_FORMS = {
    "clamp": "minimum(maximum({0}, {1}), {2})",
    "negate": "-{0}",
    "rsqrt": "1.0f / squareRoot({0})",
}

ELEMENTWISE = frozenset({*_INFIX, *_FUNCTIONS, *_FORMS, "bitcast-convert", "compare", "convert", "quantize"})

IN_WIDE_VECTORS = frozenset(
    {"add", "subtract", "multiply", "negate", "maximum", "minimum", "compare", "select", "and", "or", "not"}
)

LONG = frozenset(
    {
        "atan2", "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "gelu-erf", "gelu-tanh", "log",
        "log-plus-one", "logistic", "power", "remainder", "sine", "swish", "tan", "tanh",
    }
)  # fmt: skip
"""Elementwise operations of ten or more instructions for a vector."""

MOVING = frozenset({"broadcast", "transpose", "slice", "reverse", "reshape", "iota", "dynamic-slice"})


def is_of_lanes(opcode: str, dtype: str) -> bool:
    """Whether vectors compute an operation of values of a narrow type, or one that gives such values."""
    return opcode in _OF_BITS if dtype == "u16" else dtype in NARROW_TYPES and opcode in _OF_BYTES


def c_type(shape: Shape) -> str:
    if shape.dtype not in C_TYPES:
        raise Unsupported(f"arrays of {shape.dtype}")
    return C_TYPES[shape.dtype]


def literal(operation: Operation) -> Array:
    literal = Constant.of(operation).literal
    if literal.growing:
        raise Unsupported("a constant that depends on a size")
    values: Array = literal.constant
    return values


def number_text(operation: Operation) -> str:
    """A constant without axes as C++."""
    if operation.opcode != "constant":
        raise Unsupported(f"{operation.opcode} where a constant is needed")
    found: Literal = Constant.of(operation).literal
    if found.growing:
        start, *steps = (
            number_text(replace(operation, attributes=Constant(literal=Literal(each))))
            for each in (found.constant, *(values for _, values in found.growing))
        )
        terms = [
            f"{step} * {cpp(Size.of([(monomial, 1)]))}"
            for step, (monomial, _) in zip(steps, found.growing, strict=True)
        ]
        return f"static_cast<{C_TYPES[operation.shape.dtype]}>({' + '.join([start, *terms])})"
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
        case "s64" if value == -(2**63):
            return "std::numeric_limits<std::int64_t>::min()"
    return f"static_cast<{C_TYPES[operation.shape.dtype]}>({int(value)}{'' if value < 2**63 else 'u'})"


def expression(
    operation: Operation, operands: Sequence[str], types: Sequence[str], *, by_vectors: bool,
    divisor: Operation | None = None, fill: str = "at.fill",
) -> str:  # fmt: skip
    """The C++ of one elementwise operation; `by_vectors` if the types of its operands and result have vectors.

    `divisor` is the constant that its last operand is filled with, if it is one; `fill` makes a vector of a number.
    """
    opcode, dtype, source = operation.opcode, operation.shape.dtype, types[0]
    if opcode in _OF_TRUTH and dtype == "pred":
        return f"{operands[0]} {_OF_TRUTH[opcode]} {operands[1]}"
    if by_vectors and dtype == "s32" and (divided := _by_number(opcode, operands, divisor)):
        return divided
    if opcode in _OF_INTEGERS and dtype[0] in "su":
        return f"{_OF_INTEGERS[opcode]}({', '.join(operands)})"
    if opcode in _INFIX:
        return f"{operands[0]} {_INFIX[opcode]} {operands[1]}"
    if opcode in _FUNCTIONS:
        return f"{_FUNCTIONS[opcode]}({', '.join(operands)})"
    if opcode == "compare":
        return _comparison(operation, operands, source)
    if opcode == "quantize":
        return _quantized(operation, operands[0])
    if opcode in _FORMS:
        return _FORMS[opcode].format(*operands)
    if source == dtype:
        return operands[0]
    if opcode == "bitcast-convert":
        to = f"decltype({fill}({C_TYPES[dtype]}{{}}))" if by_vectors else C_TYPES[dtype]
        return f"bitsAs<{to}>({operands[0]})"
    if by_vectors:
        return f"{dtype}Of{source.capitalize()}({operands[0]})"
    # Truth values are -1 in vectors.
    operand = f"s32OfPred({operands[0]})" if source == "pred" and dtype in NARROW_TYPES else operands[0]
    return f"converted<{C_TYPES[dtype]}>({operand})"


def _by_number(opcode: str, operands: Sequence[str], divisor: Operation | None) -> str | None:
    """A division of vectors by a known number; None for others."""
    if opcode not in _BY_NUMBERS or divisor is None or (known := Constant.of(divisor).literal).growing:
        return None
    number = int(known.constant.reshape(-1)[0])
    # 0 and -1 have HLO's special results, 1 is not worth a case, and the least number has no opposite.
    return f"{_BY_NUMBERS[opcode]}<{number}>({operands[0]})" if 2 <= abs(number) < 2**31 else None


def _quantized(operation: Operation, operand: str) -> str:
    given = Quantize.of(operation)
    numbers = (given.scale, *(factors_of(given.scale) or (0.0, 0.0)))
    texts = [*(f"{float(each).hex()}f" for each in numbers), *map(str, (given.zero, given.low, given.high))]
    return f"quantized<{C_TYPES[operation.shape.dtype]}>({operand}, {{{', '.join(texts)}}})"


def _comparison(operation: Operation, operands: Sequence[str], source: str) -> str:
    direction: str = Comparison.of(operation).direction
    if operands[0] == operands[1]:
        operands = [operands[0], f"copyOf({operands[1]})"]  # compilers warn about comparing a value with itself
    if source == "pred" and direction in _TRUTH_COMPARED:
        return _TRUTH_COMPARED[direction].format(*operands)
    if source[0] == "f" and in_total_order(operation):
        operands = [f"inOrder({operand})" for operand in operands]
    if source[0] == "u" and direction in ("LT", "GE"):
        # A function, because compilers warn about unsigned numbers compared with a literal 0.
        below = f"isBelow({operands[0]}, {operands[1]})"
        return f"negated({below})" if direction == "GE" else below
    return f"{operands[0]} {_COMPARED[direction]} {operands[1]}"
