"""Files of decision trees for the tests: scikit-learn's by its own hands, TMVA's written as TMVA writes them.

    FRONTEND/bin/python tree_files.py WORKER_PROGRAM FOLDER     trains, writes files, inputs and answers; reads them

NAME.parts has what was read of a file, refused.json says why others were not: {file: why}. Answers of scikit-learn are
those of the process that trained the model.
"""

import json
import os
import sys
import warnings

import numpy as np

NAMES = ("pt", "abs(eta)", "log(sip3d+1)", "n&gt;2 ? m : -1")
_BOTH = ("Signal", "Background")
TMVA = {
    "ada": ("Classification", "AdaBoost", "True", 0, _BOTH),
    "purity": ("Classification", "AdaBoost", "False", 0, _BOTH),
    "bagged": ("Classification", "Bagging", "True", 0, _BOTH),
    "grad": ("Classification", "Grad", "False", 1, _BOTH),
    "regression": ("Regression", "Grad", "False", 1, ("Regression",)),
    "several": ("Multiclass", "Grad", "False", 1, ("a", "b", "c")),
}


def weights(analysis: str, boost: str, by_type: str, trees: int, classes: tuple, count: int = 30) -> str:
    """A weight file of TMVA 4.2.1 with random trees."""
    rng = np.random.default_rng(7)
    options = {"V": "False", "NTrees": count, "BoostType": boost, "UseYesNoLeaf": by_type}
    lines = ['<?xml version="1.0"?>', '<MethodSetup Method="BDT::BDT">', "<GeneralInfo>"]
    lines += ['<Info name="TMVA Release" value="4.2.1 [262657]"/>', f'<Info name="AnalysisType" value="{analysis}"/>']
    lines += ["</GeneralInfo>", "<Options>"]
    lines += [f'<Option name="{name}" modified="Yes">{value}</Option>' for name, value in options.items()]
    lines += ["</Options>", f'<Variables NVar="{len(NAMES)}">']
    lines += [
        f'<Variable VarIndex="{i}" Expression="{name}" Label="{name}" Internal="v{i}" Type="F"/>'
        for i, name in enumerate(NAMES)
    ]
    lines += [
        "</Variables>",
        '<Spectators NSpec="1"><Spectator SpecIndex="0" Expression="mass" Label="mass"/></Spectators>',
    ]
    lines += [
        f'<Classes NClass="{len(classes)}">',
        *(f'<Class Name="{name}" Index="{i}"/>' for i, name in enumerate(classes)),
    ]
    lines += [
        "</Classes>",
        '<Transformations NTransformations="0"/>',
        f'<Weights NTrees="{count}" AnalysisType="{trees}">',
    ]
    for tree in range(count):
        lines.append(f'<BinaryTree type="DecisionTree" boostWeight="{abs(rng.normal()):.16e}" itree="{tree}">')
        lines += [*_node(rng, "s", 0), "</BinaryTree>"]
    return "\n".join([*lines, "</Weights>", "</MethodSetup>", ""])


def _node(rng, side: str, depth: int) -> list:
    is_leaf = depth == 4 or (depth > 0 and rng.random() < 0.2)
    kind = int(rng.choice([-1, 1])) if is_leaf else 0
    text = (
        f'<Node pos="{side}" depth="{depth}" NCoef="0" IVar="{-1 if is_leaf else rng.integers(len(NAMES))}" '
        f'Cut="{0 if is_leaf else rng.normal():.16e}" cType="{rng.integers(2)}" res="{rng.normal():.16e}" '
        f'rms="0.0e+00" purity="{rng.random():.16e}" nType="{kind}"'
    )
    if is_leaf:
        return [f"{text}/>"]
    return [f"{text}>", *_node(rng, "l", depth + 1), *_node(rng, "r", depth + 1), "</Node>"]


def estimators(rng, x):
    """Name -> estimator, inputs and targets."""
    from sklearn import ensemble, tree

    signs = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + rng.normal(size=len(x)) / 4
    three = (signs > -0.4).astype(int) + (signs > 0.6)
    missing = np.where(rng.random(x.shape) < 0.1, np.nan, x).astype(np.float32)
    categories = missing.astype(np.float64)
    categories[:, 1], categories[:, 3] = rng.integers(0, 40, len(x)) * 3, rng.integers(0, 5, len(x))
    categories[rng.random(len(x)) < 0.1, 3] = np.nan
    small = {"max_iter": 20, "categorical_features": [3, 1]}
    return {
        "forest": (ensemble.RandomForestClassifier(20, max_depth=6, random_state=0), missing, three),
        "extra": (ensemble.ExtraTreesRegressor(7, max_depth=6, random_state=0), x, signs),
        "tree": (tree.DecisionTreeRegressor(max_depth=5, random_state=0), x, signs),
        "boosted": (ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), x, three),
        "exponential": (ensemble.GradientBoostingClassifier(n_estimators=20, loss="exponential"), x, three > 0),
        "huber": (ensemble.GradientBoostingRegressor(n_estimators=20, loss="huber"), x, signs),
        "histogram": (ensemble.HistGradientBoostingClassifier(**small), categories, three),
        "two": (ensemble.HistGradientBoostingClassifier(**small), categories, three > 0),
        "poisson": (ensemble.HistGradientBoostingRegressor(max_iter=20, loss="poisson"), missing, np.abs(signs)),
        "bagged": (ensemble.BaggingClassifier(n_estimators=7, max_features=0.5, random_state=0), x, three),
        "ada": (ensemble.AdaBoostClassifier(n_estimators=9, random_state=0), x, three),
        "ada2": (ensemble.AdaBoostClassifier(n_estimators=9, random_state=0), x, three > 0),
    }


def write(folder: str) -> None:
    import joblib
    from from_trees import reading
    from messages.requests import ModelFault, Reference
    from messages.sources import ReadTrees, TreesCall
    from sklearn.ensemble import RandomTreesEmbedding
    from skops import io

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    x, inputs, right = rng.normal(size=(400, 4)).astype(np.float32), {}, {}
    for name, (model, given, target) in estimators(rng, x).items():
        model.fit(given, target)
        io.dump(model, f"{folder}/{name}.skops")
        asked = rng.normal(size=(300, 4)).astype(given.dtype)
        if given.dtype == np.float64:  # categories that were never seen, and that are none
            asked[:, 1] = rng.integers(-3, 200, 300)
            asked[:, 3] = rng.choice([-1, 0, 1, 2.5, 3, 9, 300, 1e9, np.nan], 300)
        inputs[f"{name}.skops"] = asked
        right[f"{name}.skops"] = model.predict_proba(asked) if hasattr(model, "classes_") else model.predict(asked)
    for name, given in TMVA.items():
        file = f"{name}.weights.xml"
        with open(f"{folder}/{file}", "w", encoding="utf-8") as opened:
            opened.write(weights(*given))
        asked = rng.normal(size=(300, 4)).astype(np.float32)
        asked[::9, 1], asked[::7, 2] = np.nan, -np.inf
        inputs[file] = asked
    for file in list(inputs):
        place = f"{folder}/{file}.parts"
        os.makedirs(place)
        found = reading.read(ReadTrees(path=f"{folder}/{file}", out=place), None)
        inputs[file] = inputs[file].astype(found.inputs[0].dtype)
        feeds, fetches = ({each.name: each.key for each in side} for side in (found.inputs, found.outputs))
        request = Reference(folder=f"{folder}/{file}", tags=(), signature="", inputs="", out="", batch_sizes=(),
                            batched=(), stacked=(), framework="trees", feeds=feeds, fetches=fetches)  # fmt: skip
        given = reading.TreesModel(request).run({found.inputs[0].name: inputs[file]})[found.outputs[0].name]
        assert file not in right or np.array_equal(given, right[file]), file
        right[file] = given
    np.savez(f"{folder}/inputs.npz", **inputs)
    np.savez(f"{folder}/answers.npz", **right)

    forest = estimators(rng, x)["extra"][0].fit(x, x[:, 0])
    io.dump(RandomTreesEmbedding(n_estimators=3).fit(x), f"{folder}/embedding.skops")
    io.dump({"run": os.system}, f"{folder}/program.skops")
    joblib.dump(forest, f"{folder}/forest.joblib")
    beyond = estimators(rng, x)["tree"][0].fit(x, x[:, 0])
    beyond.tree_.feature[0] = 1 << 20
    io.dump(beyond, f"{folder}/beyond.skops")
    _hostile(folder)
    refused = {}
    for file in sorted(set(os.listdir(folder)) - {*inputs, "inputs.npz", "answers.npz"}):
        if not file.endswith(".parts"):
            try:
                reading.model_of(f"{folder}/{file}", TreesCall())
                refused[file] = ""
            except ModelFault as fault:
                refused[file] = fault.message.replace(f"{folder}/", "")
    with open(f"{folder}/refused.json", "w", encoding="utf-8") as opened:
        json.dump(refused, opened)


def _hostile(folder: str) -> None:
    """Files that are none, and files with what is not read."""
    good = weights(*TMVA["grad"], count=2)
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    first = good.index('IVar="')
    made = {
        "entities": good.replace("<MethodSetup", f"{bomb}<MethodSetup", 1),
        "outside": good.replace("<MethodSetup", '<!DOCTYPE x SYSTEM "file:///etc/passwd"><MethodSetup', 1),
        "deep": "<MethodSetup Method='BDT::BDT'>" + "<a>" * 3000,
        "cut": good[: len(good) // 2],
        "network": good.replace("BDT::BDT", "MLP::MLP"),
        "fisher": good.replace('NCoef="0"', 'NCoef="4"', 1),
        "transformed": good.replace(
            '<Transformations NTransformations="0"/>',
            "<Transformations NTransformations='1'><Transform Name='Normalize'/></Transformations>",
        ),
        "median": good.replace(">Grad<", ">AdaBoostR2<").replace("Classification", "Regression"),
        "preselected": good.replace("</Options>", '<Option name="DoPreselection">True</Option></Options>'),
        "beyond": good[:first] + 'IVar="77' + good[first + len('IVar="0') :],
        "not_a_number": good.replace('Cut="', 'Cut="nan" was="', 1),
    }
    for name, text in made.items():
        with open(f"{folder}/{name}.xml", "w", encoding="utf-8") as file:
            file.write(text)
    for name, content in {
        "empty.skops": b"",
        "zip.skops": b"PK\3\4" + bytes(60),
        "half.xml": b"\x1f\x8b\x08" + bytes(9),
    }.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(content)


if __name__ == "__main__":
    program, place = sys.argv[1:]
    sys.path.insert(0, program)
    write(place)
