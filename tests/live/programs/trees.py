"""Forests and boosters, by the classes of their libraries, become models that answer as they do."""

from __future__ import annotations

import time

import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import RandomForestClassifier

import tfaot_pkg

draw = np.random.default_rng(0)
x = draw.normal(size=(300, 5)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype(int)
RESULT: dict[str, object] = {}
for net in (
    RandomForestClassifier(5, max_depth=4, random_state=0).fit(x, y),
    xgboost.XGBClassifier(n_estimators=5, max_depth=3).fit(x, y),
    lightgbm.LGBMClassifier(n_estimators=5, num_leaves=5, verbose=-1).fit(x.astype(float), y),
):
    model = tfaot_pkg.compile(net, x[:20])
    start = time.perf_counter()
    again = tfaot_pkg.compile(net, x[:20])
    theirs = net.predict_proba(x)
    ours = model(x)["probabilities"]
    ours = ours if ours.shape == theirs.shape else np.concatenate([1 - ours, ours], 1)
    RESULT[model.name] = {
        "again": time.perf_counter() - start,
        "same": again.uid == model.uid,
        "off": float(abs(ours - theirs).max()),
        "verdict": model.report.verdict,
        "validated": model.report.document["reference"],
        "name": model.spec.model.name,
    }
