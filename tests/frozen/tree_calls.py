"""Models whose files do not say, or say where nobody looks, how their authors call them; and the answers of these calls.

    FRONTEND/bin/python tree_calls.py WORKER_PROGRAM FOLDER

results.json: {"off": {case: {"sums": rows whose sums differ from the author's call, "oracle": rows whose answers of the
oracle differ, "edges": rows of rows.py whose sums differ from the oracle's}}, "described": {case: text}, "notes": {case:
notes}, "facts": {case: facts}, "refused": {case: message}, "spread": the largest spread of a perturbed run}.
Answers are those of the process that trained the model, of the call that its author makes.
"""

import dataclasses
import json
import os
import sys
import warnings

import numpy as np

FOLDER = sys.argv[2]
sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")

import lightgbm  # noqa: E402
import pandas as pd  # noqa: E402
import reference  # noqa: E402
import xgboost  # noqa: E402
from from_trees import reading, rows  # noqa: E402
from messages.forest import margins  # noqa: E402
from messages.requests import ModelFault, Reference  # noqa: E402
from messages.sources import TreesCall  # noqa: E402
from sklearn import ensemble  # noqa: E402
from skops import io  # noqa: E402

rng = np.random.default_rng(2)
X = rng.standard_normal((600, 6)).astype(np.float32)
ASKED = rng.standard_normal((300, 6)).astype(np.float32)
SIGNS = X[:, 0] - X[:, 2] ** 2
NOISY = np.where(rng.random(600) < 0.35, SIGNS < -0.5, SIGNS > -0.5).astype(int)
THREE = np.digitize(SIGNS + rng.normal(size=600), [-1, 0.5])
FIRST, LAST = slice(0, 300), slice(300, 600)
QUIET = {"verbose": -1, "num_threads": 1}

off, described, notes, facts, refused = {}, {}, {}, {}, {}


def main() -> None:
    early_stopping_of_xgboost()
    missing_of_xgboost()
    early_stopping_of_lightgbm()
    doubles()
    frames()
    frames_of_scikit_learn()
    refusals()
    found = {"off": off, "described": described, "notes": notes, "facts": facts, "refused": refused, "spread": spread()}
    with open(f"{FOLDER}/results.json", "w", encoding="utf-8") as file:
        json.dump(found, file, default=dataclasses.asdict)


def compare(case: str, path: str, asked, right, *, sums=None, **call) -> None:
    """Compare what is read with the author's answers: `right`, and `sums` before the function of the objective."""
    wanted = TreesCall(**call)
    model = reading.model_of(path, wanted)
    answers = reading.reader_of(path).Answers(path, wanted)
    edges = rows.rows_of(model)
    off[case] = {
        "sums": differing(sums_of(model, asked), right if sums is None else sums),
        "oracle": differing(result(answers, asked.astype(answers.dtype), model.output), right),
        "edges": differing(sums_of(model, edges), result(answers, edges, model.margin or model.output)),
    }
    np.savez(f"{FOLDER}/{case}.npz", x=asked.astype(model.input), out=right)
    described[case], notes[case] = reading._described(model), model.notes
    facts[case] = reading._facts(model, reading.reader_of(path).TAKES)


def differing(ours, theirs) -> int:
    theirs = np.asarray(theirs).reshape(len(ours), -1)
    return int((ours.reshape(len(ours), -1) != theirs[:, -ours.reshape(len(ours), -1).shape[1] :]).any(1).sum())


def result(answers, x, name: str):
    made = answers.run(x)
    return made[name] if isinstance(made, dict) else made


def sums_of(model, x):
    """What building.py computes in TensorFlow, up to the sums; and means, which are exact too."""
    x = np.asarray(x).astype(model.input)
    if model.encoder is not None:
        x = np.where(np.isin(np.arange(x.shape[1]), model.encoder.target), margins(model.encoder, x), x)
    x = x.astype(model.forest.dtype)
    if model.missing is not None:
        x = np.where(x == x.dtype.type(model.missing), x.dtype.type(np.nan), x)
    made = margins(model.forest, x)
    return made / model.links[0][1] if model.links and model.links[0][0] == "divide" else made


def early_stopping_of_xgboost() -> None:
    def wrapped(name: str, kind=xgboost.XGBClassifier, target=NOISY, **settings):
        model = kind(n_estimators=60, early_stopping_rounds=5, learning_rate=0.5, n_jobs=1, **settings)
        model.fit(X[FIRST], target[FIRST], eval_set=[(X[LAST], target[LAST])], verbose=False)
        assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds(), name
        model.save_model(f"{FOLDER}/{name}.json")
        return model, f"{FOLDER}/{name}.json"

    model, path = wrapped("early", max_depth=4)
    margin = model.predict(ASKED, output_margin=True)
    compare("wrapper", path, ASKED, model.predict_proba(ASKED), sums=margin)
    compare("wrapper, best", path, ASKED, model.predict_proba(ASKED), sums=margin, iterations="best")
    booster = model.get_booster()
    native = xgboost.DMatrix(ASKED)
    compare("wrapper, all", path, ASKED, booster.predict(native), sums=booster.predict(native, output_margin=True),
            iterations="all")  # fmt: skip
    two = {"iteration_range": (0, 2)}
    compare("wrapper, two", path, ASKED, model.predict_proba(ASKED, **two),
            sums=model.predict(ASKED, output_margin=True, **two), iterations="2")  # fmt: skip
    model, path = wrapped("classes", target=THREE, num_parallel_tree=2, subsample=0.7)
    compare("classes", path, ASKED, model.predict_proba(ASKED), sums=model.predict(ASKED, output_margin=True))
    model, path = wrapped("dart", booster="dart", rate_drop=0.3)
    compare("dart", path, ASKED, model.predict_proba(ASKED), sums=model.predict(ASKED, output_margin=True))
    model, path = wrapped("regressor", xgboost.XGBRegressor, SIGNS + rng.normal(size=600))
    compare("regressor", path, ASKED, model.predict(ASKED))
    twice = ASKED + rng.normal(size=ASKED.shape) * 1e-9
    compare("doubles for floats", path, twice, model.predict(twice), dtype="float64")

    data = [xgboost.DMatrix(X[each], NOISY[each]) for each in (FIRST, LAST)]
    model = xgboost.train({"objective": "binary:logistic", "eta": 0.5, "nthread": 1}, data[0], 60,
                          evals=[(data[1], "valid")], early_stopping_rounds=5, verbose_eval=False)  # fmt: skip
    model.save_model(f"{FOLDER}/native.ubj")
    assert model.best_iteration + 1 < model.num_boosted_rounds()
    compare(
        "native", f"{FOLDER}/native.ubj", ASKED, model.predict(native), sums=model.predict(native, output_margin=True)
    )
    best = {"iteration_range": (0, model.best_iteration + 1)}
    compare("native, best", f"{FOLDER}/native.ubj", ASKED, model.predict(native, **best),
            sums=model.predict(native, output_margin=True, **best), iterations="best")  # fmt: skip


def missing_of_xgboost() -> None:
    asked = np.where(rng.random(ASKED.shape) < 0.3, np.float32(-999), ASKED)
    asked[::7, 1] = np.nan
    model = xgboost.XGBClassifier(n_estimators=10, missing=-999.0, n_jobs=1)
    model.fit(np.where(rng.random(X.shape) < 0.15, np.float32(-999), X), NOISY).save_model(f"{FOLDER}/missing.json")
    margin = model.predict(asked, output_margin=True)
    compare("missing", f"{FOLDER}/missing.json", asked, model.predict_proba(asked), sums=margin, missing="-999.0")
    # Older versions wrote their settings into the file.
    booster = model.get_booster()
    booster.set_attr(scikit_learn=json.dumps({"missing": -999.0, "_estimator_type": "classifier"}))
    booster.save_model(f"{FOLDER}/old.json")
    compare("missing in the file", f"{FOLDER}/old.json", asked, model.predict_proba(asked), sums=margin)
    model.set_params(missing=np.nan)
    compare("nothing missing", f"{FOLDER}/missing.json", asked, model.predict_proba(asked),
            sums=model.predict(asked, output_margin=True))  # fmt: skip


def early_stopping_of_lightgbm() -> None:
    for name, settings, target in (
        ("lightgbm", {"objective": "binary"}, NOISY),
        ("lightgbm, classes", {"objective": "multiclass", "num_class": 3}, THREE),
        ("lightgbm, forest", {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, SIGNS),
    ):
        sets = [lightgbm.Dataset(X[each], target[each]) for each in (FIRST, LAST)]
        stop = [] if "forest" in name else [lightgbm.early_stopping(5, verbose=False)]
        model = lightgbm.train({**QUIET, "learning_rate": 0.5, **settings},
                               sets[0], 12 if not stop else 60, valid_sets=[sets[1]], callbacks=stop,
                               keep_training_booster=True)  # fmt: skip
        for kind, written in (("", None), (", all", -1)):
            path = f"{FOLDER}/{name}{kind}.txt"
            model.save_model(path, num_iteration=written)
            used = {"iterations": str(model.best_iteration)} if kind and stop else {}
            asked = {"num_iteration": None}
            if not stop and kind:
                used, asked = {"iterations": "5"}, {"num_iteration": 5}
            # The mean of a forest comes after its sums, and is exact as well.
            sums = model.predict(ASKED, raw_score=bool(stop), **asked)
            compare(f"{name}{kind}", path, ASKED, model.predict(ASKED, **asked), sums=sums, **used)
        if stop:
            assert model.best_iteration < model.num_trees() / (3 if "classes" in name else 1)
            notes["lightgbm, all, unsaid"] = reading.model_of(path, TreesCall()).notes


def doubles() -> None:
    x = X.astype(np.float64) + rng.normal(size=X.shape) * 1e-3
    model = lightgbm.train(QUIET, lightgbm.Dataset(x, x[:, 0] - x[:, 2] ** 2), 20)
    model.save_model(f"{FOLDER}/doubles.txt")
    read = reading.model_of(f"{FOLDER}/doubles.txt", TreesCall())
    asked = rng.choice(read.forest.threshold, (2000, 6))
    compare("on thresholds", f"{FOLDER}/doubles.txt", asked, model.predict(asked))
    floats = asked.astype(np.float32)
    assert (model.predict(asked) != model.predict(floats)).sum() > 500
    compare("on thresholds, floats", f"{FOLDER}/doubles.txt", floats, model.predict(floats), dtype="float32")
    forest = ensemble.ExtraTreesRegressor(5, random_state=0).fit(x, x[:, 0])
    io.dump(forest, f"{FOLDER}/extra.skops")
    compare("scikit-learn's floats", f"{FOLDER}/extra.skops", x, forest.predict(x), dtype="float64")


VALUES = {
    "charge": [-1, 2, 0], "particle": [11, 13, 22, 211, -211], "detector": ["barrel", "endcap", "forward"],
    "half": [0.5, -1.5, 2.0], "flag": [True, False],
}  # fmt: skip


def frame(names, count: int, *, order=None) -> pd.DataFrame:
    """A frame with categories `names`, in the order of VALUES or in another one, also missing and unknown ones."""
    made = {"pt": rng.standard_normal(count)}
    for name in names:
        values = VALUES[name]
        listed = values if order is None else [*reversed(values), *order[name]]
        codes = rng.integers(-1 if order else 0, len(listed), count)
        made[name] = pd.Categorical.from_codes(codes, pd.Index(listed))
    return pd.DataFrame(made)


def numbers(given: pd.DataFrame) -> np.ndarray:
    """What x contains for the frame: values, positions of texts, NaN."""

    def of(column):
        if not isinstance(column.dtype, pd.CategoricalDtype):
            return column.to_numpy(float)
        values = VALUES[column.name]
        known = values.index if isinstance(values[0], str) else float
        return np.array([np.nan if pd.isna(each) else -7.0 if each == "other" else known(each) for each in column])

    return np.stack([of(given[name]) for name in given], 1).astype(float)


OTHERS = {"charge": [5], "particle": [2212], "detector": ["other"], "half": [9.25], "flag": []}


def frames() -> None:
    names = ["charge", "particle", "detector"]
    # XGBoost rejects categories that training did not see.
    train, asked = frame(names, 600), frame(names, 400, order=dict.fromkeys(names, ()))
    target = numbers(train).sum(1) % 3 + train["pt"].to_numpy()
    model = xgboost.XGBRegressor(n_estimators=8, enable_categorical=True, max_cat_to_onehot=2, n_jobs=1)
    model.fit(train, target).save_model(f"{FOLDER}/frame.ubj")
    compare("xgboost's frame", f"{FOLDER}/frame.ubj", numbers(asked), model.predict(asked))
    compare("xgboost's frame, doubles", f"{FOLDER}/frame.ubj", numbers(asked), model.predict(asked), dtype="float64")
    codes = np.stack([train["pt"], *(train[name].cat.codes for name in names)], 1)
    compare("xgboost's codes", f"{FOLDER}/frame.ubj", codes, model.predict(codes), categories="codes")
    # Of each text XGBoost writes as many bytes as it has characters: "vor" remains of the last one.
    texts = pd.Categorical.from_codes(train["detector"].cat.codes, pd.Index(["fa\u00df", "\u00fc", "vor"]))
    model.fit(train.assign(detector=texts), target).save_model(f"{FOLDER}/texts.ubj")
    compare("xgboost's other texts", f"{FOLDER}/texts.ubj", codes, model.predict(codes))
    refuse("cut texts", f"{FOLDER}/texts.ubj", categories="values")

    names = [*VALUES]
    train, asked = frame(names, 600), frame(names, 400, order=OTHERS)
    target = numbers(train).sum(1) % 3 + train["pt"].to_numpy()
    model = lightgbm.LGBMRegressor(n_estimators=8, min_child_samples=5, n_jobs=1, verbose=-1, min_data_per_group=1,
                                   cat_smooth=0).fit(train, target)  # fmt: skip
    model.booster_.save_model(f"{FOLDER}/frame.txt")
    compare("lightgbm's frame", f"{FOLDER}/frame.txt", numbers(asked), model.predict(asked))
    codes = np.stack([train["pt"], *(train[name].cat.codes for name in names)], 1).astype(float)
    compare("lightgbm's codes", f"{FOLDER}/frame.txt", codes, model.predict(codes), categories="codes")
    # Columns of another type are categories, and the frame's are none: the file does not say so.
    train["number"] = rng.integers(1000, 1010, 600)
    model = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1, min_child_samples=5)
    model.fit(train[["pt", "charge", "number"]], target, categorical_feature=["number"])
    model.booster_.save_model(f"{FOLDER}/number.txt")
    refuse("whose categories", f"{FOLDER}/number.txt")


def frames_of_scikit_learn() -> None:
    names = ["charge", "detector", "half"]
    train, asked = frame(names, 600), frame(names, 400, order=OTHERS)
    target = numbers(train).sum(1) % 3 + train["pt"].to_numpy()
    model = ensemble.HistGradientBoostingRegressor(max_iter=20, early_stopping=True, n_iter_no_change=2)
    io.dump(model.fit(train, target), f"{FOLDER}/frame.skops")
    compare("scikit-learn's frame", f"{FOLDER}/frame.skops", numbers(asked), model.predict(asked))


def refuse(case: str, path: str, **call) -> None:
    try:
        reading.model_of(path, TreesCall(**call))
        refused[case] = ""
    except ModelFault as fault:
        refused[case] = f"{fault.message} | {fault.hint}"


def refusals() -> None:
    refuse("no best", f"{FOLDER}/missing.json", iterations="best")
    refuse("too many", f"{FOLDER}/early.json", iterations="999")
    refuse("no best of LightGBM", f"{FOLDER}/lightgbm.txt", iterations="best")
    refuse("too many of LightGBM", f"{FOLDER}/lightgbm.txt", iterations="999")
    refuse("missing of LightGBM", f"{FOLDER}/lightgbm.txt", missing="-999.0")
    refuse("iterations of scikit-learn", f"{FOLDER}/frame.skops", iterations="3")
    refuse("codes of scikit-learn", f"{FOLDER}/frame.skops", categories="codes")
    refuse("no values", f"{FOLDER}/early.json", categories="values")
    with open(f"{FOLDER}/early.json", encoding="utf-8") as file:
        document = json.load(file)
    for name, change in (
        ("best_of_another", {"best_iteration": "77"}),
        ("best_is_no_number", {"best_iteration": "x"}),
        ("no_settings", {"scikit_learn": "{"}),
    ):
        document["learner"]["attributes"] = change | {"scikit_learn": change.get("scikit_learn", "{}")}
        with open(f"{FOLDER}/{name}.json", "w", encoding="utf-8") as file:
            json.dump(document, file)
        refuse(name, f"{FOLDER}/{name}.json")


def spread() -> float:
    """How much of a difference roundings of the inputs excuse on thresholds: nothing."""
    path = f"{FOLDER}/doubles.txt"
    x = rows.rows_of(reading.model_of(path, TreesCall()))
    np.savez(f"{FOLDER}/x.npz", x=x)
    request = Reference(folder=path, tags=(), signature="", inputs=f"{FOLDER}/x.npz", out=f"{FOLDER}/out.npz",
                        batch_sizes=(8,), batched=("x",), stacked=("score",), framework="trees", feeds={"x": "x"},
                        fetches={"score": "score"}, perturbed=3)  # fmt: skip
    reference.reference(request, lambda *_: None)
    with np.load(f"{FOLDER}/out.npz") as found:
        return float(found["8/score/spread"].max())


os.makedirs(FOLDER, exist_ok=True)
main()
