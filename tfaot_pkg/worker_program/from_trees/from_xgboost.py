"""XGBoost's models: JSON and UBJSON files of Booster.save_model.

XGBoost itself converts a file to JSON of its own release; this module checks and reads the trees.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees import ubjson
from from_trees.categories import Column, encoder, frame
from from_trees.fitted import Fitted, Trees, reason
from messages import forest as trees
from messages.requests import ModelFault
from messages.sources import TreesCall

if TYPE_CHECKING:
    from framework_types import Array


TAKES = frozenset({"iterations", "missing", "categories"})
"""What a call of XGBoost chooses beside the file."""

_AGAIN = "write the file again: booster.save_model('model.json')"
_SIGMOID, _EXP = (("sigmoid", 1.0),), (("exp", 1.0),)
_LINKS: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "binary:hinge": ("label", (("above zero", 0.0),)),
    "binary:logistic": ("probabilities", _SIGMOID),
    "binary:logitraw": ("score", ()),
    "count:poisson": ("score", _EXP),
    "multi:softmax": ("label", (("largest", 1.0),)),
    "multi:softprob": ("probabilities", (("softmax", 1.0),)),
    "rank:map": ("score", ()),
    "rank:ndcg": ("score", ()),
    "rank:pairwise": ("score", ()),
    "reg:absoluteerror": ("score", ()),
    "reg:expectileerror": ("score", ()),
    "reg:gamma": ("score", _EXP),
    "reg:logistic": ("score", _SIGMOID),
    "reg:pseudohubererror": ("score", ()),
    "reg:quantileerror": ("score", ()),
    "reg:squarederror": ("score", ()),
    "reg:squaredlogerror": ("score", ()),
    "reg:tweedie": ("score", _EXP),
    "survival:aft": ("score", _EXP),
    "survival:cox": ("score", _EXP),
}
"""Objective -> the name of the result, and the operations on the margin."""

_INDEX = {9: "int8", 10: "uint8", 11: "int16", 12: "uint16", 13: "int32", 14: "uint32", 15: "int64", 16: "uint64"}
"""The types of arrays in a file -> those of a data frame's index of categories."""

_UNKNOWN = -1.0
"""The code of a category that training did not see: it is in no set. XGBoost rejects the frame, or takes another
category for it (3.2 the next one in the order of values), so there is no answer to give.
"""


def fitted_of(path: str, call: TreesCall) -> Fitted:
    try:
        return fitted_of_booster(_loaded(path), call)
    except ERRORS as error:
        raise ModelFault(f"XGBoost's model {path} is damaged: {reason(error)}", _AGAIN) from error


ERRORS = (KeyError, TypeError, IndexError, ValueError, OverflowError, RecursionError)
"""What reading a damaged model raises."""


def fitted_of_booster(booster: Any, call: TreesCall) -> Fitted:
    """The model of an xgboost.Booster as data. Raises ERRORS."""
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    return _fitted(learner, _base_of(learner), _version(), call)


def checked(content: bytes) -> bytearray:
    """A model's file for xgboost.Booster(model_file=...). Raises ERRORS if it is damaged."""
    # Behind the first brace, JSON has a quote or white space, UBJSON the type of a length, which is a letter.
    is_text = content[1:2] in (b'"', b" ", b"\n", b"\r", b"\t", b"}")
    # Our own readers look first: XGBoost follows sizes and indices of a file without checking them, and may crash.
    document = json.loads(content) if is_text else ubjson.decoded(content)
    _fitted(document["learner"], None, "", TreesCall(iterations="all", categories="codes"))
    return bytearray(content)


def _loaded(path: str) -> Any:
    import xgboost

    with open(path, "rb") as file:
        content = checked(file.read())
    try:
        return xgboost.Booster({"nthread": 1}, model_file=content)
    except (xgboost.core.XGBoostError, ValueError) as error:
        raise ModelFault(f"XGBoost cannot read {path}: {_first_line(error)}", _AGAIN) from error


def _version() -> str:
    import xgboost

    return str(xgboost.__version__)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[0].split())[:200] if lines else type(error).__name__


def _fitted(learner: dict[str, Any], base: Array | None, version: str, call: TreesCall) -> Fitted:
    """The model; without a `base`, zeros."""
    booster = learner["gradient_booster"]
    name = booster["name"]
    if name not in ("gbtree", "dart"):
        raise ModelFault(f"XGBoost's booster {name} is not supported", "train with booster gbtree or dart")
    objective = learner["objective"]["name"]
    if objective not in _LINKS:
        raise ModelFault(
            f"XGBoost's objective {objective} is not supported",
            f"known are {', '.join(_LINKS)}: train with one of these",
        )
    # DART scales trees that it dropped during training.
    scales = booster["weight_drop"] if name == "dart" else None
    model = (booster["gbtree"] if name == "dart" else booster)["model"]
    output, links = _LINKS[objective]
    parameters = learner["learner_model_param"]
    targets = [int(each) for each in model["tree_info"]]
    if base is None:
        base = np.zeros(1 + min(max(targets, default=0), 1 << 16), np.float32)
    # One for each output; num_class is 0 for all but models of several classes.
    outputs = len(base)
    saved = _Attributes(learner)
    used, rounds, count = _iterations(model, saved, call)
    columns, coded = _columns(model, learner, call)
    is_cut = not call.categories and any(map(_is_cut, (model.get("cats") or {}).get("enc") or []))
    missing = _missing(saved, call)
    features = int(parameters["num_feature"])
    # Of the type that x has in the package (reading.py); XGBoost itself compares floats.
    given = call.dtype or "float32"
    made = _Arrays()
    for number, tree in enumerate(model["trees"][:count]):
        made.grow(tree, None if scales is None else (float(scales[number]), base[targets[number]]))
    forest = trees.forest(
        dtype="float32",
        total="float32",
        features=features,
        outputs=outputs,
        base=base,
        target=targets[:count],
        **made.arrays(),
    )
    return Fitted(
        forest=forest,
        links=links,
        margin="margin" if links else "",
        output=output,
        library="XGBoost",
        origin=f"XGBoost {version}, {objective}, {_counted(used, rounds, saved)}{count} trees",
        dtype="float32",
        features=tuple(str(each) for each in learner.get("feature_names") or ()),
        input=given,
        encoder=encoder(columns, features=features, dtype=given, unknown=_UNKNOWN) if columns else None,
        columns=columns,
        coded=coded,
        missing=None if math.isnan(missing) else missing,
        iterations=(used, rounds),
        notes=(*_notes(saved, call, used, rounds), *([_CUT] if is_cut else [])),
    )


class _Attributes:
    """What the author's call left in the file beside the trees.

    `best` is the best iteration, from 0 on, None without early stopping. `is_wrapped`: a class of scikit-learn's
    interface wrote the file, whose calls use the best iteration; Booster's use all. `missing` is the number that old
    versions of these classes wrote, None if the file has none.
    """

    def __init__(self, learner: dict[str, Any]) -> None:
        found = learner.get("attributes") or {}
        self.best = int(found["best_iteration"]) if "best_iteration" in found else None
        self.is_wrapped = "scikit_learn" in found
        settings = json.loads(found["scikit_learn"]) if self.is_wrapped else {}
        self.missing = float(settings["missing"]) if settings.get("missing") is not None else None


def _iterations(model: dict[str, Any], saved: _Attributes, call: TreesCall) -> tuple[int, int, int]:
    """The iterations to compute, all of the file, and the number of trees of the former."""
    count = len(model["trees"])
    if call.iterations == "all" and "iteration_indptr" not in model:
        return 0, 0, count
    ends = [int(each) for each in model["iteration_indptr"]]
    rounds = len(ends) - 1
    if rounds < 1 or ends[0] != 0 or ends[-1] != count or any(np.diff(ends) < 0):
        raise ValueError("its iterations do not fit its trees")
    used = _chosen(saved, call, rounds)
    if not 1 <= used <= rounds:
        raise ModelFault(
            f"{used} iterations of XGBoost's model were asked for, and the file has {rounds}",
            "set `trees: {iterations: all}` in the spec, or a number that the file has",
        )
    return used, rounds, ends[used]


def _chosen(saved: _Attributes, call: TreesCall, rounds: int) -> int:
    if call.iterations == "best" and saved.best is None:
        raise ModelFault(
            "XGBoost's model has no best iteration: it was trained without early stopping",
            "set `trees: {iterations: all}` in the spec, or a number",
        )
    # The default is what a call of the class that wrote the file gives.
    if saved.best is not None and (call.iterations == "best" or (not call.iterations and saved.is_wrapped)):
        return saved.best + 1
    return rounds if call.iterations in ("", "all") else int(call.iterations)


def _counted(used: int, rounds: int, saved: _Attributes) -> str:
    if used == rounds:
        return ""
    best = ", up to the best" if saved.best is not None and used == saved.best + 1 else ""
    return f"{used} of {rounds} iterations{best}, "


def _missing(saved: _Attributes, call: TreesCall) -> float:
    if call.missing:
        return float(call.missing)
    return math.nan if saved.missing is None else saved.missing


def _notes(saved: _Attributes, call: TreesCall, used: int, rounds: int) -> tuple[str, ...]:
    found = []
    if not call.iterations and saved.best is not None and used > saved.best + 1:
        found.append(
            f"early stopping found iteration {saved.best} the best, and all {rounds} are computed, as Booster.predict "
            "does: if you call it with iteration_range, set `trees: {iterations: best}` in the spec"
        )
    if not call.missing and saved.missing is None:
        file = "the file of XGBoost's class for scikit-learn" if saved.is_wrapped else "XGBoost's file"
        found.append(
            f"{file} does not say what counts as missing beside NaN: if training set `missing`, set "
            "`trees: {missing: -999}` with its number in the spec, otherwise `trees: {missing: .nan}`"
        )
    return tuple(found)


def _columns(
    model: dict[str, Any], learner: dict[str, Any], call: TreesCall
) -> tuple[tuple[Column, ...], tuple[Column | int, ...]]:
    """The columns of categories that contain values of a data frame, and those that contain codes."""
    enc = (model.get("cats") or {}).get("enc") or []
    names = [str(each) for each in learner.get("feature_names") or ()]
    listed = []
    cut = any(map(_is_cut, enc))
    if cut and call.categories == "values":
        raise ModelFault(
            "XGBoost's file does not have all characters of categories beyond ASCII, so it cannot tell them apart",
            "set `trees: {categories: codes}` in the spec: x contains their positions; or train with other names",
        )
    for place, each in enumerate(enc if not cut else ()):
        name, kind = names[place] if names else "", _INDEX.get(each.get("type"), "")
        if values := _categories(each):
            listed.append(Column(place=place, name=name, values=values, kind=kind, is_closed=True))
    if call.categories != "codes" and listed:
        return tuple(listed), ()
    if call.categories == "values":
        raise ModelFault(
            "XGBoost's file has no values of categories: it was not trained on a data frame, or before XGBoost 3.1",
            "leave `trees.categories` out of the spec: x contains codes",
        )
    known = {each.place for each in listed}
    kinds = enumerate(learner.get("feature_types") or ())
    return (), (*listed, *(place for place, kind in kinds if kind == "c" and place not in known))


_CUT = (
    "XGBoost's file does not have all characters of categories beyond ASCII: x contains the positions of all "
    "categories; XGBoost itself does not find such a category in a data frame"
)


def _is_cut(found: dict[str, Any]) -> bool:
    """Whether XGBoost left out bytes of a column's texts: of each it writes as many bytes as it has characters."""
    return "offsets" in found and any(each < 0 or each > 127 for each in found["values"])


def _categories(found: dict[str, Any]) -> tuple[int | str, ...]:
    """The categories of a column, whose texts are ASCII; none for a column of numbers."""
    if "offsets" not in found:
        return tuple(int(each) for each in found["values"])
    # Texts, one after the other.
    content = np.array(found["values"], np.int64).astype(np.uint8).tobytes()
    return tuple(content[first:end].decode("ascii") for first, end in pairwise(found["offsets"]))


def _base_of(learner: dict[str, Any]) -> np.ndarray:
    """The start of the sums: the margin of the model without its trees, which XGBoost computes."""
    import xgboost

    booster = learner["gradient_booster"]
    inner = booster["gbtree"] if booster["name"] == "dart" else booster
    if "model" not in inner:
        return np.zeros(1, np.float32)
    model, parameters = inner["model"], learner["learner_model_param"]
    # A leaf of 0 for each output: without any trees XGBoost returns the base score as it is in the file.
    outputs = max(
        1,
        int(parameters.get("num_target", 1)),
        int(parameters["num_class"]),
        max(map(int, model["tree_info"]), default=0) + 1,
    )
    # The limit of a forest (forest.verify): a damaged file must not decide how many trees are made here.
    if outputs > 1 << 16:
        raise ValueError(f"{outputs} outputs")
    made = {
        "trees": [_leaf(number, int(parameters["num_feature"])) for number in range(outputs)],
        "tree_info": list(range(outputs)),
        "iteration_indptr": [0, outputs],
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(outputs)},
    }
    inner = {"name": "gbtree", "model": {**model, **made}}
    # The version of this release, which wrote `learner`.
    document = {
        "version": list(map(int, xgboost.__version__.split(".")[:3])),
        "learner": {**learner, "gradient_booster": inner},
    }
    try:
        # The conversion of base scores to margins depends on XGBoost's release and the objective: it computes this.
        bare = xgboost.Booster({"nthread": 1}, model_file=bytearray(json.dumps(document).encode()))
        x = np.zeros((1, int(learner["learner_model_param"]["num_feature"])), np.float32)
        return np.asarray(bare.inplace_predict(x, predict_type="margin", validate_features=False), np.float32).reshape(
            -1
        )
    except xgboost.core.XGBoostError as error:
        raise ValueError(_first_line(error)) from error


def _leaf(number: int, features: int) -> dict[str, Any]:
    """A tree that is one leaf of 0."""
    of_node = {
        "left_children": -1, "right_children": -1, "parents": 2147483647, "split_indices": 0, "split_conditions": 0.0,
        "split_type": 0, "default_left": 0, "base_weights": 0.0, "loss_changes": 0.0, "sum_hessian": 1.0,
    }  # fmt: skip
    sets: dict[str, list[int]] = {
        name: [] for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    }
    sizes = {"num_deleted": "0", "num_feature": str(features), "num_nodes": "1", "size_leaf_vector": "1"}
    return {**{name: [value] for name, value in of_node.items()}, **sets, "id": number, "tree_param": sizes}


class _Arrays(Trees):
    def grow(self, tree: dict[str, Any], scale: tuple[float, float] | None) -> None:
        if int(tree["tree_param"].get("size_leaf_vector", 1) or 1) > 1:
            raise ModelFault("XGBoost's trees with vectors in their leaves are not supported",
                             "train with multi_strategy one_output_per_tree")  # fmt: skip
        left, right = (np.array(tree[name], np.int64) for name in ("left_children", "right_children"))
        count = len(left)
        # One array for two things: thresholds of inner nodes, and values of leaves.
        condition = np.array(tree["split_conditions"], np.float32)
        feature = np.array(tree["split_indices"], np.int64)
        default = np.array(tree["default_left"], bool)
        # Older files have no types: all splits compare numbers.
        kinds = np.array(tree.get("split_type") or [0] * count, np.int64)
        if not count or {count} != {len(each) for each in (right, condition, feature, default, kinds)}:
            raise ValueError("arrays of a tree differ in length")
        inner = left >= 0
        if (left[inner] >= count).any() or (right[inner] < 0).any() or (right[inner] >= count).any():
            raise ValueError("a child is outside of its tree")
        # Nodes that were removed stay in the arrays, and nothing leads to them.
        number = np.where(inner, self.nodes + np.cumsum(inner) - 1, -self.leaves - np.cumsum(~inner))
        is_set = (kinds == 1)[inner]
        threshold, words = condition[inner].astype(np.float64), np.zeros(int(inner.sum()), np.int64)
        if is_set.any():
            self._sets(tree, np.flatnonzero(inner), threshold, words)
        values = condition[~inner]
        if scale is not None:
            # As XGBoost does: a dropped tree's prediction contains the base score.
            factor, start = scale
            # In floats this is no identity.
            values = (values + start - start) * np.float32(factor)
        # Numbers in a set go right.
        one, other = number[left[inner]], number[right[inner]]
        self.add(
            roots=number[:1], feature=feature[inner], threshold=threshold, words=words,
            comparison=np.where(is_set, trees.IN, trees.LESS), missing=np.full(len(words), trees.NAN),
            default=default[inner] ^ is_set, left=np.where(is_set, other, one), right=np.where(is_set, one, other),
            values=values.reshape(-1, 1),
        )  # fmt: skip

    def _sets(self, tree: dict[str, Any], places: np.ndarray, threshold: np.ndarray, words: np.ndarray) -> None:
        at = {int(place): i for i, place in enumerate(places)}
        # One list contains the sets of all nodes; a node with a set has an offset and a length in it.
        pairs = zip(tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True)
        for node, first, size in pairs:
            chosen = np.array(tree["categories"][first : first + size], np.int64)
            if len(chosen) != size or not len(chosen) or chosen.min() < 0 or chosen.max() >= trees.CATEGORIES:
                raise ValueError("the categories of a node are outside of the file's")
            found = trees.words_of(chosen)
            threshold[at[int(node)]], words[at[int(node)]] = self.words, len(found)
            self.add_set(found)


class Answers:
    """The answers of XGBoost itself, on one thread: those of its classes for scikit-learn, with the same arguments."""

    def __init__(self, path: str, call: TreesCall) -> None:
        import xgboost

        self._outputs = fitted_of(path, call)
        self.dtype = self._outputs.input
        self._booster = _loaded(path)
        self.version = _version()
        self.rejections = (xgboost.core.XGBoostError, ValueError)

    def run(self, x: Array) -> dict[str, Array]:
        """The results by name."""
        made = {self._outputs.output: self._predicted(x, "value")}
        if self._outputs.margin:
            made[self._outputs.margin] = self._predicted(x, "margin")
        return made

    def _predicted(self, x: Array, kind: str) -> Array:
        model, x = self._outputs, np.asarray(x)
        found = self._booster.inplace_predict(
            frame(x, model.columns, model.features) if model.columns else x,
            predict_type=kind,
            iteration_range=(0, model.iterations[0]),
            missing=math.nan if model.missing is None else model.missing,
            validate_features=False,
        )
        return np.asarray(found, np.float32).reshape(len(x), -1)
