"""Trees and other estimators as skl2onnx, onnxmltools and CatBoost export them, with rows beside them.

python exported_trees.py FOLDER     writes NAME.onnx, and NAME.npz with its input

Beside rows like those of the training there are rows of other numbers, and NaN for models that saw NaN.
"""

import os
import sys

import catboost
import lightgbm
import numpy as np
import onnx
import xgboost
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn import calibration, compose, ensemble, impute, linear_model, multiclass, multioutput, pipeline, tree
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, StandardScaler

_RANDOM = np.random.default_rng(0)
_WIDTH = 6
_X = np.round(_RANDOM.normal(size=(300, _WIDTH)), 3).astype(np.float32)
_ROWS = np.concatenate([_X[:40], 3 * _RANDOM.normal(size=(40, _WIDTH)).astype(np.float32)])
_SCORE = _X[:, 0] - _X[:, 1] * _X[:, 2] + 0.3 * _RANDOM.normal(size=len(_X))
_TWO, _THREE = (_SCORE > 0).astype(np.int64), np.digitize(_SCORE, [-0.6, 0.6])
_PAIR = np.stack([_THREE, np.digitize(_X[:, 4], [-0.5, 0.5])], 1)
_TEXTS = np.array(["background", "signal", "other"])
_SETS = {"ai.onnx.ml": 3, "": 18}


def forest():
    return ensemble.RandomForestClassifier(8, max_depth=5, random_state=0)


def boosting():
    return ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0)


def adaboost():
    return ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=3, random_state=0), n_estimators=8)


CLASSIFIERS = {
    "tree": lambda: tree.DecisionTreeClassifier(max_depth=5, random_state=0),
    "forest": forest,
    "extra": lambda: ensemble.ExtraTreesClassifier(8, max_depth=5, random_state=0),
    "boosting": boosting,
    "adaboost": adaboost,
    "bagging": lambda: ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=4), 6, max_features=0.5),
    "stacked": lambda: ensemble.StackingClassifier([("a", forest()), ("b", linear_model.LogisticRegression())]),
    "calibrated": lambda: calibration.CalibratedClassifierCV(forest(), cv=2, method="isotonic"),
    "one_against_rest": lambda: multiclass.OneVsRestClassifier(boosting()),
    "imputed": lambda: pipeline.make_pipeline(impute.SimpleImputer(), MinMaxScaler(), boosting()),
    "columns": lambda: pipeline.make_pipeline(
        compose.ColumnTransformer([("scaled", StandardScaler(), [0, 1, 2]), ("kept", "passthrough", [4, 5])]), forest()
    ),
}
REGRESSORS = {
    "forest": lambda: ensemble.RandomForestRegressor(8, max_depth=5, random_state=0),
    "boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0),
    "adaboost": lambda: ensemble.AdaBoostRegressor(n_estimators=6, random_state=0),
    "mean": lambda: ensemble.VotingRegressor(
        [("a", tree.DecisionTreeRegressor(max_depth=4)), ("b", linear_model.LinearRegression())]
    ),
}


def exported(model, wanted, *, dtype=np.float32, **options):
    """A model of scikit-learn, trained and exported, and rows for it."""
    x = _X if dtype != np.int64 else np.round(4 * _X)
    rows = _ROWS if dtype != np.int64 else np.round(4 * _ROWS)
    model.fit(x.astype(dtype), wanted) if wanted is not None else model.fit(x.astype(dtype))
    given = {id(model): options} if options else None
    return to_onnx(model, x[:1].astype(dtype), options=given, target_opset=_SETS), rows.astype(dtype)


def of_scikit():
    for name, make in CLASSIFIERS.items():
        yield f"{name}_of_two", exported(make(), _TWO)
        yield f"{name}_of_three", exported(make(), _THREE)
    for name, make in REGRESSORS.items():
        yield f"{name}_of_numbers", exported(make(), _SCORE)
    for name, make in (("forest", forest), ("boosting", boosting), ("adaboost", adaboost)):
        yield f"{name}_of_texts", exported(make(), _TEXTS[_THREE])
        yield f"{name}_without_maps", exported(make(), _THREE, zipmap=False)
        yield f"{name}_by_columns", exported(make(), _THREE, zipmap="columns")
        yield f"{name}_of_integers", exported(make(), _THREE, dtype=np.int64)
    yield "forest_of_doubles", exported(forest(), _THREE, dtype=np.float64)
    yield "raw_scores", exported(boosting(), _TWO, raw_scores=True)
    # The number of a leaf stands three times in the list of the values of its tree, once for each class.
    yield "leaves", exported(forest(), _THREE, decision_leaf=True, zipmap=False)
    yield "forest_of_pairs", exported(forest(), _PAIR)
    yield "forests_of_pairs", exported(multioutput.MultiOutputClassifier(forest()), _PAIR)
    yield "boostings_of_pairs", exported(multioutput.MultiOutputClassifier(boosting()), _PAIR, zipmap=False)
    yield "isolation", exported(ensemble.IsolationForest(n_estimators=8, random_state=0), None)


def of_boosters():
    inputs = [("input", FloatTensorType([None, _WIDTH]))]
    missing = [np.where(_RANDOM.random(each.shape) < 0.1, np.float32(np.nan), each) for each in (_X, _ROWS)]
    for kind, (x, rows) in {"": (_X, _ROWS), "_with_gaps": missing}.items():
        for name, wanted in (("two", _TWO), ("three", _THREE), ("numbers", _SCORE)):
            of = "Regressor" if name == "numbers" else "Classifier"
            model = getattr(xgboost, f"XGB{of}")(n_estimators=10, max_depth=4).fit(x, wanted)
            yield f"xgboost_of_{name}{kind}", (convert_xgboost(model, initial_types=inputs), rows)
            model = getattr(lightgbm, f"LGBM{of}")(n_estimators=10, verbose=-1).fit(x, wanted)
            yield f"lightgbm_of_{name}{kind}", (convert_lightgbm(model, initial_types=inputs), rows)
        model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1).fit(x, _SCORE)
        yield f"lightgbm_divided{kind}", (convert_lightgbm(model, initial_types=inputs, split=10), rows)


def of_catboost(folder):
    settings = {"iterations": 10, "depth": 4, "verbose": False, "allow_writing_files": False}
    for name, wanted in (("two", _TWO), ("three", _THREE), ("texts", _TEXTS[_TWO]), ("numbers", _SCORE)):
        kind = catboost.CatBoostRegressor if name == "numbers" else catboost.CatBoostClassifier
        path = os.path.join(folder, "catboost.tmp")
        kind(**settings).fit(_X, wanted).save_model(path, format="onnx")
        yield f"catboost_of_{name}", (onnx.load(path), _ROWS)
        os.remove(path)


def main():
    (folder,) = sys.argv[1:]
    # Bins are thresholds that the rows meet exactly.
    binned = pipeline.make_pipeline(KBinsDiscretizer(4, encode="ordinal", random_state=0), forest())
    files = {**dict(of_scikit()), **dict(of_boosters()), **dict(of_catboost(folder)), "binned": exported(binned, _TWO)}
    for name, (model, rows) in files.items():
        onnx.save(model, os.path.join(folder, f"{name}.onnx"))
        initialized = {each.name for each in model.graph.initializer}
        (given,) = (each.name for each in model.graph.input if each.name not in initialized)
        np.savez(os.path.join(folder, f"{name}.npz"), **{given: rows})


main()
