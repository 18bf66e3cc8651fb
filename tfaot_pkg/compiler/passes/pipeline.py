"""The passes of the compiler in their order. Each takes a program and returns one, and can run alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.bfloat16 import PARTS
from tfaot_pkg.compiler.passes.avoid_cancellation import without_cancellation
from tfaot_pkg.compiler.passes.bfloat16_weights import with_bfloat16_weights
from tfaot_pkg.compiler.passes.crop_convolutions import cut
from tfaot_pkg.compiler.passes.eliminate_dead_stores import of_last_steps
from tfaot_pkg.compiler.passes.float32x3_products import in_float32x3
from tfaot_pkg.compiler.passes.float32x6_products import in_float32x6
from tfaot_pkg.compiler.passes.fuse_epilogues import absorbed
from tfaot_pkg.compiler.passes.fuse_multiply_add import fused
from tfaot_pkg.compiler.passes.fuse_pooling import pooled
from tfaot_pkg.compiler.passes.fuse_prologues import preceded
from tfaot_pkg.compiler.passes.fuse_residuals import with_residual
from tfaot_pkg.compiler.passes.fuse_sums import with_sum
from tfaot_pkg.compiler.passes.fuse_transposes import result_order
from tfaot_pkg.compiler.passes.hoist import hoisted
from tfaot_pkg.compiler.passes.int8_weights import with_int8_weights
from tfaot_pkg.compiler.passes.int_to_float import in_float
from tfaot_pkg.compiler.passes.pad_convolutions import padded
from tfaot_pkg.compiler.passes.pad_moved_images import padded_apart
from tfaot_pkg.compiler.passes.raise_activations import in_one
from tfaot_pkg.compiler.passes.raise_conv2d import conv2d
from tfaot_pkg.compiler.passes.raise_dense import dense
from tfaot_pkg.compiler.passes.raise_interpolate import interpolated
from tfaot_pkg.compiler.passes.raise_max_pool import max_pool
from tfaot_pkg.compiler.passes.raise_quantize import quantize
from tfaot_pkg.compiler.passes.raise_quantized import quantized
from tfaot_pkg.compiler.passes.raise_resample import resample
from tfaot_pkg.compiler.passes.raise_softmax import softmax
from tfaot_pkg.compiler.passes.raise_top_k import top_k
from tfaot_pkg.compiler.passes.reduce_precision import in_bfloat16
from tfaot_pkg.compiler.passes.reroll import rolled
from tfaot_pkg.compiler.passes.rewriting import Rule, by_region, by_rule
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.passes.simplify_argmax import argmax
from tfaot_pkg.compiler.passes.split_sums import split
from tfaot_pkg.compiler.passes.split_transposed_convolutions import woven
from tfaot_pkg.compiler.passes.store_bfloat16 import stored
from tfaot_pkg.compiler.passes.tabulate_bytes import tabulated
from tfaot_pkg.compiler.passes.transpose_steps import in_given_order
from tfaot_pkg.compiler.passes.unify_nan import with_one_nan
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.verifier import Verifier, verified

IMPORT = "import"
"""What comes before all passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """`summary` is a sentence for the reference page."""

    name: str
    run: Callable[[Program], Program]
    summary: str


def _hoisted(program: Program) -> Program:
    return by_region(lambda region, outside, ids: hoisted(region, outside, ids, program.symbols))(program)


def _rule(name: str, rule: Rule, summary: str) -> Pass:
    return Pass(name=name, run=by_rule(rule), summary=summary)


_ANY = (
    Pass(
        name="simplify", run=simplify,
        summary="Constants are folded, equal operations merged, calls inlined, constant states of loops removed.",
    ),
    Pass(
        name="eliminate-dead-stores", run=of_last_steps,
        summary="Arrays that a loop fills step by step are removed if only the last step is read, or none.",
    ),
    Pass(
        name="reroll", run=rolled,
        summary="Copies of a computation, each for a part of an array, become one with the parts as rows.",
    ),
)  # fmt: skip
# The order matters: first layers, then what they absorb, then rules that take whole layers.
_RAISING = (
    _rule("raise-resample", resample, "Windows times weights, as in resized images, become `resample`."),
    _rule("raise-interpolate", interpolated, "Sums of elements gathered along an axis become `interpolate`."),
    _rule("raise-quantized", quantized, "Products of bytes with constant weights become layers of integers."),
    _rule("fuse-residuals", with_residual, "Bytes that are added to the result of a layer of bytes become part of it."),
    _rule("int-to-float", in_float, "Products of integers whose sums float32 has exactly become those of floats."),
    _rule("raise-dense", dense, "Products with constant weights become `dense`."),
    _rule("crop-convolutions", cut, "A slice of a convolution becomes a smaller convolution."),
    _rule("pad-convolutions", padded, "Zeros around the image of a depthwise convolution become its padding."),
    _rule("raise-conv2d", conv2d, "Convolutions over two axes with constant filters become `conv2d`."),
    _rule("pad-moved-images", padded_apart, "Padding of a convolution is written with an image that is moved anyway."),
    _rule("raise-max-pool", max_pool, "Maxima over windows of images become `max_pool`."),
    _rule("raise-softmax", softmax, "Quotients of exponentials and their sums become `softmax`."),
    _rule("simplify-argmax", argmax, "Places of largest elements are found with one comparison of each."),
    _rule("fuse-epilogues", absorbed, "Scales, offsets, activations and reshapes after a layer become part of it."),
    _rule("fuse-prologues", preceded, "A scale and an offset by channel before a layer become part of its weights."),
    _rule("split-transposed-convolutions", woven, "Transposed convolutions become plain ones, by phases."),
    _rule("fuse-pooling", pooled, "A convolution and the pooling of its result become `conv2d_max_pool`."),
    _rule("fuse-transposes", result_order, "A product whose result is transposed writes it in that order."),
    _rule("raise-activations", in_one, "GELU, swish and hard swish that follow no layer become one operation."),
    _rule("split-sums", split, "Long sums of columns, as means of images, become sums of sums."),
    _rule("avoid-cancellation", without_cancellation, "Differences of close numbers become more accurate operations."),
    _rule("raise-quantize", quantize, "Floats that are divided, rounded and bounded become bytes by `quantize`."),
    _rule("tabulate-bytes", tabulated, "Functions of one byte that give a byte become tables."),
    Pass(
        name="hoist", run=_hoisted,
        summary="Layers of loops that read steps of an array from outside are computed for all steps before the loop.",
    ),
    Pass(
        name="transpose-steps", run=by_region(in_given_order),
        summary="Loops read and write steps of arrays in the order that these have outside of the loop.",
    ),
    Pass(
        name="raise-top-k", run=by_region(top_k), summary="Sorts of elements with their indices become `top_k`."
    ),
    Pass(
        name="fuse-multiply-add", run=by_region(fused),
        summary="Steps of polynomials in Horner's scheme become `multiply-add`, which rounds once.",
    ),
    Pass(
        name="unify-nan", run=by_region(with_one_nan),
        summary="Operands of sorts and of comparisons in total order get positive NaN only.",
    ),
)  # fmt: skip

PASSES = (*_ANY, *_RAISING)
ON_REQUEST = (
    _rule(
        "reduce-precision", in_bfloat16,
        "If the spec asks for it (`compilation.precision`), layers multiply in bfloat16.",
    ),
    _rule("fuse-sums", with_sum, "Then arrays that are added to results of these layers become part of the layers."),
    Pass(
        name="store-bfloat16", run=by_region(stored),
        summary="Then arrays between these layers are stored as bfloat16, and GELU of them is as exact as these need "
        "it; this pass is the last one.",
    ),
    _rule(
        "float32x3-products", in_float32x3,
        "Likewise layers multiply sums of two numbers of bfloat16 each.",
    ),
    _rule(
        "float32x6-products", in_float32x6,
        "Likewise layers multiply sums of three numbers of bfloat16 each.",
    ),
    _rule(
        "bfloat16-weights", with_bfloat16_weights,
        "Likewise dense layers with many weights have them as bfloat16, and multiply in float32.",
    ),
    _rule(
        "int8-weights", with_int8_weights,
        "Likewise dense layers with many weights have them as int8 times a scale, and multiply in float32.",
    ),
)  # fmt: skip
"""Passes that change what a program computes."""


class UnknownPass(ValueError):
    """A name that no pass has."""


def run(program: Program, passes: Sequence[Pass] = PASSES) -> Program:
    """`program`, which must be valid, after `passes`. Raises InvalidProgram, which names the pass, if one is wrong."""
    verifier = Verifier()
    for each in passes:
        # A fault of a pass must show here, and not as C++ that does not compile, or computes something else.
        made = each.run(program)
        program = program if made is program else verified(made, each.name, verifier)
    return program


def recognize(program: Program) -> Program:
    """A simplified program with layers of the kernel library."""
    return run(program, _RAISING)


def named(name: str) -> Pass:
    """Raises UnknownPass."""
    found = next((each for each in (*PASSES, *ON_REQUEST) if each.name == name), None)
    if found is None:
        raise UnknownPass(f"there is no pass {name}: {', '.join(each.name for each in (*PASSES, *ON_REQUEST))}")
    return found


def passes_for(compute: str = "float32", weights: str = "float32") -> tuple[Pass, ...]:
    """The passes of a program that multiplies in `compute`, or has `weights` of fewer bits (spec/types.py).

    int8 takes a pass more, for layers that calibration chooses (calibration.py).
    """
    if weights != "float32":
        return (*PASSES, named(f"{weights}-weights"))
    if compute not in PARTS:
        return PASSES
    names = ("reduce-precision", "fuse-sums", "store-bfloat16") if compute == "bfloat16" else (f"{compute}-products",)
    return (*PASSES, *map(named, names))


def until(name: str) -> tuple[Pass, ...]:
    """The passes up to `name`, which is `IMPORT` for none. Raises UnknownPass."""
    if name == IMPORT:
        return ()
    last = named(name)
    if last in (reduced := passes_for("bfloat16")):
        return reduced[: 1 + reduced.index(last)]
    return (*PASSES, last) if last in ON_REQUEST else PASSES[: 1 + PASSES.index(last)]
