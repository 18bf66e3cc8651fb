"""scikit-learn's pipelines, linear models, networks and transformers, and trees at the end of pipelines.

Answers are the probabilities of classifiers that have them, decision functions of others, predictions of regressors,
and the columns that transformers make.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees import boosters, scikit, skops_file
from from_trees.categories import Column, frame
from from_trees.fitted import Fitted
from from_trees.steps import Computed, Steps, Table
from from_trees.transformers import ONNX, SELECTORS, TRANSFORMERS, fault, is_known, transformed
from messages.requests import ModelFault, one_line
from messages.sources import INPUT, TreesCall

if TYPE_CHECKING:
    from framework_types import Array

TAKES = frozenset({"categories"})
"""What a call of scikit-learn chooses beside the file: values of categories, because its models encode them."""


def fitted_of(path: str, call: TreesCall) -> Fitted:
    """The model in the file as data."""
    return read_model(skops_file.load(path), call)


def read_model(model: Any, call: TreesCall) -> Fitted:
    """The estimator as data, with x of the type that `call` asks for.

    Raises ModelFault, which names what is not supported.
    """
    if call.categories == "codes":
        raise ModelFault(
            "trees.categories is codes, and scikit-learn's models take values and encode them", "set it to values"
        )
    try:
        if is_known(model, scikit.READERS):
            return scikit.read_trees(model, call.dtype)
        return _read(model, call.dtype or "float64")
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError) as error:
        why = one_line(error)
        raise ModelFault(f"the {type(model).__name__} is damaged, or was not fitted: {why}", skops_file.DUMP) from error


class Answers:
    """scikit-learn's own answers (reading.py)."""

    def __init__(self, path: str, call: TreesCall) -> None:
        import sklearn

        self._model = skops_file.load(path)
        # Nothing is predicted before all numbers of the trees are checked.
        self._read = read_model(self._model, call)
        self.dtype = self._read.input
        self.version, self.rejections = sklearn.__version__, (ValueError,)
        before = self._read.before
        self.is_continuous = before is not None and (before.steps.is_rounded or self._read.forest is None)
        self.compared = () if before is None else tuple(sorted(before.steps.compared))

    def run(self, x: Array) -> Array:
        """[batch, classes], or [batch], or [batch, columns]."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _answers(self._model, self._asked(np.asarray(x))).astype(self._read.dtype, copy=False)

    def _asked(self, x: Array) -> Any:
        """`x` as the author's own call has it: pipelines compute in float64, and may choose columns by their names."""
        read = self._read
        if read.before is None:
            return frame(x, read.columns, read.features) if any(each.is_text for each in read.columns) else x
        x, texts = x.astype(np.float64), [each for each in read.columns if each.is_text]
        if not (texts or read.features):
            return x
        made = frame(x, texts, read.features)
        for each in texts:
            values = made.iloc[:, each.place].astype(object)
            missing = None if each.place in read.before.steps.nones else np.nan
            made.isetitem(each.place, values.where(values.notna(), missing))
        return made if read.features else made.to_numpy()


def _answers(model: Any, x: Any) -> Array:
    if hasattr(model, "classes_"):
        call = model.predict_proba if hasattr(model, "predict_proba") else model.decision_function
    else:
        call = model.predict if hasattr(model, "predict") else model.transform
    found = call(x)
    answers: Array = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    return answers


# -- whole models ------------------------------------------------------------------------------------------------


def _read(model: Any, dtype: str) -> Fitted:
    import sklearn

    before, last = _unrolled(model)
    _require_known(last, is_alone=not before)
    # Pipelines take their first step's columns, which "passthrough" does not know.
    chosen = [each for each in (*before, last) if not (each is None or isinstance(each, str))]
    first = chosen[0]
    steps = Steps(int(first.n_features_in_), dtype)
    table = steps.start()
    for part in before:
        table = transformed(steps, part, table)
    made = _ended(steps, last, table)
    names = tuple(str(each) for each in getattr(first, "feature_names_in_", ()))
    ours = [each for each in chosen if not boosters.is_booster(each)]
    kinds = ", ".join(dict.fromkeys(type(each).__name__ for each in ours))
    origin = [f"{kinds} of scikit-learn {sklearn.__version__}"] if ours else []
    return replace(
        made,
        origin=", ".join([*origin, *([made.origin] if boosters.is_booster(last) else [])]),
        features=names,
        input=dtype,
        columns=_columns(steps, names, dtype),
    )


def _unrolled(model: Any) -> tuple[list[Any], Any]:
    """The transformers before the last step, and this, also of pipelines that end in pipelines."""
    before: list[Any] = []
    while is_known(model, frozenset(("Pipeline",))):
        before += [part for _, part in model.steps[:-1]]
        model = model.steps[-1][1]
    return before, model


def _require_known(last: Any, *, is_alone: bool) -> None:
    if last is None or isinstance(last, str) or any(is_known(last, each) for each in (TRANSFORMERS, SELECTORS)):
        return
    if not (_has_trees(last) or is_known(last, ESTIMATORS)):
        supported = ", ".join(sorted([*ESTIMATORS, *scikit.READERS, *(name for _, name in boosters.CLASSES)]))
        where = "" if is_alone else " at the end of a pipeline"
        raise ModelFault(
            f"{type(last).__module__}.{type(last).__name__} is not supported{where}",
            f"supported estimators: {supported}; others: {ONNX}",
        )


def _has_trees(model: Any) -> bool:
    return is_known(model, scikit.READERS) or boosters.is_booster(model)


def _columns(steps: Steps, names: Sequence[str], dtype: str) -> tuple[Column, ...]:
    found = tuple(replace(each, name=names[place] if names else "") for place, each in sorted(steps.columns.items()))
    for each in found:
        if not each.is_text and (each.numbers(dtype) != [float(value) for value in each.values]).any():
            raise ModelFault(
                f"the categories of the column {each.name or each.place} are no {dtype} numbers",
                "set `trees: {dtype: float64}` in the spec",
            )
    return found


def _ended(steps: Steps, last: Any, table: Table) -> Fitted:
    if _has_trees(last):
        return _with_trees(steps, last, table)
    if is_known(last, ESTIMATORS):
        return ESTIMATORS[type(last).__name__](steps, last, table.value)
    table = transformed(steps, last, table)
    _require_numbers(table)
    value = steps.op("Identity", INPUT) if table.value == INPUT else table.value
    return _result(steps, value, "columns", table.width)


def _require_numbers(table: Table) -> None:
    if any(each is not None for each in table.texts):
        raise ModelFault("a SimpleImputer of texts has no encoder behind it", "add OneHotEncoder or OrdinalEncoder")


def _with_trees(steps: Steps, last: Any, table: Table) -> Fitted:
    made = boosters.read_booster(last) if boosters.is_booster(last) else scikit.read_trees(last, "")
    if made.trees.features != table.width:
        raise ValueError(f"trees of {made.trees.features} columns behind {table.width}")
    for each in made.columns:
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
    return replace(made, before=Computed(steps=steps, result=value, width=table.width), columns=())


def _result(
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


# -- estimators --------------------------------------------------------------------------------------------------


def _regressor(steps: Steps, model: Any, value: str) -> Fitted:
    weights = np.asarray(model.coef_, np.float64)
    outputs = np.atleast_2d(weights)
    return _predictions(steps, _linear(steps, value, outputs, model.intercept_), len(outputs), weights.ndim == 1)


def _log_regressor(steps: Steps, model: Any, value: str) -> Fitted:
    weights = np.atleast_2d(np.asarray(model.coef_, np.float64))
    return _predictions(steps, steps.op("Exp", _linear(steps, value, weights, model.intercept_)), len(weights), True)


def _linear(steps: Steps, value: str, weights: Array, intercept: Any) -> str:
    return steps.affine(value, weights.T, np.broadcast_to(np.reshape(intercept, -1), len(weights)))


def _predictions(steps: Steps, value: str, outputs: int, is_flat: bool) -> Fitted:
    return _result(steps, value, "predictions", outputs, is_flat=is_flat)


def _decision(steps: Steps, model: Any, value: str) -> str:
    """The decision function, [batch, 1] of two classes, [batch, classes] of more."""
    weights = np.atleast_2d(np.asarray(model.coef_, np.float64))
    count = len(model.classes_)
    if weights.ndim != 2 or len(weights) != (1 if count == 2 else count) or np.ndim(model.classes_[0]):
        raise fault(model, "of several labels is not supported")
    return _linear(steps, value, weights, model.intercept_)


def _scores(steps: Steps, model: Any, value: str) -> Fitted:
    """A classifier without probabilities."""
    count, decision = len(model.classes_), _decision(steps, model, value)
    names = _names(model)
    if count == 2:
        return _result(steps, decision, "scores", 1, is_flat=True, classes=names)
    return _result(steps, decision, "scores", count, classes=names)


def _names(model: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in model.classes_)


def _probabilities(steps: Steps, model: Any, value: str) -> Fitted:
    return _result(steps, value, "probabilities", len(model.classes_), classes=_names(model))


def _of_two(steps: Steps, decision: str) -> str:
    second = steps.op("Sigmoid", decision)
    return steps.op("Concat", steps.op("Sub", 1.0, second), second, axis=1)


def _logistic(steps: Steps, model: Any, value: str) -> Fitted:
    decision = _decision(steps, model, value)
    is_pair = len(model.classes_) == 2
    made = _of_two(steps, decision) if is_pair else steps.op("Softmax", decision, axis=1)
    return _probabilities(steps, model, made)


def _gradient_descent(steps: Steps, model: Any, value: str) -> Fitted:
    if model.loss == "modified_huber":
        raise fault(model, "of the loss modified_huber is not supported")
    if model.loss != "log_loss":
        return _scores(steps, model, value)
    decision = _decision(steps, model, value)
    if len(model.classes_) == 2:
        return _probabilities(steps, model, _of_two(steps, decision))
    each = steps.op("Sigmoid", decision)
    # If no class has a probability, all have the same.
    each = steps.op("Where", steps.op("Equal", steps.row_sum(each), 0.0), 1.0, each)
    return _probabilities(steps, model, steps.op("Div", each, steps.row_sum(each)))


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
    return _predictions(steps, value, int(model.n_outputs_), model.n_outputs_ == 1)


def _network_classifier(steps: Steps, model: Any, value: str) -> Fitted:
    value, count = _layers(steps, model, value), len(model.classes_)
    if model.out_activation_ == "softmax" and model.n_outputs_ == count:
        return _probabilities(steps, model, steps.op("Softmax", value, axis=1))
    if model.out_activation_ != "logistic" or count != 2 or model.n_outputs_ != 1:
        raise fault(model, "of several labels is not supported")
    return _probabilities(steps, model, _of_two(steps, value))


_Estimator = Callable[[Steps, Any, str], Fitted]
_REGRESSORS = """
LinearRegression Ridge RidgeCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC Lars LarsCV ElasticNet ElasticNetCV
BayesianRidge ARDRegression HuberRegressor SGDRegressor TheilSenRegressor QuantileRegressor OrthogonalMatchingPursuit
MultiTaskLasso MultiTaskElasticNet LinearSVR
""".split()
ESTIMATORS: Mapping[str, _Estimator] = {
    **dict.fromkeys(_REGRESSORS, _regressor),
    **dict.fromkeys(("PoissonRegressor", "GammaRegressor"), _log_regressor),
    **dict.fromkeys(("LogisticRegression", "LogisticRegressionCV", "LinearDiscriminantAnalysis"), _logistic),
    **dict.fromkeys(("LinearSVC", "RidgeClassifier", "RidgeClassifierCV", "Perceptron"), _scores),
    "SGDClassifier": _gradient_descent,
    "MLPClassifier": _network_classifier,
    "MLPRegressor": _network_regressor,
}
"""Estimators beside trees (scikit.py), by the names of their classes."""
