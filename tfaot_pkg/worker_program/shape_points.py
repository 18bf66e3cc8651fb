"""The sizes at which TensorFlow infers shapes, which polynomials are found from (shape_analysis.py)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import specialize
import tensorflow as tf
from polynomials import BATCH

if TYPE_CHECKING:
    from framework_types import GraphDef
    from messages.graph import Symbol
    from shape_values import Shape


DEGREE = 2
"""The degree of polynomials in the symbols beside the batch (compiler/fitting.py)."""

Point: TypeAlias = Mapping[str, int]
"""The size of each symbol, and of the batch."""


def points_of(symbols: Sequence[Symbol], most: int) -> list[Point]:
    """Sizes that determine the polynomials; the last two are checks, the very last one with `most` rows."""
    sizes = {each.name: _three(each) for each in symbols}
    grid = [
        {name: sizes[name][steps.count(name)] for name in sizes}
        for degree in range(DEGREE + 1 if sizes else 1)
        for steps in itertools.combinations_with_replacement(sizes, degree)
    ]
    first, second = specialize.PROBES
    last = {BATCH: second + 4, **{each.name: each.maximum for each in symbols}}
    return [*({BATCH: batch, **each} for each in grid for batch in (first, second)), last, {BATCH: most, **grid[0]}]


def _three(symbol: Symbol) -> list[int]:
    """Three sizes, as different as the range allows."""
    span = symbol.maximum - symbol.minimum
    found = [symbol.maximum - min(step, span) for step in (4, 2, 1)]
    return found if span < 24 else [symbol.minimum + step for step in (11, 13, 17)]


def at_point(graph_def: GraphDef, feeds: Sequence[specialize.Placed], point: Point) -> GraphDef:
    sizes = {name: size for name, size in point.items() if name != BATCH}
    return specialize.at_batch_size(graph_def, feeds, point[BATCH], sizes)


def at(shape: Shape, point: Point) -> tf.TensorShape:
    """The shape at one point."""
    if shape is None:
        return tf.TensorShape(None)
    return tf.TensorShape([None if size is None else int(size.at(point)) for size in shape])
