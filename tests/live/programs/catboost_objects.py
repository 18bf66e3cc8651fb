"""Models of CatBoost of two classes, of three, and of numbers, with its own answers beside the package's."""

from __future__ import annotations

import sys

import numpy as np
from catboost import CatBoostClassifier, CatBoostRegressor, Pool

import tfaot_pkg

draw = np.random.default_rng(0)
x = draw.normal(size=(400, 4)).astype("float32")
y = x[:, 0] * x[:, 1] + x[:, 2]
kinds = (y > -0.5).astype(int) + (y > 0.7)
settings = {"iterations": 12, "depth": 4, "verbose": False, "allow_writing_files": False, "thread_count": 1}
RESULT: dict[str, object] = {"off": {}, "reports": {}, "errors": {}}
for name, net, target in (
    ("two", CatBoostClassifier(**settings), (kinds > 0).astype(int)),
    ("three", CatBoostClassifier(**settings), kinds),
    ("texts", CatBoostClassifier(**settings), np.array(["muon", "electron", "jet"])[kinds]),
    ("numbers", CatBoostRegressor(**settings), y),
):
    net.fit(x, target)
    model = tfaot_pkg.compile(net, name=name, quiet=True)
    made = model(x)
    theirs = net.predict(x) if name == "numbers" else net.predict_proba(x)
    ours = made["predictions" if name == "numbers" else "probabilities"].reshape(theirs.shape)
    RESULT["off"][name] = float(abs(ours - theirs).max())
    RESULT["reports"][name] = model.report.text.splitlines()
categories = Pool([["a", 1.0], ["b", 2.0]] * 9, [0, 1] * 9, cat_features=[0])
for name, net, target in (
    ("categories", CatBoostClassifier(**settings), categories),
    ("truths", CatBoostClassifier(**settings), Pool(x, kinds > 0)),
    ("counts", CatBoostRegressor(loss_function="Poisson", **settings), Pool(x, np.floor(abs(y)))),
):
    try:
        tfaot_pkg.compile(net.fit(target), name=name, quiet=True)
    except tfaot_pkg.TfaotError as error:
        RESULT["errors"][name] = [str(error), error.hint]
sys.stdout.flush()
