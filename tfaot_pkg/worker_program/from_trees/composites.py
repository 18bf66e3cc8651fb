"""The last step of a pipeline, also one that is made of other estimators: voting, stacking, calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from from_trees import boosters, scikit
from from_trees.classes import ONNX, fault, is_known
from from_trees.counted import COUNTED
from from_trees.distributions import interpolated
from from_trees.estimators import (
    ESTIMATORS,
    LINEAR_CLASSIFIERS,
    label,
    linear_decision,
    names_of,
    of_pairs,
    predictions,
    probabilities,
    result,
    scores,
    with_first,
)
from from_trees.fitted import Fitted
from from_trees.gaussians import GAUSSIANS, quadratic
from from_trees.inverses import restored
from from_trees.kernels import KERNELS, decision
from from_trees.neighbours import NEIGHBOURS
from from_trees.processes import PROCESSES
from from_trees.steps import DOUBLE, INTEGER, SINGLE, Computed, Steps, Table, made
from from_trees.transformers import SELECTORS, TRANSFORMERS, transformed
from messages.requests import ModelFault
from messages.sources import INPUT


def unrolled(model: Any) -> tuple[list[Any], Any]:
    """The transformers before the last step, and this, also of pipelines that end in pipelines."""
    before: list[Any] = []
    while is_known(model, _AROUND):
        more, model = _AROUND[type(model).__name__](model)
        before += more
    return before, model


_AROUND: Mapping[str, Callable[[Any], tuple[list[Any], Any]]] = {
    "Pipeline": lambda model: ([part for _, part in model.steps[:-1]], model.steps[-1][1]),
    "FrozenEstimator": lambda model: ([], model.estimator),
    # Their answers are those of the estimator of the columns that they choose.
    **dict.fromkeys(("RFE", "RFECV"), lambda model: ([model], model.estimator_)),
    **dict.fromkeys(("RANSACRegressor", "SelfTrainingClassifier"), lambda model: ([], model.estimator_)),
    **dict.fromkeys(("GridSearchCV", "RandomizedSearchCV"), lambda model: ([], model.best_estimator_)),
}
"""Estimators around another one: what comes before it, and this."""


def require_known(last: Any, *, is_alone: bool) -> None:
    if last is None or isinstance(last, str) or any(is_known(last, each) for each in (TRANSFORMERS, SELECTORS)):
        return
    ours = frozenset().union(*_OF_TABLES, *_OF_VALUES)
    if not (_has_trees(last) or is_known(last, ours)):
        supported = ", ".join(sorted([*ours, *scikit.READERS, *(name for _, name in boosters.CLASSES)]))
        where = "" if is_alone else " at the end of a pipeline"
        raise ModelFault(
            f"{type(last).__module__}.{type(last).__name__} is not supported{where}",
            f"supported estimators: {supported}; others: {ONNX}",
        )


def _has_trees(model: Any) -> bool:
    return is_known(model, scikit.READERS) or boosters.is_booster(model)


def ended(steps: Steps, last: Any, table: Table) -> Fitted:
    """The model whose last step takes `table`."""
    name = type(last).__name__
    if _has_trees(last):
        return _with_trees(steps, last, table)
    for of_table in _OF_TABLES:
        if is_known(last, of_table):
            return of_table[name](steps, last, table)
    for of_value in _OF_VALUES:
        if is_known(last, of_value):
            return of_value[name](steps, last, table.value)
    table = steps.beside([transformed(steps, last, table)])
    _require_numbers(table)
    value = steps.op("Identity", INPUT) if table.value == INPUT else table.value
    return result(steps, value, "columns", table.width)


def _require_numbers(table: Table) -> None:
    if any(each is not None for each in table.texts):
        raise ModelFault("a SimpleImputer of texts has no encoder behind it", "add OneHotEncoder or OrdinalEncoder")


# -- trees -------------------------------------------------------------------------------------------------------


def _with_trees(steps: Steps, last: Any, table: Table) -> Fitted:
    found = boosters.read_booster(last) if boosters.is_booster(last) else scikit.read_trees(last, "")
    if found.trees.features != table.width:
        raise ValueError(f"trees of {found.trees.features} columns behind {table.width}")
    for each in found.columns:
        source = table.sources[each.place]
        if each.is_text:
            raise ModelFault("texts as categories behind other steps are not supported", "encode them as numbers")
        if source is not None:
            steps.compared.add(source)
            steps.columns.setdefault(source, replace(each, place=source))
    value = table.value
    if table.is_sparse and type(last).__module__ == "xgboost.sklearn":
        # XGBoost takes what a sparse matrix leaves out for missing.
        value = steps.op("Where", steps.op("Equal", value, 0.0), math.nan, value)
    return replace(found, before=Computed(steps=steps, result=value, width=table.width), columns=())


def _sums(steps: Steps, found: Fitted) -> str:
    """The sums of trees between steps, in their type."""
    assert found.before is not None
    number = np.dtype(found.trees.dtype).type
    if found.encoder is not None:
        raise ModelFault(
            "HistGradientBoosting with categories in another estimator is not supported", "encode them as numbers"
        )
    value = steps.op("Cast", found.before.result, to=SINGLE) if number is np.float32 else found.before.result
    if found.missing is not None:
        value = steps.op("Where", steps.op("Equal", value, number(found.missing)), number(np.nan), value)
    return steps.sums(value, found.trees)


def _linked(steps: Steps, found: Fitted) -> str:
    """The results of trees between steps: their sums behind the links, [batch, columns] in float64."""
    value, number = _sums(steps, found), np.dtype(found.trees.total).type
    for name, factor in found.links:
        if name not in _LINKS:
            raise ModelFault(f"trees with {name} in another estimator are not supported", ONNX)
        value = _LINKS[name](steps, value, number(factor))
    return steps.op("Cast", value, to=DOUBLE) if number is np.float32 else value


def _sigmoid_of_second(steps: Steps, value: str, scale: Any) -> str:
    second = steps.op("Sigmoid", steps.op("Mul", value, scale))
    return steps.op("Concat", steps.op("Sub", type(scale)(1), second), second, axis=1)


def _difference(steps: Steps, value: str, scale: Any) -> str:
    more = steps.op("Sub", steps.columns_of(value, [1]), steps.columns_of(value, [0]))
    return steps.op("Div", steps.op("Concat", steps.op("Neg", more), more, axis=1), scale)


_LINKS: Mapping[str, Callable[[Steps, str, Any], str]] = {
    "divide": lambda to, value, number: to.op("Div", value, number),
    "multiply": lambda to, value, number: to.op("Mul", value, number),
    "add": lambda to, value, number: to.op("Add", value, number),
    "exp": lambda to, value, _: to.op("Exp", value),
    "sigmoid": lambda to, value, _: to.op("Sigmoid", value),
    "softmax": lambda to, value, _: to.op("Softmax", value, axis=1),
    "sigmoid of second": _sigmoid_of_second,
    "difference": _difference,
}
"""As tree_lowering.py has them."""


# -- inner estimators --------------------------------------------------------------------------------------------


def _asked(steps: Steps, model: Any, table: Table, method: str) -> tuple[str, int]:
    """What `method` of an inner estimator gives, [batch, width]. Raises ModelFault if it is not read."""
    before, last = unrolled(model)
    for part in before:
        table = transformed(steps, part, table)
    require_known(last, is_alone=False)
    steps.is_rounded = True
    if method == "decision_function":
        return _decision(steps, last, table)
    found = ended(steps, last, table)
    if found.output != {"predict_proba": "probabilities", "predict": "predictions"}.get(method):
        raise ModelFault(f"{type(last).__name__}.{method} in another estimator is not supported", ONNX)
    if found.forest is not None:
        return _linked(steps, found), len(found.classes) or found.outputs
    assert found.before is not None
    value = found.before.result
    return steps.op("Reshape", value, np.array([-1, 1], np.int64)) if found.is_flat else value, found.outputs


_SUMS = frozenset(("GradientBoostingClassifier", "HistGradientBoostingClassifier"))
_MACHINES, _QUADRATIC = frozenset(("SVC", "NuSVC")), frozenset(("QuadraticDiscriminantAnalysis",))
_BY_DECISION = LINEAR_CLASSIFIERS | _SUMS | _MACHINES | _QUADRATIC
"""Those whose `predict` compares their decision function."""


def _decision(steps: Steps, model: Any, table: Table) -> tuple[str, int]:
    count = len(model.classes_)
    width = 1 if count == 2 else count
    if is_known(model, LINEAR_CLASSIFIERS):
        return linear_decision(steps, model, table.value), width
    if is_known(model, _MACHINES) and (count == 2 or model.decision_function_shape == "ovr"):
        return decision(steps, model, table.value), width
    if is_known(model, _QUADRATIC):
        value = quadratic(steps, model, table)
        return (steps.op("Sub", *(steps.columns_of(value, [each]) for each in (1, 0))) if count == 2 else value), width
    if is_known(model, _SUMS):
        return _sums(steps, _with_trees(steps, model, table)), width
    raise ModelFault(f"{type(model).__name__}.decision_function in another estimator is not supported", ONNX)


def _require_width(width: int, wanted: int) -> None:
    if width != wanted:
        raise ValueError(f"an inner estimator gives {width} columns in place of {wanted}")


def _mean(steps: Steps, values: Sequence[str], weights: Any = None) -> str:
    factors = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    return steps.op("Div", _sum(steps, values, factors), float(factors.sum()))


def _sum(steps: Steps, values: Sequence[str], factors: Any) -> str:
    total = ""
    for value, factor in zip(values, factors, strict=True):
        weighted = value if factor == 1 else steps.op("Mul", value, float(factor))
        total = steps.op("Add", total, weighted) if total else weighted
    return total


# -- estimators of estimators ------------------------------------------------------------------------------------


def _voting_classifier(steps: Steps, model: Any, table: Table) -> Fitted:
    if model.voting != "soft":
        return _voting_by_labels(steps, model, table)
    found = [_asked(steps, each, table, "predict_proba") for each in model.estimators_]
    for _, width in found:
        _require_width(width, len(model.classes_))
    return probabilities(steps, model, _mean(steps, [value for value, _ in found], model._weights_not_none))


def _voting_by_labels(steps: Steps, model: Any, table: Table) -> Fitted:
    """The class that most estimators predict, the first one of equals."""
    classes, votes = np.arange(len(model.classes_)), []
    for each in model.estimators_:
        if not np.array_equal(each.classes_, classes):
            raise ValueError("an inner estimator has other classes")
        votes.append(steps.numbers(steps.op("Equal", _predicted(steps, each, table), classes[None].astype(np.float64))))
    weights = model._weights_not_none
    total = _sum(steps, votes, np.ones(len(votes)) if weights is None else weights)
    return label(steps, steps.op("ArgMax", total, axis=1, keepdims=1), names_of(model))


_OWN_PREDICTIONS = frozenset(("OneVsRestClassifier", "OneVsOneClassifier", "NearestCentroid"))
"""Those whose `predict` may give another class than the one with the highest probability."""


def _predicted(steps: Steps, model: Any, table: Table) -> str:
    """The position of the class that an inner classifier predicts, [batch, 1]."""
    _, last = unrolled(model)
    if is_known(last, _OWN_PREDICTIONS):
        raise ModelFault(f"{type(last).__name__}.predict in another estimator is not supported", ONNX)
    if not is_known(last, _BY_DECISION):
        return _highest(steps, _asked(steps, model, table, "predict_proba")[0])
    value, width = _asked(steps, model, table, "decision_function")
    if width == 1:
        return _is_second(steps, last, value)
    # libsvm counts votes alone, without the part below 1/3 that tells equal ones.
    is_votes = is_known(last, _MACHINES) and not last.break_ties
    return _highest(steps, steps.op("Round", value) if is_votes else value)


def _is_second(steps: Steps, last: Any, decision: str) -> str:
    """Whether `predict` gives the second of two classes, as 0.0 and 1.0."""
    op = "GreaterOrEqual" if type(last).__name__ == "GradientBoostingClassifier" else "Greater"
    return steps.numbers(steps.op(op, decision, 0.0))


def _highest(steps: Steps, value: str) -> str:
    return steps.op("Cast", steps.op("ArgMax", value, axis=1, keepdims=1), to=DOUBLE)


def _voting_regressor(steps: Steps, model: Any, table: Table) -> Fitted:
    found = [_asked(steps, each, table, "predict") for each in model.estimators_]
    for _, width in found:
        _require_width(width, 1)
    return predictions(steps, _mean(steps, [value for value, _ in found], model._weights_not_none), 1, True)


def _stacking(steps: Steps, model: Any, table: Table) -> Fitted:
    columns = []
    for each, method in zip(model.estimators_, model.stack_method_, strict=True):
        value, width = _asked(steps, each, table, method)
        found = made(value, width)
        is_pair = method == "predict_proba" and len(model.classes_) == 2
        columns.append(steps.part(found, [1]) if is_pair else found)
    if model.passthrough:
        columns.append(table)
    before, last = unrolled(model.final_estimator_)
    inner = replace(steps.beside(columns), is_sparse=bool(model.passthrough and table.is_sparse))
    for part in before:
        inner = transformed(steps, part, inner)
    require_known(last, is_alone=False)
    steps.is_rounded = True
    found_last = ended(steps, last, inner)
    return replace(found_last, classes=tuple(map(str, model.classes_)) if found_last.classes else ())


def _calibrated(steps: Steps, model: Any, table: Table) -> Fitted:
    parts = [_calibrated_one(steps, each, table, len(model.classes_)) for each in model.calibrated_classifiers_]
    return probabilities(steps, model, _mean(steps, parts))


def _calibrated_one(steps: Steps, model: Any, table: Table, count: int) -> str:
    if model.method not in ("sigmoid", "isotonic"):
        raise fault(model, f"with the method {model.method!r} is not supported")
    inner = model.estimator
    has_decision = hasattr(inner, "decision_function")
    value, width = _asked(steps, inner, table, "decision_function" if has_decision else "predict_proba")
    if not has_decision and count == 2:
        value, width = steps.columns_of(value, [1]), 1
    _require_width(width, 1 if count == 2 else count)
    if width != len(model.calibrators) or len(inner.classes_) != count:
        raise fault(model, "whose estimators did not see all classes is not supported")
    whole = made(value, width)
    found = [
        _CALIBRATORS[type(each).__name__](steps, each, whole, place) for place, each in enumerate(model.calibrators)
    ]
    if count == 2:
        second = found[0]
        every = with_first(steps, second)
    else:
        each = steps.op("Concat", *found, axis=1)
        total = steps.row_sum(each)
        is_none = steps.op("Equal", total, 0.0)
        shares = steps.op("Div", each, steps.op("Where", is_none, 1.0, total))
        every = steps.op("Where", is_none, 1.0 / count, shares)
    is_more = steps.op("And", steps.op("Greater", every, 1.0), steps.op("LessOrEqual", every, 1.0 + 1e-5))
    return steps.op("Where", is_more, 1.0, every)


def _sigmoid(steps: Steps, model: Any, table: Table, place: int) -> str:
    value = steps.op("Mul", steps.columns_of(table.value, [place]), float(model.a_))
    return steps.op("Sigmoid", steps.op("Neg", steps.op("Add", value, float(model.b_))))


def _isotonic(steps: Steps, model: Any, table: Table, place: int) -> str:
    if model.out_of_bounds != "clip":
        raise fault(model, "without out_of_bounds='clip' is not supported")
    known = np.asarray(model.X_thresholds_, np.float64)
    return interpolated(steps, table, place, known, np.asarray(model.y_thresholds_, np.float64))


_CALIBRATORS: Mapping[str, Callable[[Steps, Any, Table, int], str]] = {
    "_SigmoidCalibration": _sigmoid, "IsotonicRegression": _isotonic,
}  # fmt: skip


def _one_against_rest(steps: Steps, model: Any, table: Table) -> Fitted:
    if model.multilabel_:
        raise fault(model, "of several labels is not supported")
    has_probabilities = hasattr(model, "predict_proba")
    count, values = len(model.classes_), []
    for each in model.estimators_:
        value, width = _asked(steps, each, table, "predict_proba" if has_probabilities else "decision_function")
        _require_width(width, 2 if has_probabilities else 1)
        values.append(steps.columns_of(value, [1]) if has_probabilities else value)
    _require_width(len(values), 1 if count == 2 else count)
    value = steps.op("Concat", *values, axis=1) if len(values) > 1 else values[0]
    if not has_probabilities:
        return scores(steps, model, value)
    if count == 2:
        value = with_first(steps, value)
    total = steps.row_sum(value)
    shares = steps.op("Div", value, steps.op("Where", steps.op("Equal", total, 0.0), 1.0, total))
    return probabilities(steps, model, shares)


def _one_against_one(steps: Steps, model: Any, table: Table) -> Fitted:
    count, seconds, confidences = len(model.classes_), [], []
    if model.pairwise_indices_ is not None:
        raise fault(model, "of a matrix of kernels is not supported")
    for each in model.estimators_:
        if not np.array_equal(getattr(each, "classes_", ()), (0, 1)):
            raise fault(model, "of regressors is not supported")
        if hasattr(each, "decision_function"):
            value, width = _asked(steps, each, table, "decision_function")
            seconds.append(_is_second(steps, unrolled(each)[1], value))
        else:
            value, width = _asked(steps, each, table, "predict_proba")
            seconds.append(_highest(steps, value))
            value, width = steps.columns_of(value, [width - 1]), width - 1
        _require_width(width, 1)
        confidences.append(value)
    _require_width(len(seconds), count * (count - 1) // 2)
    is_second, sure = (
        steps.op("Concat", *each, axis=1) if len(each) > 1 else each[0] for each in (seconds, confidences)
    )
    value = of_pairs(steps, is_second, sure, count)
    return scores(steps, model, steps.columns_of(value, [1]) if count == 2 else value)


def _of_target(steps: Steps, model: Any, table: Table) -> Fitted:
    value, width = _asked(steps, model.regressor_, table, "predict")
    value = restored(steps, model.transformer_, value)
    return predictions(steps, value, width, model._training_dim == 1 and width == 1)


def _each_target(steps: Steps, model: Any, table: Table) -> Fitted:
    """MultiOutputRegressor."""
    found = [_asked(steps, each, table, "predict") for each in model.estimators_]
    for _, width in found:
        _require_width(width, 1)
    return _of_targets(steps, [value for value, _ in found])


def _of_targets(steps: Steps, values: Sequence[str]) -> Fitted:
    value = steps.op("Concat", *values, axis=1) if len(values) > 1 else values[0]
    return predictions(steps, value, len(values), False)


def _chained_targets(steps: Steps, model: Any, table: Table) -> Fitted:
    """RegressorChain: each one takes the columns, and the predictions of those before it."""
    values = [""] * len(model.estimators_)
    if sorted(model.order_) != [*range(len(values))]:
        raise ValueError("order_ does not fit the estimators")
    for place, each in zip(model.order_, model.estimators_, strict=True):
        value, width = _asked(steps, each, table, "predict")
        _require_width(width, 1)
        values[place] = value
        table = steps.beside([table, made(value, 1)])
    return _of_targets(steps, values)


def _weighted_median(steps: Steps, model: Any, table: Table) -> Fitted:
    """AdaBoostRegressor of trees."""
    count = len(model.estimators_)
    weights = np.asarray(model.estimator_weights_, np.float64)[:count]
    if weights.shape != (count,) or not np.isfinite(weights).all():
        raise ValueError("estimator_weights_ does not fit the trees")
    forest = scikit.each_tree(model)
    _require_width(forest.features, table.width)
    values, places = steps.lowest(steps.sums(steps.op("Cast", table.value, to=SINGLE), forest), count)
    heaps = steps.op("CumSum", steps.op("Gather", weights, places, axis=0), np.array(1, np.int64))
    half = steps.op("Mul", steps.columns_of(heaps, [count - 1]), 0.5)
    reaches = steps.op("Cast", steps.op("GreaterOrEqual", heaps, half), to=INTEGER)
    first = steps.op("ArgMax", reaches, axis=1, keepdims=1)
    return predictions(steps, steps.op("GatherElements", values, first, axis=1), 1, True)


COMPOSITES: Mapping[str, Callable[[Steps, Any, Table], Fitted]] = {
    "VotingClassifier": _voting_classifier, "VotingRegressor": _voting_regressor,
    "StackingClassifier": _stacking, "StackingRegressor": _stacking,
    "CalibratedClassifierCV": _calibrated, "OneVsRestClassifier": _one_against_rest,
    "OneVsOneClassifier": _one_against_one, "TransformedTargetRegressor": _of_target,
    "MultiOutputRegressor": _each_target, "RegressorChain": _chained_targets, "AdaBoostRegressor": _weighted_median,
}  # fmt: skip

_OF_TABLES = (COMPOSITES, GAUSSIANS, COUNTED, NEIGHBOURS, PROCESSES)
_OF_VALUES = (ESTIMATORS, KERNELS)
"""Estimators beside trees, by what their functions take."""
