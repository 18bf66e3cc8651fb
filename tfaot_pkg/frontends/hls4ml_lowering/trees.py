"""Decision trees of conifer (BDT_unrolled.h, BDT_rolled.h): comparisons of fixed-point numbers, and sums of leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Trees
from tfaot_pkg.compiler.program import Shape, Size
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fixed_network import FixedType
from tfaot_pkg.worker_program.messages.forest import LESS, LESS_EQUAL, NAN, Forest, forest

_FLOAT, _DOUBLE = 1 << 24, 1 << 53
"""Up to these, float32 and float64 hold all integers."""


@layer("DecisionTrees")
def _decision_trees(call: Call) -> Fixed:
    a, score, classes = call.a, call.type("score_t"), call.output.shape[-1]
    trees = len(call.array("roots")) // classes
    initial = a.constant(call.array("initial", classes), score)
    leaves = _Leaves(call, classes)
    low, high = leaves.ends
    stays = _within(low, high, score) and _within(low + leaves.initial, high + leaves.initial, score)
    if score.overflow == "WRAP" or stays:
        total = a.cast(a.add(leaves.sums(), initial), score)
    else:
        # An addition that saturates depends on the order.
        parts = leaves.each(trees)
        if call.whole("is_unrolled"):
            total = a.cast(a.add(initial, _halves(parts, lambda x, y: a.cast(a.add(x, y), score))), score)
        else:
            total = initial
            for part in parts:
                total = a.cast(a.add(total, part), score)
    return a.cast(a.multiply(total, a.constant(call.array("norm", 1), score)), score)


def _within(low: Array, high: Array, type_: FixedType) -> bool:
    return bool(type_.least <= low.min() and high.max() <= type_.high)


def _halves(parts: Sequence[Fixed], add: Callable[[Fixed, Fixed], Fixed]) -> Fixed:
    """`reduce` of conifer: the left part has the largest power of two below the number."""
    if len(parts) == 1:
        return parts[0]
    left = 1 << ((len(parts) - 1).bit_length() - 1)
    return add(_halves(parts[:left], add), _halves(parts[left:], add))


class _Leaves:
    """The leaves that rows reach, as forests of integers in floats that hold them exactly."""

    def __init__(self, call: Call, classes: int) -> None:
        self._call, self._classes = call, classes
        self._x, self._fraction = _compared(call)
        self._forest = _forest(call, self._x, self._fraction)
        self.initial = call.array("initial", classes)
        values = [self._values_of(tree) for tree in range(len(self._forest.roots))]
        lows, highs = (np.array([f(each) for each in values]).reshape(-1, classes) for f in (min, max))
        self._lows, self._highs = lows, highs
        # Of partial sums too, whatever the order.
        self.ends = np.minimum(lows, 0).sum(0), np.maximum(highs, 0).sum(0)

    def _values_of(self, tree: int) -> list[int]:
        found, values, open_ = [], self._forest.values[:, 0], [int(self._forest.roots[tree])]
        while open_:
            place = open_.pop()
            if place < 0:
                found.append(int(values[-1 - place]))
            else:
                open_ += [int(self._forest.left[place]), int(self._forest.right[place])]
        return found

    def sums(self) -> Fixed:
        """[classes]."""
        targets = np.tile(np.arange(self._classes), len(self._forest.roots) // self._classes)
        return self._made(targets, self._classes, int(self.ends[0].min()), int(self.ends[1].max()))

    def each(self, trees: int) -> list[Fixed]:
        """[classes] for each tree."""
        a, count = self._call.a, trees * self._classes
        made = self._made(np.arange(count), count, int(self._lows.min()), int(self._highs.max()))
        return [a.cut(made, {0: (first, first + self._classes, 1)}) for first in range(0, count, self._classes)]

    def _made(self, targets: Array, outputs: int, low: int, high: int) -> Fixed:
        call, b = self._call, self._call.a.builder
        total = _float_of(call, max(-low, high))
        kind = f"f{32 if total == 'float32' else 64}"
        found: Forest = replace(
            self._forest, total=total, outputs=outputs, target=targets.astype(np.int32),
            values=self._forest.values.astype(total), base=np.zeros(outputs, total),
        )  # fmt: skip
        stated = Shape(kind, (self._x.value.sizes[0], Size(outputs)))
        x = b.convert(self._x.value, f"f{found.dtype[5:]}")
        made = b.op("trees", x, attributes=Trees(forest=found), stated=stated)
        whole = "s32" if max(-low, high) < 1 << 31 else "s64"
        return Fixed(value=b.convert(made, whole), fraction=call.type("score_t").fraction, low=low, high=high)


def _float_of(call: Call, largest: int) -> str:
    if largest > _DOUBLE:
        raise call.fault("numbers of more than 53 bits", "choose fewer bits in conifer's configuration")
    return "float32" if largest <= _FLOAT else "float64"


def _compared(call: Call) -> tuple[Fixed, int]:
    """What nodes compare with their thresholds, [combinations], and the places that thresholds have then."""
    a, x, given, weight = call.a, call.x, call.given[0].type, call.type("weight_t")
    features = x.shape[-1]
    combinations = call.array("combinations").reshape(-1, features)
    one = 1 << weight.fraction if weight.fraction >= 0 else 0
    made = []
    for weights in combinations:
        (used,) = np.nonzero(weights)
        if len(used) == 1 and weights[used[0]] == one:
            made.append(a.last(x, int(used[0])))
            continue
        total = a.constant(np.zeros(1, np.int64), given)
        for place in used:
            # Each sum is a number of the input's type.
            product = a.multiply(a.last(x, int(place)), a.constant(weights[place : place + 1], weight))
            total = a.cast(a.add(total, product), given)
        made.append(_spread(call, total))
    if not made:
        made = [a.last(x, 0)]
    joined = a.join(made, 0)
    fraction = max(joined.fraction, call.type("threshold_t").fraction)
    return a.shifted(joined, fraction - joined.fraction), fraction


def _spread(call: Call, x: Fixed) -> Fixed:
    """A number that is known, for each row."""
    if x.value.known is None:
        return x
    b = call.a.builder
    return replace(x, value=b.spread(x.value, [*call.x.value.sizes[:1], *x.value.sizes[-1:]]))


def _forest(call: Call, x: Fixed, fraction: int) -> Forest:
    names = ("column", "threshold", "value", "left", "right", "roots")
    column, threshold, value, left, right, roots = (call.array(name) for name in names)
    if len({len(each) for each in (column, threshold, value, left, right)}) != 1:
        raise call.fault("nodes whose parts differ in length")
    is_leaf = column < 0
    places = np.where(is_leaf, -np.cumsum(is_leaf, dtype=np.int64), np.cumsum(~is_leaf, dtype=np.int64) - 1)
    kept = ~is_leaf
    shift = fraction - call.type("threshold_t").fraction
    limits = [int(each) << shift for each in threshold[kept]]
    largest = max([x.largest, *map(abs, limits)])
    dtype, total = _float_of(call, largest), _float_of(call, int(np.abs(value).max(initial=0)))
    count, comparison = int(kept.sum()), LESS if call.whole("is_strict") else LESS_EQUAL
    return forest(
        dtype=dtype, total=total, features=x.shape[-1], outputs=1, roots=places[roots],
        target=np.zeros(len(roots), int), feature=column[kept],
        comparison=np.full(count, comparison), threshold=np.array(limits, np.float64),
        words=np.zeros(count, int), missing=np.full(count, NAN), default=np.zeros(count, bool),
        left=places[left[kept]], right=places[right[kept]], sets=np.zeros(0, int),
        values=value[is_leaf].astype(total)[:, None], base=np.zeros(1, total),
    )  # fmt: skip
