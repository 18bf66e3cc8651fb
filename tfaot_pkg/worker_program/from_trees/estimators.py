"""scikit-learn's linear models and networks, as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.classes import fault
from from_trees.fitted import Fitted
from from_trees.steps import INTEGER, Computed, Steps, numbers_of

if TYPE_CHECKING:
    from framework_types import Array


def result(
    steps: Steps, value: str, output: str, outputs: int, *, is_flat: bool = False, classes: tuple[str, ...] = ()
) -> Fitted:
    """A model without trees, whose result is `value`, [batch, outputs]; [batch] if it `is_flat`."""
    if is_flat:
        value = steps.op("Reshape", value, np.array([-1], np.int64))
    return Fitted(
        forest=None,
        links=(),
        output=output,
        library="scikit-learn",
        origin="",
        is_flat=is_flat,
        classes=classes,
        before=Computed(steps=steps, result=value, width=outputs),
    )


def _regressor(steps: Steps, model: Any, value: str) -> Fitted:
    weights = np.asarray(model.coef_, np.float64)
    outputs = np.atleast_2d(weights)
    return predictions(steps, _linear(steps, value, outputs, model.intercept_), len(outputs), weights.ndim == 1)


def _generalized(steps: Steps, model: Any, value: str) -> Fitted:
    weights, link = np.atleast_2d(np.asarray(model.coef_, np.float64)), type(model._base_loss.link).__name__
    found = _linear(steps, value, weights, model.intercept_)
    if link not in ("LogLink", "IdentityLink"):
        raise fault(model, f"with the link {link} is not supported")
    return predictions(steps, steps.op("Exp", found) if link == "LogLink" else found, len(weights), True)


def _linear(steps: Steps, value: str, weights: Array, intercept: Any) -> str:
    return steps.affine(value, weights.T, np.broadcast_to(np.reshape(intercept, -1), len(weights)))


def predictions(steps: Steps, value: str, outputs: int, is_flat: bool) -> Fitted:
    return result(steps, value, "predictions", outputs, is_flat=is_flat)


def linear_decision(steps: Steps, model: Any, value: str) -> str:
    """The decision function, [batch, 1] of two classes, [batch, classes] of more."""
    weights = np.atleast_2d(np.asarray(model.coef_, np.float64))
    count = len(model.classes_)
    if weights.ndim != 2 or len(weights) != (1 if count == 2 else count) or np.ndim(model.classes_[0]):
        raise fault(model, "of several labels is not supported")
    return _linear(steps, value, weights, model.intercept_)


def scores(steps: Steps, model: Any, decision: str) -> Fitted:
    """A classifier without probabilities."""
    count, names = len(model.classes_), names_of(model)
    if count == 2:
        return result(steps, decision, "scores", 1, is_flat=True, classes=names)
    return result(steps, decision, "scores", count, classes=names)


def outliers(steps: Steps, decision: str) -> Fitted:
    """A detector of outliers, whose decision function [batch, 1] is negative for them."""
    return result(steps, decision, "scores", 1, is_flat=True)


def _one_class(steps: Steps, model: Any, value: str) -> Fitted:
    return outliers(steps, _linear(steps, value, np.atleast_2d(model.coef_), -np.asarray(model.offset_)))


def _least_squares(steps: Steps, model: Any, value: str) -> Fitted:
    """PLSRegression and its kin, whose coefficients are for centered columns."""
    weights, mean = numbers_of(model, "coef_", None, model.n_features_in_), model._x_mean
    found = _linear(steps, steps.op("Sub", value, mean), weights, model.intercept_)
    return predictions(steps, found, len(weights), bool(model._predict_1d))


def _linear_scores(steps: Steps, model: Any, value: str) -> Fitted:
    return scores(steps, model, linear_decision(steps, model, value))


def names_of(model: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in model.classes_)


def probabilities(steps: Steps, model: Any, value: str) -> Fitted:
    return result(steps, value, "probabilities", len(model.classes_), classes=names_of(model))


def of_two(steps: Steps, decision: str) -> str:
    return with_first(steps, steps.op("Sigmoid", decision))


def with_first(steps: Steps, second: str) -> str:
    """The probabilities of both classes, of that of the second one."""
    return steps.op("Concat", steps.op("Sub", 1.0, second), second, axis=1)


def _logistic(steps: Steps, model: Any, value: str) -> Fitted:
    decision = linear_decision(steps, model, value)
    is_pair = len(model.classes_) == 2
    made = of_two(steps, decision) if is_pair else steps.op("Softmax", decision, axis=1)
    return probabilities(steps, model, made)


def of_pairs(steps: Steps, is_second: str, confidences: str, count: int) -> str:
    """The decision function of `count` classes, of that of each pair: which one it chooses, [batch, pairs] of zeros and
    ones, and how sure it is of the second one.
    """
    # As scikit-learn's _ovr_decision_function: votes of the pairs, and sums of their decisions to tell equal ones.
    pairs = [*combinations(range(count), 2)]
    first, second = (np.eye(count)[[pair[side] for pair in pairs]] for side in (0, 1))
    votes = steps.affine(is_second, second - first, first.sum(0))
    sums = steps.product(confidences, second - first)
    small = steps.op("Div", sums, steps.op("Mul", steps.op("Add", steps.op("Abs", sums), 1.0), 3.0))
    return steps.op("Add", votes, small)


def _gradient_descent(steps: Steps, model: Any, value: str) -> Fitted:
    if model.loss not in ("log_loss", "modified_huber"):
        return _linear_scores(steps, model, value)
    decision = linear_decision(steps, model, value)
    if model.loss == "log_loss":
        each = steps.op("Sigmoid", decision)
    else:
        clipped = steps.op("Min", steps.op("Max", decision, -1.0), 1.0)
        each = steps.op("Div", steps.op("Add", clipped, 1.0), 2.0)
    if len(model.classes_) == 2:
        return probabilities(steps, model, with_first(steps, each))
    # If no class has a probability, all have the same.
    each = steps.op("Where", steps.op("Equal", steps.row_sum(each), 0.0), 1.0, each)
    return probabilities(steps, model, steps.op("Div", each, steps.row_sum(each)))


_ACTIVATIONS = {"relu": "Relu", "logistic": "Sigmoid", "tanh": "Tanh", "exp": "Exp"}


def _activated(steps: Steps, model: Any, value: str, name: str) -> str:
    if name == "identity":
        return value
    if name not in _ACTIVATIONS:
        raise fault(model, f"with the activation {name} is not supported")
    return steps.op(_ACTIVATIONS[name], value)


def _layers(steps: Steps, model: Any, value: str) -> str:
    for number, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        value = steps.affine(value, weights, bias)
        if number < len(model.coefs_) - 1:
            value = _activated(steps, model, value, model.activation)
    return value


def _network_regressor(steps: Steps, model: Any, value: str) -> Fitted:
    value = _activated(steps, model, _layers(steps, model, value), model.out_activation_)
    return predictions(steps, value, int(model.n_outputs_), model.n_outputs_ == 1)


def _network_classifier(steps: Steps, model: Any, value: str) -> Fitted:
    value, count = _layers(steps, model, value), len(model.classes_)
    if model.out_activation_ == "softmax" and model.n_outputs_ == count:
        return probabilities(steps, model, steps.op("Softmax", value, axis=1))
    if model.out_activation_ != "logistic" or count != 2 or model.n_outputs_ != 1:
        raise fault(model, "of several labels is not supported")
    return probabilities(steps, model, of_two(steps, value))


def label(steps: Steps, place: str, classes: tuple[str, ...] = ()) -> Fitted:
    """The position of a class or cluster, [batch, 1]."""
    made = result(steps, steps.op("Cast", place, to=INTEGER), "label", 1, is_flat=True, classes=classes)
    return replace(made, dtype="int32")


def _clusters(steps: Steps, model: Any, value: str) -> Fitted:
    """The number of the next center, as KMeans.predict."""
    centers = numbers_of(model, "cluster_centers_", None, model.n_features_in_)
    found = steps.op("ArgMin", steps.squared_distances(value, centers), axis=1, keepdims=1)
    return label(steps, found)


_Estimator = Callable[[Steps, Any, str], Fitted]
_REGRESSORS = """
LinearRegression Ridge RidgeCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC Lars LarsCV ElasticNet ElasticNetCV
BayesianRidge ARDRegression HuberRegressor SGDRegressor TheilSenRegressor QuantileRegressor OrthogonalMatchingPursuit
MultiTaskLasso MultiTaskLassoCV MultiTaskElasticNet MultiTaskElasticNetCV OrthogonalMatchingPursuitCV LinearSVR
PassiveAggressiveRegressor
""".split()
_WITHOUT_PROBABILITIES = "LinearSVC RidgeClassifier RidgeClassifierCV Perceptron PassiveAggressiveClassifier".split()
_LOGISTIC = "LogisticRegression LogisticRegressionCV LinearDiscriminantAnalysis".split()
LINEAR_CLASSIFIERS = frozenset((*_WITHOUT_PROBABILITIES, *_LOGISTIC, "SGDClassifier"))
"""Those whose decision function is `linear_decision`."""

ESTIMATORS: Mapping[str, _Estimator] = {
    **dict.fromkeys(_REGRESSORS, _regressor),
    **dict.fromkeys(("PoissonRegressor", "GammaRegressor", "TweedieRegressor"), _generalized),
    **dict.fromkeys(_LOGISTIC, _logistic),
    **dict.fromkeys(_WITHOUT_PROBABILITIES, _linear_scores),
    "SGDClassifier": _gradient_descent,
    "SGDOneClassSVM": _one_class,
    **dict.fromkeys(("PLSRegression", "PLSCanonical", "CCA"), _least_squares),
    "MLPClassifier": _network_classifier,
    "MLPRegressor": _network_regressor,
    **dict.fromkeys(("KMeans", "MiniBatchKMeans"), _clusters),
}
"""Estimators beside trees (scikit.py), by the names of their classes."""
