"""Models of XGBoost and LightGBM, trained and compared with their libraries; and damaged ones.

    FRONTEND/bin/python boosted_files.py WORKER_PROGRAM FOLDER

results.json: {"off": {name: rows whose sums differ}, "refused": {name: why}}.
"""

import json
import os
import sys
import warnings

import numpy as np

FOLDER = sys.argv[2]
sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")

import lightgbm  # noqa: E402
import xgboost  # noqa: E402
from from_trees import from_lightgbm, from_xgboost, reading  # noqa: E402
from messages.forest import margins  # noqa: E402
from messages.requests import ModelFault  # noqa: E402
from messages.sources import TreesCall  # noqa: E402

rng = np.random.default_rng(0)
ROWS = 400
X = rng.normal(size=(ROWS, 6)).astype(np.float32)
X[rng.random(X.shape) < 0.1] = np.nan
WITH_CATEGORIES = np.hstack([X, rng.integers(0, 300, (ROWS, 1)).astype(np.float32)])
Y = np.nan_to_num(X[:, 0]) + 0.5 * (np.nan_to_num(X[:, 1]) > 0) + (WITH_CATEGORIES[:, -1] % 7 == 0)
TWO, THREE, POSITIVE = (Y > 0.3).astype(int), np.digitize(Y, [-0.3, 0.5]), np.abs(Y) + 0.1

_SOFT = {"objective": "multi:softprob", "num_class": 3}
XGBOOST = {
    "squared error": ({}, X, Y),
    "logistic": ({"objective": "binary:logistic"}, X, TWO),
    "logistic from 0.5": ({"objective": "binary:logistic", "base_score": 0.5}, X, TWO),
    "three classes": (_SOFT, X, THREE),
    "dart": ({"booster": "dart", "rate_drop": 0.4, "objective": "binary:logistic"}, X, TWO),
    "dart, three classes": ({"booster": "dart", "rate_drop": 0.4, **_SOFT}, X, THREE),
    "poisson": ({"objective": "count:poisson"}, X, POSITIVE),
    "cox": ({"objective": "survival:cox"}, X, POSITIVE),
    "quantiles": ({"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]}, X, Y),
    "hinge": ({"objective": "binary:hinge"}, X, TWO),
    "two targets": ({}, X, np.stack([Y, -Y], 1)),
    "categories": ({"max_cat_to_onehot": 4, "max_cat_threshold": 200}, WITH_CATEGORIES, Y),
    "one of the categories": ({"max_cat_to_onehot": 400}, WITH_CATEGORIES, Y),
    "random forest": ({"num_parallel_tree": 10, "subsample": 0.5}, X, Y),
    "deep": ({"max_depth": 20, "min_child_weight": 0, "grow_policy": "lossguide", "max_leaves": 300}, X, Y),
    "one leaf": ({"gamma": 1e9}, X, Y),
}
LIGHTGBM = {
    "regression": ({}, X, Y),
    "nothing missing": ({}, np.nan_to_num(X), Y),
    "NaN for 0": ({"use_missing": False}, X, Y),
    "0 is missing": ({"zero_as_missing": True}, np.nan_to_num(X) * (rng.random(X.shape) > 0.3), Y),
    "binary": ({"objective": "binary", "sigmoid": 2.0}, X, TWO),
    "three classes": ({"objective": "multiclass", "num_class": 3}, X, THREE),
    "one against all": ({"objective": "multiclassova", "num_class": 3}, X, THREE),
    "categories": ({"min_data_per_group": 1, "cat_smooth": 0, "max_cat_threshold": 100}, WITH_CATEGORIES, Y),
    "random forest": ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, X, Y),
    "poisson": ({"objective": "poisson"}, X, POSITIVE),
    "cross entropy": ({"objective": "cross_entropy"}, X, TWO),
    "square roots": ({"reg_sqrt": True}, X, Y),
    "one leaf": ({"min_data_in_leaf": 5000}, X, Y),
}


def main() -> None:
    off, refused = {}, {}
    for name, (parameters, x, y) in XGBOOST.items():
        for path in xgboost_files(name, parameters, x, y):
            off[os.path.basename(path)] = differing(path, from_xgboost, x)
    for name, (parameters, x, y) in LIGHTGBM.items():
        path = os.path.join(FOLDER, f"{name}.lightgbm.txt")
        categories = [x.shape[1] - 1] if x is WITH_CATEGORIES else []
        data = lightgbm.Dataset(x.astype(np.float64), y, categorical_feature=categories)
        lightgbm.train({"verbose": -1, "num_threads": 1, **parameters}, data, 6).save_model(path)
        off[os.path.basename(path)] = differing(path, from_lightgbm, x)
    for name, content in damaged():
        path = os.path.join(FOLDER, name)
        with open(path, "wb") as file:
            file.write(content)
        try:
            reading.model_of(path, TreesCall())
            refused[name] = ""
        except ModelFault as fault:
            refused[name] = fault.message
    with open(os.path.join(FOLDER, "results.json"), "w", encoding="utf-8") as file:
        json.dump({"off": off, "refused": refused}, file)


def xgboost_files(name: str, parameters: dict, x: np.ndarray, y: np.ndarray) -> list:
    types = ["q"] * (x.shape[1] - 1) + ["c"] if x is WITH_CATEGORIES else None
    data = xgboost.DMatrix(x, y, feature_types=types, enable_categorical=True)
    booster = xgboost.train({"nthread": 1, "max_depth": 4, **parameters}, data, 6)
    paths = [os.path.join(FOLDER, f"{name}.{kind}") for kind in ("json", "ubj")]
    for path in paths:
        booster.save_model(path)
    return paths


def differing(path: str, module, x: np.ndarray) -> int:
    """How many rows have other sums than the library's, among them rows around every threshold."""
    made = module.fitted_of(path, TreesCall())
    # LightGBM compares doubles, XGBoost floats.
    dtype = np.dtype(made.input)
    thresholds = made.forest.threshold.astype(dtype)
    special = [0, -0.0, 1e-35, -1e-35, 1e-40, -1e-40, np.nan, np.inf, -np.inf, -0.5, 299, 300, 1e9, 3.4e38]
    near = [np.nextafter(thresholds, dtype.type(end)) for end in (-np.inf, np.inf)]
    pool = np.concatenate([thresholds, thresholds.astype(np.float32), *near, special]).astype(dtype)
    tried = np.vstack([x, x[:50] * 1e30, rng.choice(pool, (400, x.shape[1]))]).astype(dtype)
    right = module.Answers(path, TreesCall()).run(tried)[made.margin or made.output]
    sums = margins(made.forest, tried)
    if not made.margin and made.links:  # a forest's average
        sums = sums / made.links[0][1]
    return int((sums != right).any(1).sum())


def damaged() -> list:
    """(name, content) of files that lead nowhere."""
    with open(os.path.join(FOLDER, "logistic.json"), "rb") as file:
        sound = file.read()
    with open(os.path.join(FOLDER, "binary.lightgbm.txt"), "rb") as file:
        text = file.read()

    def changed(change) -> bytes:
        document = json.loads(sound)
        change(document["learner"], document["learner"]["gradient_booster"]["model"]["trees"][0])
        return json.dumps(document).encode()

    def put(name: str, place: int, value: float):
        return changed(lambda _, tree: tree[name].__setitem__(place, value))

    return [
        ("cycle.json", put("left_children", 1, 0)),
        ("outside.json", put("right_children", 0, 10**6)),
        ("feature.json", put("split_indices", 0, 10**6)),
        ("short.json", changed(lambda _, tree: tree["split_conditions"].pop())),
        ("linear.json", changed(lambda learner, _: learner["gradient_booster"].update(name="gblinear"))),
        ("objective.json", changed(lambda learner, _: learner["objective"].update(name="reg:unknown"))),
        ("deep.json", b'{"learner":' + b"[" * 100_000),
        ("cut.json", sound[: len(sound) // 2]),
        ("empty.json", b"{}"),
        ("cut.txt", text[: len(text) // 2]),
        ("child.txt", text.replace(b"left_child=", b"left_child=99999 ", 1)),
        ("cycle.txt", text.replace(b"left_child=1", b"left_child=0", 1)),
        ("leaves.txt", text.replace(b"num_leaves=", b"num_leaves=9", 1)),
        ("huge.txt", text.replace(b"max_feature_idx=", b"max_feature_idx=99999999999", 1)),
        ("nan.txt", text.replace(b"threshold=", b"threshold=nan ", 1)),
        ("linear.txt", text.replace(b"is_linear=0", b"is_linear=1", 1)),
        ("nothing.txt", b"tree\n"),
    ]


main()
