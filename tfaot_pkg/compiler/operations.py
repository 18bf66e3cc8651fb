"""The operations of a `Program`: one table that says all that is known of each.

HLO's operations are described at https://openxla.org/xla/operation_semantics; `summary` describes the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfaot_pkg.compiler import (
    arithmetic,
    costs,
    index_types,
    layer_types,
    layers_in_numpy,
    meanings,
    row_by_row,
    type_rules,
)
from tfaot_pkg.compiler.attributes import (
    Along,
    Bfloat16Conv2d,
    Bfloat16Dense,
    Comparison,
    Constant,
    Conv2d,
    Conv2dMaxPool,
    Convolution,
    CustomCall,
    Dense,
    Dimensions,
    Dot,
    Element,
    Feature,
    Gather,
    Layer,
    MaxPool,
    Pad,
    Quantize,
    Quantized,
    QuantizedConv2d,
    Resample,
    Scatter,
    Sizes,
    Slices,
    TopK,
    TransposedConv2d,
    Trees,
    Windows,
)
from tfaot_pkg.compiler.meanings import Meaning
from tfaot_pkg.compiler.program import Attributes, Number
from tfaot_pkg.compiler.row_by_row import RowRule
from tfaot_pkg.compiler.type_rules import BITS, FLOATS, INTEGERS, Types, Use, elementwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """An operation.

    operands      how many it has: the least and the largest number (None: any)
    regions       how many it has, likewise
    attributes    their type
    result        the rule of the types of its results
    meaning       what it computes; None for calls of code that the program does not have
    rows          whether rows of the batch stay apart; None if they may not
    multiply_adds how many a product takes; None for operations that are no products
    is_pure       whether equal operands give equal results
    summary       what it is, for operations that HLO does not have
    """

    operands: tuple[int, int | None]
    result: Callable[[Use], Types]
    meaning: Meaning | None
    attributes: type[Attributes] = Attributes
    regions: tuple[int, int | None] = (0, 0)
    rows: RowRule | None = None
    multiply_adds: costs.Cost | None = None
    is_pure: bool = True
    summary: str = ""


def _of_elements(opcode: str, operands: int, result: Callable[[Use], Types], summary: str = "") -> Definition:
    """An operation that computes each element from those at the same place."""
    meaning = meanings.elementwise(arithmetic.FUNCTIONS[opcode])
    return Definition(
        operands=(operands, operands), result=result, meaning=meaning, rows=row_by_row.anyhow, summary=summary
    )


_OF_FLOATS = (
    "cbrt ceil cosine erf exponential exponential-minus-one floor log log-plus-one logistic round-nearest-afz "
    "round-nearest-even rsqrt sine sqrt tan tanh"
).split()
_ACTIVATIONS = {
    "gelu-erf": "x * (1 + erf(x / sqrt(2))) / 2.",
    "gelu-tanh": "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.",
    "hard-swish": "x * clip(x + 3, 0, 6) / 6.",
    "swish": "x / (1 + exp(-x)).",
}
_OF_ANY = "abs copy negate sign".split()
_OF_INTEGERS = "count-leading-zeros popcnt".split()
_PAIRS = "add divide maximum minimum multiply power remainder subtract".split()
_SHIFTS = "shift-left shift-right-arithmetic shift-right-logical".split()
_SHORT = ("bf16", "f16")

OPERATIONS: Mapping[str, Definition] = {
    **{name: _of_elements(name, 1, elementwise(FLOATS)) for name in _OF_FLOATS},
    **{name: _of_elements(name, 1, elementwise({"f32"}), text) for name, text in _ACTIVATIONS.items()},
    **{name: _of_elements(name, 1, elementwise()) for name in _OF_ANY},
    **{name: _of_elements(name, 1, elementwise(INTEGERS)) for name in _OF_INTEGERS},
    **{name: _of_elements(name, 2, elementwise()) for name in _PAIRS},
    **{name: _of_elements(name, 2, elementwise(BITS)) for name in ("and", "or", "xor")},
    "not": _of_elements("not", 1, elementwise(BITS)),
    **{name: _of_elements(name, 2, elementwise(INTEGERS)) for name in _SHIFTS},
    **{
        f"round-to-{name}": _of_elements(f"round-to-{name}", 1, elementwise({"f32"}), f"The nearest number of {name}.")
        for name in _SHORT
    },
    **{
        f"bits-of-{name}": _of_elements(f"bits-of-{name}", 1, elementwise({"f32"}, "u16"), f"The bits in {name}.")
        for name in _SHORT
    },
    **{
        f"{name}-of-bits": _of_elements(f"{name}-of-bits", 1, elementwise({"u16"}, "f32"), f"The number of {name}.")
        for name in _SHORT
    },
    "atan2": _of_elements("atan2", 2, elementwise(FLOATS)),
    "is-finite": _of_elements("is-finite", 1, elementwise(FLOATS, "pred")),
    "multiply-add": _of_elements(
        "multiply-add", 3, elementwise(FLOATS), "(sum, x, number): sum * x + number, rounded once. A step of a series."
    ),
    "one-nan": _of_elements("one-nan", 1, elementwise(FLOATS), "A positive NaN for each NaN."),
    "clamp": _of_elements("clamp", 3, type_rules.clamp),
    "select": _of_elements("select", 3, type_rules.select),
    "batch-norm-inference": Definition(
        operands=(5, 5), result=type_rules.batch_norm, meaning=meanings.batch_norm, attributes=Feature,
    ),
    "bfloat16_conv2d": Definition(
        operands=(2, 4), result=layer_types.bfloat16_conv2d, meaning=layers_in_numpy.bfloat16_conv2d,
        attributes=Bfloat16Conv2d, multiply_adds=costs.in_parts(costs.of_images),
        summary="(input, filters, bias, added): `conv2d` of one group as in `bfloat16_dense`.",
    ),
    "bfloat16_dense": Definition(
        operands=(2, 4), result=layer_types.bfloat16_dense, meaning=layers_in_numpy.bfloat16_dense,
        attributes=Bfloat16Dense, multiply_adds=costs.in_parts(costs.of_dense),
        summary="(input, weights, bias, added): [..., k] by [k, n], both rounded to bfloat16, or to sums of two or "
        "three such `parts`; sums of float32 in the order of AMX (docs/decisions/093, 120), plus bias, plus `added` if "
        "it `adds`, and an activation of the sum. Inputs and results may be stored as the bits of bfloat16 (u16).",
    ),
    "bitcast-convert": Definition(
        operands=(1, 1), result=type_rules.bitcast, meaning=meanings.bitcast, rows=row_by_row.anyhow,
    ),
    "broadcast": Definition(
        operands=(1, 1), result=type_rules.broadcast, meaning=meanings.broadcast, attributes=Dimensions,
        rows=row_by_row.broadcast,
    ),
    "call": Definition(operands=(0, None), result=type_rules.call, meaning=meanings.call, regions=(1, 1)),
    "compare": Definition(
        operands=(2, 2), result=type_rules.compare, meaning=meanings.compare, attributes=Comparison,
        rows=row_by_row.anyhow,
    ),
    "concatenate": Definition(
        operands=(1, None), result=type_rules.concatenate, meaning=meanings.concatenate, attributes=Dimensions,
        rows=row_by_row.concatenate,
    ),
    "conditional": Definition(
        operands=(1, None), result=type_rules.conditional, meaning=meanings.conditional, regions=(1, None),
    ),
    "constant": Definition(operands=(0, 0), result=type_rules.constant, meaning=meanings.constant, attributes=Constant),
    "conv2d": Definition(
        operands=(2, 3), result=layer_types.conv2d, meaning=layers_in_numpy.conv2d, attributes=Conv2d,
        multiply_adds=costs.of_images,
        summary="(input, filters, bias): NHWC by HWIO, a window of the kernel library; an activation of the sum.",
    ),
    "conv2d_max_pool": Definition(
        operands=(2, 3), result=layer_types.conv2d_max_pool, meaning=layers_in_numpy.conv2d_max_pool,
        attributes=Conv2dMaxPool, multiply_adds=costs.of_images,
        summary="(input, filters, bias): `conv2d`, and `max_pool` of its result.",
    ),
    "convert": Definition(
        operands=(1, 1), result=type_rules.converted, meaning=meanings.convert, rows=row_by_row.anyhow,
    ),
    "convolution": Definition(
        operands=(2, 2), result=type_rules.convolution, meaning=meanings.convolution, attributes=Convolution,
        rows=row_by_row.convolution, multiply_adds=costs.of_convolution,
    ),
    "custom-call": Definition(
        operands=(0, None), result=type_rules.as_stated, meaning=None, attributes=CustomCall, is_pure=False,
    ),
    "dense": Definition(
        operands=(2, 3), result=layer_types.dense, meaning=layers_in_numpy.dense, attributes=Dense,
        multiply_adds=costs.of_dense,
        summary="(input, weights, bias): [..., k] by [k, n], and an activation of the sum.",
    ),
    "dot": Definition(
        operands=(2, 2), result=type_rules.dot, meaning=meanings.dot, attributes=Dot, rows=row_by_row.dot,
        multiply_adds=costs.of_dot,
    ),
    "dynamic-slice": Definition(
        operands=(1, None), result=index_types.dynamic_slice, meaning=meanings.dynamic_slice, attributes=Sizes,
    ),
    "dynamic-update-slice": Definition(
        operands=(2, None), result=index_types.dynamic_update_slice, meaning=meanings.dynamic_update_slice,
    ),
    "gather": Definition(operands=(2, 2), result=index_types.gather, meaning=meanings.gather, attributes=Gather),
    "get-tuple-element": Definition(
        operands=(1, 1), result=type_rules.element, meaning=meanings.element, attributes=Element,
    ),
    "interpolate": Definition(
        operands=(3, 3), result=layer_types.interpolate, meaning=layers_in_numpy.interpolate, attributes=Along,
        summary="(input, weights, places): each element along the axis is the sum of those of the input at its "
        "constant places, [elements, n], times its weights.",
    ),
    "iota": Definition(
        operands=(0, 0), result=type_rules.iota, meaning=meanings.iota, attributes=Dimensions, rows=row_by_row.iota,
    ),
    "max_pool": Definition(
        operands=(1, 1), result=layer_types.max_pool, meaning=layers_in_numpy.max_pool, attributes=MaxPool,
        summary="(input): NHWC, the maxima of windows; padding counts as nothing, and so does NaN if it is not kept.",
    ),
    "narrow_dense": Definition(
        operands=(2, 4), result=layer_types.narrow_dense, meaning=layers_in_numpy.narrow_dense, attributes=Layer,
        multiply_adds=costs.of_dense,
        summary="(input, weights, scales, bias): [..., k] by [k, n] in float32, weights that are rounded to "
        "bfloat16, or int8 times a scale of each output; and an activation of the sum.",
    ),
    "pad": Definition(
        operands=(2, 2), result=type_rules.pad, meaning=meanings.pad, attributes=Pad, rows=row_by_row.pad,
    ),
    "look_up": Definition(
        operands=(2, 2), result=layer_types.look_up, meaning=layers_in_numpy.look_up,
        summary="(input, table): for each byte the one that the table of 256 bytes has at its place, which is that of "
        "its bits without a sign.",
    ),
    "parameter": Definition(operands=(0, 0), result=type_rules.as_stated, meaning=None, attributes=Number),
    "quantize": Definition(
        operands=(1, 1), result=layer_types.quantize, meaning=layers_in_numpy.quantize, attributes=Quantize,
        rows=row_by_row.anyhow,
        summary="Floats as bytes: over `scale`, rounded half to even, plus `zero`, between `low` and `high`; NaN as "
        "`low`.",
    ),
    "quantized_conv2d": Definition(
        operands=(3, 6), result=layer_types.quantized_conv2d, meaning=layers_in_numpy.quantized_conv2d,
        attributes=QuantizedConv2d, multiply_adds=costs.of_quantized,
        summary="(input, filters, bias, scales, added, factors): NHWC of bytes by HWIO of int8; otherwise as "
        "`quantized_dense`.",
    ),
    "quantized_dense": Definition(
        operands=(3, 6), result=layer_types.quantized_dense, meaning=layers_in_numpy.quantized_dense,
        attributes=Quantized, multiply_adds=costs.of_quantized,
        summary="(input, weights, bias, scales, added, factors): [..., k] of bytes by [k, n] of int8, in int32 modulo "
        "2^32; with scales the sums as floats, times these, rounded half to even, plus `zero`, between `low` and "
        "`high`: bytes. With `residual` these and `added`, less their zero points and times the first two factors, are "
        "added as floats, divided by the third one, and become bytes in the same way.",
    ),
    "reduce": Definition(
        operands=(2, None), result=type_rules.reduce, meaning=meanings.reduce, attributes=Dimensions, regions=(1, 1),
        rows=row_by_row.reduce,
    ),
    "reduce-window": Definition(
        operands=(2, None), result=type_rules.reduce_window, meaning=meanings.reduce_window, attributes=Windows,
        regions=(1, 1), rows=row_by_row.reduce_window,
    ),
    "resample": Definition(
        operands=(3, 3), result=layer_types.resample, meaning=layers_in_numpy.resample, attributes=Resample,
        summary="(input, weights, places): NHWC. Each pixel is a weighted sum of a window of the input; the constant "
        "`places` has the window's first element within an image.",
    ),
    "reshape": Definition(
        operands=(1, 1), result=type_rules.reshape, meaning=meanings.reshape, rows=row_by_row.reshape,
    ),
    "reverse": Definition(
        operands=(1, 1), result=type_rules.reverse, meaning=meanings.reverse, attributes=Dimensions,
        rows=row_by_row.reverse,
    ),
    "scatter": Definition(
        operands=(3, None), result=index_types.scatter, meaning=meanings.scatter, attributes=Scatter, regions=(1, 1),
    ),
    "set-dimension-size": Definition(
        operands=(2, 2), result=type_rules.set_dimension_size, meaning=meanings.set_dimension_size,
        attributes=Dimensions,
    ),
    "slice": Definition(
        operands=(1, 1), result=type_rules.slice_, meaning=meanings.slice_, attributes=Slices, rows=row_by_row.slice_,
    ),
    "softmax": Definition(
        operands=(1, 1), result=layer_types.softmax, meaning=layers_in_numpy.softmax, attributes=Along,
        summary="(input): exponentials of the differences to the largest element along the axis, over their sum.",
    ),
    "sort": Definition(
        operands=(1, None), result=type_rules.sort, meaning=meanings.sort, attributes=Dimensions, regions=(1, 1),
    ),
    "top_k": Definition(
        operands=(1, 1), result=layer_types.top_k, meaning=layers_in_numpy.top_k, attributes=TopK,
        summary="(input) of two results: the `k` largest or smallest elements of the last axis in order, and their "
        "indices.",
    ),
    "transpose": Definition(
        operands=(1, 1), result=type_rules.transpose, meaning=meanings.transpose, attributes=Dimensions,
        rows=row_by_row.anyhow,
    ),
    "transposed_conv2d": Definition(
        operands=(2, 3), result=layer_types.transposed_conv2d, meaning=layers_in_numpy.transposed_conv2d,
        attributes=TransposedConv2d, multiply_adds=costs.of_transposed,
        summary="(input, filters, bias): NHWC by HWIO, with zeros between the elements of the input; after all passes, "
        "with few filters only.",
    ),
    "trees": Definition(
        operands=(1, 1), result=layer_types.trees, meaning=meanings.trees, attributes=Trees,
        summary="(input): the sums of the leaves that each row reaches (docs/decisions/051).",
    ),
    "while": Definition(operands=(1, None), result=type_rules.loop, meaning=meanings.loop, regions=(2, 2)),
}  # fmt: skip
"""Opcode -> its definition."""
