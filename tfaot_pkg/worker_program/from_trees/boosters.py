"""Boosters by their classes for scikit-learn, which skops files have: alone, or at the end of pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from from_trees import from_lightgbm, from_xgboost
from from_trees.fitted import Fitted
from messages.requests import ModelFault
from messages.sources import TreesCall


def is_booster(model: Any) -> bool:
    return (type(model).__module__, type(model).__name__) in CLASSES


CLASSES = frozenset(
    (f"{library}.sklearn", name)
    for library, names in {
        "xgboost": "XGBClassifier XGBRegressor XGBRFClassifier XGBRFRegressor XGBRanker",
        "lightgbm": "LGBMClassifier LGBMRegressor LGBMRanker",
    }.items()
    for name in names.split()
)
"""Modules and names of classes that are read."""


def read_booster(model: Any) -> Fitted:
    """The booster with the answers of the class: `predict_proba` of classifiers, `predict` of others.

    Raises ModelFault, and errors of Python if it is damaged or was not fitted.
    """
    made = _READERS[type(model).__module__](model)
    if made.columns:
        raise ModelFault(
            f"{type(model).__name__} that was trained on a data frame with columns of categories is not supported "
            "in skops files",
            "encode them as numbers in the pipeline, or write the booster with its own save_model",
        )
    made = replace(made, margin="", coded=(), notes=(), library="scikit-learn", iterations=(0, 0))
    return _classifier(model, made) if hasattr(model, "classes_") else _others(model, made)


def _classifier(model: Any, made: Fitted) -> Fitted:
    classes, links = tuple(str(each) for each in model.classes_), made.links
    if links[-1:] == (("largest", 1.0),):  # labels: predict_proba takes the softmax of the sums
        made, links = replace(made, output="probabilities"), (("softmax", 1.0),)
    elif links[-1:] == (("sigmoid", 1.0),) and made.outputs == 1:
        links = (*links[:-1], ("sigmoid of second", 1.0))
    if made.output != "probabilities" or len(classes) != max(made.outputs, 2):
        raise ModelFault(
            f"{type(model).__name__} whose results are no probabilities of its classes is not supported",
            "train with the default objective, or write the booster with its own save_model",
        )
    return replace(made, links=links, classes=classes)


def _others(model: Any, made: Fitted) -> Fitted:
    if made.output == "label":
        raise ModelFault(f"{type(model).__name__} whose results are labels is not supported", "train a classifier")
    return replace(made, output="predictions", is_flat=made.outputs == 1)


def _xgboost(model: Any) -> Fitted:
    booster = model.get_booster()
    # As XGBModel.predict.
    iterations = "best" if booster.attr("best_iteration") is not None else "all"
    missing = repr(float(model.missing))
    return from_xgboost.fitted_of_booster(booster, TreesCall(iterations=iterations, missing=missing))


def _lightgbm(model: Any) -> Fitted:
    booster = model.booster_
    # As Booster.predict, which the class calls.
    iterations = str(booster.best_iteration) if booster.best_iteration > 0 else "all"
    text = booster.model_to_string(num_iteration=-1)
    return from_lightgbm.fitted_of_text(text, TreesCall(iterations=iterations))


_READERS: Mapping[str, Callable[[Any], Fitted]] = {"xgboost.sklearn": _xgboost, "lightgbm.sklearn": _lightgbm}
