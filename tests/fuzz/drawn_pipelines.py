"""Random pipelines of scikit-learn, what is read of them, and their own answers.

    FRONTEND/bin/python drawn_pipelines.py SEED COUNT FOLDER WORKER_PROGRAM

FOLDER/N.parts has what was read of FOLDER/N.skops, and `case.npz`: rows `x`, the answers `right`, and `moved`, those for
rows whose numbers differ by a rounding. FOLDER/index.json: {"texts": {N: pipeline}, "refused": {pipeline: message},
"broken": {pipeline: traceback}}.
"""

import json
import os
import sys
import traceback
import warnings

import numpy as np
from sklearn import (
    calibration,
    compose,
    decomposition,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    multiclass,
    naive_bayes,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.pipeline import make_pipeline, make_union
from skops import io

_ROWS, _NUMBERS = 160, 5


class Drawn:
    """Draws estimators."""

    def __init__(self, rng):
        self.rng = rng

    def one(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def flag(self):
        return bool(self.rng.integers(2))

    def data(self):
        """Rows of numbers of different scales and of two columns of categories, half of the time with gaps; a signal."""
        rng = self.rng
        x = rng.normal(size=(_ROWS, _NUMBERS)) * [1, 30, 1e-3, 5, 1]
        x = np.column_stack(
            [x, rng.integers(-1, 2, _ROWS), rng.choice([2, 5, 11, 13], _ROWS, p=[0.5, 0.3, 0.15, 0.05])]
        )
        if self.flag():
            gaps = rng.random(x.shape) < 0.08
            gaps[:, :2] = False
            x[gaps] = np.nan
        return x, np.nan_to_num(x[:, 0] + x[:, 1] / 30 + x[:, 5])

    def scaler(self):
        one, flag = self.one, self.flag
        return one(
            lambda: preprocessing.StandardScaler(with_mean=flag(), with_std=flag()),
            lambda: preprocessing.RobustScaler(with_centering=flag(), with_scaling=flag(), unit_variance=flag()),
            lambda: preprocessing.MinMaxScaler(one((0, 1), (-1, 2)), clip=flag()),
            preprocessing.MaxAbsScaler,
            lambda: preprocessing.Normalizer(one("l1", "l2", "max")),
            lambda: preprocessing.Binarizer(threshold=one(0.0, 0.5)),
            lambda: preprocessing.KBinsDiscretizer(
                int(self.rng.integers(2, 6)),
                encode=one("ordinal", "onehot", "onehot-dense"),
                strategy=one("uniform", "quantile", "kmeans"),
                quantile_method="averaged_inverted_cdf",
            ),
            lambda: preprocessing.PolynomialFeatures(one(2, 3), interaction_only=flag(), include_bias=flag()),
            lambda: preprocessing.QuantileTransformer(n_quantiles=20, output_distribution=one("uniform", "normal")),
            lambda: preprocessing.PowerTransformer(standardize=flag()),
            lambda: decomposition.PCA(one(1, 2, None)),
            lambda: decomposition.PCA(1, whiten=True),
            lambda: decomposition.TruncatedSVD(1),
            feature_selection.VarianceThreshold,
        )()

    def encoder(self):
        one = self.one
        few = {"min_frequency": one(None, 5, 30, 0.3), "max_categories": one(None, None, 2)}
        return one(
            lambda: preprocessing.OneHotEncoder(
                handle_unknown=one("ignore", "error", "infrequent_if_exist"),
                drop=one(None, "first", "if_binary"),
                sparse_output=self.flag(),
                **few,
            ),
            lambda: preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=one(-1, 99), **few),
            lambda: "passthrough",
        )()

    def block(self):
        strategy = self.one("mean", "median", "most_frequent", "constant")
        imputer = impute.SimpleImputer(strategy=strategy, add_indicator=self.flag())
        return make_pipeline(imputer, *(self.scaler() for _ in range(self.rng.integers(3))))

    def before(self):
        """What comes before the estimator."""
        codes = make_pipeline(impute.SimpleImputer(strategy="most_frequent"), self.encoder())
        return self.one(
            self.block,
            lambda: make_union(self.block(), self.block()),
            lambda: compose.make_column_transformer(
                (self.block(), [0, 1, 2]),
                (codes, [5, 6]),
                remainder=self.one("drop", self.block()),
                sparse_threshold=self.one(0, 0.3, 1.0),
            ),
            lambda: compose.ColumnTransformer(
                [("a", self.block(), slice(0, 3)), ("b", self.one("drop", self.block()), [3, 4]), ("c", codes, [6])],
                transformer_weights=self.one(None, {"a": 2.5}, {"a": 0.3, "c": -1.0}),
            ),
        )()

    def classifier(self):
        one, seed = self.one, {"random_state": 0}
        line = linear_model.LogisticRegression(max_iter=50)
        shallow = tree.DecisionTreeClassifier(max_depth=3, **seed)
        return one(
            lambda: line,
            linear_model.RidgeClassifier,
            lambda: linear_model.SGDClassifier(loss=one("hinge", "log_loss", "modified_huber"), max_iter=20, **seed),
            lambda: linear_model.PassiveAggressiveClassifier(max_iter=20, **seed),
            lambda: svm.LinearSVC(max_iter=50, **seed),
            lambda: svm.SVC(kernel=one("rbf", "linear", "poly", "sigmoid")),
            lambda: svm.SVC(probability=True, **seed),
            lambda: ensemble.RandomForestClassifier(5, max_depth=4, **seed),
            lambda: ensemble.GradientBoostingClassifier(n_estimators=4, **seed),
            lambda: ensemble.HistGradientBoostingClassifier(max_iter=4, **seed),
            lambda: ensemble.AdaBoostClassifier(n_estimators=3, **seed),
            lambda: ensemble.BaggingClassifier(n_estimators=3, max_features=0.6, **seed),
            lambda: neural_network.MLPClassifier(
                (6,), activation=one("relu", "tanh", "logistic", "identity"), max_iter=5, **seed
            ),
            LinearDiscriminantAnalysis,
            lambda: QuadraticDiscriminantAnalysis(reg_param=0.1),
            naive_bayes.GaussianNB,
            lambda: ensemble.VotingClassifier([("a", line), ("b", shallow)], voting=one("soft", "hard")),
            lambda: multiclass.OneVsRestClassifier(one(line, shallow)),
            lambda: multiclass.OneVsOneClassifier(one(line, shallow)),
            lambda: calibration.CalibratedClassifierCV(line, cv=2, method=one("sigmoid", "isotonic", "temperature")),
        )()

    def regressor(self):
        one, seed = self.one, {"random_state": 0}
        shallow = tree.DecisionTreeRegressor(max_depth=3, **seed)
        transformer = one(
            preprocessing.StandardScaler(),
            preprocessing.PowerTransformer(),
            preprocessing.QuantileTransformer(n_quantiles=9),
        )
        target = compose.TransformedTargetRegressor
        return one(
            linear_model.Ridge,
            lambda: linear_model.Lasso(0.01),
            linear_model.HuberRegressor,
            lambda: linear_model.PassiveAggressiveRegressor(**seed),
            lambda: svm.SVR(kernel=one("rbf", "poly")),
            lambda: ensemble.RandomForestRegressor(5, max_depth=4, **seed),
            lambda: ensemble.GradientBoostingRegressor(n_estimators=4, **seed),
            lambda: ensemble.HistGradientBoostingRegressor(max_iter=4, **seed),
            lambda: neural_network.MLPRegressor((6,), max_iter=5, **seed),
            lambda: linear_model.PoissonRegressor(max_iter=20),
            lambda: linear_model.TweedieRegressor(power=one(0, 1.5), max_iter=20),
            lambda: target(one(linear_model.Ridge(), shallow), func=np.log1p, inverse_func=np.expm1),
            lambda: target(one(linear_model.Ridge(), shallow), transformer=transformer),
            lambda: ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", shallow)], cv=2),
        )()

    def model(self):
        """A fitted pipeline, and the rows that it was fitted with; None if scikit-learn rejects what was drawn."""
        x, signal = self.data()
        kind = self.rng.integers(3)
        last = self.regressor() if kind == 2 else self.classifier()
        labels = np.array(["a", "bb", "c"])[np.digitize(signal, [-0.7, 0.7])]
        y = ((signal > 0).astype(int), labels, np.exp(signal / 3) + 0.1)[kind]
        model = make_pipeline(self.before(), last)
        try:
            model.fit(x, y).predict(x[:4])
        except (ValueError, TypeError):  # gaps, infinity, sparse matrices
            return None
        return model, x


def _answers(model, x):
    for name in ("predict_proba", "decision_function", "predict"):
        if hasattr(model, name):
            found = getattr(model, name)(x)
            return found if found.dtype.kind == "f" else np.searchsorted(model.classes_, found).astype(float)
    raise AssertionError(model)


def _case(model, x):
    moved = np.concatenate([np.nextafter(x[:, :_NUMBERS], np.inf), x[:, _NUMBERS:]], axis=1)
    return {"x": x, "right": _answers(model, x), "moved": _answers(model, moved)}


def write(seed, count, folder):
    from from_trees import reading
    from messages.requests import ModelFault
    from messages.sources import ReadTrees

    warnings.simplefilter("ignore")
    draws = Drawn(np.random.default_rng(seed))
    found = {"texts": {}, "refused": {}, "broken": {}}
    for number in range(count):
        fitted = None
        while fitted is None:
            fitted = draws.model()
        model, x = fitted
        text = " ".join(str(model).split())
        path, place = f"{folder}/{number}.skops", f"{folder}/{number}.parts"
        io.dump(model, path)
        os.makedirs(place)
        try:
            reading.read(ReadTrees(path=path, out=place), None)
            with np.load(f"{place}/rows.npz") as file:
                drawn = file["x"]
            try:
                case = _case(model, np.concatenate([x, drawn]))
            except ValueError:  # powers of drawn rows are infinite, which scikit-learn rejects
                case = _case(model, x)
            np.savez(f"{place}/case.npz", **case)
            found["texts"][number] = text
        except ModelFault as fault:
            found["refused"][text] = fault.message
        except Exception:  # noqa: BLE001 (whatever it is, the test reports it)
            found["broken"][text] = traceback.format_exc()[-2000:]
    with open(f"{folder}/index.json", "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    seed, count, place, program = sys.argv[1:]
    sys.path.insert(0, program)
    write(int(seed), int(count), place)
