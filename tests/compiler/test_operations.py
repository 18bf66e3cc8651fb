"""Single operations: the code of each gives what NumPy does, for one row and for many."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Comparison, Dimensions, Element, attributes_of
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import (
    NO_ATTRIBUTES,
    NUMPY_TYPES,
    Attributes,
    Literal,
    Number,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Symbol,
)
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.ground.arrays import Array

pytestmark = pytest.mark.slow  # each compiles its code

N = Size(0, 1)
Sizes = Sequence[int | Size]


@dataclass
class Writer:
    """A program that is written operation by operation; each method gives the id of a value."""

    operations: list[Operation] = field(default_factory=list)
    inputs: int = 0

    def add(
        self,
        opcode: str,
        sizes: Sizes,
        /,
        *operands: int,
        dtype: str = "f32",
        regions: tuple[Region, ...] = (),
        **more: Any,
    ) -> int:
        shape = Shape(dtype, tuple(size if isinstance(size, Size) else Size(size) for size in sizes))
        made = len(self.operations) + 1000 * len(regions)
        self.operations.append(
            Operation(
                id=made,
                opcode=opcode,
                type=shape,
                operands=operands,
                attributes=attributes_of(OPERATIONS[opcode].attributes, more),
                regions=regions,
            )
        )
        return made

    def input(self, *sizes: int | Size, dtype: str = "f32") -> int:
        self.inputs += 1
        return self.add("parameter", (N, *sizes), dtype=dtype, number=self.inputs - 1)

    def constant(self, values: Any, dtype: str = "f32") -> int:
        array = np.array(values, NUMPY_TYPES[dtype])
        return self.add("constant", array.shape, dtype=dtype, literal=Literal(array))

    def spread(self, value: float, *sizes: int | Size, dtype: str = "f32") -> int:
        return self.add("broadcast", (N, *sizes), self.constant(value, dtype), dtype=dtype, dimensions=())

    def reducer(self, opcode: str, dtype: str = "f32", *, result: str | None = None, **attributes: Any) -> Region:
        """Of two numbers; `result` is the type that they give, if it is another one."""
        start = 10_000 + 10 * len(self.operations)
        scalar = Shape(dtype, ())
        parameters = [
            Operation(id=start + i, opcode="parameter", type=scalar, attributes=Number(number=i)) for i in (0, 1)
        ]
        root = Operation(
            id=start + 2, opcode=opcode, type=Shape(result or dtype, ()), operands=(start, start + 1),
            attributes=attributes_of(OPERATIONS[opcode].attributes, attributes),
        )  # fmt: skip
        return Region(operations=(*parameters, root), results=(root.id,))

    def program(self, *results: int, symbols: tuple[Symbol, ...] = ()) -> Program:
        made = Program(entry=Region(operations=tuple(self.operations), results=results), symbols=symbols)
        verify(made)
        return made


_ROWS = (1, 7, 16, 40)
_SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 88.0, -88.0, 1e30, -1e30, 0.5, -0.5], np.float32
)


def _numbers(rows: int, columns: int) -> Array:
    random = np.random.default_rng(rows)
    values = (random.normal(size=(rows, columns)) * 3).astype(np.float32)
    values[0, : min(columns, _SPECIAL.size)] = _SPECIAL[:columns]
    return values


_FUNCTIONS: Mapping[str, tuple[Callable[[Array], Array], float]] = {
    "abs": (np.abs, 0.0),
    "cbrt": (np.cbrt, 1.0),
    "ceil": (np.ceil, 0.0),
    "cosine": (np.cos, 1.0),
    "erf": (np.vectorize(math.erf, otypes=[np.float64]), 4.0),
    "exponential": (np.exp, 2.0),
    "exponential-minus-one": (np.expm1, 2.0),
    "floor": (np.floor, 0.0),
    "log": (np.log, 1.0),
    "log-plus-one": (np.log1p, 1.0),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), 2.0),
    "negate": (np.negative, 0.0),
    "round-nearest-even": (np.rint, 0.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2.0),
    "sine": (np.sin, 1.0),
    "sqrt": (np.sqrt, 1.0),
    "tan": (np.tan, 1.0),
    "tanh": (np.tanh, 3.0),
}
"""What NumPy computes in float64, and how many units in the last place of float32 the code may be away from it."""


def test_functions_of_one_number_are_right_within_their_errors(compiled: Compile) -> None:
    writer = Writer()
    x = writer.input(13)
    code = compiled(writer.program(*(writer.add(name, (N, 13), x) for name in _FUNCTIONS)), 8)
    for rows in _ROWS:
        values = _numbers(rows, 13)
        for (name, (function, ulps)), given in zip(_FUNCTIONS.items(), code(values), strict=True):
            with np.errstate(all="ignore"):
                exact = np.asarray(function(values.astype(np.float64)))
                wanted = exact.astype(np.float32)
                distance = np.abs(given - exact)
            off = distance > ulps * np.spacing(np.maximum(np.abs(wanted), np.float32(1e-37)))
            off &= np.isfinite(wanted)
            assert not off.any(), (name, values[off], given[off], wanted[off])
            np.testing.assert_array_equal(given[~np.isfinite(wanted)], wanted[~np.isfinite(wanted)], err_msg=name)


_OF_DOUBLES: Mapping[str, tuple[Callable[[Array], Array], float]] = {
    "exponential": (np.exp, 1.0),
    "exponential-minus-one": (np.expm1, 2.5),
    "log": (np.log, 1.0),
    "log-plus-one": (np.log1p, 1.0),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), 2.5),
    "tanh": (np.tanh, 2.5),
}
"""What NumPy computes in the 80 bits of x86-64, and how many units in the last place of float64 the code may be off."""


def test_functions_of_one_double_are_right_within_their_errors(compiled: Compile) -> None:
    writer = Writer()
    x = writer.input(1000, dtype="f64")
    code = compiled(writer.program(*(writer.add(name, (N, 1000), x, dtype="f64") for name in _OF_DOUBLES)), 4)
    random = np.random.default_rng(5)
    values = np.concatenate([
        random.uniform(-750, 750, 20_000), random.uniform(-2, 4, 20_000), random.normal(size=20_000) * 0.1,
        2.0 ** random.uniform(-1074, 1024, 10_000), -(2.0 ** random.uniform(-1074, 10, 9_000)),
        np.resize([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, 1e-320, 709.78, 709.79, -745.1, -745.2], 1_000),
    ]).reshape(80, 1000)  # fmt: skip
    for (name, (function, ulps)), given in zip(_OF_DOUBLES.items(), code(values), strict=True):
        with np.errstate(all="ignore"):
            exact = function(values.astype(np.longdouble))
            wanted = exact.astype(np.float64)
            off = np.abs(given - exact) > ulps * np.spacing(np.abs(wanted))
        off &= np.isfinite(wanted)
        assert not off.any(), (name, values[off], given[off], wanted[off])
        np.testing.assert_array_equal(given[~np.isfinite(wanted)], wanted[~np.isfinite(wanted)], err_msg=name)
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(given[zeros]), np.signbit(wanted[zeros]), err_msg=name)


def test_two_numbers_are_combined_as_ieee_says(compiled: Compile) -> None:
    writer = Writer()
    x, y = writer.input(13), writer.input(13)
    names = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
             "maximum": np.maximum, "minimum": np.minimum}  # fmt: skip
    code = compiled(writer.program(*(writer.add(name, (N, 13), x, y) for name in names)), 8)
    for rows in _ROWS:
        first, second = _numbers(rows, 13), _numbers(rows, 13)[:, ::-1].copy()
        with np.errstate(all="ignore"):
            for given, function in zip(code(first, second), names.values(), strict=True):
                np.testing.assert_array_equal(given, function(first, second))


def test_powers_and_angles_of_zeros_infinities_and_other_numbers_are_as_c_has_them(compiled: Compile) -> None:
    writer = Writer()
    x, y = writer.input(), writer.input()
    code = compiled(writer.program(*(writer.add(name, (N,), x, y) for name in ("power", "atan2"))), 8)
    numbers = [*_SPECIAL, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 1.5, -7.25, 0.1, 16777215.0, -16777217.0, 1e-30]
    first, second = (each.ravel().astype(np.float32) for each in np.meshgrid(numbers, numbers))
    for given, function in zip(code(first, second), (np.power, np.arctan2), strict=True):
        with np.errstate(all="ignore"):
            wanted = function(first.astype(np.float64), second.astype(np.float64)).astype(np.float32)
        np.testing.assert_allclose(given, wanted, rtol=1e-7, atol=0)
        isnt_nan = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(given[isnt_nan]), np.signbit(wanted[isnt_nan]))


def test_powers_that_people_write_are_products_quotients_and_roots(compiled: Compile) -> None:
    exponents = (-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0)
    writer = Writer()
    x = writer.input(5)
    program = simplify(writer.program(*(writer.add("power", (N, 5), x, writer.spread(y, 5)) for y in exponents)))
    assert "power" not in {operation.opcode for operation in program.entry.operations}
    numbers = [*_SPECIAL, 1.0, -1.0, 2.0, -2.0, 1.5, -7.25, 0.1, 16777215.0, -16777217.0, 1e-30, -1e-30, 1e12, 3e38]
    values = np.resize(np.array(numbers, np.float32), (len(numbers), 5))
    for given, exponent in zip(compiled(program, 8)(values), exponents, strict=True):
        with np.errstate(all="ignore"):
            # An array of exponents: NumPy has other functions for a single one.
            wanted = np.power(values.astype(np.float64), np.full(values.shape, exponent)).astype(np.float32)
        np.testing.assert_allclose(given, wanted, rtol=2.4e-7, atol=1e-38, err_msg=str(exponent))
        isnt_nan = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(given[isnt_nan]), np.signbit(wanted[isnt_nan]))


@np.vectorize
def _fused(one: float, other: float, total: float) -> float:
    """Rounded once."""
    return float(Fraction(one) * Fraction(other) + Fraction(total))


@pytest.mark.parametrize("dtype", ["s32", "s64", "f64", "u8"])
def test_other_types_are_computed_one_by_one(compiled: Compile, dtype: str) -> None:
    writer = Writer()
    x, y = writer.input(5, dtype=dtype), writer.input(5, dtype=dtype)
    total = writer.add("add", (N, 5), x, y, dtype=dtype)
    larger = writer.add("compare", (N, 5), x, y, dtype="pred", direction="GT")
    chosen = writer.add("select", (N, 5), larger, total, y, dtype=dtype)
    floats = writer.add("convert", (N, 5), chosen)
    random = np.random.default_rng(4)
    weights = (random.integers(0, 100, (5, 61)) / 7).astype(NUMPY_TYPES[dtype])  # a strip of vectors, vectors, one more
    product = writer.add(
        "dot", (N, 61), x, writer.constant(weights, dtype), dtype=dtype, contracting=((1,), (0,)), batch=((), ())
    )
    code = compiled(writer.program(chosen, floats, product), 8)
    first, second = (random.integers(0, 100, (9, 5)).astype(NUMPY_TYPES[dtype]) for _ in range(2))
    wanted = np.where(first > second, first + second, second)
    given, as_floats, multiplied = code(first, second)
    np.testing.assert_array_equal(given, wanted)
    np.testing.assert_array_equal(as_floats, wanted.astype(np.float32))
    summed = np.zeros_like(multiplied)
    for k in range(5):  # in this order, to the last bit
        summed = (
            _fused(first[:, k : k + 1], weights[k], summed)
            if dtype == "f64"
            else summed + first[:, k : k + 1] * weights[k]
        )
    np.testing.assert_array_equal(multiplied, summed)


def test_floats_become_integers_towards_zero_and_stay_within_their_range(compiled: Compile) -> None:
    writer = Writer()
    x = writer.input(8)
    code = compiled(writer.program(writer.add("convert", (N, 8), x, dtype="s32")), 8)
    given = code(np.array([[1.9, -1.9, 3e9, -3e9, np.nan, np.inf, -np.inf, 0.0]], np.float32))[0]
    most, least = 2**31 - 1, -(2**31)
    assert given.tolist() == [[1, -1, most, least, 0, most, least, 0]]


_SHORT_FLOATS = ("f16", "bf16")


def test_short_floats_are_floats_that_are_rounded_to_the_nearest_one(compiled: Compile) -> None:
    writer = Writer()
    x, bits = writer.input(19), writer.input(4, dtype="u16")
    rounded = [writer.add(f"round-to-{name}", (N, 19), x) for name in _SHORT_FLOATS]
    read = [writer.add(f"{name}-of-bits", (N, 4), bits) for name in _SHORT_FLOATS]
    back = [
        writer.add(f"bits-of-{name}", (N, 4), each, dtype="u16") for name, each in zip(_SHORT_FLOATS, read, strict=True)
    ]
    program = writer.program(*rounded, *read, *back)
    code = compiled(program, 64)
    # Above each half or beside the middle between two, ties, what is too large or small, and all kinds of exponents.
    random, rows = np.random.default_rng(5), 2**14
    halves = random.integers(0, 2**16, (rows, 19)).astype(np.uint16).view(np.float16).astype(np.float32)
    beside = (halves.view(np.uint32) + random.choice(np.array([1, 2**32 - 1], np.uint32), halves.shape)).view(
        np.float32
    )
    others = random.integers(0, 2**32, (rows, 19), np.uint32).view(np.float32)
    ties = (random.integers(0, 2**16, (rows, 19), np.uint32) << 16 | 0x8000).view(np.float32)
    ties_of_halves = (halves.view(np.uint32) | np.uint32(0x1000)).view(np.float32)
    every = np.arange(2**16, dtype=np.uint16).reshape(rows, 4)
    between = np.where(np.isfinite(halves), halves, 1) + np.float32(2**-25)
    for values in (halves, beside, others, ties, ties_of_halves, between):
        given = code(values, every)
        with np.errstate(all="ignore"):
            wanted = values.astype(np.float16).astype(np.float32)
            exact = values.astype(np.float64)
            unit = np.exp2(np.maximum(np.frexp(exact)[1] - 8, -133).astype(np.float64))
            nearest = np.where(np.isfinite(exact), np.rint(exact / unit) * unit, exact).astype(np.float32)
        np.testing.assert_array_equal(given[0], wanted)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(given[0][numbers]), np.signbit(wanted[numbers]))
        np.testing.assert_array_equal(given[1], nearest)
        for one, other in zip(given, interpret.run(program, rows, [values, every]), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(given[2], every.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(given[3], (every.astype(np.uint32) << 16).view(np.float32))
    for made, numbers, nan in ((given[4], given[2], 0x7E00), (given[5], given[3], 0x7FC0)):
        np.testing.assert_array_equal(made, np.where(np.isnan(numbers), nan, every))


def test_elements_are_moved(compiled: Compile) -> None:
    writer = Writer()
    x, long, truths = writer.input(4, 6), writer.input(80), writer.input(21, dtype="pred")
    wide, sizes = writer.input(19, 37), [*((count, 37) for count in (2, 3, 4, 5, 8, 19)), (6, 5), (8, 8)]
    strides = {2: 3, 3: 0, 4: 2, 5: 1, 8: 7}  # and where the slices begin
    results = {
        "transpose": writer.add("transpose", (N, 6, 4), x, dimensions=(0, 2, 1)),
        "slice": writer.add("slice", (N, 2, 3), x, slices=((0, N, 1), (1, 4, 2), (0, 6, 2))),
        "reverse": writer.add("reverse", (N, 4, 6), x, dimensions=(2,)),
        "reshape": writer.add("reshape", (N, 3, 8), x),
        "concatenate": writer.add("concatenate", (N, 4, 12), x, x, dimensions=(2,)),
        "pad": writer.add("pad", (N, 6, 11), x, writer.constant(0.5), padding=((0, 0, 0), (1, 1, 0), (0, 0, 1))),
    }
    for step, start in strides.items():
        size = (79 - start) // step + 1
        results[f"every {step}"] = writer.add("slice", (N, size), long, slices=((0, N, 1), (start, 80, step)))
    parts = [(step, size) for step in (2, 3, 4) for size in (5, 7, 11)]  # of vectors, up to the array's end
    for step, size in parts:
        begin = 80 - step * (size - 1) - 1
        results[f"{size} of every {step}"] = writer.add("slice", (N, size), long, slices=((0, N, 1), (begin, 80, step)))
    for count, width in sizes:  # by vectors along the other axis, by blocks, and in registers
        part = writer.add("slice", (N, count, width), wide, slices=((0, N, 1), (0, count, 1), (0, width, 1)))
        results[f"{count} x {width} turned"] = writer.add("transpose", (N, width, count), part, dimensions=(0, 2, 1))
    pairs = writer.add("reshape", (N, 40, 2), long)
    results["pairs"] = writer.add("reverse", (N, 40, 2), pairs, dimensions=(2,))
    results["not"] = writer.add("not", (N, 21), truths, dtype="pred")
    turned = writer.add("reshape", (N, 24), results["transpose"])
    results["reshape of a transpose"] = writer.add("add", (N, 24), turned, turned)
    code = compiled(writer.program(*results.values()), 8)
    for rows in _ROWS:
        values = np.random.default_rng(1).normal(size=(rows, 4, 6)).astype(np.float32)
        spread = np.full((rows, 6, 11), 0.5, np.float32)
        spread[:, 1:5, ::2] = values
        turned_values = values.transpose(0, 2, 1)
        others = np.random.default_rng(2).normal(size=(rows, 80)).astype(np.float32)
        are_true, large = others[:, :21] > 0, np.random.default_rng(3).normal(size=(rows, 19, 37)).astype(np.float32)
        wanted = [
            turned_values, values[:, 1:4:2, ::2], values[:, :, ::-1], values.reshape(rows, 3, 8),
            np.concatenate([values, values], 2), spread, *(others[:, start::step] for step, start in strides.items()),
            *(others[:, 80 - step * (size - 1) - 1 :: step] for step, size in parts),
            *(large[:, :count, :width].transpose(0, 2, 1) for count, width in sizes),
            others.reshape(rows, 40, 2)[:, :, ::-1], ~are_true, 2 * turned_values.reshape(rows, 24),
        ]  # fmt: skip
        for given, right, name in zip(code(values, others, are_true, large), wanted, results, strict=True):
            np.testing.assert_array_equal(given, right, err_msg=name)


def test_a_single_number_of_each_row_is_gathered(compiled: Compile) -> None:
    """As `tf.gather(x, places, batch_dims=1)` does: the loop over a part of one number has no axes."""
    writer = Writer()
    x, places = writer.input(5), writer.input(1, dtype="s32")
    rows = writer.add("iota", (N, 1), dtype="s32", dimensions=(0,))
    both = writer.add("concatenate", (N, 2), rows, places, dtype="s32", dimensions=(1,))
    how: dict[str, Any] = {"indexed": (0, 1), "vector": 1, "operand_batch": (), "index_batch": ()}
    gathered = writer.add("gather", (N,), x, both, offset=(), collapsed=(0, 1), sizes=(1, 1), **how)
    code = compiled(writer.program(gathered, writer.add("add", (N,), gathered, gathered)), 8)
    for rows_given in _ROWS:
        values = _numbers(rows_given, 5)
        chosen = np.random.default_rng(rows_given).integers(0, 5, (rows_given, 1)).astype(np.int32)
        wanted = np.take_along_axis(values, chosen, 1)[:, 0]
        for given, right in zip(code(values, chosen), (wanted, wanted + wanted), strict=True):
            np.testing.assert_array_equal(given, right)


@pytest.mark.parametrize("channels", [3, 37])
def test_images_are_resized_place_by_place(compiled: Compile, channels: int) -> None:
    """As TensorFlow's bridge lowers them: a window for each place, gathered, times weights; windows stay inside."""
    writer, random = Writer(), np.random.default_rng(7)
    x = writer.input(8, 7, channels)
    weights = random.normal(size=(11, 3, 9, 2)).astype(np.float32)  # columns, the window's, rows, the window's
    starts = random.integers(-2, 10, (9, 11, 2)).astype(np.int32)
    windows = writer.add(
        "gather", (N, 2, 3, channels, 9, 11), x, writer.constant(starts, "s32"), offset=(0, 1, 2, 3), collapsed=(),
        indexed=(1, 2), vector=2, operand_batch=(), index_batch=(), sizes=(N, 2, 3, channels),
    )  # fmt: skip
    product = writer.add(
        "dot", (9, 11, N, channels), writer.constant(weights), windows, contracting=((3, 1), (1, 2)),
        batch=((2, 0), (4, 5)),
    )  # fmt: skip
    resized = writer.add("transpose", (N, 9, 11, channels), product, dimensions=(2, 0, 1, 3))
    program = recognize(simplify(writer.program(resized)))
    assert [each.opcode for each in program.entry.operations].count("resample") == 1
    image = random.normal(size=(5, 8, 7, channels)).astype(np.float32)
    wanted = np.zeros((5, 9, 11, channels))
    for row, column in np.ndindex(9, 11):
        top, left = np.clip(starts[row, column], 0, (6, 4))
        window = image[:, top : top + 2, left : left + 3]
        wanted[:, row, column] = np.einsum("byxc,xy->bc", window, weights[column, :, row], dtype=np.float64)
    code = compiled(program, 4)
    (given,) = code(image)
    np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(code(image[3:4])[0][0], given[3])


_LONG = [(axes, (5, 3, 37)) for axes in ((1,), (2,), (1, 2), (3,), (1, 3), (2, 3), (1, 2, 3))]
_SHORT = [((3,), (2, 19, size)) for size in (1, 2, 3, 5, 8)] + [((2,), (3, 5, 9)), ((1,), (70, 9, 3))]


def _by_tree(values: Array) -> Array:
    """Sums along the last axis: element i in sum i % 16, then sum i and sum i + 8, and so on (decision 039)."""
    sums = np.full((*values.shape[:-1], 16), -0.0, np.float32)
    for start in range(0, values.shape[-1], 16):
        part = values[..., start : start + 16]
        sums[..., : part.shape[-1]] += part
    for width in (8, 4, 2, 1):
        sums = sums[..., :width] + sums[..., width:]
    return np.asarray(sums[..., 0] + np.float32(0))


@pytest.mark.sweep("axes1-shape1", "axes4-shape4", "axes8-shape8", "axes11-shape11", "axes13-shape13")
@pytest.mark.parametrize(("axes", "shape"), [*_LONG, *_SHORT])
def test_reductions_over_any_axes_and_the_same_bits_in_any_batch(
    compiled: Compile, axes: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    kept = [size for axis, size in enumerate(shape, 1) if axis not in axes]
    writer = Writer()
    x = writer.input(*shape)
    results = [
        writer.add("reduce", (N, *kept), x, writer.constant(start), dimensions=axes, regions=(writer.reducer(name),))
        for name, start in (("add", 0.0), ("maximum", -np.inf), ("minimum", np.inf))
    ]
    code = compiled(writer.program(*results), 4)
    values = np.random.default_rng(2).normal(size=(11, *shape)).astype(np.float32)
    sums, largest, smallest = code(values)
    np.testing.assert_allclose(sums, values.sum(axes, dtype=np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(largest, values.max(axes))
    np.testing.assert_array_equal(smallest, values.min(axes))
    if axes == (3,):
        np.testing.assert_array_equal(sums, _by_tree(values))
    for row in range(11):
        np.testing.assert_array_equal(code(values[row : row + 1])[0][0], sums[row])


def test_axes_of_a_broadcast_may_have_any_order(compiled: Compile) -> None:
    """Moving a transpose in front of one turns them (layouts.py)."""
    writer, table = Writer(), np.arange(8.0, dtype=np.float32).reshape(2, 4)
    turned = writer.add("broadcast", (N, 4, 3, 2), writer.constant(table), dimensions=(3, 1))
    program = writer.program(writer.add("add", (N, 4, 3, 2), writer.input(4, 3, 2), turned))
    values = np.random.default_rng(1).normal(size=(5, 4, 3, 2)).astype(np.float32)
    for got in (interpret.run(program, 5, [values]), compiled(simplify(program), 2)(values)):
        np.testing.assert_array_equal(got[0], values + table.T[:, None, :])


def test_what_simplifying_takes_away_changes_no_bit() -> None:
    """Neutral operands, round trips and constants, with the sign of zero."""
    writer = Writer()
    x = writer.input(6)
    value = writer.add("add", (N, 6), x, writer.spread(-0.0, 6))
    value = writer.add("multiply", (N, 6), value, writer.spread(1.0, 6))
    value = writer.add("subtract", (N, 6), value, writer.spread(0.0, 6))
    value = writer.add("reshape", (N, 2, 3), value)
    value = writer.add("transpose", (N, 3, 2), value, dimensions=(0, 2, 1))
    value = writer.add("transpose", (N, 2, 3), value, dimensions=(0, 2, 1))
    value = writer.add("reshape", (N, 6), value)
    kept = writer.add("add", (N, 6), value, writer.spread(0.0, 6))  # makes 0 of -0
    program = writer.program(value, kept)
    simple = simplify(program)
    assert [operation.opcode for operation in simple.entry.operations] == ["parameter", "constant", "broadcast", "add"]
    values = np.array([[0.0, -0.0, 1.0, -1.0, np.inf, 3.5]], np.float32)
    for one, other in zip(interpret.run(program, 1, [values]), interpret.run(simple, 1, [values]), strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_a_program_that_uses_what_it_does_not_make_is_rejected() -> None:
    shape = Shape("f32", (N, Size(2)))
    lost = Operation(id=1, opcode="negate", type=shape, operands=(7,))
    with pytest.raises(ValueError, match="%1 negate uses %7"):
        verify(Program(entry=Region(operations=(lost,), results=(1,))))


def test_a_branch_is_taken_for_all_rows_of_a_run(compiled: Compile) -> None:
    """By a truth value, and by a number; one that names no branch takes the last."""
    writer = Writer()
    x = writer.input(3)
    scalar = Shape("f32", (N, Size(3)))

    def branch(start: int, opcode: str) -> Region:
        given = Operation(id=start, opcode="parameter", type=scalar, attributes=Number(number=0))
        made = Operation(id=start + 1, opcode=opcode, type=scalar, operands=(start,))
        return Region(operations=(given, made), results=(start + 1,))

    wanted = {0: np.negative, 1: np.abs, 7: np.abs}
    results = [
        writer.add(
            "conditional", (N, 3), writer.constant(which, "s32"), x, x,
            regions=(branch(20_000 + 100 * which, "negate"), branch(20_050 + 100 * which, "abs")),
        )
        for which in wanted
    ]  # fmt: skip
    chosen = writer.add(
        "conditional", (N, 3), writer.constant(True, "pred"), x, x,
        regions=(branch(30_000, "negate"), branch(30_050, "abs")),
    )  # fmt: skip
    values = np.random.default_rng(3).normal(size=(9, 3)).astype(np.float32)
    *given, by_truth = compiled(writer.program(*results, chosen), 4)(values)
    for output, function in zip(given, wanted.values(), strict=True):
        np.testing.assert_array_equal(output, function(values))
    np.testing.assert_array_equal(by_truth, -values)


def test_reductions_of_other_types_and_of_several_arrays(compiled: Compile) -> None:
    """The place of the largest element, the first of equal ones, as `argmax` is lowered; a logical or."""
    writer = Writer()
    x = writer.input(11)
    places = writer.add("iota", (N, 11), dtype="s32", dimensions=(1,))
    types = [Shape("f32", ()), Shape("s32", ())] * 2
    known = [
        Operation(id=40_000 + i, opcode="parameter", type=type_, attributes=Number(number=i))
        for i, type_ in enumerate(types)
    ]
    pred, number = Shape("pred", ()), Shape("s32", ())

    def step(made: int, opcode: str, type_: Shape, *operands: int, attributes: Attributes = NO_ATTRIBUTES) -> Operation:
        return Operation(id=made, opcode=opcode, type=type_, operands=operands, attributes=attributes)

    steps = [
        step(40_010, "compare", pred, 40_000, 40_002, attributes=Comparison(direction="GE")),
        step(40_011, "select", types[0], 40_010, 40_000, 40_002),
        step(40_012, "select", number, 40_010, 40_001, 40_003),
    ]
    region = Region(operations=(*known, *steps), results=(40_011, 40_012))
    operands = (x, places, writer.constant(-np.inf), writer.constant(0, "s32"))
    both = Operation(
        id=41_000, opcode="reduce", type=(Shape("f32", (N,)), Shape("s32", (N,))), operands=operands,
        attributes=Dimensions(dimensions=(1,)), regions=(region,),
    )  # fmt: skip
    writer.operations.append(both)
    element = Operation(
        id=41_001, opcode="get-tuple-element", type=Shape("s32", (N,)), operands=(41_000,), attributes=Element(index=1)
    )
    writer.operations.append(element)
    # Of one array alone, in which both results are single numbers.
    heights = np.array([3, 1, 7, 5, 7], np.float32)
    single = Operation(
        id=41_002, opcode="reduce", type=(Shape("f32", ()), number), attributes=Dimensions(dimensions=(0,)),
        operands=(
            writer.constant(heights), writer.add("iota", (5,), dtype="s32", dimensions=(0,)), *operands[2:],
        ),
        regions=(Region(operations=tuple(replace(each, id=each.id + 500, operands=tuple(o + 500 for o in each.operands))
                                         for each in region.operations), results=(40_511, 40_512)),),
    )  # fmt: skip
    place = Operation(
        id=41_003, opcode="get-tuple-element", type=number, operands=(41_002,), attributes=Element(index=1)
    )
    writer.operations += [single, place]
    below = writer.add("negate", (), 41_003, dtype="s32")
    everywhere = writer.add("broadcast", (N, 11), below, dtype="s32", dimensions=())
    values = np.random.default_rng(6).integers(0, 5, (21, 11)).astype(np.float32)
    given, highest = compiled(writer.program(41_001, everywhere), 8)(values)
    np.testing.assert_array_equal(given, values.argmax(1))
    np.testing.assert_array_equal(highest, np.full((21, 11), -heights.argmax()))


def test_truth_values_are_combined_along_any_axis(compiled: Compile) -> None:
    writer = Writer()
    x = writer.input(5, 7, 37, dtype="pred")
    few = writer.input(30, 3, dtype="pred")
    cases = [(x, (3,), (5, 7)), (x, (2,), (5, 37)), (x, (1, 3), (7,)), (few, (2,), (30,))]
    results = [
        writer.add(
            "reduce", (N, *kept), of, writer.constant(start, "pred"), dtype="pred", dimensions=axes,
            regions=(writer.reducer(name, "pred"),),
        )
        for of, axes, kept in cases
        for name, start in (("or", False), ("and", True), ("or", True))
    ]  # fmt: skip
    code = compiled(writer.program(*results), 4)
    random = np.random.default_rng(5)
    for likely in (0.02, 0.98):
        values, others = random.random((9, 5, 7, 37)) < likely, random.random((9, 30, 3)) < likely
        given = iter(code(values, others))
        for of, axes, _ in cases:
            array = values if of == x else others
            np.testing.assert_array_equal(next(given), array.any(axes))
            np.testing.assert_array_equal(next(given), array.all(axes))
            assert next(given).all()


def test_remainders_have_the_sign_of_what_is_divided(compiled: Compile) -> None:
    writer = Writer()
    x, y = writer.input(6, dtype="s32"), writer.input(6, dtype="s32")
    a, b = writer.input(6), writer.input(6)
    whole = writer.add("remainder", (N, 6), x, y, dtype="s32")
    divisors, long = (3, -7, 1, 40, 2**31 - 1), writer.input(21, dtype="s32")
    known = []
    for divisor in divisors:
        number = writer.add("broadcast", (N, 21), writer.constant(divisor, "s32"), dtype="s32", dimensions=())
        known += [writer.add(opcode, (N, 21), long, number, dtype="s32") for opcode in ("divide", "remainder")]
    code = compiled(writer.program(whole, writer.add("remainder", (N, 6), a, b), *known), 8)
    first = np.array([[7, -7, 7, -7, 5, -(2**31)]], np.int32)
    second = np.array([[3, 3, -3, -3, 0, -1]], np.int32)
    floats = np.array([[7.5, -7.5, 1.0, np.inf, 3.0, -0.0]], np.float32)
    others = np.random.default_rng(8).integers(-(2**31), 2**31, (1, 21)).astype(np.int32)
    others[0, :4] = [-(2**31), 2**31 - 1, -6, 0]
    other_floats = np.array([[2.0, 2.0, 0.0, 1.0, np.inf, 1.0]], np.float32)
    given, given_floats, *by_numbers = code(first, second, floats, other_floats, others)
    for divisor, quotient, rest in zip(divisors, by_numbers[::2], by_numbers[1::2], strict=True):
        wanted = np.trunc(others / divisor)  # doubles hold these quotients
        np.testing.assert_array_equal(quotient, wanted)
        np.testing.assert_array_equal(rest, others - wanted * divisor)
    assert given.tolist() == [[1, -1, 1, -1, 5, 0]]
    np.testing.assert_array_equal(given_floats, [[1.5, -1.5, np.nan, np.nan, 3.0, -0.0]])


def test_integers_beside_doubles_are_divided_by_known_numbers(compiled: Compile) -> None:
    """In a loop element by element, because of the doubles."""
    writer, divisors = Writer(), (3, -7, 40, 2**31 - 1)
    whole = writer.add("convert", (N, 21), writer.input(21, dtype="f64"), dtype="s32")
    known = []
    for divisor in divisors:
        number = writer.add("broadcast", (N, 21), writer.constant(divisor, "s32"), dtype="s32", dimensions=())
        known += [writer.add(opcode, (N, 21), whole, number, dtype="s32") for opcode in ("divide", "remainder")]
    numbers = np.random.default_rng(9).integers(-(2**31), 2**31, (3, 21))
    numbers[0, :4] = [-(2**31), 2**31 - 1, -6, 0]
    given = compiled(writer.program(*known), 8)(numbers.astype(np.float64))
    for divisor, quotient, rest in zip(divisors, given[::2], given[1::2], strict=True):
        wanted = np.trunc(numbers / divisor)
        np.testing.assert_array_equal(quotient, wanted)
        np.testing.assert_array_equal(rest, numbers - wanted * divisor)


def test_remainders_of_floats_are_those_of_c_for_all_bits(compiled: Compile) -> None:
    """Also beside numbers whose quotient is too large for vectors, or rounded to the next integer."""
    writer = Writer()
    code = compiled(writer.program(writer.add("remainder", (N, 500), writer.input(500), writer.input(500))), 64)
    random = np.random.default_rng(8)
    bits = random.integers(0, 2**32, (2, 400, 500), dtype=np.uint32).view(np.float32)
    whole = random.integers(1, 2**24, (400, 500))
    divisors = (random.integers(2**23, 2**24, (400, 500)) * 2.0 ** random.integers(-149, 80, (400, 500))).astype("f4")
    with np.errstate(all="ignore"):
        multiples = np.nextafter((whole * divisors.astype(np.float64)).astype(np.float32), np.float32(0))
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1, 2**24, 3e38, 5, 2**24 + 2], np.float32)
    pairs = np.resize(np.array(np.meshgrid(special, special)).reshape(2, -1), (2, 1, 500))
    near = random.normal(size=(2, 100, 500)).astype(np.float32)
    for a, b in (bits, (multiples, divisors), (-multiples, divisors), pairs, near):
        with np.errstate(invalid="ignore"):
            wanted = np.fmod(a, b)
        (given,) = code(a, b)
        np.testing.assert_array_equal(given, wanted)
        np.testing.assert_array_equal(np.signbit(given[given == 0]), np.signbit(wanted[given == 0]))
