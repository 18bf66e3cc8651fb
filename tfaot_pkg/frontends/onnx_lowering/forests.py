"""Decision trees of ai.onnx.ml: TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble.

Where ONNX leaves the results open (two classes with one score or base values), labels and scores are those of ONNX
Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfaot_pkg.compiler.attributes import Trees
from tfaot_pkg.compiler.program import Shape, Size
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.linear import probit, transformed
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join, squeezed
from tfaot_pkg.frontends.onnx_lowering.reductions import maximum, minimum, place_of_extreme
from tfaot_pkg.frontends.onnx_lowering.table import ML, Call, operator
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.from_onnx.graphs import FOREST, OWN
from tfaot_pkg.worker_program.messages import forest as trees

_MODES = {
    "BRANCH_LEQ": trees.LESS_EQUAL,
    "BRANCH_LT": trees.LESS,
    "BRANCH_GTE": trees.GREATER_EQUAL,
    "BRANCH_GT": trees.GREATER,
    "BRANCH_EQ": trees.EQUAL,
    "BRANCH_NEQ": trees.NOT_EQUAL,
    "BRANCH_MEMBER": trees.IN,
}
_NUMBERED = tuple(_MODES)
"""The modes of TreeEnsemble, by number."""
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ensemble:
    """Nodes and leaves, as in Forest; `values` is [leaves, outputs], `given` says which of them the file has.

    `members` are the values of a BRANCH_MEMBER node by its number.
    """

    roots: Sequence[int]
    feature: Array
    mode: Sequence[int]
    threshold: Array
    missing_true: Array
    true: Array
    false: Array
    values: Array
    given: Array
    members: Mapping[int, Array]

    @property
    def used(self) -> Array:
        """Whether any leaf has a value for an output."""
        return np.asarray(self.given.any(0))


@operator("TreeEnsembleRegressor", domain=ML)
def _regressor(call: Call) -> Value:
    x, outputs = call.input(0), call.whole("n_targets", 1)
    found = _of_older(call, x, "target", outputs)
    aggregate, kind = call.text("aggregate_function", "SUM"), call.text("post_transform", "NONE")
    if aggregate not in _AGGREGATES:
        raise call.fault(f"the aggregate function {aggregate!r}")
    scores = _aggregated(call, x, found, aggregate)
    scores = _based(call, scores, _numbers(call, "base_values"), found.used)
    if outputs == 1 and kind != "PROBIT":
        kind = "NONE"  # ONNX Runtime ignores all others
    return call.builder.convert(_transformed(call, scores, kind), "f32")


@operator("TreeEnsemble", domain=ML)
def _ensemble(call: Call) -> Value:
    x, outputs = call.input(0), call.whole("n_targets", 1)
    found = _of_newer(call, outputs)
    scores = _aggregated(call, x, found, _named(call, call.whole("aggregate_function", 1), _AGGREGATES))
    kind = _named(call, call.whole("post_transform", 0), _TRANSFORMS)
    if outputs == 1 and kind != "PROBIT":
        kind = "NONE"
    # Any result would be wrong, either by the standard or in comparison with ONNX Runtime.
    if kind in ("SOFTMAX", "LOGISTIC"):
        raise call.fault(
            f"the transformation {kind}: ONNX Runtime takes SOFTMAX for LOGISTIC, and LOGISTIC for SOFTMAX"
        )
    return call.builder.convert(_transformed(call, scores, kind), x.dtype)


@operator("TreeEnsembleClassifier", domain=ML)
def _classifier(call: Call) -> tuple[Value, Value]:
    b, x, labels = call.builder, call.input(0), call.wholes("classlabels_int64s") or []
    if len(labels) < 2:
        raise call.fault("it has one class, or its labels are texts")
    found = _of_older(call, x, "class", len(labels))
    scores, base = _aggregated(call, x, found, "SUM"), _numbers(call, "base_values")
    kind = call.text("post_transform", "NONE")
    if len(labels) > 2:
        scores = _based(call, scores, base, np.ones(len(labels), bool))
        # A class that no leaf adds to is no candidate, except by its base value.
        candidates = known(found.used | bool(len(base)), "pred")
        a = Arithmetic(b, scores)
        place = place_of_extreme(b, a.where(candidates, scores, -np.inf), 1, largest=True)
    else:
        scores, labels, place, kind = _two_classes(call, scores, labels, found, kind)
    made = _transformed(call, scores, kind)
    return take(b, known(np.array(labels), "s64"), place, 0), b.convert(made, "f32")


def _two_classes(
    call: Call, scores: Value, labels: list[int], found: _Ensemble, kind: str
) -> tuple[Value, list[int], Value, str]:
    """The scores of two classes, their labels, the position of the label, and the transformation that remains."""
    # Case by case as TreeAggregatorClassifier of ONNX Runtime (tree_ensemble_aggregator.h).
    b, a = call.builder, Arithmetic(call.builder, scores)
    base, (has_first, has_second) = _numbers(call, "base_values"), found.used.tolist()
    first, second = (cut(b, scores, 1, Size(place), Size(place + 1)) for place in range(2))
    if len(base) == 2 and has_second:
        second = a.add(first, float(base[1]))
        first = a.unary("negate", second)
    elif base.size:
        first = a.add(first, float(base[0]))
    if not has_first:
        first = b.spread(a.value(0), first.sizes)
    positive = squeezed(b, second if has_second else first, [1])
    if has_first and has_second:
        # In this case ONNX Runtime returns 0 and 1, whatever the labels are.
        return join(b, [first, second], 1), [0, 1], b.convert(a.compare("GT", positive, 0), "s64"), kind
    all_positive = bool((_numbers(call, "class_weights") >= 0).all())
    place = b.convert(a.compare("GT", positive, 0.5 if all_positive else 0.0), "s64")
    if has_second or len(base) == 2:
        return join(b, [first, second], 1), labels, place, kind
    if kind == "PROBIT":
        return first, labels, place, kind
    if kind == "LOGISTIC" or not all_positive:
        pair = [a.unary("negate", first), first]
        return join(b, pair, 1), labels, place, kind if kind == "LOGISTIC" else "NONE"
    return join(b, [a.sub(1, first), first], 1), labels, place, "NONE"


@operator(FOREST, domain=OWN)
def _packed(call: Call) -> Value:
    """Trees between the steps of a pipeline (worker_program/from_trees/steps.py)."""
    x = call.input(0)
    try:
        made = trees.unpacked(_tensor(call, FOREST))
    except ValueError as error:
        raise call.fault(f"its trees cannot be read: {error}") from error
    if x.rank != 2 or x.dtype != _TYPES[made.dtype] or x.sizes[1] != Size(made.features):
        raise call.fault("its trees do not fit its input")
    stated = Shape(_TYPES[made.total], (x.sizes[0], Size(made.outputs)))
    return call.builder.op("trees", x, attributes=Trees(forest=made), stated=stated)


_TYPES = {"float32": "f32", "float64": "f64"}


def _named(call: Call, number: int, names: Sequence[str]) -> str:
    if not 0 <= number < len(names):
        raise call.fault(f"{number} is none of {', '.join(names)}")
    return names[number]


def _numbers(call: Call, name: str) -> Array:
    tensor = call.tensor(f"{name}_as_tensor")
    return np.ravel(tensor) if tensor is not None else np.array(call.reals(name) or [], np.float32)


def _based(call: Call, scores: Value, base: Array, used: Array) -> Value:
    """`scores` plus base values, for the outputs that are `used`."""
    if not len(base) or Size(len(base)) != scores.sizes[-1]:
        return scores
    return Arithmetic(call.builder, scores).add(scores, known(np.where(used, base, 0), scores.dtype))


def _of_older(call: Call, x: Value, kind: str, outputs: int) -> _Ensemble:
    """The trees of a classifier or regressor: nodes are named by tree and number, leaves are nodes."""

    def ids(name: str) -> list[int]:
        return call.wholes(name) or []

    names = list(zip(ids("nodes_treeids"), ids("nodes_nodeids"), strict=False))
    place = {name: number for number, name in enumerate(names)}
    count, modes = len(names), call.texts("nodes_modes") or []
    columns: list[list[int]] = [ids(f"nodes_{name}") for name in ("featureids", "truenodeids", "falsenodeids")]
    values = _numbers(call, "nodes_values")
    lengths = {*map(len, columns), len(modes), len(values), len(place)}
    if not count or lengths != {count}:
        raise call.fault("its lists of nodes contradict one another")
    inner = [number for number, mode in enumerate(modes) if mode != "LEAF"]
    leaves = [number for number, mode in enumerate(modes) if mode == "LEAF"]
    number_of = {each: number for number, each in enumerate(inner)}
    number_of.update({each: -1 - number for number, each in enumerate(leaves)})
    ways = [_branches(call, column, inner, names, place) for column in columns[1:]]
    children = {*ways[0], *ways[1]}
    held, given = _leaves(call, kind, outputs, len(leaves), _total(x), place, number_of)
    return _Ensemble(
        roots=[number_of[each] for each in range(count) if each not in children],
        feature=np.array(columns[0], np.int64)[inner],
        mode=[_mode(call, modes[each]) for each in inner],
        threshold=values[inner].astype(np.float64),
        missing_true=_missing_true(call, count)[inner],
        true=np.array([number_of[each] for each in ways[0]], np.int64),
        false=np.array([number_of[each] for each in ways[1]], np.int64),
        values=held,
        given=given,
        members={},
    )


def _branches(
    call: Call, column: list[int], inner: list[int], names: list[tuple[int, int]], place: Mapping[tuple[int, int], int]
) -> list[int]:
    """Where each inner node leads, whose next node `column` has by its number in the tree."""
    found = [place[way] for each in inner if (way := (names[each][0], column[each])) in place]
    if len(found) != len(inner):
        raise call.fault("a branch leads to a node that its tree does not have")
    return found


def _leaves(
    call: Call, kind: str, outputs: int, count: int, dtype: str, place: Mapping[tuple[int, int], int],
    number_of: Mapping[int, int],
) -> tuple[Array, Array]:  # fmt: skip
    """The values of leaves [leaves, outputs], and which of them the file gives."""
    held, given = np.zeros((count, outputs), dtype), np.zeros((count, outputs), bool)
    joined: Any = {"MIN": np.minimum, "MAX": np.maximum}.get(call.text("aggregate_function", "SUM"), np.add)
    ids, weights = np.array(call.wholes(f"{kind}_ids") or [], np.int64), _numbers(call, f"{kind}_weights")
    owners = list(zip(call.wholes(f"{kind}_treeids") or [], call.wholes(f"{kind}_nodeids") or [], strict=False))
    if not len(owners) == len(ids) == len(weights) or (len(ids) and not 0 <= ids.min() <= ids.max() < outputs):
        raise call.fault("the values of its leaves contradict one another")
    for owner, target, weight in zip(owners, ids.tolist(), weights, strict=True):
        leaf = number_of.get(place.get(owner, -1), 0)
        if leaf >= 0:
            continue  # ONNX Runtime ignores values of other nodes
        at = -1 - leaf, target
        # A leaf may be listed several times for one output: if there are no other outputs, the first value counts.
        if not given[at]:
            held[at], given[at] = weight, True
        elif outputs > 1:
            held[at] = joined(held[at], weight)
    return held, given


def _missing_true(call: Call, count: int) -> Array:
    """Whether NaN follows the "true" branch, by node; in files the list may be missing or empty."""
    found = np.array(call.wholes("nodes_missing_value_tracks_true") or [0] * count, bool)
    if len(found) != count:
        raise call.fault("nodes_missing_value_tracks_true has another length than the nodes")
    return found


def _mode(call: Call, name: str) -> int:
    if name not in _MODES or name == "BRANCH_MEMBER":
        raise call.fault(f"the mode {name!r} of a node")
    return _MODES[name]


def _tensor(call: Call, name: str) -> Array:
    found = call.tensor(name)
    if found is None:
        raise call.fault(f"it has no {name}")
    return np.ravel(found)


def _of_newer(call: Call, outputs: int) -> _Ensemble:
    """The trees of TreeEnsemble: nodes and leaves are numbers, a leaf has one value."""
    modes = [_MODES[_named(call, int(each), _NUMBERED)] for each in _tensor(call, "nodes_modes")]
    splits, weights = _tensor(call, "nodes_splits"), _tensor(call, "leaf_weights")
    targets = np.array(call.wholes("leaf_targetids") or [], np.int64)
    count, leaves = len(modes), len(weights)
    ways = []
    for side in ("true", "false"):
        ids = np.array(call.wholes(f"nodes_{side}nodeids") or [], np.int64)
        is_leaf = np.array(call.wholes(f"nodes_{side}leafs") or [], bool)
        if len(ids) != count or len(is_leaf) != count:
            raise call.fault("its lists of nodes contradict one another")
        ways.append(np.where(is_leaf, -1 - ids, ids))
    if len(splits) != count or len(targets) != leaves or (leaves and not 0 <= targets.min() <= targets.max() < outputs):
        raise call.fault("its lists of nodes and leaves contradict one another")
    values, given = np.zeros((leaves, outputs), weights.dtype), np.zeros((leaves, outputs), bool)
    values[np.arange(leaves), targets], given[np.arange(leaves), targets] = weights, True
    roots = call.wholes("tree_roots") or []
    if any(not 0 <= root < count for root in roots):
        raise call.fault("a tree begins at a node that does not exist")
    return _Ensemble(
        # A tree that is one leaf is a node with this leaf on both sides.
        roots=roots,
        feature=np.array(call.wholes("nodes_featureids") or [], np.int64),
        mode=modes,
        threshold=splits.astype(np.float64),
        missing_true=_missing_true(call, count),
        true=ways[0],
        false=ways[1],
        values=values,
        given=given,
        members=_members(call, modes),
    )


def _members(call: Call, modes: Sequence[int]) -> dict[int, Array]:
    """The sets of BRANCH_MEMBER nodes, which are in one list with a NaN after each."""
    places = [number for number, mode in enumerate(modes) if mode == trees.IN]
    if not places:
        return {}
    values = _tensor(call, "membership_values")
    sets = [part[~np.isnan(part)] for part in np.split(values, np.flatnonzero(np.isnan(values)) + 1)]
    if len(sets) < len(places):
        raise call.fault("nodes have no membership_values")
    return dict(zip(places, sets, strict=False))


def _total(x: Value) -> str:
    return "float64" if x.dtype == "f64" else "float32"


def _aggregated(call: Call, x: Value, found: _Ensemble, aggregate: str) -> Value:
    """The scores [batch, outputs], of float64 if x is, else of float32."""
    b, dtype = call.builder, "f64" if x.dtype == "f64" else "f32"
    if x.rank != 2:
        raise call.fault("its input is no batch of rows")
    features = call.number(x.sizes[1], "the length of its rows")
    x = b.convert(x, dtype)
    if found.members:
        # A set contains whole numbers; other numbers are in none.
        a = Arithmetic(b, x)
        is_whole = b.map("or", b.compare("EQ", x, b.op("floor", x)), b.compare("NE", x, x))
        x = join(b, [x, a.where(is_whole, x, -1)], 1)
    try:
        made = _forest(call, found, aggregate, features, _total(x))
    except ValueError as error:
        raise call.fault(f"its trees cannot be read: {error}") from error
    stated = Shape(dtype, (x.sizes[0], Size(made.outputs)))
    scores = b.op("trees", x, attributes=Trees(forest=made), stated=stated)
    a = Arithmetic(b, scores)
    if aggregate == "AVERAGE":
        return a.div(scores, len(found.roots))
    if aggregate in ("MIN", "MAX"):
        apart = b.reshape(scores, [x.sizes[0], Size(len(found.roots)), Size(found.values.shape[1])])
        scores = (minimum if aggregate == "MIN" else maximum)(b, apart, [1], keep=False)
        # An infinity: no tree has a value for it.
        is_none = b.compare("EQ", b.op("abs", scores), b.constant(np.inf, dtype))
        return a.where(is_none, 0, scores)
    return scores


def _forest(call: Call, found: _Ensemble, aggregate: str, features: int, dtype: str) -> trees.Forest:
    threshold, words, sets = found.threshold.copy(), np.zeros(len(found.mode), np.int64), list[Array]()
    length = 0
    for place, members in found.members.items():
        if not ((members >= 0) & (members < trees.CATEGORIES) & (members == np.floor(members))).all():
            raise call.fault("BRANCH_MEMBER has values that are no whole numbers from 0 on")
        held = trees.words_of(members.astype(np.int64))
        threshold[place], words[place] = length, len(held)
        sets.append(held)
        length += len(held)
    mode = np.array(found.mode, np.uint8)
    if np.isnan(threshold).any():
        raise call.fault("the value that a node compares with is NaN")
    feature = np.asarray(found.feature, np.int64)
    if feature.size and not 0 <= feature.min() <= feature.max() < features:
        raise call.fault(f"a node asks for an element of the input beyond its {features}")
    has_members = bool(found.members)
    per_node: dict[str, Array] = {
        "comparison": mode,
        "threshold": threshold,
        "words": words,
        "missing": np.full(len(mode), trees.NAN),
        # NaN is unequal to everything.
        "default": found.missing_true | (mode == trees.NOT_EQUAL),
        "feature": np.where(mode == trees.IN, feature + features, feature) if has_members else feature,
        "left": found.true,
        "right": found.false,
    }
    width = 2 * features if has_members else features
    every = np.concatenate(sets) if sets else np.zeros(0, np.uint32)
    if aggregate in ("MIN", "MAX"):
        return _apart(found, per_node, every, np.inf if aggregate == "MIN" else -np.inf, width, dtype)
    target = _targets(found)
    outputs = found.values.shape[1]
    return trees.forest(
        **per_node,
        sets=every,
        dtype=dtype,
        total=dtype,
        features=width,
        outputs=outputs,
        roots=list(found.roots),
        target=np.zeros(len(found.roots)) if target is None else target,
        values=found.values if target is None else found.values.sum(-1, keepdims=True),
        base=np.zeros(outputs),
    )


def _targets(found: _Ensemble) -> Array | None:
    """The one output that each tree adds to; None if the leaves of a tree have several."""
    # From the roots down, to find the leaves of each tree.
    outputs = found.values.shape[1]
    tree, level = np.arange(len(found.roots)), np.array(found.roots, np.int64)
    uses = np.zeros((len(found.roots), outputs), bool)
    for _ in range(len(found.mode) + 1):
        at_leaf = level < 0
        np.logical_or.at(uses, tree[at_leaf], found.given[-1 - level[at_leaf]])
        tree, level = tree[~at_leaf], level[~at_leaf]
        # More than in any forest: a circle, which `forest` rejects.
        if not 0 < level.size <= len(found.mode):
            break
        tree, level = np.concatenate([tree, tree]), np.concatenate([found.true[level], found.false[level]])
    return uses.argmax(-1) if (uses.sum(-1) <= 1).all() else None


def _apart(
    found: _Ensemble, per_node: Mapping[str, Array], sets: Array, neutral: float, features: int, dtype: str
) -> trees.Forest:
    """A forest with an output for each tree and each of its targets; missing values of leaves are `neutral`."""
    count, (leaves, outputs) = len(found.mode), found.values.shape
    values = np.where(found.given, found.values, found.values.dtype.type(neutral))

    def copied(places: Any) -> Array:
        each = np.asarray(places, np.int64)
        return np.concatenate([each + np.where(each < 0, -k * leaves, k * count) for k in range(outputs)])

    several = {name: np.tile(array, outputs) for name, array in per_node.items()}
    several["left"], several["right"] = copied(found.true), copied(found.false)
    many = len(found.roots)
    return trees.forest(
        **several,
        sets=sets,
        dtype=dtype,
        total=dtype,
        features=features,
        outputs=many * outputs,
        roots=copied(found.roots),
        target=(np.arange(many)[None, :] * outputs + np.arange(outputs)[:, None]).ravel(),
        values=values.T.reshape(-1, 1),
        base=np.zeros(many * outputs),
    )


def _transformed(call: Call, scores: Value, kind: str) -> Value:
    return probit(call, scores) if kind == "PROBIT" else transformed(call, scores, kind)
