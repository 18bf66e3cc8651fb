"""Copies of a computation for the parts of an array become one, for all parts as rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.reroll import rolled
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program, Size
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.ground.arrays import Array

Step = Callable[[Writer, int, int], int]
"""What is computed of a part [batch, 3], and the number of its copy: [batch, 2]."""


def _constant(*sizes: int) -> Array:
    return np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)


def _product(writer: Writer, x: int, weights: Array) -> int:
    """Of [batch, inputs] and weights."""
    value = writer.constant(weights)
    return writer.add("dot", (N, weights.shape[1]), x, value, contracting=((1,), (0,)), batch=((), ()))


def _dense(writer: Writer, x: int, _copy: int) -> int:
    return _product(writer, x, _constant(3, 2))


def _copies(step: Step, parts: int = 5, order: tuple[int, ...] | None = None) -> tuple[Writer, int]:
    """`step` of each part of an input [batch, parts, 3], as Keras' TimeDistributed writes it: [batch, parts, 2]."""
    writer = Writer()
    x = writer.add("transpose", (parts, N, 3), writer.input(parts, 3), dimensions=(1, 0, 2))
    results = []
    for copy, place in enumerate(order or range(parts)):
        part = writer.add("slice", (1, N, 3), x, slices=((place, place + 1, 1), (0, N, 1), (0, 3, 1)))
        made = step(writer, writer.add("reshape", (N, 3), part), copy)
        results.append(writer.add("reshape", (1, N, 2), made))
    whole = writer.add("concatenate", (parts, N, 2), *results, dimensions=(0,))
    return writer, writer.add("transpose", (N, parts, 2), whole, dimensions=(1, 0, 2))


def _opcodes(program: Program) -> list[str]:
    return [each.opcode for each in program.entry.operations]


def _require_same(program: Program, made: Program, *sizes: tuple[int, ...]) -> None:
    verify(made)
    random = np.random.default_rng(7)
    for rows in (1, 4):
        inputs = [random.normal(size=(rows, *each)).astype(np.float32) for each in sizes]
        for got, wanted in zip(interpret.run(made, rows, inputs), interpret.run(program, rows, inputs), strict=True):
            # NumPy's products may add up in another order if they have more rows.
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def test_values_that_all_copies_use_are_repeated() -> None:
    writer = Writer()
    context = writer.input(4, 2)
    number = writer.add("iota", (N, 2), dimensions=(0,))
    x, results = writer.input(12), []
    for place in range(4):
        part = writer.add("slice", (N, 3), x, slices=((0, N, 1), (3 * place, 3 * place + 3, 1)))
        of_all = writer.add("slice", (N, 1, 2), context, slices=((0, N, 1), (1, 2, 1), (0, 2, 1)))
        layer = _dense(writer, part, place)
        scaled = writer.add("multiply", (N, 2), layer, writer.add("reshape", (N, 2), of_all))
        results.append(writer.add("add", (N, 2), scaled, number))
    made = rolled(simplify(program := writer.program(writer.add("concatenate", (N, 8), *results, dimensions=(1,)))))
    assert _opcodes(made).count("dot") == 1
    assert "concatenate" not in _opcodes(made)
    _require_same(program, made, (4, 2), (12,))


def test_copies_with_two_results_become_one() -> None:
    writer, x = Writer(), None
    x = writer.input(5, 3)
    firsts, seconds = [], []
    for place in range(5):
        part = writer.add("slice", (N, 1, 3), x, slices=((0, N, 1), (place, place + 1, 1), (0, 3, 1)))
        layer = _dense(writer, writer.add("reshape", (N, 3), part), place)
        firsts.append(writer.add("tanh", (N, 2), layer))
        seconds.append(writer.add("exponential", (N, 2), layer))
    results = (writer.add("concatenate", (N, 10), *each, dimensions=(1,)) for each in (firsts, seconds))
    made = rolled(simplify(program := writer.program(*results)))
    assert _opcodes(made).count("dot") == 1
    _require_same(program, made, (5, 3))


def test_copies_within_copies_become_one() -> None:
    writer = Writer()
    x, outer = writer.input(4, 6, 3), []
    for place in range(4):
        part = writer.add("slice", (N, 1, 6, 3), x, slices=((0, N, 1), (place, place + 1, 1), (0, 6, 1), (0, 3, 1)))
        inner = []
        for other in range(6):
            slices = ((0, N, 1), (0, 1, 1), (other, other + 1, 1), (0, 3, 1))
            cut = writer.add("reshape", (N, 3), writer.add("slice", (N, 1, 1, 3), part, slices=slices))
            inner.append(writer.add("tanh", (N, 2), _dense(writer, cut, other)))
        joined = writer.add("concatenate", (N, 12), *inner, dimensions=(1,))
        outer.append(writer.add("reduce", (N, 1), writer.add("reshape", (N, 12, 1), joined), writer.constant(0.0),
                                dimensions=(1,), regions=(writer.reducer("add"),)))  # fmt: skip
    made = rolled(simplify(program := writer.program(writer.add("concatenate", (N, 4), *outer, dimensions=(1,)))))
    assert _opcodes(made).count("dot") == _opcodes(made).count("reduce") == 1
    _require_same(program, made, (4, 6, 3))


def _of_other_weights(writer: Writer, x: int, copy: int) -> int:
    return _product(writer, x, _constant(3, 2) + copy)


def _minus_the_mean_of_rows(writer: Writer, x: int, copy: int) -> int:
    made, sums = _dense(writer, x, copy), (writer.reducer("add"),)
    total = writer.add("reduce", (2,), made, writer.constant(0.0), dimensions=(0,), regions=sums)
    return writer.add("subtract", (N, 2), made, writer.add("broadcast", (N, 2), total, dimensions=(1,)))


def _rows_backwards(writer: Writer, x: int, copy: int) -> int:
    return writer.add("reverse", (N, 2), _dense(writer, x, copy), dimensions=(0,))


@pytest.mark.parametrize("step", [_of_other_weights, _minus_the_mean_of_rows, _rows_backwards])
def test_copies_that_differ_or_mix_rows_stay(step: Step) -> None:
    writer, whole = _copies(step)
    program = simplify(writer.program(whole))
    assert rolled(program) is program


@pytest.mark.parametrize(("parts", "order"), [(3, None), (5, (0, 2, 1, 3, 4)), (5, (0, 0, 1, 2, 3))])
def test_few_copies_and_parts_in_another_order_stay(parts: int, order: tuple[int, ...] | None) -> None:
    writer, whole = _copies(_dense, parts, order)
    program = simplify(writer.program(whole))
    assert rolled(program) is program


def test_copies_that_something_else_uses_stay() -> None:
    kept: list[int] = []

    def step(writer: Writer, x: int, copy: int) -> int:
        layer = _dense(writer, x, copy)
        kept.extend([layer] if copy == 2 else [])
        return writer.add("tanh", (N, 2), layer)

    writer, whole = _copies(step)
    program = simplify(writer.program(whole, *kept))
    assert rolled(program) is program


@pytest.mark.slow
def test_code_of_images_of_all_steps_has_the_bits_of_copies(compiled: Compile) -> None:
    writer, results, nhwc = Writer(), [], (0, 3, 1, 2)
    random = np.random.default_rng(11)
    x = writer.input(4, 9, 9, 2)
    filters, bias = writer.constant(random.normal(size=(3, 3, 2, 5))), writer.constant(random.normal(size=5))
    weights = random.normal(size=(45, 6)).astype(np.float32)
    for place in range(4):
        slices = ((0, N, 1), (place, place + 1, 1), (0, 9, 1), (0, 9, 1), (0, 2, 1))
        image = writer.add("reshape", (N, 9, 9, 2), writer.add("slice", (N, 1, 9, 9, 2), x, slices=slices))
        layer = writer.add(
            "convolution", (N, 7, 7, 5), image, filters, input=nhwc, kernel=(3, 2, 0, 1), output=nhwc,
            window=((3, 1, 0, 0, 1, 1),) * 2, feature_groups=1, batch_groups=1,
        )  # fmt: skip
        layer = writer.add("add", (N, 7, 7, 5), layer, writer.add("broadcast", (N, 7, 7, 5), bias, dimensions=(3,)))
        sides = ((1, 1, 0, 0, 1, 1), *[(2, 2, 0, 0, 1, 1)] * 2, (1, 1, 0, 0, 1, 1))
        pooled = writer.add("reduce-window", (N, 3, 3, 5), layer, writer.constant(-np.inf), window=sides,
                            regions=(writer.reducer("maximum"),))  # fmt: skip
        results.append(_product(writer, writer.add("reshape", (N, 45), pooled), weights))
    simple = simplify(writer.program(writer.add("concatenate", (N, 24), *results, dimensions=(1,))))
    one = recognize(rolled(simple))
    assert [each.opcode for each in one.entry.operations].count("conv2d_max_pool") == 1
    images = random.normal(size=(5, 4, 9, 9, 2)).astype(np.float32)
    (wanted,), (got,) = compiled(recognize(simple), 2)(images), compiled(one, 3)(images)
    np.testing.assert_array_equal(got, wanted)


_Parts = tuple[int, int, int]
"""How many there are, and the length of each, and of its result."""


@given(
    strategies.tuples(strategies.integers(4, 6), strategies.integers(1, 3), strategies.integers(1, 3)),
    strategies.sampled_from([1, 2]),
    strategies.permutations([0, 1, 2]),
    strategies.sampled_from([1, 2]),
)
def test_parts_along_any_axis_give_the_same(parts: _Parts, cut: int, order: list[int], joined: int) -> None:
    """Parts along axis `cut` of an array whose axes come in any order, put together along axis `joined`."""
    (count, length, made), writer, results = parts, Writer(), []
    sizes = (count * length, 2) if cut == 1 else (2, count * length)
    whole, part = ([N, *map(Size, sizes)], [N, Size(2), Size(2)])
    part[cut] = Size(length)
    x = writer.add("transpose", [whole[axis] for axis in order], writer.input(*sizes), dimensions=tuple(order))
    back = tuple(order.index(axis) for axis in range(3))
    for place in range(count):
        slices = [(place * length, (place + 1) * length, 1) if axis == cut else (0, whole[axis], 1) for axis in order]
        value = writer.add("slice", [part[axis] for axis in order], x, slices=tuple(slices))
        value = writer.add("transpose", part, value, dimensions=back)
        value = _product(writer, writer.add("reshape", (N, 2 * length), value), _constant(2 * length, made))
        results.append(writer.add("reshape", (N, made, 1) if joined == 1 else (N, 1, made), value))
    result = (N, count * made, 1) if joined == 1 else (N, 1, count * made)
    program = writer.program(writer.add("concatenate", result, *results, dimensions=(joined,)))
    one = rolled(simplify(program))
    assert "concatenate" not in _opcodes(one)
    _require_same(program, one, sizes)
