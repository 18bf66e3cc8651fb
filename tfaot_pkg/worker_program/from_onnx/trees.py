"""Decision trees of ai.onnx.ml: TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble.

Where ONNX leaves the results open (two classes with one score or base values), labels and scores are those of ONNX
Runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.preprocessing import transformed
from from_onnx.table import ML, operator
from messages import forest as trees
from own_calls import trees as sums

if TYPE_CHECKING:
    from framework_types import Array
    from from_onnx.table import Node


_MODES: dict[str, int] = {
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


@dataclass(frozen=True, kw_only=True)
class _Trees:
    """Nodes and leaves, as in Forest; `values` is [leaves, outputs], `given` says which of them the file has.

    `members` are the values of a BRANCH_MEMBER node by its number.
    """

    roots: list[int]
    feature: np.ndarray
    mode: list[int]
    threshold: np.ndarray
    missing_true: np.ndarray
    true: np.ndarray
    false: np.ndarray
    values: np.ndarray
    given: np.ndarray
    members: dict[int, Array]


@operator("TreeEnsembleRegressor", domain=ML)
def _regressor(node: Node, x: tf.Tensor) -> tf.Tensor:
    outputs = node.get("n_targets", 1)
    found = _of_older(node, x, "target", outputs)
    aggregate, kind = node.get("aggregate_function", "SUM"), node.get("post_transform", "NONE")
    _known(node, aggregate, _AGGREGATES, "aggregate function")
    scores = _aggregated(node, x, found, aggregate)
    scores = _based(scores, _numbers(node, "base_values"), np.any(found.given, axis=0))
    if outputs == 1 and kind != "PROBIT":
        kind = "NONE"  # ONNX Runtime ignores all others
    return tf.cast(_transformed(node, scores, kind), tf.float32)


@operator("TreeEnsemble", domain=ML)
def _ensemble(node: Node, x: tf.Tensor) -> tf.Tensor:
    outputs = node.get("n_targets", 1)
    found = _of_newer(node, outputs)
    scores = _aggregated(node, x, found, _named(node, node.get("aggregate_function", 1), _AGGREGATES))
    kind = _named(node, node.get("post_transform", 0), _TRANSFORMS)
    if outputs == 1 and kind != "PROBIT":
        kind = "NONE"
    # Any result would be wrong, either by the standard or in comparison with ONNX Runtime.
    if kind in ("SOFTMAX", "LOGISTIC"):
        raise node.fault(
            f"the transformation {kind}: ONNX Runtime takes SOFTMAX for LOGISTIC, and LOGISTIC for SOFTMAX",
            "put Softmax or Sigmoid behind it as a node of its own",
        )
    return tf.cast(_transformed(node, scores, kind), x.dtype)


@operator("TreeEnsembleClassifier", domain=ML)
def _classifier(node: Node, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    labels = node.get("classlabels_int64s")
    if not labels:
        raise node.fault("its labels are strings, which libraries do not support", "train with numbers as labels")
    if len(labels) < 2:
        raise node.fault("it has one class")
    found = _of_older(node, x, "class", len(labels))
    scores, base = _aggregated(node, x, found, "SUM"), _numbers(node, "base_values")
    kind = node.get("post_transform", "NONE")
    if len(labels) > 2:
        scores = _based(scores, base, np.ones(len(labels), bool))
        # A class that no leaf adds to is no candidate, except by its base value.
        candidates = found.given.any(0) | bool(len(base))
        place = tf.argmax(tf.where(candidates, scores, tf.constant(-np.inf, scores.dtype)), -1, tf.int32)
    else:
        scores, labels, place, kind = _two_classes(node, scores, labels, found, kind)
    made = _transformed(node, scores, kind)
    return tf.gather(tf.constant(labels, tf.int64), place), tf.cast(made, tf.float32)


def _two_classes(
    node: Node, scores: tf.Tensor, labels: list[Any], found: _Trees, kind: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The scores of two classes, their labels, the position of the label, and the transformation that remains."""
    # Case by case as TreeAggregatorClassifier of ONNX Runtime (tree_ensemble_aggregator.h).
    base, (has_first, has_second) = _numbers(node, "base_values"), np.any(found.given, axis=0).tolist()
    first, second = scores[:, :1], scores[:, 1:]
    if len(base) == 2 and has_second:
        second = base[1] + first
        first = -second
    elif base.size:
        first = first + base[0]
    if not has_first:
        first = tf.zeros_like(first)
    positive = (second if has_second else first)[:, 0]
    if has_first and has_second:
        # In this case ONNX Runtime returns 0 and 1, whatever the labels are.
        return tf.concat([first, second], -1), [0, 1], tf.cast(positive > 0, tf.int32), kind
    all_positive = (_weights(node, "class") >= 0).all()
    place = tf.cast(positive > (0.5 if all_positive else 0.0), tf.int32)
    if has_second or len(base) == 2:
        return tf.concat([first, second], -1), labels, place, kind
    if kind == "PROBIT":
        return first, labels, place, kind
    if kind == "LOGISTIC" or not all_positive:
        return tf.concat([-first, first], -1), labels, place, kind if kind == "LOGISTIC" else "NONE"
    return tf.concat([1 - first, first], -1), labels, place, "NONE"


def _known(node: Node, name: str, names: tuple[Any, ...], what: str) -> None:
    if name not in names:
        raise node.fault(f"the {what} {name!r} is not supported")


def _named(node: Node, number: int, names: tuple[Any, ...]) -> str:
    if not 0 <= number < len(names):
        raise node.fault(f"{number} is none of {', '.join(names)}")
    return str(names[number])


def _numbers(node: Node, name: str) -> np.ndarray:
    tensor = node.get(f"{name}_as_tensor")
    return np.ravel(tensor) if tensor is not None else np.array(node.get(name, []), np.float32)


def _weights(node: Node, kind: str) -> np.ndarray:
    return _numbers(node, f"{kind}_weights")


def _based(scores: tf.Tensor, base: np.ndarray, used: np.ndarray) -> tf.Tensor:
    """`scores` plus base values, for the outputs that are `used`."""
    if not len(base) or len(base) != scores.shape[-1]:
        return scores
    return scores + tf.constant(np.where(used, base, 0), scores.dtype)


def _of_older(node: Node, x: tf.Tensor, kind: str, outputs: int) -> _Trees:
    """The trees of a classifier or regressor: nodes are named by tree and number, leaves are nodes."""
    names = list(zip(node.get("nodes_treeids", []), node.get("nodes_nodeids", []), strict=False))
    place = {name: number for number, name in enumerate(names)}
    count, modes = len(names), node.get("nodes_modes", [])
    columns = [node.get(f"nodes_{name}", []) for name in ("featureids", "truenodeids", "falsenodeids")]
    values = _numbers(node, "nodes_values")
    if len(place) != count or not count or any(len(each) != count for each in (*columns, modes, values)):
        raise node.fault("its lists of nodes contradict one another")
    inner = [number for number, mode in enumerate(modes) if mode != "LEAF"]
    leaves = [number for number, mode in enumerate(modes) if mode == "LEAF"]
    number_of = {each: number for number, each in enumerate(inner)}
    number_of.update({each: -1 - number for number, each in enumerate(leaves)})
    ways = []
    for column in columns[1:]:
        targets = [(names[each][0], column[each]) for each in inner]
        if any(target not in place for target in targets):
            raise node.fault("a branch leads to a node that its tree does not have")
        ways.append([place[target] for target in targets])
    children = {*ways[0], *ways[1]}
    held, given = np.zeros((len(leaves), outputs), _total(x)), np.zeros((len(leaves), outputs), bool)
    joined = {"MIN": np.minimum, "MAX": np.maximum}.get(node.get("aggregate_function", "SUM"), np.add)
    ids, weights = np.array(node.get(f"{kind}_ids", []), np.int64), _weights(node, kind)
    owners = list(zip(node.get(f"{kind}_treeids", []), node.get(f"{kind}_nodeids", []), strict=False))
    if not len(owners) == len(ids) == len(weights) or (len(ids) and not 0 <= ids.min() <= ids.max() < outputs):
        raise node.fault("the values of its leaves contradict one another")
    for owner, target, weight in zip(owners, ids.tolist(), weights, strict=True):
        leaf = number_of.get(place.get(owner, -1), 0)
        if leaf >= 0:
            continue  # ONNX Runtime ignores values of other nodes
        place_of_value = -1 - leaf, target
        # A leaf may be listed several times for one output: if there are no other outputs, the first value counts.
        if not given[place_of_value]:
            held[place_of_value], given[place_of_value] = weight, True
        elif outputs > 1:
            held[place_of_value] = joined(held[place_of_value], weight)
    return _Trees(
        roots=[number_of[each] for each in range(count) if each not in children],
        feature=np.array(columns[0])[inner],
        mode=[_mode(node, modes[each]) for each in inner],
        threshold=values[inner].astype(np.float64),
        missing_true=_missing_true(node, count)[inner],
        true=np.array([number_of[each] for each in ways[0]], np.int64),
        false=np.array([number_of[each] for each in ways[1]], np.int64),
        values=held,
        given=given,
        members={},
    )


def _missing_true(node: Node, count: int) -> np.ndarray:
    """Whether NaN follows the "true" branch, by node; in files the list may be missing or empty."""
    found = np.array(node.get("nodes_missing_value_tracks_true") or [0] * count, bool)
    if len(found) != count:
        raise node.fault("nodes_missing_value_tracks_true has another length than the nodes")
    return found


def _mode(node: Node, name: str) -> int:
    if name not in _MODES or name == "BRANCH_MEMBER":
        raise node.fault(f"the mode {name!r} of a node is not supported")
    return _MODES[name]


def _of_newer(node: Node, outputs: int) -> _Trees:
    """The trees of TreeEnsemble: nodes and leaves are numbers, a leaf has one value."""
    modes = [_MODES[_named(node, int(each), _NUMBERED)] for each in np.ravel(node.get("nodes_modes"))]
    splits, weights = np.ravel(node.get("nodes_splits")), np.ravel(node.get("leaf_weights"))
    targets = np.array(node.get("leaf_targetids"), np.int64)
    count, leaves = len(modes), len(weights)
    ways = []
    for side in ("true", "false"):
        ids, is_leaf = np.array(node.get(f"nodes_{side}nodeids")), np.array(node.get(f"nodes_{side}leafs"), bool)
        if len(ids) != count or len(is_leaf) != count:
            raise node.fault("its lists of nodes contradict one another")
        ways.append(np.where(is_leaf, -1 - ids, ids))
    if len(splits) != count or len(targets) != leaves or (leaves and not 0 <= targets.min() <= targets.max() < outputs):
        raise node.fault("its lists of nodes and leaves contradict one another")
    values, given = np.zeros((leaves, outputs), weights.dtype), np.zeros((leaves, outputs), bool)
    values[np.arange(leaves), targets], given[np.arange(leaves), targets] = weights, True
    roots = node.get("tree_roots")
    if any(not 0 <= root < count for root in roots):
        raise node.fault("a tree begins at a node that does not exist")
    return _Trees(
        # A tree that is one leaf is a node with this leaf on both sides.
        roots=roots,
        feature=np.array(node.get("nodes_featureids")),
        mode=modes,
        threshold=splits.astype(np.float64),
        missing_true=_missing_true(node, count),
        true=ways[0],
        false=ways[1],
        values=values,
        given=given,
        members=_members(node, modes),
    )


def _members(node: Node, modes: list[Any]) -> dict[int, Array]:
    """The sets of BRANCH_MEMBER nodes, which are in one list with a NaN after each."""
    places = [number for number, mode in enumerate(modes) if mode == trees.IN]
    if not places:
        return {}
    values = np.ravel(node.get("membership_values", []))
    sets = [part[~np.isnan(part)] for part in np.split(values, np.flatnonzero(np.isnan(values)) + 1)]
    if len(sets) < len(places):
        raise node.fault("nodes have no membership_values")
    return dict(zip(places, sets, strict=False))


def _total(x: tf.Tensor) -> str:
    return "float64" if x.dtype == tf.float64 else "float32"


def _aggregated(node: Node, x: tf.Tensor, found: _Trees, aggregate: str) -> tf.Tensor:
    """The scores [batch, outputs], of float64 if x is, else of float32."""
    dtype, features = _total(x), x.shape[-1]
    if x.shape.rank != 2 or features is None:
        raise node.fault("its input is not a batch of rows of a known length", "give its shape in model.shapes")
    x = tf.cast(x, dtype)
    has_members = bool(found.members)
    if has_members:
        # A set contains whole numbers; other numbers are in none.
        whole = tf.where((x == tf.floor(x)) | tf.math.is_nan(x), x, -tf.ones_like(x))
        x = tf.concat([x, whole], -1)
    try:
        made = _forest(node, found, aggregate, dtype, features, has_members)
    except ValueError as error:
        raise node.fault(f"its trees cannot be read: {error}") from error
    scores = sums(made, x)
    if aggregate == "AVERAGE":
        # TensorFlow's optimizer would replace a plain division by a product with the reciprocal.
        return tf.math.divide_no_nan(scores, tf.constant(len(found.roots), scores.dtype))
    if aggregate in ("MIN", "MAX"):
        reduce = tf.reduce_min if aggregate == "MIN" else tf.reduce_max
        scores = reduce(tf.reshape(scores, [-1, len(found.roots), found.values.shape[1]]), 1)
        return tf.where(tf.math.is_inf(scores), tf.zeros_like(scores), scores)  # no tree has a value for it
    return scores


def _forest(node: Node, found: _Trees, aggregate: str, dtype: str, features: int, has_members: bool) -> trees.Forest:
    threshold, words, sets = found.threshold.copy(), np.zeros(len(found.mode), np.int64), []
    length = 0
    for place, members in found.members.items():
        if not ((members >= 0) & (members < trees.CATEGORIES) & (members == np.floor(members))).all():
            raise node.fault("BRANCH_MEMBER has values that are no whole numbers from 0 on")
        held = trees.words_of(members.astype(np.int64))
        threshold[place], words[place] = length, len(held)
        sets.append(held)
        length += len(held)
    mode = np.array(found.mode, np.uint8)
    if np.isnan(threshold).any():
        raise node.fault("the value that a node compares with is NaN")
    feature = np.asarray(found.feature, np.int64)
    if feature.size and not 0 <= feature.min() <= feature.max() < features:
        raise node.fault(f"a node asks for an element of the input beyond its {features}")
    common = {
        "dtype": dtype,
        "total": dtype,
        "features": 2 * features if has_members else features,
        "comparison": mode,
        "threshold": threshold,
        "words": words,
        "missing": np.full(len(mode), trees.NAN),
        # NaN is unequal to everything.
        "default": found.missing_true | (mode == trees.NOT_EQUAL),
        "feature": np.where(mode == trees.IN, feature + features, feature) if has_members else feature,
        "left": found.true,
        "right": found.false,
        "sets": np.concatenate(sets) if sets else np.zeros(0, np.uint32),
    }
    if aggregate in ("MIN", "MAX"):
        return _apart(found, common, np.inf if aggregate == "MIN" else -np.inf)
    target = _targets(found)
    values = found.values if target is None else found.values.sum(-1, keepdims=True)
    outputs = found.values.shape[1]
    return trees.forest(
        **common,
        outputs=outputs,
        roots=found.roots,
        target=np.zeros(len(found.roots)) if target is None else target,
        values=values,
        base=np.zeros(outputs),
    )


def _targets(found: _Trees) -> np.ndarray | None:
    """The one output that each tree adds to; None if the leaves of a tree have several."""
    # From the roots down, to find the leaves of each tree.
    outputs = found.values.shape[1]
    tree, level = np.arange(len(found.roots)), np.array(found.roots, np.int64)
    uses = np.zeros((len(found.roots), outputs), bool)
    for _ in range(len(found.mode) + 1):
        at_leaf = level < 0
        np.logical_or.at(uses, tree[at_leaf], found.given[-1 - level[at_leaf]])
        tree, level = tree[~at_leaf], level[~at_leaf]
        if not level.size:
            break
        tree, level = np.concatenate([tree, tree]), np.concatenate([found.true[level], found.false[level]])
    return uses.argmax(-1) if (uses.sum(-1) <= 1).all() else None


def _apart(found: _Trees, common: dict[str, Any], neutral: float) -> trees.Forest:
    """A forest with an output for each tree and each of its targets; missing values of leaves are `neutral`."""
    count, (leaves, outputs) = len(found.mode), found.values.shape
    values = np.where(found.given, found.values, found.values.dtype.type(neutral))

    def copied(places: tf.Tensor) -> tf.Tensor:
        places = np.asarray(places, np.int64)
        return np.concatenate([places + np.where(places < 0, -k * leaves, k * count) for k in range(outputs)])

    several = {
        name: array if name == "sets" else np.tile(array, outputs)
        for name, array in common.items()
        if isinstance(array, np.ndarray)
    }
    several["left"], several["right"] = copied(found.true), copied(found.false)
    trees_count = len(found.roots)
    return trees.forest(
        **{**common, **several},
        outputs=trees_count * outputs,
        roots=copied(found.roots),
        target=(np.arange(trees_count)[None, :] * outputs + np.arange(outputs)[:, None]).ravel(),
        values=values.T.reshape(-1, 1),
        base=np.zeros(trees_count * outputs),
    )


def _transformed(node: Node, scores: tf.Tensor, kind: str) -> tf.Tensor:
    return _probit(scores) if kind == "PROBIT" else transformed(node, scores, kind)


def _probit(scores: tf.Tensor) -> tf.Tensor:
    """The quantile function of the normal distribution, by Winitzki's approximation with a = 0.147."""
    # With the digits that ONNX Runtime writes (ml_common.h).
    x = 2 * scores - 1
    log = tf.math.log((1 - x) * (1 + x))
    middle = tf.constant(2 / (3.14159 * 0.147), x.dtype) + log / 2
    inverse = tf.sqrt(-middle + tf.sqrt(middle * middle - log / tf.constant(0.147, x.dtype)))
    return tf.constant(1.41421356, x.dtype) * tf.where(x < 0, -inverse, inverse)
