"""A pipeline that chooses columns of a data frame by their names, and one of arrays, become models."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tfaot_pkg

draw = np.random.default_rng(0)
frame = pd.DataFrame(draw.normal(size=(300, 3)) * [30, 2, 1], columns=["pt", "eta", "phi"])
frame["layer"] = draw.choice([2, 5, 11], 300)
y = frame["pt"] * frame["eta"] + frame["layer"]
frame.loc[::7, "eta"] = np.nan
columns = make_column_transformer(
    (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["pt", "eta"]),
    (OneHotEncoder(handle_unknown="ignore"), ["layer"]),
)
linear = make_pipeline(columns, LogisticRegression()).fit(frame, y > 0)
model = tfaot_pkg.compile(linear, frame[:20])
x = frame.fillna(0.5).to_numpy()
boosted = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=5)).fit(x, y)
trees = tfaot_pkg.compile(boosted, x[:20])
RESULT: dict[str, object] = {
    "linear": float(abs(model(frame)["probabilities"] - linear.predict_proba(frame)).max()),
    "trees": bool((trees(x)["predictions"] == boosted.predict(x)).all()),
    "verdicts": [each.report.verdict for each in (model, trees)],
}
