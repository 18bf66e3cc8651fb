"""scikit-learn's naive Bayes classifiers of counts, of truths and of categories, as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.categories import Column
from from_trees.estimators import probabilities
from from_trees.fitted import Fitted
from from_trees.gaussians import posterior
from from_trees.lookups import lookup
from from_trees.steps import Steps, Table, numbers_of

if TYPE_CHECKING:
    from framework_types import Array

_MOST_CATEGORIES = 1 << 16


def _logarithms(model: Any, table: Table) -> tuple[Array, Array]:
    """Of the probabilities of columns, [classes, width], and of classes."""
    count = len(model.classes_)
    return numbers_of(model, "feature_log_prob_", count, table.width), numbers_of(model, "class_log_prior_", count)


def _of_counts(steps: Steps, model: Any, table: Table) -> Fitted:
    """MultinomialNB."""
    weights, prior = _logarithms(model, table)
    steps.expect(table, 2.0, 0.5)
    return probabilities(steps, model, posterior(steps, steps.affine(table.value, weights.T, prior)))


def _of_complements(steps: Steps, model: Any, table: Table) -> Fitted:
    weights, prior = _logarithms(model, table)
    steps.expect(table, 2.0, 0.5)
    bias = prior if len(prior) == 1 else np.zeros(len(prior))
    return probabilities(steps, model, posterior(steps, steps.affine(table.value, weights.T, bias)))


def _of_truths(steps: Steps, model: Any, table: Table) -> Fitted:
    """BernoulliNB."""
    weights, prior = _logarithms(model, table)
    value = table.value
    if model.binarize is not None:
        steps.expect(table, float(model.binarize), 1.0)
        value = steps.numbers(steps.op("Greater", value, float(model.binarize)))
    others = np.log(1 - np.exp(weights))
    value = steps.affine(value, (weights - others).T, prior + others.sum(1))
    return probabilities(steps, model, posterior(steps, value))


def _of_categories(steps: Steps, model: Any, table: Table) -> Fitted:
    """CategoricalNB, whose x are codes: numbers are cut off."""
    count = len(model.classes_)
    total = numbers_of(model, "class_log_prior_", count)[None]
    value = ""
    for place in range(table.width):
        found = np.asarray(model.feature_log_prob_[place], np.float64)
        if found.ndim != 2 or len(found) != count or not 0 < found.shape[1] <= _MOST_CATEGORIES:
            raise ValueError("feature_log_prob_ does not fit the classes")
        codes = np.arange(found.shape[1], dtype=np.float64)
        source = table.sources[place]
        if source is not None:
            column = Column(place=source, name="", values=tuple(codes.tolist()), is_closed=True)
            steps.columns.setdefault(source, column)
            steps.compared.add(source)
        # Numbers below the first code count as it, those behind the last one as that.
        rows = np.concatenate([found.T[:1], np.repeat(found.T, 2, axis=0)])
        part = lookup(steps, table, place, codes, rows)
        value = steps.op("Add", value, part) if value else part
    return probabilities(steps, model, posterior(steps, steps.op("Add", value, total)))


COUNTED: Mapping[str, Callable[[Steps, Any, Table], Fitted]] = {
    "MultinomialNB": _of_counts, "ComplementNB": _of_complements, "BernoulliNB": _of_truths,
    "CategoricalNB": _of_categories,
}  # fmt: skip
