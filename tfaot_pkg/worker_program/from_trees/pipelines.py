"""scikit-learn's models in files of skops, whole: alone, or as pipelines.

Answers are the probabilities of classifiers that have them, decision functions or positions of classes of others,
predictions of regressors, and the columns that transformers make.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees import boosters, scikit, skops_file
from from_trees.categories import Column, frame
from from_trees.classes import is_known
from from_trees.composites import ended, require_known, unrolled
from from_trees.fitted import Fitted
from from_trees.steps import Steps
from from_trees.transformers import transformed
from messages.requests import ModelFault, one_line
from messages.sources import TreesCall

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
    has_labels = hasattr(model, "classes_") and hasattr(model, "predict")
    names = ("predict_proba", "decision_function", *(() if has_labels else ("predict", "transform")))
    call = next((getattr(model, each) for each in names if hasattr(model, each)), None)
    # Classifiers without scores: positions of their labels, which may be texts.
    found = np.searchsorted(model.classes_, model.predict(x)) if call is None else call(x)
    answers: Array = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    return answers


# -- whole models ------------------------------------------------------------------------------------------------


def _read(model: Any, dtype: str) -> Fitted:
    import sklearn

    before, last = unrolled(model)
    require_known(last, is_alone=not before)
    # Pipelines take their first step's columns, which "passthrough" does not know.
    chosen = [each for each in (*before, last) if not (each is None or isinstance(each, str))]
    first = chosen[0]
    steps = Steps(int(first.n_features_in_), dtype)
    table = steps.start()
    for part in before:
        table = transformed(steps, part, table)
    made = ended(steps, last, table)
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


def _columns(steps: Steps, names: Sequence[str], dtype: str) -> tuple[Column, ...]:
    found = tuple(replace(each, name=names[place] if names else "") for place, each in sorted(steps.columns.items()))
    for each in found:
        if not each.is_text and (each.numbers(dtype) != [float(value) for value in each.values]).any():
            raise ModelFault(
                f"the categories of the column {each.name or each.place} are no {dtype} numbers",
                "set `trees: {dtype: float64}` in the spec",
            )
    return found
