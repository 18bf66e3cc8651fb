"""Forests in programs, the attribute `forest` of `trees`, and as the kernel library reads them (its src/trees.h).

The numbers that trees compare become ranks among the thresholds of their feature, a byte each; a feature with more
thresholds has several scales. All of it is decided here, and tested against the forest itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.program import NUMPY_TYPES, Operation, Shape, Unsupported
from tfaot_pkg.worker_program.messages.forest import (
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    IN,
    IN_CUT,
    LESS,
    NAN,
    NEAR_ZERO,
    NONE,
    NOT_EQUAL,
    ZERO,
    Forest,
    depth,
    unpacked,
)

_MOST_BOUNDARIES = 252
"""Of a scale: ranks from 0 to 254, beside two boundaries around zero. 255 is NaN."""
_DEEPEST_COMPLETE = 8
_MOST_PADDED = 4
"""Complete trees may have so many times the leaves that the forest has: they need 2 bytes for a node, others 8."""
_SMALL = 256
"""Leaves of the largest tree that vectors of bytes pass."""
_NEXT = 0xFFFFFFFF
_NEVER = 127
"""A key that no rank is above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """`complete` is the depth of all trees, 0 if they are of any shape; `small` says that none has over 256 leaves.

    `wide` says that columns take two bytes. `arrays` are those of trees.h by name, `scales` and `derived` their number.
    """

    complete: int
    small: bool
    wide: bool
    scales: int
    derived: int
    arrays: Mapping[str, Array]

    @property
    def columns(self) -> int:
        return self.scales + self.derived


def forest_in(operations: Sequence[Operation], content: int, result: Shape) -> Forest:
    """The forest whose bytes the constant `content` of `operations` holds.

    Raises ValueError if it is none, or gives another result.
    """
    known = {each.id: each for each in operations}
    found = known[content]
    while found.opcode == "reshape":  # the bridge adds some
        found = known[found.operands[0]]
    if found.opcode != "constant" or found.shape.dtype != "u8":
        raise ValueError("a forest is no constant")
    forest = unpacked(found.attributes["literal"].constant)
    if result.rank != 2 or result.sizes[1].constant != forest.outputs or NUMPY_TYPES[result.dtype] != forest.total:
        raise ValueError(f"a forest does not give {result}")
    return forest


def pack(forest: Forest) -> Packed:
    """Raises Unsupported for more columns than 65,536."""
    nodes = _Nodes(forest)
    columns = _Columns(forest, nodes)
    deepest = depth(forest)
    leaves = len(forest.roots) << max(deepest, 1)
    is_complete = deepest <= _DEEPEST_COMPLETE and leaves <= _MOST_PADDED * (len(forest.feature) + len(forest.roots))
    arrays: dict[str, Array] = dict(columns.arrays)
    arrays["target"] = forest.target.astype(np.uint16)
    arrays["base"] = forest.base
    if is_complete:
        arrays |= _complete(forest, nodes, columns, max(deepest, 1))
    else:
        arrays |= _any(forest, nodes, columns)
    first = arrays.get("first")
    return Packed(
        complete=max(deepest, 1) if is_complete else 0,
        small=first is None or int(np.diff(first.astype(np.int64)).max()) <= _SMALL,
        wide=columns.count > 256,
        scales=columns.scales,
        derived=columns.count - columns.scales,
        arrays=arrays,
    )


class _Nodes:
    """Nodes as `right if x >= boundary`, or as sets with their members on the left."""

    def __init__(self, forest: Forest) -> None:
        comparison = forest.comparison
        swapped = np.isin(comparison, (GREATER, GREATER_EQUAL, NOT_EQUAL))
        self.left = np.where(swapped, forest.right, forest.left)
        self.right = np.where(swapped, forest.left, forest.right)
        self.default = forest.default ^ swapped
        self.is_set = np.isin(comparison, (IN, IN_CUT))
        self.is_equal = np.isin(comparison, (EQUAL, NOT_EQUAL))
        at = np.isin(comparison, (LESS, GREATER_EQUAL))
        dtype = np.dtype(forest.dtype)
        self.boundary = np.where(at, at_least(forest.threshold, dtype), above(forest.threshold, dtype)).astype(dtype)


def at_least(values: Array, dtype: DTypeLike) -> Array:
    """The smallest numbers of `dtype` that are not below `values`."""
    with np.errstate(all="ignore"):
        found = values.astype(dtype)
        made: Array = np.where(found < values, np.nextafter(found, np.asarray(np.inf, dtype)), found)
    return made


def above(values: Array, dtype: DTypeLike) -> Array:
    """The smallest numbers of `dtype` above `values`; NaN, which nothing reaches, above infinity."""
    with np.errstate(all="ignore"):
        found = values.astype(dtype)
        made: Array = np.where(found <= values, np.nextafter(found, np.asarray(np.inf, dtype)), found)
    made[np.isposinf(values)] = np.nan
    return made


class _Columns:
    """Scales, and what is derived of them; `column` and `key` of each node.

    A scale is (feature, boundaries) or (feature, kind, set); several nodes share it, and its derived columns.
    """

    def __init__(self, forest: Forest, nodes: _Nodes) -> None:
        self._forest, self._nodes = forest, nodes
        self._scale_rows: list[tuple[int, int, int, int]] = []
        self._boundaries: list[Array] = []
        self._boundary_end = 0
        self._sets: list[Array] = []
        self._set_end = 0
        self._derived: dict[tuple[int, bytes], int] = {}
        self._tables: dict[bytes, int] = {}
        self._known: dict[tuple[int, int, bytes], int] = {}  # scales of sets and of single numbers
        count = len(forest.feature)
        # Columns of scales, and -1 - number for derived ones until the number of scales is known.
        self._column = np.zeros(count, np.int64)
        self.key = np.zeros(count, np.int64)
        plain = ~(nodes.is_set | nodes.is_equal)
        for feature in np.unique(forest.feature[plain]).tolist():
            self._add_thresholds(feature, np.flatnonzero(plain & (forest.feature == feature)))
        for place in np.flatnonzero(~plain).tolist():
            self._add_membership(place)
        self.scales = len(self._scale_rows)
        self.count = self.scales + len(self._derived)
        if self.count > 1 << 16:
            raise Unsupported(f"a forest with {self.count} columns of ranks")
        self.column = np.where(self._column >= 0, self._column, self.scales - 1 - self._column)

    @property
    def arrays(self) -> dict[str, Array]:
        dtype = self._forest.dtype
        tables = b"".join(self._tables)
        change = [(scale, self._tables.get(table, _NEXT)) for scale, table in self._derived]
        return {
            "scale": np.array(self._scale_rows, np.uint32).reshape(-1, 4),
            "boundaries": np.concatenate([np.zeros(0, dtype), *self._boundaries]).astype(dtype),
            "sets": np.concatenate([np.zeros(0, np.uint32), *self._sets]).astype(np.uint32),
            "change": np.array(change, np.uint32).reshape(-1, 2),
            "tables": np.frombuffer(tables, np.int8),
        }

    def _scale(self, feature: int, boundaries: Array) -> int:
        self._scale_rows.append((feature, self._boundary_end, len(boundaries), 0))
        self._boundaries.append(boundaries)
        self._boundary_end += len(boundaries)
        return len(self._scale_rows) - 1

    def _derive(self, scale: int, table: bytes) -> int:
        """A column; without a `table` the one of the next ranks."""
        if table:
            self._tables.setdefault(table, len(self._tables))
        return -1 - self._derived.setdefault((scale, table), len(self._derived))

    def _add_thresholds(self, feature: int, places: Array) -> None:
        """Columns and keys of the nodes `places`, which compare `feature` with thresholds."""
        forest, nodes = self._forest, self._nodes
        all_boundaries, number = np.unique(nodes.boundary[places], return_inverse=True)
        is_beyond = np.isnan(nodes.boundary[places])
        near = _near_zero(forest.dtype) if (forest.missing[places] == ZERO).any() else np.zeros(0, forest.dtype)
        finite = all_boundaries[~np.isnan(all_boundaries)]
        for start in range(0, max(len(finite), 1), _MOST_BOUNDARIES):
            boundaries = np.unique(np.concatenate([finite[start : start + _MOST_BOUNDARIES], near]))
            chosen = (number >= start) & (number < start + _MOST_BOUNDARIES) | (is_beyond & (start == 0))
            self._place(feature, boundaries, places[chosen])

    def _place(self, feature: int, boundaries: Array, places: Array) -> None:
        forest, nodes = self._forest, self._nodes
        scale = self._scale(feature, boundaries)
        rank = np.searchsorted(boundaries, nodes.boundary[places])
        rank = np.where(np.isnan(nodes.boundary[places]), 254, rank)
        missing, default = forest.missing[places], nodes.default[places]
        for kind in (NAN, ZERO, NONE):
            for side in (False, True):
                chosen = (missing == kind) & (default == side)
                if not chosen.any():
                    continue
                if kind == NAN:
                    # Missing is 255, above every key, or 0.
                    column, keys = (self._derive(scale, b""), rank + 1) if side else (scale, rank)
                else:
                    column, keys = self._derive(scale, _table(boundaries, kind, is_left=side)), rank
                self._column[places[chosen]] = column
                self.key[places[chosen]] = keys[chosen] - 128

    def _add_membership(self, place: int) -> None:
        """The column and the key of a node that asks whether a number is in a set, or equals another one."""
        forest, nodes = self._forest, self._nodes
        feature, kind = int(forest.feature[place]), int(forest.missing[place])
        is_left = bool(nodes.default[place])
        if nodes.is_equal[place]:
            value = forest.threshold[place : place + 1]
            edges = np.concatenate([at_least(value, forest.dtype), above(value, forest.dtype)])
            boundaries = np.unique(np.concatenate([edges, _near_zero(forest.dtype)] if kind == ZERO else [edges]))
            boundaries = boundaries[~np.isnan(boundaries)].astype(forest.dtype)
            name = (feature, 0, boundaries.tobytes())
            scale = self._known[name] if name in self._known else self._scale(feature, boundaries)
            first = int(np.searchsorted(boundaries, edges[0], side="right"))
            # A number that the type does not have equals nothing.
            table = np.where((np.arange(256) == first) & (edges[0] != edges[1]), 0, 255)
            table = _with_missing(table, boundaries, kind, is_left=is_left)
        else:
            start, count = int(forest.threshold[place]), int(forest.words[place])
            words = forest.sets[start : start + count] if count else np.zeros(1, np.uint32)
            rule = 2 if forest.comparison[place] == IN_CUT else 1
            name = (feature, rule, words.tobytes())
            scale = self._known[name] if name in self._known else self._set(feature, rule, words)
            table = np.where(np.arange(256) == 0, 0, 255)
            has_zero = bool(words[0] & 1)
            table[255] = 0 if (is_left if kind == NAN else has_zero) else 255
        self._known[name] = scale
        self._column[place] = self._derive(scale, _stored(table))
        self.key[place] = -128

    def _set(self, feature: int, rule: int, words: Array) -> int:
        self._scale_rows.append((feature, self._set_end, len(words), rule))
        self._sets.append(words)
        self._set_end += len(words)
        return len(self._scale_rows) - 1


def _table(boundaries: Array, kind: int, *, is_left: bool) -> bytes:
    """Ranks as they are, except what is missing."""
    return _stored(_with_missing(np.arange(256), boundaries, kind, is_left=is_left))


def _stored(table: Array) -> bytes:
    return bytes((table - 128).astype(np.int8).tobytes())


def _with_missing(table: Array, boundaries: Array, kind: int, *, is_left: bool) -> Array:
    """`table` with 0 or 255 for ranks of what is missing. NaN has rank 255."""
    made: Array = table.copy()
    side = 0 if is_left else 255
    if kind == NONE:
        made[255] = table[np.searchsorted(boundaries, 0.0, side="right")]
        return made
    made[255] = side
    if kind == ZERO:
        low, high = np.searchsorted(boundaries, _near_zero(boundaries.dtype), side="right")
        made[low:high] = side
    return made


def _near_zero(dtype: DTypeLike) -> Array:
    """The first number that is taken for missing beside zero, and the first one above these."""
    near = np.array([-NEAR_ZERO, NEAR_ZERO])
    return np.array([at_least(near, dtype)[0], above(near, dtype)[1]], dtype)


def _complete(forest: Forest, nodes: _Nodes, columns: _Columns, deepest: int) -> dict[str, Array]:
    """Trees in order of their levels; behind a leaf every row goes left, to copies of it."""
    trees = len(forest.roots)
    level = forest.roots.astype(np.int64)[:, None]
    kind = np.dtype([("column", np.uint16 if columns.count > _SMALL else np.uint8), ("key", np.int8)], align=True)
    made = np.zeros((trees, (1 << deepest) - 1), kind)
    for height in range(deepest):
        is_node, place = level >= 0, np.maximum(level, 0)
        slots = made[:, (1 << height) - 1 : (2 << height) - 1]
        slots["column"] = np.where(is_node, _at(columns.column, place), 0)
        slots["key"] = np.where(is_node, _at(columns.key, place), _NEVER)
        left = np.where(is_node, _at(nodes.left, place), level)
        right = np.where(is_node, _at(nodes.right, place), level)
        level = np.stack([left, right], axis=2).reshape(trees, -1)
    return {"nodes": np.frombuffer(made.tobytes(), np.uint8), "values": forest.values[-1 - level].reshape(-1)}


def _at(values: Array, places: Array) -> Array:
    found: Array = values[places] if len(values) else np.zeros(places.shape, np.int64)
    return found


def _any(forest: Forest, nodes: _Nodes, columns: _Columns) -> dict[str, Array]:
    """Branches by tree and level, sides by tree from above and from the left, leaves from the left."""
    trees = len(forest.roots)
    level, tree = forest.roots.astype(np.int64), np.arange(trees)
    levels = []  # (tree, node or leaf) of each level, children side by side
    while len(level):
        levels.append((tree, level))
        inner = level >= 0
        tree, level = (
            np.repeat(tree[inner], 2),
            np.stack([nodes.left[level[inner]], nodes.right[level[inner]]], 1).ravel(),
        )
    # From below: how many leaves are under each.
    counts: list[Array] = []
    for number in range(len(levels) - 1, -1, -1):
        count = np.ones(len(levels[number][1]), np.int64)
        if counts:
            count[levels[number][1] >= 0] = counts[0].reshape(-1, 2).sum(1)
        counts.insert(0, count)
    first = np.concatenate([[0], np.cumsum(counts[0])])
    owner, place = (np.concatenate([each[part] for each in levels]) for part in (0, 1))
    height = np.repeat(np.arange(len(levels)), [len(each[1]) for each in levels])
    # By tree, and within it by level: brothers stay side by side.
    order = np.argsort(owner, kind="stable")
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    inner = place >= 0
    child = position.copy()
    below = np.cumsum(inner) - 1  # the number of an inner node: its children are the next two of the levels below
    child[inner] = position[trees + 2 * below[inner]]
    # From above: the first leaf below each, within its tree; a side stands behind those above it and to its left.
    start, before = np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
    count = np.concatenate(counts)
    left = trees + 2 * below[inner]
    for number in np.unique(height[inner]).tolist():
        chosen = np.flatnonzero(inner & (height == number))
        one = trees + 2 * below[chosen]
        start[one], before[one] = start[chosen], before[chosen] + 1
        start[one + 1], before[one + 1] = start[chosen] + count[one], before[chosen] + count[one]
    branch = np.zeros(len(order), np.dtype([("child", "<u4"), ("column", "<u2"), ("key", "i1"), ("unused", "u1")]))
    branch["child"], branch["key"] = child, _NEVER
    branch["column"][inner], branch["key"][inner] = columns.column[place[inner]], columns.key[place[inner]]
    branches = np.empty_like(branch)
    branches[position] = branch
    leaf_of = np.zeros(len(order), np.uint32)
    leaf_of[position] = start
    values = np.empty((int(first[-1]), forest.values.shape[1]), forest.values.dtype)
    values[first[owner[~inner]] + start[~inner]] = forest.values[-1 - place[~inner]]
    side_type = np.dtype([("column", "<u2"), ("key", "i1"), ("start", "u1"), ("count", "u1"), ("unused", "u1")])
    sides = np.zeros(int(inner.sum()), side_type)
    at = first[owner[inner]] - owner[inner] + before[inner]
    sides["column"][at], sides["key"][at] = columns.column[place[inner]], columns.key[place[inner]]
    sides["start"][at], sides["count"][at] = start[inner] & 255, count[left] & 255
    depths = np.zeros(trees, np.uint16)
    np.maximum.at(depths, owner, height.astype(np.uint16))
    return {
        "branches": np.frombuffer(branches.tobytes(), np.uint8),
        "sides": np.frombuffer(sides.tobytes(), np.uint8),
        "first": first.astype(np.uint32),
        "leaf_of": leaf_of,
        "depths": depths,
        "values": values.reshape(-1),
    }
