"""Layers whose products are those of bfloat16: compiled code gives the bits of the interpreter, alone and in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Dot, adds
from tfaot_pkg.compiler.passes.pipeline import named, passes_for, run
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.compiler.work import work
from tfaot_pkg.ground.arrays import Array


def numbers(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _literal(values: Array) -> str:
    return f"{{{','.join(map(repr, values.ravel().tolist()))}}}"


PASSES = {1: "reduce-precision", 2: "float32x3-products", 3: "float32x6-products"}
"""By the parts of numbers."""


def dense(inputs: int, outputs: int, activation: str = "relu", axis: int = 0, parts: int = 1) -> Program:
    """Rows of 3 vectors each through a dense layer."""
    shape = (inputs, outputs) if axis == 0 else (outputs, inputs)
    return _read(
        f"""%0 f32[batch,3,{inputs}] = parameter number=0
%1 f32[{shape[0]},{shape[1]}] = constant literal={_literal(numbers(shape, 1))}
%2 f32[{outputs}] = constant literal={_literal(numbers([outputs], 2))}
%3 f32[batch,3,{outputs}] = dense %0 %1 %2 activation={activation} weights_axis={axis}
give %3
""",
        parts,
    )


def conv2d(size: int, channels: int, kernel: int, filters: int, *, pooled: bool = False, parts: int = 1) -> Program:
    """Windows of an image, which is padded to its own size; with `pooled`, maxima of 2 by 2 of their layer."""
    pad, half = kernel // 2, size // 2
    window = f"[{size},{size},{channels},{size},{size},{kernel},{kernel},1,1,1,1,{pad},{pad}]"
    opcode = "conv2d_max_pool" if pooled else "conv2d"
    made = half if pooled else size
    pool = f" pool=[{size},{size},{filters},{half},{half},2,2,2,2,1,1,0,0]" if pooled else ""
    weights = numbers([kernel, kernel, channels, filters], 3)
    return _read(
        f"""%0 f32[batch,{size},{size},{channels}] = parameter number=0
%1 f32[{kernel},{kernel},{channels},{filters}] = constant literal={_literal(weights)}
%2 f32[batch,{made},{made},{filters}] = {opcode} %0 %1 activation=relu window={window} groups=1{pool}
give %2
""",
        parts,
    )


def block() -> Program:
    """A residual block of images, whose sums are read by a layer and by the next sum."""
    window = "window=[7,7,9,7,7,3,3,1,1,1,1,1,1] groups=1"
    filters = [_literal(numbers([3, 3, 9, 9], seed)) for seed in (3, 4, 5)]
    program = _read(
        f"""%0 f32[batch,7,7,9] = parameter number=0
%1 f32[3,3,9,9] = constant literal={filters[0]}
%2 f32[3,3,9,9] = constant literal={filters[1]}
%3 f32[3,3,9,9] = constant literal={filters[2]}
%4 f32[] = constant literal={{0.0}}
%5 f32[batch,7,7,9] = broadcast %4 dimensions=[]
%6 f32[batch,7,7,9] = conv2d %0 %1 activation=relu {window}
%7 f32[batch,7,7,9] = conv2d %6 %2 activation=none {window}
%8 f32[batch,7,7,9] = add %7 %0
%9 f32[batch,7,7,9] = maximum %8 %5
%10 f32[batch,7,7,9] = conv2d %9 %3 activation=none {window}
%11 f32[batch,7,7,9] = add %9 %10
give %11
""",
        1,
    )
    made = run(program, [named("fuse-sums"), named("store-bfloat16")])
    assert [adds(each) for each in made.entry.operations if each.opcode.startswith("bfloat16")] == [False, True, True]
    return made


def stored() -> Program:
    """Layers of images and rows, with bfloat16 between them."""
    filters, weights, last = numbers([3, 3, 3, 9], 3), numbers([441, 40], 4), numbers([40, 9], 5)
    window = "window=[7,7,3,7,7,3,3,1,1,1,1,1,1] groups=1"
    program = _read(
        f"""%0 f32[batch,7,7,3] = parameter number=0
%1 f32[3,3,3,9] = constant literal={_literal(filters)}
%2 f32[3,3,9,9] = constant literal={_literal(numbers([3, 3, 9, 9], 6))}
%3 f32[441,40] = constant literal={_literal(weights)}
%4 f32[40,9] = constant literal={_literal(last)}
%5 f32[batch,7,7,9] = conv2d %0 %1 activation=relu {window}
%6 f32[batch,7,7,9] = conv2d %5 %2 activation=none {window.replace("7,7,3", "7,7,9", 1)}
%7 f32[batch,441] = reshape %6
%8 f32[batch,40] = dense %7 %3 activation=tanh weights_axis=0
%9 f32[batch,9] = dense %8 %4 activation=none weights_axis=0
give %9
""",
        1,
    )
    made = run(program, [named("store-bfloat16")])
    types = [each.shape.dtype for each in made.entry.operations if each.opcode.startswith("bfloat16")]
    assert types == [*["u16"] * 3, "f32"]
    return made


def _read(text: str, parts: int) -> Program:
    return run(verified(parse(text), "reading"), [named(PASSES[parts])])


PROGRAMS = {
    "dense": dense(70, 21),
    "dense, of several panels": dense(64, 90),
    "dense, transposed weights": dense(33, 16, axis=1),
    "conv2d": conv2d(9, 8, 3, 18),
    "conv2d, pointwise": conv2d(5, 40, 1, 7),
    "conv2d, pooled": conv2d(10, 4, 3, 6, pooled=True),
    "stored as bfloat16": stored(),
    "with residual sums": block(),
    "dense, of two parts": dense(70, 21, parts=2),
    "dense, of three parts": dense(64, 90, parts=3),
    "conv2d, of two parts": conv2d(9, 8, 3, 18, parts=2),
    "conv2d, of two parts, copied windows": conv2d(10, 4, 3, 6, pooled=True, parts=2),
    "conv2d, of three parts": conv2d(7, 16, 3, 18, parts=3),
    "conv2d, pointwise, of three parts": conv2d(5, 40, 1, 7, parts=3),
}


def _two_layers(activation: str) -> Program:
    """A dense layer of 40, whose results only another one reads."""
    weights, bias, more = numbers((33, 40), 1) / 6, numbers([40], 2), numbers((40, 21), 3)
    program = _read(
        f"""%0 f32[batch,3,33] = parameter number=0
%1 f32[33,40] = constant literal={_literal(weights)}
%2 f32[40] = constant literal={_literal(bias)}
%3 f32[40,21] = constant literal={_literal(more)}
%4 f32[batch,3,40] = dense %0 %1 %2 activation={activation} weights_axis=0
%5 f32[batch,3,21] = dense %4 %3 weights_axis=0
give %5
""",
        1,
    )
    return run(program, [named("store-bfloat16")])


def _attention() -> Program:
    """Scores of 70 by 70 for two heads of 64 numbers, and the values that they weight, of the whole in one array."""
    return _read(
        """%0 f32[batch,70,2,64] = parameter number=0
%1 f32[batch,2,70,64] = transpose %0 dimensions=[0,2,1,3]
%2 f32[batch,70,2,64] = negate %0
%3 f32[batch,2,70,70] = dot %1 %2 contracting=[[3],[3]] batch=[[0,1],[0,2]] order=[]
%4 f32[batch,2,70,64] = dot %3 %0 contracting=[[3],[1]] batch=[[0,1],[0,2]] order=[]
give %3 %4
""",
        1,
    )


ATTENTION = {"attention": _attention()}


def test_products_of_computed_arrays_have_the_bits_of_the_interpreter(compiled: Compile) -> None:
    program = ATTENTION["attention"]
    assert [Dot.of(each).in_bfloat16 for each in program.entry.operations if each.opcode == "dot"] == [True, True]
    given = numbers((5, 70, 2, 64), 6)
    wanted, code = interpret.run(program, 5, [given]), compiled(program, 4)
    for rows in (1, 5):
        for found, exact in zip(code(given[:rows]), wanted, strict=True):
            np.testing.assert_array_equal(found.view(np.uint32), np.asarray(exact[:rows], np.float32).view(np.uint32))
    heads = given.astype(np.float64).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(wanted[0], -heads @ heads.transpose(0, 1, 3, 2), atol=0.5)


NEAR = {"GELU between two layers": _two_layers("gelu_erf")}


def test_gelu_between_layers_is_off_by_less_than_its_rounding(compiled: Compile) -> None:
    program = NEAR["GELU between two layers"]
    assert [each.shape.dtype for each in program.entry.operations[-2:]] == ["u16", "f32"]
    given = numbers((19, 3, 33), 5) * 2
    (found,), (wanted,) = compiled(program, 8)(given), interpret.run(program, 19, [given])
    # A number is rounded to its neighbour if it lies nearly between both, with a probability of about 2^-7.
    assert 0 < np.abs(found - wanted).max() < 2**-4 and np.mean(np.abs(found - wanted)) < 2**-9


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_code_gives_the_bits_of_the_interpreter(name: str, compiled: Compile) -> None:
    program = PROGRAMS[name]
    assert any(each.opcode.startswith("bfloat16") for each in program.entry.operations)
    code = compiled(program, 8)
    given = numbers(program.entry.parameters[0].shape.at(19, {}), 5)
    given.ravel()[::7] *= np.float32(2**-60)
    (wanted,) = interpret.run(program, 19, [given])
    for rows in (1, 3, 19):
        (found,) = code(given[:rows])
        np.testing.assert_array_equal(found.view(np.uint32), np.asarray(wanted[:rows], np.float32).view(np.uint32))


def test_a_reduced_layer_differs_from_float32_by_the_rounding_of_its_operands(compiled: Compile) -> None:
    """Relative to the sum of the sizes of products, each of two roundings is at most 2^-9."""
    weights, given = numbers((70, 21), 1), numbers((17, 3, 70), 5)
    (found,) = compiled(dense(70, 21, "none"), 8)(given)
    exact = given.astype(np.float64) @ weights + numbers([21], 2)
    sizes = np.abs(given).astype(np.float64) @ np.abs(weights)
    error = np.abs(found - exact) / sizes
    assert 2.0**-14 < error.max() < 2.01 * 2.0**-9


@pytest.mark.parametrize(("parts", "least", "most"), [(2, 2.0**-23, 2.0**-15), (3, 2.0**-28, 2.0**-21)])
def test_more_parts_are_as_exact_as_they_have_bits(parts: int, least: float, most: float, compiled: Compile) -> None:
    """What is left out is at most 2^-16 of a product of two parts each; sums of float32 remain of three."""
    weights, given = numbers((70, 21), 1), numbers((17, 3, 70), 5)
    (found,) = compiled(dense(70, 21, "none", parts=parts), 8)(given)
    exact = given.astype(np.float64) @ weights + numbers([21], 2)
    sizes = np.abs(given).astype(np.float64) @ np.abs(weights)
    assert least < (np.abs(found - exact) / sizes).max() < most


def test_products_of_parts_are_counted() -> None:
    found = [work(dense(64, 90, "none", parts=parts), 2).operations for parts in PASSES]
    assert found[0] == 2 * 2 * 3 * 64 * 90 and found[1:] == [3 * found[0], 6 * found[0]]


def test_float32_is_what_a_program_has_unless_it_is_asked_for_less() -> None:
    text = "%0 f32[batch,32] = parameter number=0\n" + "\n".join(
        [f"%1 f32[32,5] = constant literal={_literal(numbers((32, 5)))}",
         "%2 f32[batch,5] = dot %0 %1 contracting=[[1],[0]] batch=[[],[]]", "give %2", ""]
    )  # fmt: skip
    found = {
        compute: [each.opcode for each in run(verified(parse(text), "reading"), passes_for(compute)).entry.operations]
        for compute in ("float32", "bfloat16", "float32x3", "float32x6")
    }
    assert "dense" in found["float32"] and "bfloat16_dense" not in found["float32"]
    for compute in ("bfloat16", "float32x3", "float32x6"):
        assert "bfloat16_dense" in found[compute] and "dense" not in found[compute]
