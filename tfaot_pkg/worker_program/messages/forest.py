"""Forests of decision trees: the one type that all readers of trees create, and that all later stages compute.

A row goes from the root of each tree to a leaf, and the sum of the leaves' values, in the order of the trees, is the
result. Averages, base values that are added last, and links are ordinary operations after it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL, IN, IN_CUT = range(8)
"""Comparisons: a row goes left if `x OP threshold` is true.

IN: if x, rounded down, is in the node's set, as in XGBoost; IN_CUT: if x, cut off towards zero, is, as in LightGBM.
"""

NAN, ZERO, NONE = range(3)
"""Which numbers are missing, by node: NaN; or NaN and numbers up to NEAR_ZERO; or none, and NaN counts as 0."""

NEAR_ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold, a float."""

CATEGORIES = 1 << 24
"""Categories of IN and IN_CUT are below this limit, up to which floats represent all integers."""

_MOST = 1 << 26
"""The most nodes, leaves and words of sets."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forest:
    """Trees over x [batch, features], of NumPy's type `dtype`, that compute [batch, outputs] of type `total`.

    A node is a number; a leaf is `-1 - number`, in `roots`, `left` and `right`. Each node has one parent at most.

    roots       int32 [trees]
    target      int32 [trees]: the output that a tree adds to; with vectors in its leaves the first one, 0
    feature     int32 [nodes]
    comparison  uint8 [nodes]: LESS to IN_CUT
    threshold   float64 [nodes]: not NaN; of IN and IN_CUT the number of the first word of the node's set, in `sets`
    words       int32 [nodes]: words of the node's set, 0 if it has none
    missing     uint8 [nodes]: NAN, ZERO or NONE
    default     bool [nodes]: whether missing numbers go left
    left, right int32 [nodes]
    sets        uint32 [words]: bit c % 32 of word c // 32 is category c; no other category is in a set
    values      `total` [leaves, 1], or [leaves, outputs]
    base        `total` [outputs]: the start of the sums

    x is compared with thresholds in float64. XGBoost's thresholds are float32 numbers, which float64 represents.
    """

    dtype: str
    total: str
    features: int
    outputs: int
    roots: np.ndarray
    target: np.ndarray
    feature: np.ndarray
    comparison: np.ndarray
    threshold: np.ndarray
    words: np.ndarray
    missing: np.ndarray
    default: np.ndarray
    left: np.ndarray
    right: np.ndarray
    sets: np.ndarray
    values: np.ndarray
    base: np.ndarray

    def __str__(self) -> str:
        return f"{len(self.roots)} trees, {len(self.feature)} nodes, {self.total}"


_HEAD = ("dtype", "total", "features", "outputs")
ARRAYS = tuple(each.name for each in fields(Forest) if each.name not in _HEAD)
"""The names of its arrays, in their order."""

_TYPES = {
    **dict.fromkeys(("roots", "target", "feature", "words", "left", "right"), "int32"),
    **dict.fromkeys(("comparison", "missing"), "uint8"),
    "threshold": "float64",
    "default": "bool",
    "sets": "uint32",
}


def forest(*, dtype: str, total: str, features: int, outputs: int, **arrays: ArrayLike) -> Forest:
    """A checked forest; arrays may be sequences. Raises ValueError, which says what is wrong."""
    made = {name: _array(name, arrays[name], _TYPES.get(name, total)) for name in ARRAYS}
    found = Forest(dtype=dtype, total=total, features=features, outputs=outputs, **made)
    verify(found)
    return found


def _array(name: str, values: ArrayLike, dtype: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind in "iub" and np.dtype(dtype).kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise ValueError(f"{name} has numbers beyond {dtype}")
    return np.ascontiguousarray(array, dtype)


def verify(forest: Forest) -> None:
    """Raise ValueError unless every row reaches a leaf of each tree, within all arrays."""
    trees, nodes, leaves = len(forest.roots), len(forest.feature), len(forest.values)
    _require(forest.dtype in ("float32", "float64"), f"inputs are {forest.dtype}: float32 and float64 are read")
    _require(forest.total in ("float32", "float64"), f"sums are {forest.total}: float32 and float64 are computed")
    _require(1 <= forest.features <= _MOST, f"{forest.features} features")
    _require(1 <= forest.outputs <= 1 << 16, f"{forest.outputs} outputs")
    _require(trees >= 1, "it has no trees")
    _require(max(trees, nodes, leaves, len(forest.sets)) <= _MOST, f"it has more than {_MOST} nodes")
    for name in ("comparison", "threshold", "words", "missing", "default", "left", "right"):
        _require(getattr(forest, name).shape == (nodes,), f"{name} has another length than the nodes")
    _require(forest.target.shape == (trees,), "target has another length than the trees")
    _require(forest.values.ndim == 2 and forest.values.shape[1] in (1, forest.outputs), "values of leaves do not fit")
    _require(forest.base.shape == (forest.outputs,), "base values do not fit the outputs")
    width = forest.values.shape[1]
    _require(_within(forest.target, 0, forest.outputs - width), "a tree adds to an output that does not exist")
    _require(_within(forest.feature, 0, forest.features - 1), f"a node's feature is not below {forest.features}")
    _require(_within(forest.comparison, LESS, IN_CUT) and _within(forest.missing, NAN, NONE), "a node of no known kind")
    _require(not np.isnan(forest.threshold).any(), "the threshold of a node is NaN")
    _verify_sets(forest)
    for name in ("roots", "left", "right"):
        _require(_within(getattr(forest, name), -leaves, nodes - 1), f"{name}: a node that does not exist")
    # Without this check a circle of nodes would keep the kernel in its loop for ever.
    reached = np.concatenate([forest.roots, forest.left, forest.right])
    reached = np.bincount(reached[reached >= 0], minlength=nodes)
    # Each node has one parent at most, and roots have none: so the nodes below a root are a tree.
    _require(not nodes or int(reached.max(initial=0)) <= 1, "a node is reached in two ways")


def _verify_sets(forest: Forest) -> None:
    has_set = forest.comparison >= IN
    _require(not (forest.words[~has_set] != 0).any() and _within(forest.words, 0, CATEGORIES // 32), "a set's length")
    first, count = forest.threshold[has_set], forest.words[has_set]
    fits = (first >= 0) & (first == np.floor(first)) & (first + count <= len(forest.sets))
    _require(bool(fits.all()), "the categories of a node are outside of the file's")
    _require(not (forest.missing[has_set] == ZERO).any(), "a node takes category 0 for missing")


def _within(array: np.ndarray, low: int, high: int) -> bool:
    return not array.size or (int(array.min()) >= low and int(array.max()) <= high)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def packed(forest: Forest) -> np.ndarray:
    """The forest as bytes, one constant of a graph: at least 256, so that it counts as weights (specialize.py)."""
    arrays = {name: getattr(forest, name) for name in ARRAYS}
    head = {name: getattr(forest, name) for name in _HEAD}
    head["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
    parts = [json.dumps(head, sort_keys=True).encode(), *(array.tobytes() for array in arrays.values())]
    # The order of ARRAYS is the format. It never leaves a build: both ends are of one version of this tool.
    content = len(parts[0]).to_bytes(8, "little") + b"".join(parts)
    return np.frombuffer(content.ljust(256, b"\0"), np.uint8)


def unpacked(content: np.ndarray) -> Forest:
    """The forest that `packed` turned into bytes. Raises ValueError for other bytes."""
    data = content.astype(np.uint8, copy=False).tobytes()
    start = 8 + int.from_bytes(data[:8], "little")
    try:
        head = json.loads(data[8:start])
        given = {name: head[name] for name in _HEAD}
        shapes = {name: [int(size) for size in head["shapes"][name]] for name in ARRAYS}
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError("no forest") from error
    arrays = {}
    for name, shape in shapes.items():
        dtype = np.dtype(_TYPES.get(name, str(given["total"])))
        count = math.prod(shape)
        if min(shape, default=0) < 0 or start + count * dtype.itemsize > len(data):
            raise ValueError(f"{name} of a forest is cut off")
        arrays[name] = np.frombuffer(data, dtype, count, start).reshape(shape)
        start += count * dtype.itemsize
    made: dict[str, Any] = {**given, **arrays}
    return forest(**made)


def words_of(categories: np.ndarray) -> np.ndarray:
    """The words of a set of categories, in the form of `sets`; at least one word."""
    words = np.zeros(int(categories.max(initial=0)) // 32 + 1, np.uint32)
    np.bitwise_or.at(words, categories // 32, (1 << (categories % 32)).astype(np.uint32))
    return words


def depth(forest: Forest) -> int:
    """The largest number of comparisons on the way to a leaf."""
    level, found = forest.roots[forest.roots >= 0], 0
    while level.size:
        level = np.concatenate([forest.left[level], forest.right[level]])
        level, found = level[level >= 0], found + 1
    return found


def leaves_of(forest: Forest, x: np.ndarray) -> np.ndarray:
    """The number of the leaf of each row and tree, int32 [batch, trees]."""
    x = np.asarray(x, forest.dtype).astype(np.float64)
    place = np.repeat(forest.roots[None, :], len(x), 0)
    rows = np.arange(len(x))[:, None]
    while (place >= 0).any():
        # Rows that have reached a leaf stay there; index 0 stands for their node, and its result is ignored.
        node = np.maximum(place, 0)
        value = x[rows, forest.feature[node]] if forest.feature.size else np.zeros(place.shape)
        place = np.where(
            place >= 0, np.where(_goes_left(forest, node, value), forest.left[node], forest.right[node]), place
        )
    return -1 - place


def _goes_left(forest: Forest, node: np.ndarray, value: np.ndarray) -> np.ndarray:
    missing, nan = forest.missing[node], np.isnan(value)
    is_missing = (missing != NONE) & (nan | ((missing == ZERO) & (np.abs(value) <= NEAR_ZERO)))
    # If nothing counts as missing (NONE), LightGBM takes NaN for 0; otherwise the result for NaN is not used.
    value = np.where(nan, 0.0, value)
    comparison, threshold = forest.comparison[node], forest.threshold[node]
    found = np.select(
        [comparison == each for each in range(IN)],
        [value < threshold, value <= threshold, value > threshold, value >= threshold, value == threshold,
         value != threshold],
        _is_in_set(forest, node, value) if (comparison >= IN).any() else False,
    )  # fmt: skip
    left: np.ndarray = np.where(is_missing, forest.default[node], found)
    return left


def _is_in_set(forest: Forest, node: np.ndarray, value: np.ndarray) -> np.ndarray:
    # Rounded down, only numbers from 0 on are categories; cut off towards zero, those above -1 are category 0.
    known = np.where(forest.comparison[node] == IN, value >= 0, value > -1) & (value < CATEGORIES)
    category = np.where(known, value, 0).astype(np.int64)
    known &= (category < 32 * forest.words[node].astype(np.int64)) & (forest.comparison[node] >= IN)
    place = np.where(known, forest.threshold[node], 0).astype(np.int64) + np.where(known, category // 32, 0)
    word = forest.sets[place] if forest.sets.size else np.zeros(place.shape, np.uint32)
    found: np.ndarray = known & ((word >> (category % 32).astype(np.uint32)) & 1).astype(bool)
    return found


def margins(forest: Forest, x: np.ndarray) -> np.ndarray:
    """The result for the rows of x, `total` [batch, outputs], in the order in which the kernel adds."""
    leaves = leaves_of(forest, x)
    made = np.repeat(forest.base[None, :], len(leaves), 0)
    width = forest.values.shape[1]
    # Trees one after the other, although sums by matrix would be faster: the kernel adds in this order, and so do the
    # libraries.
    with np.errstate(over="ignore", invalid="ignore"):
        for tree, target in enumerate(forest.target.tolist()):
            made[:, target : target + width] += forest.values[leaves[:, tree]]
    return made
