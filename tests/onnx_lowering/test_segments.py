"""Sums over segments of all rows, flattened: graphs whose rows are shown to be independent, and their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import Node, model_of, node
from tfaot_pkg.compiler import interpret
from tfaot_pkg.frontends.onnx_lowering.ends import lowered
from tfaot_pkg.ground.arrays import Array

TENSORS = {
    "zero": 0, "one": 1, "first": [0], "last": [-1], "segments": np.int64(4), "low": np.float32(0), "high": np.float32(3),
    "too_high": np.float32(4), "flat": [-1], "of_rows": [-1, 4], "column": [1],
}  # fmt: skip
LIMITED = [node("Clip", "floor low high", "in_range"), node("Cast", "in_range", "local", to=7)]
NUMBER = [node("Floor", "x", "floor"), node("Cast", "floor", "whole", to=7)]


def segments(local: list[Node], *, elements: bool = True) -> list[Node]:
    """y[r, s] is the sum of those x[r, j] whose local[r, j] is s, of four segments for each row."""
    scattered = (
        node("ScatterElements", "zeros ids values", "all", reduction="add")
        if elements else node("ScatterND", "zeros vectors values", "all", reduction="add")
    )  # fmt: skip
    return [
        *NUMBER, *local, node("Shape", "x", "shape"), node("Gather", "shape zero", "rows"),
        node("Range", "zero rows one", "numbers"), node("Unsqueeze", "numbers column", "number"),
        node("Mul", "number segments", "starts"), node("Add", "starts local", "of_all"), node("Reshape", "of_all flat", "ids"),
        node("Unsqueeze", "ids column", "vectors"), node("Reshape", "x flat", "values"), node("Mul", "rows segments", "count"),
        node("Unsqueeze", "count first", "size"), node("ConstantOfShape", "size", "zeros"), scattered,
        node("Reshape", "all of_rows", "y"),
    ]  # fmt: skip


WITHIN = {
    "clip": LIMITED,
    "modulo": [node("Mod", "whole segments", "local")],
    "where": [
        node("Less", "whole segments", "below"), node("GreaterOrEqual", "whole zero", "from_zero"),
        node("And", "below from_zero", "inside"), node("Where", "inside whole zero", "local"),
    ],
}  # fmt: skip
BEYOND = {
    "as it comes": [node("Identity", "whole", "local")],
    "clip": [node("Clip", "floor low too_high", "in_range"), node("Cast", "in_range", "local", to=7)],
    "remainder of its own sign": [node("Mod", "whole segments", "local", fmod=1)],
    "where": [node("Less", "whole segments", "below"), node("Where", "below whole zero", "local")],
}


@pytest.mark.parametrize("elements", [True, False])
@pytest.mark.parametrize("name", WITHIN)
def test_segments_of_own_rows_are_independent_and_summed(name: str, elements: bool) -> None:
    nodes = segments(WITHIN[name], elements=elements)
    found = lowered(model_of(nodes, ("batch", 6), TENSORS), ())
    assert found.rows.independent
    x = np.random.default_rng(1).uniform(0, 4, (5, 6)).astype(np.float32)
    (y,) = interpret.run(found.program, 5, [x], {})
    assert np.array_equal(y, _sums(x))


def _sums(x: Array) -> Array:
    wanted = np.zeros((len(x), 4), np.float32)
    for row, column in np.ndindex(*x.shape):
        wanted[row, int(x[row, column])] += x[row, column]
    return wanted


@pytest.mark.parametrize("name", BEYOND)
def test_segments_that_may_be_another_rows_are_dependent(name: str) -> None:
    (meeting,) = lowered(model_of(segments(BEYOND[name]), ("batch", 6), TENSORS), ()).rows.meetings
    assert meeting.operation == "scatter"
    # Negative indices count from the end of all rows, so that others are of no single form.
    unlimited = name == "clip"
    assert meeting.reason == ("an index may be that of another row, so " if unlimited else "") + "rows interact"


@pytest.mark.parametrize("last", [False, True])
def test_the_place_of_the_largest_is_one_of_its_row(last: bool) -> None:
    local = [
        node("Slice", "x first four column", "corner"),
        node("ArgMax", "corner", "place", axis=1, keepdims=1, select_last_index=int(last)),
        node("Add", "place nothing", "local"),
    ]
    tensors = {**TENSORS, "four": [4], "first": [0], "nothing": np.zeros((1, 6), np.int64)}
    found = lowered(model_of(segments(local), ("batch", 6), tensors), ())
    assert found.rows.independent
    x = np.array([[1, 3, 3, -np.inf, 1, 1], [-np.inf, -np.inf, -np.inf, -np.inf, 1, 1]], np.float32)
    (y,) = interpret.run(found.program, 2, [x], {})
    places = [2, 3] if last else [1, 0]
    assert [int(np.flatnonzero(row)[0]) for row in y] == places
