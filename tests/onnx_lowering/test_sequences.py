"""Sequences, optional values, determinants and short floats: what graphs of a few nodes give."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import model_of, node, run_by_interpreter
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _columns() -> list[Array]:
    """The parts that SplitToSequence makes of the last axis."""
    return [X[..., place : place + 1] for place in range(4)]


@pytest.mark.parametrize("place", [None, -4, -1, 0, 2, 4])
def test_insertions_count_places_as_lists_do(place: int | None) -> None:
    """Before the last item for -1, as `list.insert` and ONNX Runtime; behind all items without a place."""
    expected = _columns()
    expected.insert(len(expected) if place is None else place, -X[..., :1])
    nodes = [
        node("SplitToSequence", "x", "parts", axis=2), node("Slice", "x start end axes", "cut"),
        node("Neg", "cut", "new"), node("SequenceInsert", "parts new" + ("" if place is None else " place"), "more"),
        node("ConcatFromSequence", "more", "y", axis=2),
    ]  # fmt: skip
    given = {} if place is None else {"place": np.int64(place)}
    made = run_by_interpreter(nodes, X, {"start": [0], "end": [1], "axes": [2], **given})
    np.testing.assert_array_equal(made, np.concatenate(expected, 2))


@pytest.mark.parametrize("place", [None, -4, 0, 3])
def test_erasures_and_places_count_as_lists_do(place: int | None) -> None:
    expected = _columns()
    del expected[-1 if place is None else place]
    nodes = [
        node("SplitToSequence", "x", "parts", axis=2, keepdims=0),
        node("SequenceErase", "parts" + ("" if place is None else " place"), "fewer"),
        node("SequenceAt", "fewer last", "y"),
    ]
    given = {} if place is None else {"place": np.int64(place)}
    made = run_by_interpreter(nodes, X, {"last": np.int64(-1), **given})
    np.testing.assert_array_equal(made, expected[-1][..., 0])


def test_a_loop_with_a_sequence_is_unrolled() -> None:
    """40 steps, more than those of loops of tensors."""
    body = {
        "graph": {
            "inputs": ["i", "c", "s"], "outputs": ["c2", "s2"], "shapes": {}, "tensors": {"step": "step"},
            "nodes": [
                node("Identity", "c", "c2"), node("Cast", "i", "f", to=1), node("Add", "x f", "moved"),
                node("SequenceInsert", "s moved", "s2"),
            ],
        }
    }  # fmt: skip
    nodes = [
        node("SequenceEmpty", "", "none"), node("Loop", "many yes none", "all", body=body),
        node("ConcatFromSequence", "all", "y", axis=0, new_axis=1),
    ]  # fmt: skip
    made = run_by_interpreter(nodes, X, {"many": np.int64(40), "yes": True, "step": np.int64(1)})
    np.testing.assert_array_equal(made, np.stack([X + step for step in range(40)]))


def test_optional_values_are_known_while_a_graph_is_lowered() -> None:
    nodes = [
        node("Optional", "x", "full"), node("Optional", "", "empty"), node("OptionalHasElement", "full", "yes"),
        node("OptionalHasElement", "empty", "no"), node("Where", "yes x zero", "first"),
        node("Where", "no x zero", "second"), node("OptionalGetElement", "full", "got"),
        node("Sub", "first second", "rest"), node("Add", "rest got", "y"),
    ]  # fmt: skip
    np.testing.assert_array_equal(run_by_interpreter(nodes, X, {"zero": np.float32(0)}), 2 * X)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([node("SplitToSequence", "x", "s", axis=1), node("Neg", "s", "y")], "a sequence"),
        ([node("SequenceEmpty", "", "s"), node("SequenceAt", "s zero", "y")], "place 0 of a sequence of 0"),
        ([node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", "y", axis=0)], "is empty"),
        ([node("Optional", "", "o"), node("OptionalGetElement", "o", "y")], "is empty"),
        ([node("SplitToSequence", "x zero", "y", axis=1)], "parts of 0 elements"),
        ([node("SplitToSequence", "x two", "y", axis=2)], "parts of 2 elements in all, of an axis of 4"),
        ([node("SplitToSequence", "x", "y", axis=2)], "the output 'y' is a sequence"),
        ([node("Det", "x", "y")], "no square matrix"),
    ],
)
def test_what_sequences_cannot_do_is_an_error(nodes: list[dict[str, object]], says: str) -> None:
    model = model_of(nodes, X.shape, {"zero": np.int64(0), "two": np.array([1, 1])})
    with pytest.raises(Unsupported, match=says):
        lower(model)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
def test_determinants_are_those_of_numpy(size: int) -> None:
    """In float64, of which the last matrix is singular, and the first has a zero where elimination begins."""
    x = np.random.default_rng(size).standard_normal((4, size, size)).astype(np.float32)
    x[0, 0, 0] = 0
    x[3, -1] = x[3, 0] if size > 1 else 0
    made = run_by_interpreter([node("Det", "x", "y")], x)
    expected = np.linalg.det(x.astype(np.float64))
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("equation", "shape"), [("bii->bi", (2, 3, 3)), ("ii", (5, 5)), ("iij,j->i", (3, 3, 4)), ("iii->i", (3, 3, 3))]
)
def test_diagonals_are_those_of_numpy(equation: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    more = {"w": np.random.default_rng(2).standard_normal(4).astype(np.float32)} if "," in equation else {}
    made = run_by_interpreter([node("Einsum", "x w" if more else "x", "y", equation=equation)], x, more)
    np.testing.assert_allclose(made, np.einsum(equation, x, *more.values()), rtol=1e-5)


def _rounded(values: Array) -> Array:
    """The nearest numbers with 8 significant bits, of equally near ones the even one."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.asarray(np.ldexp(np.round(mantissa * 256), exponent - 8), np.float32)


def test_bfloat16_is_rounded_after_each_node() -> None:
    """Also a constant, which NumPy alone cannot hold: 0x3fc0 are the bits of 1.5."""
    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    nodes = [
        node("Cast", "x", "s", to=16),
        node("Mul", "s c", "p"),
        node("Add", "p s", "q"),
        node("Cast", "q", "y", to=1),
    ]
    made = run_by_interpreter(nodes, x, {"c": np.uint16(0x3FC0)}, dtypes={"c": "bfloat16"})
    short = _rounded(x)
    expected = _rounded(_rounded(short * np.float32(1.5)) + short)
    np.testing.assert_array_equal(made, expected)
    assert not np.array_equal(expected, x * np.float32(1.5) + x)


@pytest.mark.parametrize(("dtype", "least"), [("int4", -8), ("uint4", 0), ("int2", -2), ("uint2", 0)])
def test_weights_of_few_bits_in_blocks_are_the_numbers_that_they_stand_for(dtype: str, least: int) -> None:
    """All of them: elements are bits, of which the upper ones of a byte mean nothing."""
    random, bits = np.random.default_rng(0), int(dtype[-1])
    numbers, zeros = (random.integers(least, least + 2**bits, shape) for shape in ((8, 3), (2, 3)))
    numbers.reshape(-1)[: 2**bits] = least + np.arange(2**bits)
    scales = random.uniform(0.5, 1, (2, 3)).astype(np.float32)
    upper = random.integers(0, 2 ** (8 - bits), (8, 3)) << bits
    tensors = {
        "w": ((numbers & (2**bits - 1)) | upper).astype(np.uint8), "s": scales, "z": (zeros & (2**bits - 1)).astype(np.uint8),
    }  # fmt: skip
    x = random.normal(size=(5, 8)).astype(np.float32)
    nodes = [node("DequantizeLinear", "w s z", "d", axis=0, block_size=4), node("MatMul", "x d", "y")]
    made = run_by_interpreter(nodes, x, tensors, dtypes={"w": dtype, "z": dtype})
    weights = (numbers - zeros.repeat(4, 0)) * scales.repeat(4, 0).astype(np.float64)
    np.testing.assert_allclose(made, x @ weights, rtol=1e-5, atol=1e-5)


def test_results_of_few_bits_are_refused() -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    tensors = {"s": np.float32(0.5), "z": np.uint8(3)}
    with pytest.raises(Unsupported, match="results of fewer than 8 bits"):
        run_by_interpreter(nodes, np.zeros((2, 3), np.float32), tensors, dtypes={"z": "int4"})
