"""Files of skops: only types on its own list and those of TRUSTED are created.

skops leaves trees off its list because scikit-learn follows their indices without checks: scikit.py checks them. It
would create boosters of any bytes: stored.py checks these first.
"""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from typing import Any

from from_trees.boosters import CLASSES
from from_trees.classes import ONNX
from from_trees.processes import KERNELS as PROCESS_KERNELS
from messages.requests import ModelFault, one_line

TRUSTED = (
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    # The encoder of HistGradientBoosting's categories has a partial of check_array; skops must be told to trust both.
    "functools.partial",
    "sklearn.utils.validation.check_array",
    # What fitted transformers and networks keep beside their numbers; predictions use none of them.
    "numpy.dtype",
    "numpy.number",
    "builtins.object",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "sklearn._loss.loss.HalfTweedieLoss",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    # What estimators of estimators keep: names, and two numbers.
    "sklearn.utils._bunch.Bunch",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    # Kernels of Gaussian processes: numbers, and other kernels.
    *(f"sklearn.gaussian_process.kernels.{name}" for name in PROCESS_KERNELS),
    # What imputers and splines keep; splines.py checks their numbers before SciPy sees them.
    "sklearn.impute._iterative.IterativeImputer",
    "sklearn.impute._iterative._ImputerTriplet",
    "scipy.interpolate._bsplines.BSpline",
    "scipy._lib.array_api_compat.numpy._aliases.asarray",
    # What a search keeps beside its best estimator.
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    # Classes of boosters hold settings. Their boosters are created of checked content alone: see _STORED.
    *(f"{module}.{name}" for module, name in sorted(CLASSES)),
    "from_trees.stored.XGBoost",
    "from_trees.stored.LightGBM",
    "collections.OrderedDict",
)
_STORED = {("xgboost.core", "Booster"): "XGBoost", ("lightgbm.basic", "Booster"): "LightGBM"}
"""Classes of a file -> those of stored.py that are created in place of them."""

_LEFT_OUT = frozenset((("sklearn.neighbors._kd_tree", "KDTree"), ("sklearn.neighbors._ball_tree", "BallTree")))
"""Classes of a file that become None: scikit-learn follows them without checks, and neighbours.py makes others."""
_SEARCH = 'of a search, write its best model: skops.io.dump(search.best_estimator_, "model.skops")'
_CATBOOST = 'of CatBoost, transform the columns first, and write its model: save_model("model.onnx", format="onnx")'
DUMP = 'write it again with scikit-learn: skops.io.dump(model, "model.skops")'


def load(path: str) -> Any:
    """The estimator in the file. Raises ModelFault if the file is not of skops, or contains other types."""
    from skops import io as skops
    from skops.io.exceptions import UnsupportedTypeException

    name = os.path.basename(path)
    if not zipfile.is_zipfile(path):
        raise ModelFault(f"{name} is not a file of skops", f"pickles and joblib files are programs: {DUMP}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open(path, "rb") as file:
                content = _with_stored(file.read())
            others = sorted({*skops.get_untrusted_types(data=content)} - {*TRUSTED})
            if not others:
                return skops.loads(content, trusted=list(TRUSTED))
    except (UnsupportedTypeException, zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, ImportError,
            IndexError, OSError, EOFError, RecursionError) as error:  # fmt: skip
        raise ModelFault(
            f"{name} is damaged, or of another version of scikit-learn: {one_line(error)}", DUMP
        ) from error
    ways = (("catboost.", _CATBOOST), ("sklearn.model_selection.", _SEARCH), ("sklearn.metrics._scorer.", _SEARCH))
    found = (way for start, way in ways if any(each.startswith(start) for each in others))
    way_out = next(found, f"others: {ONNX}")
    raise ModelFault(
        f"{name} has types that are not supported: {', '.join(others)[:200]}",
        f"supported are classes of scikit-learn, XGBoost and LightGBM; {way_out}",
    )


def _with_stored(content: bytes) -> bytes:
    """The file with classes of stored.py for boosters, and without trees of neighbours."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        schema = json.loads(file.read("schema.json"))
    if not _replaced(schema):
        return content
    made = io.BytesIO(content)
    # The last file of a name counts: nothing else is copied.
    with zipfile.ZipFile(made, "a") as file:
        file.writestr("schema.json", json.dumps(schema))
    return made.getvalue()


def _replaced(node: Any) -> int:
    """The number of objects that are replaced in `node` of a schema, which is changed."""
    if isinstance(node, list):
        return sum(map(_replaced, node))
    if not isinstance(node, dict):
        return 0
    found = sum(map(_replaced, node.values()))
    names = node.get("__module__"), node.get("__class__")
    if node.get("__loader__") != "ObjectNode" or names not in {*_STORED, *_LEFT_OUT}:
        return found
    if names in _LEFT_OUT:
        node.update(__module__="builtins", __class__="str", __loader__="JsonNode", content="null", is_json=True)
        return found + 1
    node.update(__module__="from_trees.stored", __class__=_STORED[names])
    return found + 1
