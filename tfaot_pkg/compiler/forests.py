"""Forests in programs, the attribute `forest` of `trees`, packed as the kernel library reads them (its src/trees.h).

The numbers that trees compare become ranks among the thresholds of their feature, one byte each; a feature with more
thresholds than a byte can count has several scales. Comparisons, missing values and sets are resolved here, and tested
against the forest itself (decision 051).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.ground.arrays import Array
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
)

_MOST_BOUNDARIES = 252
"""The most boundaries of a scale: ranks are 0 to 254, with two more boundaries around zero. 255 is NaN."""
_LINE = 64
"""Bytes of boundaries that the kernel library compares at once. NaN, which no number reaches, fill the last line."""
# Deeper complete trees double their nodes at each level; decision 051 has times up to this depth.
_DEEPEST_COMPLETE = 8
_MOST_PADDED = 4
"""The most leaves of complete trees, as a multiple of the forest's: their nodes take 2 bytes, others 8."""
_SMALL = 256
"""The most leaves of a tree that vectors of bytes can number."""
_NEXT = 0xFFFFFFFF
_NEVER = 127
"""The largest signed byte: no rank is above this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """`complete` is the depth of complete trees, 0 for trees of any shape; `small`: none has more than 256 leaves.

    `wide`: numbers of columns take two bytes. `arrays` are those of trees.h by name; `scales` and `derived` are counts.
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


def pack(forest: Forest) -> Packed:
    """Raises Unsupported for more columns than 65,536."""
    nodes = _Nodes(forest)
    columns = _Columns(forest, nodes)
    deepest = depth(forest)
    # Complete trees need no links: a child's position follows from its parent's.
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
    """All nodes in one form: `right if x >= boundary`, or a set whose members go left."""

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
        # In the type of the inputs: a threshold between two floats becomes the next float, with equal comparisons.
        self.boundary = np.where(at, at_least(forest.threshold, dtype), above(forest.threshold, dtype)).astype(dtype)


def at_least(values: Array, dtype: DTypeLike) -> Array:
    """The smallest numbers of `dtype` that are at least `values`."""
    # A conversion rounds to nearest, so it may give the number below.
    with np.errstate(all="ignore"):
        found = values.astype(dtype)
        made: Array = np.where(found < values, np.nextafter(found, np.asarray(np.inf, dtype)), found)
    return made


def above(values: Array, dtype: DTypeLike) -> Array:
    """The smallest numbers of `dtype` above `values`; NaN above infinity, because nothing is >= NaN."""
    with np.errstate(all="ignore"):
        found = values.astype(dtype)
        made: Array = np.where(found <= values, np.nextafter(found, np.asarray(np.inf, dtype)), found)
    made[np.isposinf(values)] = np.nan
    return made


class _Columns:
    """Scales, and columns derived from them; `column` and `key` of each node.

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
        # Columns of scales come first; derived ones are -1 - number until the number of scales is known.
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
        lines = -(-boundaries.nbytes // _LINE) * _LINE // boundaries.itemsize
        self._boundaries.append(np.pad(boundaries, (0, lines - len(boundaries)), constant_values=np.nan))
        self._boundary_end += lines
        return len(self._scale_rows) - 1

    def _derive(self, scale: int, table: bytes) -> int:
        """A derived column: ranks mapped by `table`, or, without one, each rank plus one with NaN as 0."""
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
        # A feature with more thresholds than a byte can count has several scales, each with a column of ranks.
        for start in range(0, max(len(finite), 1), _MOST_BOUNDARIES):
            boundaries = np.unique(np.concatenate([finite[start : start + _MOST_BOUNDARIES], near]))
            chosen = (number >= start) & (number < start + _MOST_BOUNDARIES) | (is_beyond & (start == 0))
            self._place(feature, boundaries, places[chosen])

    def _place(self, feature: int, boundaries: Array, places: Array) -> None:
        forest, nodes = self._forest, self._nodes
        scale = self._scale(feature, boundaries)
        rank = np.searchsorted(boundaries, nodes.boundary[places])
        # Above infinity: no rank of a number reaches 254, so all rows except NaN go left.
        rank = np.where(np.isnan(nodes.boundary[places]), 254, rank)
        missing, default = forest.missing[places], nodes.default[places]
        for kind in (NAN, ZERO, NONE):
            for side in (False, True):
                chosen = (missing == kind) & (default == side)
                if not chosen.any():
                    continue
                if kind == NAN:
                    # NaN is 255, which is above every key, or 0 in the derived column, which is above none.
                    column, keys = (self._derive(scale, b""), rank + 1) if side else (scale, rank)
                else:
                    column, keys = self._derive(scale, _table(boundaries, kind, is_left=side)), rank
                self._column[places[chosen]] = column
                # Signed bytes: x86-64 before AVX-512 compares no vectors of unsigned ones.
                self.key[places[chosen]] = keys[chosen] - 128

    def _add_membership(self, place: int) -> None:
        """Set the column and the key of a node that tests membership in a set, or equality with a number."""
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
            # A number that the type cannot represent equals no input.
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
            # 255 is NaN: in the set if missing values go left; without a rule, NaN counts as 0.
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
    """A table that keeps ranks, except those of missing values."""
    return _stored(_with_missing(np.arange(256), boundaries, kind, is_left=is_left))


def _stored(table: Array) -> bytes:
    return bytes((table - 128).astype(np.int8).tobytes())


def _with_missing(table: Array, boundaries: Array, kind: int, *, is_left: bool) -> Array:
    """`table` with 0 (left) or 255 (right) for the ranks of missing values. NaN has rank 255."""
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
    """The smallest number near zero that counts as missing, and the smallest one above all of these."""
    # LightGBM's rule: kZeroThreshold, which NEAR_ZERO is.
    near = np.array([-NEAR_ZERO, NEAR_ZERO])
    return np.array([at_least(near, dtype)[0], above(near, dtype)[1]], dtype)


def _complete(forest: Forest, nodes: _Nodes, columns: _Columns, deepest: int) -> dict[str, Array]:
    """Trees in the order of their levels; below a leaf, every row goes left, to copies of the leaf."""
    trees = len(forest.roots)
    level = forest.roots.astype(np.int64)[:, None]
    kind = np.dtype([("column", np.uint16 if columns.count > _SMALL else np.uint8), ("key", np.int8)], align=True)
    made = np.zeros((trees, (1 << deepest) - 1), kind)
    for height in range(deepest):
        is_node, place = level >= 0, np.maximum(level, 0)
        slots = made[:, (1 << height) - 1 : (2 << height) - 1]
        slots["column"] = np.where(is_node, _at(columns.column, place), 0)
        # No rank is above this key, so rows go left below a leaf; both sides are copies of the leaf anyway.
        slots["key"] = np.where(is_node, _at(columns.key, place), _NEVER)
        left = np.where(is_node, _at(nodes.left, place), level)
        right = np.where(is_node, _at(nodes.right, place), level)
        level = np.stack([left, right], axis=2).reshape(trees, -1)
    return {"nodes": np.frombuffer(made.tobytes(), np.uint8), "values": forest.values[-1 - level].reshape(-1)}


def _at(values: Array, places: Array) -> Array:
    found: Array = values[places] if len(values) else np.zeros(places.shape, np.int64)
    return found


@dataclass(frozen=True, slots=True)
class _Walk:
    """All nodes and leaves of all trees, level by level: the roots first, siblings side by side.

    Arrays in that order: `owner` is the tree, `place` the node or leaf as in Forest, `leaves` the number of leaves
    below (1 for a leaf), `left` the number of the left child, which the right one follows. `levels` are the numbers of
    nodes by level.
    """

    owner: Array
    place: Array
    leaves: Array
    left: Array
    levels: Sequence[Array]

    @property
    def is_node(self) -> Array:
        found: Array = self.place >= 0
        return found


def _walk(forest: Forest, nodes: _Nodes) -> _Walk:
    tree, level = np.arange(len(forest.roots)), forest.roots.astype(np.int64)
    found = []
    while len(level):
        found.append((tree, level))
        is_node = level >= 0
        tree = np.repeat(tree[is_node], 2)
        level = np.stack([nodes.left[level[is_node]], nodes.right[level[is_node]]], 1).ravel()
    owner, place = (np.concatenate(each) for each in zip(*found, strict=True))
    numbers, left = np.flatnonzero(place >= 0), np.zeros(len(place), np.int64)
    # Each node adds two places to the next level, in the order of the nodes.
    left[numbers] = len(forest.roots) + 2 * np.arange(len(numbers))
    ends = np.cumsum([len(each) for each, _ in found])
    levels = np.split(numbers, np.searchsorted(numbers, ends[:-1]))
    leaves = np.ones(len(place), np.int64)
    for each in reversed(levels):
        leaves[each] = leaves[left[each]] + leaves[left[each] + 1]
    return _Walk(owner, place, leaves, left, levels)


def _any(forest: Forest, nodes: _Nodes, columns: _Columns) -> dict[str, Array]:
    """Trees of any shape: branches by tree and level, sides by tree in preorder, leaves from left to right."""
    walk = _walk(forest, nodes)
    # By number: the first leaf below the node, within its tree, and the number of sides before its own.
    start, before = np.zeros(len(walk.place), np.int64), np.zeros(len(walk.place), np.int64)
    depths = np.zeros(len(forest.roots), np.uint16)
    for height, each in enumerate(walk.levels, 1):
        left = walk.left[each]
        start[left], before[left] = start[each], before[each] + 1
        start[left + 1], before[left + 1] = start[each] + walk.leaves[left], before[each] + walk.leaves[left]
        depths[walk.owner[each]] = height
    first = np.concatenate([[0], np.cumsum(walk.leaves[: len(forest.roots)])])
    is_leaf = ~walk.is_node
    values = np.empty((int(first[-1]), forest.values.shape[1]), forest.values.dtype)
    values[first[walk.owner[is_leaf]] + start[is_leaf]] = forest.values[-1 - walk.place[is_leaf]]
    return {
        **_branches(walk, columns, start),
        "sides": _sides(walk, columns, start, first[walk.owner] - walk.owner + before),
        "first": first.astype(np.uint32),
        "depths": depths,
        "values": values.reshape(-1),
    }


def _branches(walk: _Walk, columns: _Columns, start: Array) -> dict[str, Array]:
    """The nodes that single rows walk, by tree and level. A leaf links to itself, so steps need no test for the end."""
    # A row walks one tree at a time, so the nodes of a tree should share cache lines.
    order = np.argsort(walk.owner, kind="stable")
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    is_node = walk.is_node
    made = np.zeros(len(order), np.dtype([("child", "<u4"), ("column", "<u2"), ("key", "i1"), ("unused", "u1")]))
    made["child"], made["key"] = np.where(is_node, position[walk.left], position), _NEVER
    made["column"][is_node] = columns.column[walk.place[is_node]]
    made["key"][is_node] = columns.key[walk.place[is_node]]
    return {"branches": np.frombuffer(made[order].tobytes(), np.uint8), "leaf_of": start[order].astype(np.uint32)}


def _sides(walk: _Walk, columns: _Columns, start: Array, at: Array) -> Array:
    """The nodes that vectors of rows evaluate, each with the range of its left leaves. `at` are their positions."""
    is_node = walk.is_node
    kind = np.dtype([("column", "<u2"), ("key", "i1"), ("start", "u1"), ("count", "u1"), ("unused", "u1")])
    made = np.zeros(int(is_node.sum()), kind)
    at, place = at[is_node], walk.place[is_node]
    made["column"][at], made["key"][at] = columns.column[place], columns.key[place]
    # One byte each: the kernel library evaluates only trees of at most _SMALL leaves this way.
    made["start"][at], made["count"][at] = start[is_node] & 255, walk.leaves[walk.left[is_node]] & 255
    return np.frombuffer(made.tobytes(), np.uint8)
