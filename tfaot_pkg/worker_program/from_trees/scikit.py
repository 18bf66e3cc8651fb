"""scikit-learn's trees, forests and boosted trees.

scikit-learn follows their indices without checks: `read_trees` checks all of them before anything is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.categories import Column, encoder
from from_trees.classes import ONNX
from from_trees.fitted import Fitted, Trees
from messages import forest as trees
from messages.requests import ModelFault

if TYPE_CHECKING:
    import numpy.typing as npt
    from framework_types import Array


def read_trees(model: Any, dtype: str) -> Fitted:
    """The estimator as data, which is one of READERS, with x of type `dtype`, "" for that of the trees.

    Raises ModelFault, which names what is not supported, and errors of Python if it is damaged or was not fitted.
    """
    return READERS[type(model).__name__](model, dtype)


_OF_TREES = f"supported are DecisionTree and ExtraTree; others: {ONNX}"


def _number_of_nodes(left: np.ndarray) -> np.ndarray:
    """Numbers of nodes and leaves in Forest, by their positions in a tree."""
    is_leaf = left < 0
    return np.where(is_leaf, -np.cumsum(is_leaf, dtype=np.int64), np.cumsum(~is_leaf) - 1)


class _Builder(Trees):
    """Collects trees; `target` are the outputs that they add to."""

    def __init__(self) -> None:
        super().__init__()
        self.target: list[int] = []

    def grow(
        self,
        left: npt.ArrayLike,
        right: npt.ArrayLike,
        *,
        feature: npt.ArrayLike,
        threshold: npt.ArrayLike,
        default: npt.ArrayLike,
        values: npt.ArrayLike,
        target: int = 0,
        comparison: npt.ArrayLike | None = None,
        sets: Mapping[int, Array] = MappingProxyType({}),
    ) -> None:
        """Add a tree: arrays over all nodes, of which leaves have a negative `left`; values are [nodes, width]."""
        left, right = np.asarray(left, np.int64), np.asarray(right, np.int64)
        count, inner = len(left), left >= 0
        if not count or left.max() >= count or right.max() >= count or (right[inner] < 0).any():
            raise ValueError("a tree follows nodes that it does not have")
        number = _number_of_nodes(left)
        shifted = np.where(number < 0, number - self.leaves, number + self.nodes)
        limits = np.asarray(threshold, np.float64)[inner]
        kinds = np.full(len(limits), trees.LESS_EQUAL) if comparison is None else np.asarray(comparison)[inner]
        words = np.zeros(len(limits), np.int64)
        for place, node in enumerate(np.flatnonzero(inner)) if sets else ():
            members = sets.get(int(node))
            if members is not None:
                limits[place], words[place] = self.words, len(members)
                self.add_set(members)
        self.add(
            roots=shifted[:1], feature=np.asarray(feature)[inner], threshold=limits, comparison=kinds, words=words,
            missing=np.full(len(limits), trees.NAN), default=np.asarray(default)[inner],
            left=shifted[left[inner]], right=shifted[right[inner]], values=np.asarray(values, np.float64)[~inner],
        )  # fmt: skip
        self.target.append(target)

    def forest(self, *, dtype: str, features: int, outputs: int, base: npt.ArrayLike) -> trees.Forest:
        return trees.forest(
            dtype=dtype,
            total="float64",
            features=features,
            outputs=outputs,
            target=self.target,
            base=base,
            **self.arrays(),
        )


def _add_tree(
    builder: _Builder, estimator: Any, values: Array, *, target: int = 0, columns: Array | None = None
) -> None:
    """Add a tree of DecisionTree*; `columns` are those of x that it reads."""
    tree = estimator.tree_
    if (tree.feature[tree.children_left >= 0] < 0).any():
        raise ValueError("a tree looks at columns that there are not")
    # Leaves have the feature -2, which must not become an index.
    feature = tree.feature if columns is None else np.asarray(columns)[np.maximum(tree.feature, 0)]
    default = np.asarray(tree.missing_go_to_left, bool)
    builder.grow(tree.children_left, tree.children_right, feature=feature, threshold=tree.threshold, default=default,
                values=values, target=target)  # fmt: skip


def _outputs(model: Any, tree: Any) -> int:
    """The number of sums: classes of a classifier, outputs of a regressor, which `tree` has as all others."""
    if not hasattr(model, "classes_"):
        return int(tree.n_outputs_)
    if tree.n_outputs_ != 1:
        raise ModelFault("classifiers of several outputs are not supported", "make a package of each output")
    return len(model.classes_)


def _fitted(
    model: Any, dtype: str, forest: trees.Forest, links: tuple[tuple[str, float], ...], columns: tuple[Column, ...] = ()
) -> Fitted:
    """`dtype` is the type of x that the spec asks for, "" for that of the trees."""
    import sklearn

    is_classifier = hasattr(model, "classes_")
    return Fitted(
        forest=forest,
        links=links,
        output="probabilities" if is_classifier else "predictions",
        is_flat=not is_classifier and forest.outputs == 1,
        library="scikit-learn",
        origin=f"{type(model).__name__} of scikit-learn {sklearn.__version__}",
        classes=tuple(str(each) for each in model.classes_) if is_classifier else (),
        features=tuple(str(each) for each in getattr(model, "feature_names_in_", ())),
        input=dtype,
        # The encoder of HistGradientBoosting's categories takes unknown ones for missing.
        encoder=encoder(columns, features=forest.features, dtype=forest.dtype, unknown=np.nan) if columns else None,
        columns=tuple(columns),
    )


def _leaf_values(model: Any, estimator: Any) -> np.ndarray:
    """[nodes, classes] of a classifier, [nodes, outputs] of a regressor."""
    every = estimator.tree_.value
    values: Array = every[:, 0, : len(model.classes_)] if hasattr(model, "classes_") else every[:, :, 0]
    return values


def _forest(model: Any, dtype: str) -> Fitted:
    """RandomForest*, ExtraTrees*: means over the trees, whose leaves are fractions of classes."""
    return _mean(model, dtype, [(each, None) for each in model.estimators_])


def _tree(model: Any, dtype: str) -> Fitted:
    return _mean(model, dtype, [(model, None)])


def _mean(model: Any, dtype: str, estimators: list[tuple[Any, Array | None]]) -> Fitted:
    builder, outputs = _Builder(), _outputs(model, estimators[0][0])
    for estimator, columns in estimators:
        _add_tree(builder, estimator, _leaf_values(model, estimator), columns=columns)
    made = builder.forest(dtype="float32", features=model.n_features_in_, outputs=outputs, base=np.zeros(outputs))
    return _fitted(model, dtype, made, (("divide", float(len(estimators))),) if len(estimators) > 1 else ())


def _bagging(model: Any, dtype: str) -> Fitted:
    for estimator in model.estimators_:
        _require_tree(model, estimator)
        if hasattr(model, "classes_") and len(estimator.classes_) != len(model.classes_):
            raise ModelFault("Bagging whose trees did not see all classes is not supported", ONNX)
    return _mean(model, dtype, list(zip(model.estimators_, model.estimators_features_, strict=True)))


def _isolation(model: Any, dtype: str) -> Fitted:
    """IsolationForest: two to the power of minus the mean depth of leaves, in units of the depth that is usual."""
    builder = _Builder()
    is_part = model._max_features != model.n_features_in_
    for each, columns, paths, lengths in zip(
        model.estimators_, model.estimators_features_, model._decision_path_lengths,
        model._average_path_length_per_tree, strict=True,
    ):  # fmt: skip
        _add_tree(builder, each, (np.asarray(paths, np.float64) + lengths - 1.0)[:, None],
                  columns=columns if is_part else None)  # fmt: skip
    made = builder.forest(dtype="float32", features=model.n_features_in_, outputs=1, base=np.zeros(1))
    usual = len(model.estimators_) * _usual_depth(int(model._max_samples))
    score = (("divide", usual), ("multiply", -math.log(2)), ("exp", 0.0), ("multiply", -1.0))
    fitted = _fitted(model, dtype, made, (*score, ("add", -float(model.offset_))))
    return replace(fitted, output="scores")


def _usual_depth(samples: int) -> float:
    """The mean depth at which a search in a binary tree of as many samples ends, as _average_path_length."""
    if samples <= 2:
        return float(samples == 2)
    return float(2.0 * (np.log(samples - 1.0) + np.euler_gamma) - 2.0 * (samples - 1.0) / samples)


def _adaboost(model: Any, dtype: str) -> Fitted:
    """AdaBoostClassifier (SAMME): each tree votes for a class with its weight."""
    count, builder = len(model.classes_), _Builder()
    for estimator, weight in zip(model.estimators_, model.estimator_weights_, strict=False):
        _require_tree(model, estimator)
        votes = estimator.classes_.take(_leaf_values(estimator, estimator).argmax(1))
        # As decision_function: weight for the class that is voted for, and as much in total against all others.
        values = np.where(votes[:, None] == model.classes_[None, :], weight, -1 / (count - 1) * weight)
        _add_tree(builder, estimator, values)
    made = builder.forest(dtype="float32", features=model.n_features_in_, outputs=count, base=np.zeros(count))
    total = float(np.sum(model.estimator_weights_))
    # AdaBoostClassifier._compute_proba_from_decision.
    last = (("difference", 2.0),) if count == 2 else (("divide", float(count - 1)),)
    return _fitted(model, dtype, made, (("divide", total), *last, ("softmax", 0.0)))


def each_tree(model: Any) -> trees.Forest:
    """The trees of AdaBoostRegressor, of which each is an output of its own."""
    builder, count = _Builder(), len(model.estimators_)
    for target, estimator in enumerate(model.estimators_):
        _require_tree(model, estimator)
        _add_tree(builder, estimator, estimator.tree_.value[:, 0, :1], target=target)
    return builder.forest(dtype="float32", features=model.n_features_in_, outputs=count, base=np.zeros(count))


def _require_tree(model: Any, estimator: Any) -> None:
    if not type(estimator).__name__.startswith(("DecisionTree", "ExtraTree")):
        raise ModelFault(f"{type(model).__name__} of {type(estimator).__name__} is not supported", _OF_TREES)


def _boosting(model: Any, dtype: str) -> Fitted:
    """GradientBoosting*: a constant, and trees whose leaves count with the learning rate."""
    outputs, builder = model.estimators_.shape[1], _Builder()
    for stage in model.estimators_:
        for target, estimator in enumerate(stage):
            # Not folded into a link: each tree's product is rounded before it is added.
            _add_tree(builder, estimator, model.learning_rate * estimator.tree_.value[:, 0, :1], target=target)
    features = model.n_features_in_
    if not (model.init_ == "zero" or type(model.init_).__name__.startswith("Dummy")):
        raise ModelFault(f"GradientBoosting that starts with {type(model.init_).__name__} is not supported", ONNX)
    # With a Dummy estimator the start is the same for all rows: one row of zeros finds it.
    base = model._raw_predict_init(np.zeros((1, features), np.float32))[0]
    made = builder.forest(dtype="float32", features=features, outputs=outputs, base=base)
    links: tuple[tuple[str, float], ...] = ()
    if hasattr(model, "classes_"):
        scale = 2.0 if model.loss == "exponential" else 1.0
        links = (("sigmoid of second", scale),) if outputs == 1 else (("softmax", 0.0),)
    return _fitted(model, dtype, made, links)


def _histogram(model: Any, dtype: str) -> Fitted:
    """HistGradientBoosting*: x is float64; the encoder puts the categories in front of all other columns."""
    categories, columns = _categories(model)
    outputs, builder = model.n_trees_per_iteration_, _Builder()
    for iteration in model._predictors:
        for target, predictor in enumerate(iteration):
            _add_predictor(builder, predictor, target, categories, columns)
    base = np.ravel(model._baseline_prediction)
    made = builder.forest(dtype=dtype or "float64", features=len(columns), outputs=outputs, base=base)
    link = type(model._loss.link).__name__
    if link not in ("IdentityLink", "LogitLink", "MultinomialLogit", "LogLink"):
        raise ModelFault(f"the link {link} is not supported", ONNX)
    # By name, because the classes are private: an unknown one must not be taken for another.
    links = {
        "IdentityLink": (), "LogitLink": (("sigmoid of second", 1.0),), "MultinomialLogit": (("softmax", 0.0),),
        "LogLink": (("exp", 0.0),),
    }[link]  # fmt: skip
    return _fitted(model, dtype, made, links, categories)


def _categories(model: Any) -> tuple[tuple[Column, ...], Array]:
    """The columns of categories in the order of the encoder, and the column of x by encoded column."""
    count = model.n_features_in_
    if model._preprocessor is None:
        return (), np.arange(count)
    chosen = np.asarray(model.is_categorical_, bool)
    places = np.flatnonzero(chosen)
    listed = model._preprocessor.named_transformers_["encoder"].categories_
    names = [str(each) for each in getattr(model, "feature_names_in_", ())]
    found = tuple(
        Column(place=int(place), name=names[place] if names else "", values=_values(values))
        for place, values in zip(places, listed, strict=True)
    )
    return found, np.concatenate([places, np.flatnonzero(~chosen)])


def _values(listed: np.ndarray) -> tuple[bool | int | float | str, ...]:
    """The categories that have codes; missing ones are last in the list, and have none."""
    found = [
        each for each in listed.tolist() if each is not None and not (isinstance(each, float) and math.isnan(each))
    ]
    if not all(isinstance(each, (bool, int, float, str)) for each in found):
        raise ModelFault("categories other than numbers and texts are not supported", "encode them before training")
    return tuple(found)


def _add_predictor(
    builder: _Builder, predictor: Any, target: int, categories: tuple[Column, ...], columns: np.ndarray
) -> None:
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    feature = nodes["feature_idx"].astype(np.int64)
    if ((feature < 0) | (feature >= len(columns)))[~is_leaf].any():
        raise ValueError("a tree looks at columns that there are not")
    comparison = np.full(len(nodes), trees.LESS_EQUAL)
    sets: dict[int, Array] = {}
    for place in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf):
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][place]]
        goes_left = _bits_of(words, len(categories[int(feature[place])].values))
        comparison[place], sets[int(place)] = trees.IN, trees.words_of(np.flatnonzero(goes_left))
    # scikit-learn has 0 as the children of a leaf; `grow` recognizes leaves by negative ones.
    left, right = (np.where(is_leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    builder.grow(left, right, feature=columns[np.where(is_leaf, 0, feature)], threshold=nodes["num_threshold"],
                default=nodes["missing_go_to_left"].astype(bool), values=nodes["value"][:, None], target=target,
                comparison=comparison, sets=sets)  # fmt: skip


def _bits_of(words: npt.ArrayLike, count: int) -> np.ndarray:
    """Which of the first `count` numbers are in a set."""
    places = np.arange(count)
    return (np.asarray(words)[places // 32] >> (places % 32).astype(np.uint32) & 1).astype(bool)


READERS = {
    **dict.fromkeys(("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"),
                    _forest),
    **dict.fromkeys(("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"),
                    _tree),
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), _boosting),
    **dict.fromkeys(("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), _histogram),
    **dict.fromkeys(("BaggingClassifier", "BaggingRegressor"), _bagging),
    "AdaBoostClassifier": _adaboost,
    "IsolationForest": _isolation,
}  # fmt: skip
