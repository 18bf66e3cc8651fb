"""Pipelines become models: of columns of numbers and texts of a data frame, of arrays, with boosters, of votes."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, QuantileTransformer, StandardScaler
from sklearn.svm import SVC, SVR

import tfaot_pkg

draw = np.random.default_rng(0)
frame = pd.DataFrame(draw.normal(size=(300, 3)) * [30, 2, 1], columns=["pt", "eta", "phi"])
frame["layer"] = draw.choice([2, 5, 11], 300)
y = frame["pt"] * frame["eta"] + frame["layer"]
frame["detector"] = draw.choice(["barrel", "endcap"], 300)
frame.loc[::7, ["eta", "detector"]] = np.nan
columns = make_column_transformer(
    (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["pt", "eta"]),
    (OneHotEncoder(handle_unknown="ignore"), ["layer"]),
    (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), ["detector"]),
)
linear = make_pipeline(columns, LogisticRegression()).fit(frame, y > 0)
model = tfaot_pkg.compile(linear, frame[:20])
x = frame[["pt", "eta", "phi", "layer"]].fillna(0.5).to_numpy()
boosted = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=5)).fit(x, y)
trees = tfaot_pkg.compile(boosted, x[:20])
of_xgb = make_pipeline(columns, xgboost.XGBClassifier(n_estimators=5, max_depth=3)).fit(frame, y > 0)
of_lgb = make_pipeline(StandardScaler(), lightgbm.LGBMRegressor(n_estimators=5, verbose=-1)).fit(x, y)
boosters = [tfaot_pkg.compile(of_xgb, frame[:20]), tfaot_pkg.compile(of_lgb, x[:20])]
voters = [
    ("forest", RandomForestClassifier(9, max_depth=4)),
    ("boosted", xgboost.XGBClassifier(n_estimators=5)),
    ("calibrated", CalibratedClassifierCV(SVC(), method="isotonic", cv=2)),
]
voting = make_pipeline(columns, VotingClassifier(voters, voting="soft")).fit(frame, y > 0)
steps = (QuantileTransformer(n_quantiles=40, output_distribution="normal"), PowerTransformer(), SVR())
shaped = make_pipeline(*steps).fit(x, y)
others = [tfaot_pkg.compile(voting, frame[:20]), tfaot_pkg.compile(shaped, x[:20])]
again = tfaot_pkg.compile(of_xgb, frame[:20])
RESULT: dict[str, object] = {
    "xgboost": float(abs(boosters[0](frame)["probabilities"] - of_xgb.predict_proba(frame)).max()),
    "lightgbm": bool((boosters[1](x)["predictions"] == of_lgb.predict(x)).all()),
    "voting": float(abs(others[0](frame)["probabilities"] - voting.predict_proba(frame)).max()),
    "shaped": float(abs(others[1](x)["predictions"] - shaped.predict(x)).max() / abs(y).max()),
    "same": again.uid == boosters[0].uid,
    "linear": float(abs(model(frame)["probabilities"] - linear.predict_proba(frame)).max()),
    "trees": bool((trees(x)["predictions"] == boosted.predict(x)).all()),
    "verdicts": [each.report.verdict for each in (model, trees, *boosters, *others)],
}
try:
    tfaot_pkg.compile(make_pipeline(StandardScaler(), LogisticRegression()), x)
except tfaot_pkg.TfaotError as error:
    RESULT["unfitted"] = str(error)
