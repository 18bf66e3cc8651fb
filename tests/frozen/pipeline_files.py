"""Files of scikit-learn's pipelines and estimators for the tests, with their own answers.

    FRONTEND/bin/python pipeline_files.py WORKER_PROGRAM FOLDER

NAME.parts has what was read of NAME.skops, cases.json what is expected of it, refused.json why others were not read.
"""

import glob
import json
import os
import sys
import warnings
import zipfile
from dataclasses import asdict

import numpy as np

COLUMNS = ("pt", "eta", "phi", "mass", "charge", "layer")
_COUNT = 400


def data(rng):
    """Inputs [rows, 6]: four numbers of different scales, and two columns of categories; targets of several kinds."""
    x = rng.normal(size=(_COUNT, 6)) * [30, 2, 1, 0.1, 1, 1] + [50, 0, 0, 0.5, 0, 0]
    x[:, 4], x[:, 5] = rng.choice([-1, 0, 1], _COUNT), rng.choice([2, 5, 11, 13], _COUNT)
    signal = (x[:, 0] - 50) / 30 * x[:, 1] + np.sin(3 * x[:, 2]) + x[:, 4] + rng.normal(size=_COUNT) / 4
    return x, signal, (signal > -0.4).astype(int) + (signal > 0.6)


def missing(rng, x):
    return np.where(rng.random(x.shape) < 0.15, np.nan, x)


def models(rng):
    """Name -> estimator, inputs, targets. Answers of `trees` behind exact steps must be equal to the bit."""
    from sklearn import (
        compose,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_selection,
        impute,
        linear_model,
        naive_bayes,
        neural_network,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.pipeline import FeatureUnion, make_pipeline, make_union

    x, y, three = data(rng)
    two, texts = three > 0, np.array(["muon", "electron", "jet"])[three]
    one_hot, ordinal = preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder
    gaps = missing(rng, x)
    small = {"max_iter": 30, "hidden_layer_sizes": (7, 5), "random_state": 0}
    scaled = preprocessing.StandardScaler
    logistic = linear_model.LogisticRegression
    found = {}
    for name, transformer, given in (
        ("standard", scaled(), x),
        ("no_mean", scaled(with_mean=False), x),
        ("no_std", scaled(with_std=False), x),
        ("robust", preprocessing.RobustScaler(), x),
        ("uncentered", preprocessing.RobustScaler(with_centering=False), x),
        ("unscaled", preprocessing.RobustScaler(with_scaling=False), x),
        ("minmax", preprocessing.MinMaxScaler((-1, 2)), x),
        ("clipped", preprocessing.MinMaxScaler(clip=True), x),
        ("maxabs", preprocessing.MaxAbsScaler(), x),
        ("l1", preprocessing.Normalizer("l1"), x),
        ("l2", preprocessing.Normalizer(), x),
        ("max", preprocessing.Normalizer("max"), x),
        ("binarizer", preprocessing.Binarizer(threshold=0.3), x),
        ("bins", preprocessing.KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), x),
        ("bin_numbers", preprocessing.KBinsDiscretizer(3, encode="ordinal", strategy="uniform"), x),
        ("pca", decomposition.PCA(3), x),
        ("whitened", decomposition.PCA(2, whiten=True), x),
        ("svd", decomposition.TruncatedSVD(3), x),
        ("polynomial", preprocessing.PolynomialFeatures(3), x),
        ("interactions", preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False), x),
        ("log1p", preprocessing.FunctionTransformer(np.log1p), abs(x)),
        ("sqrt", preprocessing.FunctionTransformer(np.sqrt), abs(x)),
        ("identity", preprocessing.FunctionTransformer(), x),
        ("variance", feature_selection.VarianceThreshold(0.5), x),
        ("best", feature_selection.SelectKBest(k=3), x),
        ("chosen", feature_selection.SelectFromModel(linear_model.Lasso(0.1)), x),
        ("mean", impute.SimpleImputer(), gaps),
        ("median", impute.SimpleImputer(strategy="median", add_indicator=True), gaps),
        ("frequent", impute.SimpleImputer(strategy="most_frequent"), gaps),
        ("constant", impute.SimpleImputer(strategy="constant", fill_value=-7), gaps),
        ("sentinel", impute.SimpleImputer(missing_values=-1), x),
        ("one_hot", compose.make_column_transformer((preprocessing.OneHotEncoder(handle_unknown="ignore"), [4, 5])), x),
        ("dropped", compose.make_column_transformer((preprocessing.OneHotEncoder(drop="first"), [4, 5])), x),
        ("with_nan", compose.make_column_transformer((preprocessing.OneHotEncoder(handle_unknown="ignore"), [4, 5])), gaps),
        ("ordinal", compose.make_column_transformer(
            (preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-2, encoded_missing_value=-3),
             [5, 4])), gaps),
        ("infrequent", compose.make_column_transformer(
            (one_hot(handle_unknown="infrequent_if_exist", max_categories=3), [4, 5])), x),
        ("infrequent_dropped", compose.make_column_transformer(
            (one_hot(handle_unknown="ignore", min_frequency=95, drop="first"), [5, 4])), gaps),
        ("all_infrequent", compose.make_column_transformer(
            (one_hot(handle_unknown="infrequent_if_exist", min_frequency=399), [4, 5])), gaps),
        ("infrequent_codes", compose.make_column_transformer((ordinal(
            handle_unknown="use_encoded_value", unknown_value=-2, encoded_missing_value=-3, max_categories=2), [5, 4])),
         gaps),
        ("union", make_union(scaled(), decomposition.PCA(2)), x),
        ("weighted", FeatureUnion([("a", scaled()), ("b", decomposition.PCA(2))], transformer_weights={"b": 0.3}), x),
        ("weighted_columns", compose.ColumnTransformer(
            [("a", "passthrough", [1, 4]), ("b", one_hot(handle_unknown="ignore"), [5]), ("c", scaled(), [0])],
            transformer_weights={"a": -2, "b": 0.7}), x),
        ("mixed", compose.make_column_transformer(
            (make_pipeline(impute.SimpleImputer(), scaled()), slice(0, 2)),
            (preprocessing.OneHotEncoder(handle_unknown="ignore"), [5]), ("drop", [4]), remainder=impute.SimpleImputer()), gaps),
    ):  # fmt: skip
        found[f"t_{name}"] = (transformer, given, three)
        found[f"p_{name}"] = (
            make_pipeline(transformer, "passthrough", scaled(with_mean=False), logistic()),
            given,
            three,
        )
    for name, model in (
        ("least_squares", linear_model.LinearRegression()),
        ("unbiased", linear_model.LinearRegression(fit_intercept=False)),
        ("ridge", linear_model.Ridge()),
        ("ridge_cv", linear_model.RidgeCV()),
        ("lasso", linear_model.Lasso(0.01)),
        ("elastic", linear_model.ElasticNetCV(cv=2)),
        ("bayesian", linear_model.BayesianRidge()),
        ("huber", linear_model.HuberRegressor()),
        ("descent", linear_model.SGDRegressor()),
        ("passive", linear_model.PassiveAggressiveRegressor()),
        ("svr", svm.LinearSVR()),
        ("network", neural_network.MLPRegressor(**small)),
    ):
        found[f"r_{name}"] = (make_pipeline(scaled(), model), x, y)
    for name, model in (
        ("poisson", linear_model.PoissonRegressor()),
        ("gamma", linear_model.GammaRegressor()),
        ("tweedie", linear_model.TweedieRegressor(power=1.5)),
        ("tweedie_bare", linear_model.TweedieRegressor(power=0)),
        ("poisson_network", neural_network.MLPRegressor(loss="poisson", **small)),
    ):
        found[f"r_{name}"] = (make_pipeline(scaled(), model), x, abs(y) + 0.1)
    for name, model in (("outputs", linear_model.Ridge()), ("output_network", neural_network.MLPRegressor(**small))):
        found[f"r_{name}"] = (make_pipeline(scaled(), model), x, np.stack([y, -2 * y + x[:, 1]], 1))
    found["r_column"] = (linear_model.LinearRegression(), x, y[:, None])
    for name, model in (
        ("logistic", logistic()),
        ("cv", linear_model.LogisticRegressionCV(Cs=2, cv=2, l1_ratios=(0,), use_legacy_attributes=False)),
        ("discriminant", discriminant_analysis.LinearDiscriminantAnalysis()),
        ("quadratic", discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1)),
        ("bayes", naive_bayes.GaussianNB()),
        ("log_loss", linear_model.SGDClassifier(loss="log_loss")),
        ("huber", linear_model.SGDClassifier(loss="modified_huber")),
        ("passive", linear_model.PassiveAggressiveClassifier()),
        ("hinge", linear_model.SGDClassifier()),
        ("svc", svm.LinearSVC()),
        ("ridge", linear_model.RidgeClassifier()),
        ("perceptron", linear_model.Perceptron()),
        *((f"network_{each}", neural_network.MLPClassifier(activation=each, **small))
          for each in ("relu", "tanh", "logistic", "identity")),
    ):  # fmt: skip
        found[f"c_{name}"] = (make_pipeline(scaled(), model), x, texts)
        found[f"c_{name}_two"] = (make_pipeline(scaled(), model), x, two)
    found["c_bayes_alone"] = (naive_bayes.GaussianNB(), x, texts)
    found["c_alone"] = (logistic(max_iter=5), x, two)
    codes = compose.make_column_transformer(
        (preprocessing.OrdinalEncoder(), [5, 4]), remainder="passthrough", sparse_threshold=0
    )
    for name, steps, model, given, target in (
        ("forest", [scaled()], ensemble.RandomForestClassifier(9, max_depth=5), x, three),
        ("tree", [preprocessing.MinMaxScaler()], tree.DecisionTreeRegressor(max_depth=6), x, y),
        ("boosted", [preprocessing.RobustScaler()], ensemble.GradientBoostingClassifier(n_estimators=9), x, three),
        ("boosted_two", [impute.SimpleImputer()], ensemble.GradientBoostingRegressor(n_estimators=9), gaps, y),
        ("histogram", [scaled()], ensemble.HistGradientBoostingClassifier(max_iter=9), gaps, three),
        ("coded", [codes], ensemble.HistGradientBoostingClassifier(max_iter=9, categorical_features=[0, 1]), x, two),
        ("own_codes", ["passthrough"], ensemble.HistGradientBoostingRegressor(max_iter=9, categorical_features=[5]), x, y),
        ("extra", [impute.SimpleImputer(add_indicator=True), preprocessing.MaxAbsScaler()],
         ensemble.ExtraTreesRegressor(9, max_depth=5), gaps, y),
        ("ada", [scaled()], ensemble.AdaBoostClassifier(n_estimators=5), x, three),
        ("bagging", [scaled()], ensemble.BaggingRegressor(n_estimators=5, max_features=0.5), x, y),
        ("behind_pca", [scaled(), decomposition.PCA(3)], ensemble.RandomForestRegressor(9, max_depth=5), x, y),
    ):  # fmt: skip
        found[f"trees_{name}"] = (make_pipeline(*steps, model), given, target)
    return found


def frames(rng):
    """Models that choose columns of data frames by their names."""
    import pandas as pd
    from sklearn import compose, ensemble, impute, linear_model, preprocessing
    from sklearn.pipeline import make_pipeline

    x, y, three = data(rng)
    frame = pd.DataFrame(missing(rng, x), columns=list(COLUMNS))
    frame["charge"], frame["layer"] = x[:, 4].astype(int), x[:, 5].astype(int)
    numbers = make_pipeline(impute.SimpleImputer(strategy="median", add_indicator=True), preprocessing.StandardScaler())
    chosen = compose.make_column_transformer(
        (preprocessing.OneHotEncoder(), ["layer"]), (numbers, ["mass", "pt", "eta"]), remainder="drop"
    )
    selected = compose.make_column_transformer(
        (numbers, compose.make_column_selector(pattern="pt|eta|phi|mass")),
        (preprocessing.OrdinalEncoder(), ["charge", "layer"]),
    )
    return {
        "frame_linear": (make_pipeline(chosen, linear_model.LogisticRegression()), frame, three),
        "trees_frame": (make_pipeline(selected, ensemble.RandomForestRegressor(9, max_depth=5)), frame, y),
    }


def composites(rng):
    """Transformers of distributions, kernels, clusters, and estimators that are made of others."""
    import lightgbm as lgb
    import xgboost as xgb
    from sklearn import (
        calibration,
        cluster,
        compose,
        discriminant_analysis,
        ensemble,
        impute,
        linear_model,
        multiclass,
        naive_bayes,
        neural_network,
        preprocessing,
        svm,
    )
    from sklearn.pipeline import make_pipeline

    x, y, three = data(rng)
    two, texts, gaps = (three > 0).astype(int), np.array(["muon", "electron", "jet"])[three], missing(rng, x)
    scaled, logistic = preprocessing.StandardScaler, linear_model.LogisticRegression
    few, seed = {"n_estimators": 5, "max_depth": 3}, {"random_state": 0}
    found = {}
    tied = np.round(x, 0)
    for name, transformer, given in (
        ("power", preprocessing.PowerTransformer(), gaps),
        ("power_bare", preprocessing.PowerTransformer(standardize=False), x),
        ("box_cox", preprocessing.PowerTransformer("box-cox"), abs(x) + 0.1),
        ("quantiles", preprocessing.QuantileTransformer(n_quantiles=50), gaps),
        ("quantiles_tied", preprocessing.QuantileTransformer(n_quantiles=300), tied),
        ("quantiles_normal", preprocessing.QuantileTransformer(n_quantiles=100, output_distribution="normal"), gaps),
        ("clusters", cluster.KMeans(4, random_state=0, n_init=1), x),
    ):
        found[f"d_{name}"] = (make_pipeline(scaled(), transformer) if name == "clusters" else transformer, given, None)
        steps = [transformer, scaled(), logistic(max_iter=500)]
        found[f"d_{name}_behind"] = (
            make_pipeline(*steps) if name == "box_cox" else make_pipeline(impute.SimpleImputer(), *steps),
            given,
            three,
        )
    # Products with the largest numbers overflow, and their powers do not.
    for name, function, most in (("log1p", np.log1p, np.finfo(float).max), ("expm1", np.expm1, 709.78)):
        found[f"d_{name}_most"] = (preprocessing.FunctionTransformer(function), np.where(x > 50, most, abs(x)), None)
        found[f"d_{name}"] = (preprocessing.FunctionTransformer(function), x / 50, None)
    skewed = rng.gamma(4, 5, x.shape) * [1, -1, 1, -1, 1, -1]
    found["d_power_most"] = (preprocessing.PowerTransformer(), skewed, None)
    for kernel in ("rbf", "linear", "poly", "sigmoid"):
        found[f"k_{kernel}_two"] = (make_pipeline(scaled(), svm.SVC(kernel=kernel)), x, two)
        found[f"k_{kernel}"] = (make_pipeline(scaled(), svm.SVC(kernel=kernel)), x, texts)
        found[f"k_{kernel}_numbers"] = (make_pipeline(scaled(), svm.SVR(kernel=kernel)), x, y)
    found["k_nu"] = (make_pipeline(scaled(), svm.NuSVC(nu=0.2)), x, three)
    found["k_nu_numbers"] = (svm.NuSVR(nu=0.4), x, y)
    inner = [
        ("line", make_pipeline(scaled(), logistic())),
        ("forest", ensemble.RandomForestClassifier(5, max_depth=4, **seed)),
        ("xgb", xgb.XGBClassifier(missing=-1, **few)),
        ("lgb", lgb.LGBMClassifier(num_leaves=5, n_estimators=5, verbose=-1, **seed)),
        ("hist", ensemble.HistGradientBoostingClassifier(max_iter=5)),
        ("boosted", ensemble.GradientBoostingClassifier(**few)),
        ("ada", ensemble.AdaBoostClassifier(n_estimators=5)),
        ("network", make_pipeline(scaled(), neural_network.MLPClassifier((5,), max_iter=30, **seed))),
    ]
    numbers = [
        ("line", make_pipeline(scaled(), linear_model.Ridge())),
        ("forest", ensemble.RandomForestRegressor(5, max_depth=4, **seed)),
        ("xgb", xgb.XGBRegressor(**few)),
        ("lgb", make_pipeline(scaled(), lgb.LGBMRegressor(num_leaves=5, n_estimators=5, verbose=-1, **seed))),
    ]
    found["v_soft"] = (make_pipeline(scaled(), ensemble.VotingClassifier(inner, voting="soft")), x, texts)
    found["v_soft_two"] = (
        ensemble.VotingClassifier(inner, voting="soft", weights=[3, 1, 1, 2, 1, 1, 0.5, 1]), x, two)  # fmt: skip
    machine = ("machine", make_pipeline(scaled(), svm.SVC()))
    for name, target, weights in (("", texts, None), ("_two", two, None), ("_weighted", texts, [1, 2, 0.7, 1.5, 1])):
        found[f"v_hard{name}"] = (
            ensemble.VotingClassifier([*inner[:3], inner[5], machine], weights=weights),
            x,
            target,
        )
    found["v_numbers"] = (ensemble.VotingRegressor(numbers), x, y)
    found["v_numbers_weighted"] = (ensemble.VotingRegressor(numbers, weights=[1, 2, 3, 4]), x, y)
    for target, which in ((two, "_two"), (texts, "")):
        for name, model in (
            ("svc", make_pipeline(scaled(), svm.LinearSVC())),
            ("forest", ensemble.RandomForestClassifier(5, max_depth=4, **seed)),
            ("boosted", ensemble.HistGradientBoostingClassifier(max_iter=5)),
            ("kernel", make_pipeline(scaled(), svm.SVC())),
            ("quadratic", discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1)),
            ("bayes", naive_bayes.GaussianNB()),
        ):
            for method in ("sigmoid", "isotonic"):
                found[f"a_{name}_{method}{which}"] = (
                    calibration.CalibratedClassifierCV(model, method=method, cv=2), x, target)  # fmt: skip
        found[f"a_alone{which}"] = (
            make_pipeline(scaled(), calibration.CalibratedClassifierCV(logistic(), cv=3, ensemble=False)), x, target)  # fmt: skip
        found[f"s_classes{which}"] = (
            ensemble.StackingClassifier([inner[0], inner[1], ("svc", make_pipeline(scaled(), svm.LinearSVC()))], logistic(), cv=2), x, target)  # fmt: skip
        found[f"s_passed{which}"] = (ensemble.StackingClassifier(
            inner[1:3], ensemble.RandomForestClassifier(5, max_depth=3, **seed), cv=2, passthrough=True), x, target)  # fmt: skip
        for name, model in (
            ("", logistic()),
            ("_svc", svm.SVC()),
            ("_forest", ensemble.RandomForestClassifier(5, max_depth=4, **seed)),
            ("_boosted", ensemble.GradientBoostingClassifier(**few)),
        ):
            found[f"o_pairs{name}{which}"] = (make_pipeline(scaled(), multiclass.OneVsOneClassifier(model)), x, target)
        found[f"o_rest{which}"] = (make_pipeline(scaled(), multiclass.OneVsRestClassifier(logistic())), x, target)
        found[f"o_rest_svc{which}"] = (make_pipeline(scaled(), multiclass.OneVsRestClassifier(svm.SVC())), x, target)
        found[f"o_rest_xgb{which}"] = (multiclass.OneVsRestClassifier(xgb.XGBClassifier(**few)), x, target)
    found["s_numbers"] = (ensemble.StackingRegressor(numbers, linear_model.RidgeCV(), cv=2), x, y)
    ridge, positive = make_pipeline(scaled(), linear_model.Ridge()), abs(y) + 0.1
    for name, model, transformer in (
        ("standard", ridge, scaled()),
        ("robust", ridge, preprocessing.RobustScaler()),
        ("minmax", ridge, preprocessing.MinMaxScaler((-1, 2))),
        ("maxabs", ridge, preprocessing.MaxAbsScaler()),
        ("power", ridge, preprocessing.PowerTransformer()),
        ("box_cox", ridge, preprocessing.PowerTransformer("box-cox")),
        ("several", numbers[1][1], make_pipeline(preprocessing.FunctionTransformer(np.sqrt, np.square), scaled())),
    ):
        found[f"y_{name}"] = (compose.TransformedTargetRegressor(model, transformer=transformer), x, positive)
    found["y_function"] = (
        compose.TransformedTargetRegressor(ridge, func=np.log1p, inverse_func=np.expm1), x, positive)  # fmt: skip
    found["y_outputs"] = (compose.TransformedTargetRegressor(ridge, transformer=scaled()), x, np.stack([y, -9 * y], 1))
    found["s_numbers_trees"] = (ensemble.StackingRegressor(numbers[:2], xgb.XGBRegressor(**few), cv=2), x, y)
    return found


def boosters(rng):
    """Pipelines that end in XGBoost's or LightGBM's classes; answers of `trees` are sums alone."""
    import lightgbm as lgb
    import xgboost as xgb
    from sklearn import compose, impute, preprocessing
    from sklearn.pipeline import make_pipeline, make_union

    x, y, three = data(rng)
    two, gaps = (three > 0).astype(int), missing(rng, x)
    few = {"n_estimators": 7, "max_depth": 4, "random_state": 0}
    leaves = {"n_estimators": 7, "num_leaves": 9, "verbose": -1, "random_state": 0, "min_child_samples": 5}
    scaled = preprocessing.StandardScaler
    one_hot = preprocessing.OneHotEncoder(handle_unknown="ignore")
    columns = compose.make_column_transformer(
        (make_pipeline(impute.SimpleImputer(strategy="median"), scaled()), [0, 1, 2, 3]), (one_hot, [4, 5])
    )
    # A matrix with so many zeros is sparse, and XGBoost takes its zeros for missing numbers.
    sparse = compose.make_column_transformer(
        (preprocessing.KBinsDiscretizer(9, quantile_method="averaged_inverted_cdf"), [0, 1, 2, 3]), (one_hot, [4, 5])
    )
    codes = compose.make_column_transformer(
        (preprocessing.OrdinalEncoder(), [5, 4]), remainder="passthrough", sparse_threshold=0
    )
    kinds = {"enable_categorical": True, "feature_types": ["c", "c", "q", "q", "q", "q"]}
    found = {
        "trees_xgb": (make_pipeline(scaled(), xgb.XGBRegressor(**few)), gaps, y),
        "trees_xgb_columns": (make_pipeline(columns, xgb.XGBRegressor(**few)), gaps, y),
        "trees_xgb_sparse": (make_pipeline(sparse, xgb.XGBRegressor(**few)), x, y),
        "trees_xgb_sparse_union": (make_pipeline(make_union(scaled(), sparse), preprocessing.MaxAbsScaler(),
                                                 xgb.XGBRegressor(**few)), x, y),
        "trees_xgb_missing": (make_pipeline(scaled(with_std=False, with_mean=False), xgb.XGBRegressor(missing=-1, **few)),
                              x, y),
        "trees_xgb_codes": (make_pipeline(codes, xgb.XGBRegressor(**few, **kinds)), x, y),
        "trees_xgb_forest": (make_pipeline(scaled(), xgb.XGBRFRegressor(**few)), x, y),
        "trees_xgb_dart": (make_pipeline(scaled(), xgb.XGBRegressor(booster="dart", rate_drop=0.5, **few)), x, y),
        "trees_xgb_outputs": (make_pipeline(scaled(), xgb.XGBRegressor(**few)), x, np.stack([y, -2 * y + x[:, 1]], 1)),
        "trees_xgb_alone": (xgb.XGBRegressor(**few), gaps, y),
        "xgb_two": (make_pipeline(columns, xgb.XGBClassifier(**few)), gaps, two),
        "xgb_three": (make_pipeline(scaled(), xgb.XGBClassifier(**few)), gaps, three),
        "xgb_labels": (make_pipeline(scaled(), xgb.XGBClassifier(objective="multi:softmax", **few)), gaps, three),
        "xgb_counts": (make_pipeline(scaled(), xgb.XGBRegressor(objective="count:poisson", **few)), x, abs(y)),
        "trees_lgb": (make_pipeline(scaled(), lgb.LGBMRegressor(**leaves)), gaps, y),
        "trees_lgb_columns": (make_pipeline(columns, lgb.LGBMRegressor(**leaves)), gaps, y),
        "trees_lgb_sparse": (make_pipeline(sparse, lgb.LGBMRegressor(**leaves)), x, y),
        "trees_lgb_alone": (lgb.LGBMRegressor(**leaves), gaps, y),
        "lgb_two": (make_pipeline(columns, lgb.LGBMClassifier(**leaves)), gaps, two),
        "lgb_texts": (make_pipeline(scaled(), lgb.LGBMClassifier(**leaves)), gaps,
                      np.array(["muon", "electron", "jet"])[three]),
        "lgb_each": (make_pipeline(scaled(), lgb.LGBMClassifier(objective="multiclassova", **leaves)), gaps, three),
        "lgb_forest": (make_pipeline(scaled(), lgb.LGBMClassifier(
            boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, **leaves)), gaps, two),
    }  # fmt: skip
    early = xgb.XGBRegressor(n_estimators=300, max_depth=6, learning_rate=1, early_stopping_rounds=2)
    stopped = lgb.LGBMRegressor(**{**leaves, "n_estimators": 300, "learning_rate": 1})
    for name, model, how in (
        ("trees_xgb_early", early, {"verbose": False}),
        ("trees_lgb_early", stopped, {"callbacks": [lgb.early_stopping(2, verbose=False)]}),
    ):
        scaler = scaled().fit(x[:300])
        model.fit(scaler.transform(x[:300]), y[:300], eval_set=[(scaler.transform(x[300:]), y[300:])], **how)
        found[name] = (make_pipeline(scaler, model), x, None)
    return found


def kinds(rng):
    """Estimators beside linear models, networks, trees and their compositions; those of neighbours are called `n_`."""
    import numpy as np
    from sklearn import (
        covariance,
        cross_decomposition,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_selection,
        gaussian_process,
        impute,
        kernel_approximation,
        kernel_ridge,
        linear_model,
        mixture,
        model_selection,
        multioutput,
        naive_bayes,
        neighbors,
        preprocessing,
        random_projection,
        semi_supervised,
        svm,
        tree,
    )
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (which its import permits)
    from sklearn.gaussian_process import kernels
    from sklearn.pipeline import make_pipeline

    x, y, three = data(rng)
    two, texts = (three > 0).astype(int), np.array(["muon", "electron", "jet"])[three]
    several, gaps, seed = np.stack([y, -2 * y + x[:, 1]], 1), missing(rng, x), {"random_state": 0}
    scaled, counts = preprocessing.StandardScaler, np.floor(abs(x) / [9, 1, 0.5, 0.2, 1, 3])
    found = {}
    for name, transformer, given, target in (
        ("independent", decomposition.FastICA(3, **seed), x, None),
        ("independent_bare", decomposition.FastICA(whiten=False, max_iter=20, **seed), x, None),
        ("in_parts", decomposition.IncrementalPCA(3, whiten=True), x, None),
        ("factors", decomposition.FactorAnalysis(2), x, None),
        ("sparse_components", decomposition.SparsePCA(2, max_iter=20, **seed), x, None),
        ("random", random_projection.GaussianRandomProjection(3, **seed), x, None),
        ("nearness", neighbors.NeighborhoodComponentsAnalysis(2, max_iter=5, **seed), x, three),
        ("discriminants", discriminant_analysis.LinearDiscriminantAnalysis(n_components=1), x, three),
        ("discriminants_eigen", discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen"), x, three),
        ("waves", kernel_approximation.RBFSampler(n_components=30, **seed), x, None),
        *((f"nystroem_{each}", kernel_approximation.Nystroem(each, n_components=5, **seed), x, None)
          for each in ("rbf", "laplacian", "cosine", "poly", "sigmoid")),
        ("nystroem_given", kernel_approximation.Nystroem("poly", gamma=0.3, degree=2, coef0=0.5, n_components=20, **seed), x, None),
        ("kernels", decomposition.KernelPCA(3, kernel="rbf"), x, None),
        ("kernels_poly", decomposition.KernelPCA(4, kernel="poly", degree=2, gamma=0.1), x, None),
        ("steps_forward", feature_selection.SequentialFeatureSelector(linear_model.Ridge(), n_features_to_select=2), x, y),
        ("generic", feature_selection.GenericUnivariateSelect(mode="k_best", param=2), x, three),
    ):  # fmt: skip
        found[f"m_{name}"] = (make_pipeline(scaled(), transformer), given, target)
        found[f"m_{name}_behind"] = (
            make_pipeline(scaled(), transformer, scaled(), linear_model.RidgeClassifier()), given, three)  # fmt: skip
    found["m_least_squares"] = (cross_decomposition.PLSSVD(2), x, several)
    spline = preprocessing.SplineTransformer
    for name, model, given in (
        *(
            (f"m_splines_{each}", spline(4, extrapolation=each), x)
            for each in ("constant", "linear", "continue", "periodic")
        ),
        ("m_splines_steps", spline(5, degree=1, include_bias=False), x),
        ("m_splines_gaps", spline(5, degree=2, knots="quantile", handle_missing="zeros"), gaps[:, :4]),
        ("m_iterative", impute.IterativeImputer(max_iter=3), gaps),
        (
            "m_iterative_ridge",
            impute.IterativeImputer(linear_model.Ridge(), max_iter=2, add_indicator=True, min_value=-1),
            gaps,
        ),
        ("n_gaps", impute.KNNImputer(n_neighbors=3), gaps[:40]),
        ("n_gaps_weighted", impute.KNNImputer(weights="distance", add_indicator=True), gaps[:40]),
    ):
        found[name] = (make_pipeline(scaled(), model), given, None)
    found["m_indicator"] = (impute.MissingIndicator(), gaps, None)
    found["m_target"] = (make_pipeline(preprocessing.TargetEncoder(**seed), linear_model.Ridge()), x[:, 4:], y)
    found["m_target_classes"] = (preprocessing.TargetEncoder(smooth=3.0, **seed), x[:, 4:], texts)
    for name, model in (
        ("tree", tree.DecisionTreeRegressor(max_depth=5)),
        ("forest", ensemble.RandomForestRegressor(7, max_depth=5, **seed)),
        ("extra", ensemble.ExtraTreesRegressor(7, max_depth=5, **seed)),
        ("bag", ensemble.BaggingRegressor(n_estimators=5, max_features=0.6, **seed)),
    ):
        found[f"trees_outputs_{name}"] = (make_pipeline(scaled(), model), gaps, several)
        found[f"alone_outputs_{name}"] = (model, x, several)
    for name, model, target in (
        ("each", multioutput.MultiOutputRegressor(svm.SVR()), several),
        ("chain", multioutput.RegressorChain(linear_model.Ridge(), order=[1, 0]), several),
        ("kernel_ridge", kernel_ridge.KernelRidge(kernel="rbf", gamma=0.2), y),
        ("kernel_ridge_outputs", kernel_ridge.KernelRidge(kernel="polynomial"), several),
        ("kernel_ridge_laplacian", kernel_ridge.KernelRidge(kernel="laplacian"), y),
        ("least_squares", cross_decomposition.PLSRegression(2), y),
        ("least_squares_outputs", cross_decomposition.PLSCanonical(1), several),
        ("medians", ensemble.AdaBoostRegressor(n_estimators=7, **seed), y),
        ("chosen", feature_selection.RFE(linear_model.LogisticRegression(), n_features_to_select=3), texts),
        ("consensus", linear_model.RANSACRegressor(**seed), y),
        ("taught", semi_supervised.SelfTrainingClassifier(linear_model.LogisticRegression()), three),
        ("search", model_selection.GridSearchCV(linear_model.LogisticRegression(), {"C": [1, 2]}, cv=2), three),
        ("search_numbers", model_selection.GridSearchCV(linear_model.Ridge(), {"alpha": [1, 2]}, cv=2), y),
        ("isolation", ensemble.IsolationForest(n_estimators=9, **seed), None),
        ("one_class", svm.OneClassSVM(nu=0.2), None),
        ("one_class_linear", linear_model.SGDOneClassSVM(**seed), None),
        ("envelope", covariance.EllipticEnvelope(**seed), None),
        ("centroids", neighbors.NearestCentroid(), texts),
        ("centroids_two", neighbors.NearestCentroid(priors="empirical", shrink_threshold=0.1), two),
        *((f"mixture_{each}", mixture.GaussianMixture(3, covariance_type=each, reg_covar=0.1, **seed), None)
          for each in ("full", "tied", "diag", "spherical")),
        ("mixture_bayesian", mixture.BayesianGaussianMixture(n_components=3, max_iter=20, **seed), None),
        ("truths", naive_bayes.BernoulliNB(binarize=0.2), texts),
        ("truths_two", naive_bayes.BernoulliNB(), two),
    ):  # fmt: skip
        found[f"e_{name}"] = (make_pipeline(scaled(), model), x, target)
    found["e_isolation_gaps"] = (
        ensemble.IsolationForest(n_estimators=9, max_features=0.6, contamination=0.1, **seed),
        gaps,
        None,
    )
    for name, target in (("", texts), ("_two", two)):
        found[f"e_counts{name}"] = (naive_bayes.MultinomialNB(), counts, target)
        found[f"e_complements{name}"] = (naive_bayes.ComplementNB(), counts, target)
        found[f"e_categories{name}"] = (naive_bayes.CategoricalNB(min_categories=4), counts[:, 4:], target)
    for name, kernel in (
        ("usual", kernels.ConstantKernel(2.0) * kernels.RBF([1, 2, 1, 1, 3, 1]) + kernels.WhiteKernel(0.1)),
        *((f"matern_{number}", kernels.Matern(2.0, nu=nu)) for number, nu in enumerate((0.5, 1.5, 2.5, np.inf))),
        ("rational", kernels.RationalQuadratic(2.0, 0.7) + kernels.ConstantKernel(0.3) * kernels.ConstantKernel(0.5)),
        ("periodic", kernels.ExpSineSquared(1.5, 4.0)),
        ("products", kernels.DotProduct(0.5) ** 2),
        ("constant", kernels.ConstantKernel(0.5)),
    ):
        model = gaussian_process.GaussianProcessRegressor(kernel, alpha=9.0, optimizer=None, normalize_y=True)
        found[f"e_process_{name}"] = (make_pipeline(scaled(), model), x[:60], (several if name == "usual" else y)[:60])
    knn, ball = neighbors.KNeighborsRegressor, {"algorithm": "ball_tree", "p": 3}
    for name, model, target in (
        ("numbers", knn(3), y),
        ("outputs", knn(4, weights="distance"), several),
        ("manhattan", knn(3, metric="manhattan", weights="distance"), y),
        ("powers", knn(3, **ball), y),
        ("all", knn(3, algorithm="brute"), y),
        ("classes", neighbors.KNeighborsClassifier(5, weights="distance"), texts),
        ("classes_two", neighbors.KNeighborsClassifier(4), two),
        ("outliers", neighbors.LocalOutlierFactor(5, novelty=True), None),
    ):
        found[f"n_{name}"] = (make_pipeline(scaled(), model), x[:40], None if target is None else target[:40])
    return found


def damaged(models):
    """Tracebacks of what is no ModelFault, for models whose arrays or numbers are others."""
    import copy
    import traceback

    from from_trees import pipelines
    from messages.requests import ModelFault
    from messages.sources import TreesCall

    forms = (
        lambda array: array[..., :-1],
        lambda array: array[None],
        lambda array: array[:0],
        lambda array: np.full(array.shape, np.nan),
        lambda array: np.full(array.shape, "a"),
    )
    for name, (model, given, target) in models.items():
        fitted = model.fit(given, target)
        last = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
        for attribute, value in vars(last).items():
            changed = []
            if isinstance(value, np.ndarray) and value.ndim and attribute != "feature_names_in_":
                changed = [form(value) for form in forms]
            elif isinstance(value, int | float) and not isinstance(value, bool):
                changed = [1 << 62, -1, np.nan, "a", None]
            for number, other_value in enumerate(changed):
                other = copy.copy(last)
                setattr(other, attribute, other_value)
                try:
                    pipelines.read_model(other, TreesCall())
                except ModelFault:
                    pass
                except Exception:  # noqa: BLE001 (whatever it is, the test reports it)
                    yield f"{name} {attribute} {number}: {traceback.format_exc()[-900:]}"


def texts(rng):
    """Models of data frames and of arrays with columns of texts, some of them missing."""
    import pandas as pd
    from sklearn import compose, ensemble, feature_selection, impute, linear_model, preprocessing
    from sklearn.pipeline import make_pipeline

    x, y, three = data(rng)
    frame = pd.DataFrame(x[:, :2], columns=list(COLUMNS[:2]))
    frame["charge"] = np.array(["minus", "none", "plus"])[x[:, 4].astype(int) + 1]
    frame["layer"] = x[:, 5].astype(int)
    gaps, nones = frame.copy(), frame.astype({"charge": object})
    gaps.loc[rng.random(_COUNT) < 0.2, ["pt", "charge"]] = np.nan
    nones.loc[rng.random(_COUNT) < 0.2, "charge"] = None
    one_hot, ordinal = preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder
    numbers = (make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler()), ["pt", "eta"])
    chosen = compose.make_column_transformer(
        (numbers[0], compose.make_column_selector(dtype_include=np.number)),
        (
            make_pipeline(
                one_hot(handle_unknown="ignore"),
                feature_selection.SelectPercentile(feature_selection.chi2, percentile=80),
            ),
            ["charge"],
        ),
    )

    def filled(strategy, encoder):
        imputer = impute.SimpleImputer(strategy=strategy, fill_value="lost" if strategy == "constant" else None)
        return compose.make_column_transformer((make_pipeline(imputer, encoder), ["charge"]), numbers)

    codes = ordinal(handle_unknown="use_encoded_value", unknown_value=-2, encoded_missing_value=-3)
    forest = ensemble.RandomForestRegressor(9, max_depth=5)
    return {
        "text_closed": (make_pipeline(compose.make_column_transformer((one_hot(), ["charge"])), linear_model.Ridge()), frame, y),
        "text_chosen": (make_pipeline(chosen, linear_model.LogisticRegression()), gaps, three),
        "text_frequent": (make_pipeline(filled("most_frequent", one_hot()), forest), gaps, y),
        "text_constant": (make_pipeline(filled("constant", codes), forest), gaps, y),
        "text_unseen": (make_pipeline(filled("constant", one_hot(handle_unknown="ignore")), forest), frame, y),
        "text_infrequent": (make_pipeline(
            filled("constant", one_hot(handle_unknown="infrequent_if_exist", max_categories=2)), forest), gaps, y),
        "text_infrequent_nones": (compose.make_column_transformer((ordinal(
            handle_unknown="use_encoded_value", unknown_value=-2, max_categories=2), ["layer", "charge"])), nones, None),
        "text_nones": (compose.make_column_transformer((codes, ["layer", "charge"])), nones, None),
        "text_array": (make_pipeline(one_hot(handle_unknown="ignore"), linear_model.Ridge()),
                       gaps[["charge"]].to_numpy(object), y),
    }  # fmt: skip


def as_numbers(given, categories):
    """A frame or an array of objects as x: positions of texts."""
    made = np.array(given, object)
    for each in categories:
        if each.given == "positions":
            known = {text: place for place, text in enumerate(each.values)}
            made[:, each.column] = [known.get(value, np.nan) for value in made[:, each.column]]
    return made.astype(np.float64)


def as_texts(x, given, categories, none):
    """Rows of x as a model of texts was trained, with texts for positions, `none` for missing ones."""
    import pandas as pd

    made = pd.DataFrame(x, columns=getattr(given, "columns", None)).astype(object)
    for each in categories:
        if each.given == "positions":
            known = dict(enumerate(each.values))
            values = [none if np.isnan(value) else known.get(value, "another") for value in x[:, each.column]]
            made.isetitem(each.column, pd.Series(values, dtype=object))
    return made if hasattr(given, "columns") else made.to_numpy(object)


def refused(rng):
    """File -> estimator or content that is not read."""
    import pandas as pd
    from sklearn import (
        calibration,
        cluster,
        compose,
        decomposition,
        dummy,
        ensemble,
        feature_selection,
        gaussian_process,
        impute,
        linear_model,
        model_selection,
        multiclass,
        naive_bayes,
        neighbors,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    x, y, three = data(rng)
    # libsvm follows these counts without checking them.
    counts = svm.SVC().fit(x, three > 0)
    counts._n_support = np.array([1 << 20, 1 << 20], np.int32)
    made, line = pipeline.make_pipeline, linear_model.LinearRegression()
    texts = pd.DataFrame({"a": x[:, 0], "b": np.array(["x", "y", "z"])[three]})
    text = compose.make_column_transformer((impute.SimpleImputer(strategy="most_frequent"), ["b"]))
    damaged = made(preprocessing.StandardScaler(), linear_model.LinearRegression()).fit(x, y)
    del damaged[0].scale_
    wider = made(preprocessing.StandardScaler(), ensemble.RandomForestRegressor(2, max_depth=2)).fit(x, y)
    wider.steps[0] = ("imputer", impute.SimpleImputer().fit(x[:, :3]))
    # scikit-learn makes places in memory of these, likewise.
    groups = preprocessing.OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist").fit(x[:, 4:])
    astray = preprocessing.OneHotEncoder().fit(x[:, 4:])
    groups._infrequent_indices[0] = groups._infrequent_indices[0] + (1 << 20)
    astray._n_features_outs = [1 << 20, 4]
    distributions = naive_bayes.GaussianNB().fit(x, three)
    distributions.theta_ = distributions.theta_[:, :1]
    target = compose.TransformedTargetRegressor
    return {
        "positive": decomposition.NMF(2, random_state=0).fit(abs(x)),
        "bicluster": cluster.SpectralClustering(2, affinity="rbf").fit(x[:30]),
        "equal_knots": preprocessing.SplineTransformer(knots="quantile").fit(x[:, [0, 4]]),
        "positive_behind": made(decomposition.NMF(2, random_state=0), line).fit(abs(x), y),
        "equal_rows": neighbors.KNeighborsRegressor(2).fit(np.round(x[:, 4:]), y),
        "own_distance": neighbors.KNeighborsRegressor(2, metric="chebyshev").fit(x, y),
        "novelty": neighbors.LocalOutlierFactor(3).fit(x),
        "matern": gaussian_process.GaussianProcessRegressor(
            gaussian_process.kernels.Matern(nu=0.7), optimizer=None).fit(x[:20], y[:20]),
        "several": tree.DecisionTreeClassifier(max_depth=2).fit(x, np.stack([three, three > 1], 1)),
        "chosen_none": feature_selection.SelectFpr(alpha=0.0).fit(x, three),
        "searched": model_selection.GridSearchCV(
            linear_model.LogisticRegression(), {"C": [1, 2]}, cv=2, scoring="f1").fit(x, three > 0),
        "by_pairs": svm.SVC(decision_function_shape="ovo").fit(x, three),
        "sure": svm.SVC(probability=True).fit(x, three > 0),
        "counts": counts,
        "hard": ensemble.VotingClassifier(
            [("a", multiclass.OneVsRestClassifier(linear_model.LogisticRegression()))]).fit(x, three),
        "voter": ensemble.VotingClassifier([("a", dummy.DummyClassifier())], voting="soft").fit(x, three),
        "stacked": ensemble.StackingClassifier([("a", dummy.DummyClassifier())], cv=2).fit(x, three),
        "pairs": multiclass.OneVsOneClassifier(line).fit(x, three),
        "target": target(line, transformer=preprocessing.QuantileTransformer(n_quantiles=9)).fit(x, y),
        "target_function": target(line, func=np.arcsinh, inverse_func=np.sinh).fit(x, y),
        "groups": groups,
        "groups_astray": astray,
        "distributions": distributions,
        "warm": calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), method="temperature").fit(x, three),
        "texts": text.fit(texts),
        "function": made(preprocessing.FunctionTransformer(np.sinh), line).fit(x / 100, y),
        "many": made(preprocessing.PolynomialFeatures(3), line).fit(x, y).set_params(polynomialfeatures__degree=99),
        "unfitted": made(preprocessing.StandardScaler(), linear_model.Ridge()),
        "damaged": damaged,
        "other_width": wider,
        "multilabel": made(preprocessing.StandardScaler(), linear_model.RidgeClassifier()).fit(
            x, np.stack([three > 0, three > 1], 1)),
    }  # fmt: skip


def hostile(folder):
    """File -> what makes it of a good one: the schema, and the files by name, of which it may change both."""
    import struct

    import lightgbm as lgb
    import xgboost as xgb
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skops import io

    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3))
    of_xgb = make_pipeline(StandardScaler(), xgb.XGBRegressor(n_estimators=2, max_depth=2)).fit(x, x[:, 0])
    of_lgb = make_pipeline(StandardScaler(), lgb.LGBMRegressor(n_estimators=2, verbose=-1)).fit(x, x[:, 0])
    model = bytes(of_xgb[1].get_booster().save_raw("ubj"))
    at = model.index(b"left_children[$l#L") + len(b"left_children[$l#L") + 8
    astray = model[:at] + struct.pack(">i", 1 << 20) + model[at + 4 :]

    def stored(name, content):
        return b"{L" + struct.pack(">q", len(name)) + name + content + b"}"

    def handle(content):
        def change(node, files):
            files[node["content"]["content"]["handle"]["file"]] = content

        return change

    def text(old, new):
        def change(node, _):
            held = node["content"]["content"]["_handle"]
            assert old in held["content"]
            held["content"] = held["content"].replace(old, new)

        return change

    nested, limit = StandardScaler(), sys.getrecursionlimit()
    for _ in range(90):
        nested = make_pipeline(nested)
    sys.setrecursionlimit(20 * limit)
    io.dump(nested, f"{folder}/nested.refused")
    sys.setrecursionlimit(limit)
    yield "nested"
    for name, pipeline, change in (
        ("xgb_astray", of_xgb, handle(stored(b"Model", astray))),
        ("xgb_empty", of_xgb, handle(b"")),
        ("xgb_other", of_xgb, handle(stored(b"Config", model))),
        ("xgb_text", of_xgb, lambda node, _: node["content"].update(content={})),
        ("xgb_loader", of_xgb, lambda node, _: node.update(__loader__="TypeNode")),
        ("xgb_renamed", of_xgb, lambda node, _: node.update(__class__="DMatrix")),
        ("lgb_astray", of_lgb, text("left_child=", "left_child=99 ")),
        ("lgb_cut", of_lgb, text("end of trees", "end")),
        ("lgb_best", of_lgb, lambda node, _: node["content"]["content"].pop("best_iteration")),
        ("catboost", of_lgb, lambda node, _: node.update(__module__="catboost.core", __class__="CatBoost")),
    ):
        path = f"{folder}/{name}.refused"
        io.dump(pipeline, path)
        with zipfile.ZipFile(path) as file:
            files = {each: file.read(each) for each in file.namelist()}
        schema = json.loads(files["schema.json"])
        (node,) = _boosters_in(schema)
        change(node, files)
        files["schema.json"] = json.dumps(schema).encode()
        with zipfile.ZipFile(path, "w") as file:
            for each, content in files.items():
                file.writestr(each, content)
        yield name


def _boosters_in(node):
    if isinstance(node, dict):
        found = [each for value in node.values() for each in _boosters_in(value)]
        return [*found, node] if node.get("__class__") == "Booster" else found
    return [each for value in node for each in _boosters_in(value)] if isinstance(node, list) else []


def _answer(model, x):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(x)
    if hasattr(model, "decision_function"):
        return model.decision_function(x)
    if hasattr(model, "classes_") and hasattr(model, "predict"):
        return np.array([[*model.classes_].index(each) for each in model.predict(x)], np.int32)
    made = (model.predict if hasattr(model, "predict") else model.transform)(x)
    return made.toarray() if hasattr(made, "toarray") else made


def write(folder: str) -> None:
    import pandas as pd
    from from_trees import pipelines, reading
    from messages.requests import ModelFault, Reference
    from messages.sources import ReadTrees, TreesCall
    from skops import io

    warnings.simplefilter("ignore")
    rng, cases = np.random.default_rng(0), {}
    every = {**models(rng), **frames(rng), **texts(rng), **boosters(rng), **composites(rng), **kinds(rng)}
    for name, (model, given, target) in every.items():
        if not name.endswith("_early"):
            model.fit(given, target)
        path, place = f"{folder}/{name}.skops", f"{folder}/{name}.parts"
        io.dump(model, path)
        os.makedirs(place)
        found = reading.read(ReadTrees(path=path, out=place), None)
        with np.load(f"{place}/rows.npz") as file:
            drawn = file["x"]
        categories = found.trees.categories
        asked = np.concatenate([as_numbers(given, categories), drawn])
        if name.startswith("n_"):  # the interpreter takes its time to sort
            asked = np.concatenate([given[:9], drawn[:40]])
        if name == "d_power_most":
            assert (np.abs(model.lambdas_ - 1) < 0.9).all()
            asked = np.concatenate([asked, np.finfo(given.dtype).max * np.sign(given[:1])])
        if name in ("p_dropped", "t_dropped"):
            asked = asked[: len(given)]
        as_given = pd.DataFrame(asked, columns=list(COLUMNS)) if name.startswith(("frame", "trees_frame")) else asked
        if name.startswith("text_"):
            as_given = as_texts(asked, given, categories, None if name.endswith("_nones") else np.nan)
        right = _answer(model, as_given)
        feeds, fetches = ({each.name: each.key for each in side} for side in (found.inputs, found.outputs))
        request = Reference(folder=path, tags=(), signature="", inputs="", out="", batch_sizes=(),
                            batched=(), stacked=(), framework="trees", feeds=feeds, fetches=fetches)  # fmt: skip
        runs = reading.TreesModel(request)
        (theirs,) = runs.run({"x": asked}).values()
        assert np.array_equal(theirs, right, equal_nan=True), name
        np.savez(
            f"{place}/case.npz", x=asked, right=right if right.dtype == np.float32 else np.asarray(right, np.float64)
        )
        cases[name] = {
            "output": found.outputs[0].name, "shape": found.outputs[0].shape, "dtype": found.outputs[0].dtype, "origin": found.origin,
            "continuous": runs.is_continuous, "drawn": len(drawn), "missing": int(np.isnan(drawn).sum()),
            "categories": [asdict(each)["values"] for each in categories],
            "columns": found.trees.columns, "compared": runs.compared["x"],
        }  # fmt: skip
    with open(f"{folder}/cases.json", "w", encoding="utf-8") as opened:
        json.dump(cases, opened)
    for name, model in refused(rng).items():
        io.dump(model, f"{folder}/{name}.refused")
    why = {}
    for path in sorted([*glob.glob(f"{folder}/*.refused"), *(f"{folder}/{name}.refused" for name in hostile(folder))]):
        name = os.path.basename(path).removesuffix(".refused")
        try:
            reading.model_of(path, TreesCall())
            why[name] = ["", ""]
        except ModelFault as fault:
            why[name] = [fault.message, fault.hint]
    for name, call in (("codes", TreesCall(categories="codes")), ("float32", TreesCall(dtype="float32"))):
        from sklearn.preprocessing import OneHotEncoder

        try:
            pipelines.read_model(OneHotEncoder().fit([[0.1], [0.2]]), call)
            why[name] = ["", ""]
        except ModelFault as fault:
            why[name] = [fault.message, fault.hint]
    why["broken"] = list(damaged(kinds(rng)))
    with open(f"{folder}/refused.json", "w", encoding="utf-8") as opened:
        json.dump(why, opened)


if __name__ == "__main__":
    program, place = sys.argv[1:]
    sys.path.insert(0, program)
    write(place)
