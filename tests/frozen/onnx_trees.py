"""Random decision trees of ai.onnx.ml, as the front-end reads them, and what ONNX Runtime answers.

FRONTEND/bin/python onnx_trees.py read WORKER_PROGRAM FOLDER COUNT     writes graphs, inputs and answers
"""

import json
import os
import sys

import numpy as np

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
ROWS = 64


class Trees:
    """Random trees, as nodes [tree, number, feature, value, mode, true, false, missing] in the order of files."""

    def __init__(self, rng, features: int, modes: tuple, missing: bool) -> None:
        self.rng, self.features, self.modes, self.missing = rng, features, modes, missing
        self.nodes: list = []
        for tree in range(int(rng.integers(1, 12))):
            self.grow(tree, 3, len(self.nodes))

    def grow(self, tree: int, depth: int, first: int) -> int:
        rng, number = self.rng, len(self.nodes) - first
        node = [tree, number, 0, 0.0, "LEAF", 0, 0, 0]
        self.nodes.append(node)
        if depth and rng.random() > 0.15:
            missing = int(rng.integers(2)) if self.missing else 0
            node[2:5] = int(rng.integers(self.features)), rounded(rng), self.modes[rng.integers(len(self.modes))]
            node[5:] = self.grow(tree, depth - 1, first), self.grow(tree, depth - 1, first), missing
        return number

    def column(self, place: int) -> list:
        return [node[place] for node in self.nodes]

    def leaves(self) -> list:
        return [(node[0], node[1]) for node in self.nodes if node[4] == "LEAF"]


def rounded(rng) -> float:
    return float(np.float32(np.round(rng.normal(), 1)))


def older(rng, number: int):
    """A classifier or regressor: its node, and the type of its input."""
    from onnx import TensorProto, helper

    features, is_double = int(rng.integers(1, 6)), rng.random() < 0.25
    trees = Trees(rng, features, MODES if number % 2 else MODES[:1], number % 3 == 0)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
             "missing_value_tracks_true")  # fmt: skip
    given = {f"nodes_{name}": trees.column(place) for place, name in enumerate(names)}
    is_classifier = rng.random() < 0.5
    kind, count = ("class", int(rng.integers(2, 5))) if is_classifier else ("target", int(rng.integers(1, 4)))
    which = [lambda _: range(count), lambda tree: [tree % count], lambda _: [0], lambda _: [count - 1]]
    chosen = which[rng.integers(4)]
    owners = [(tree, node, target) for tree, node in trees.leaves() for target in chosen(tree)]
    # skl2onnx lists the number of a leaf several times (decision_leaf).
    owners += owners[::3] if number % 7 == 0 else []
    for place, name in enumerate(("treeids", "nodeids", "ids")):
        given[f"{kind}_{name}"] = [owner[place] for owner in owners]
    weights = rng.normal(size=len(owners)) if number % 5 else rng.random(len(owners)) / 4
    # Values that are listed several times are added in another order: eighths have exact sums.
    weights = weights if number % 7 else np.round(8 * weights) / 8
    given[f"{kind}_weights"] = [float(np.float32(each)) for each in weights]
    # ONNX Runtime has base values for one output, or for all.
    given["base_values"] = [rounded(rng) for _ in range(count if rng.random() < 0.5 else 0)]
    given["post_transform"] = ("NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")[rng.integers(5)]
    if is_classifier:
        given["classlabels_int64s"] = [10 + each for each in range(count)]
        given["base_values"] = [] if number % 4 == 3 else given["base_values"]
    else:
        several = ("SUM", "AVERAGE", "MIN", "MAX")
        given.update(n_targets=count, aggregate_function=several[rng.integers(4)])
    if is_double:
        for name in ("nodes_values", f"{kind}_weights", "base_values"):
            values = given.pop(name)
            given[f"{name}_as_tensor"] = helper.make_tensor(name, TensorProto.DOUBLE, [len(values)], values)
        if not given["base_values_as_tensor"].dims[0]:
            del given["base_values_as_tensor"]
    given = {name: value for name, value in given.items() if value != []}
    outputs = ["label", "score"] if is_classifier else ["score"]
    node = helper.make_node(f"TreeEnsemble{'Classifier' if is_classifier else 'Regressor'}", ["x"], outputs,
                            domain="ai.onnx.ml", **given)  # fmt: skip
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32)
    # ONNX Runtime's regressors take floats only.
    plain = kinds[rng.integers(4)] if is_classifier else TensorProto.FLOAT
    return node, TensorProto.DOUBLE if is_double else plain, features


def newer(rng, number: int):
    """TreeEnsemble of version 5: its node, and the type of its input."""
    from onnx import TensorProto, helper

    features, count = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    modes = (*MODES, "BRANCH_MEMBER") if number % 2 else MODES[:1]
    trees = Trees(rng, features, modes, number % 3 == 0)
    dtype = TensorProto.DOUBLE if rng.random() < 0.25 else TensorProto.FLOAT
    inner = [node for node in trees.nodes if node[4] != "LEAF"]
    leaves = {name: place for place, name in enumerate(trees.leaves())}
    places = {(node[0], node[1]): place for place, node in enumerate(inner)}
    roots = [places[tree, 0] for tree in sorted({node[0] for node in trees.nodes}) if (tree, 0) in places]
    if not roots:
        return newer(rng, number)
    sides: dict = {"true": ([], []), "false": ([], [])}
    for node in inner:
        for side, child in (("true", node[5]), ("false", node[6])):
            name = (node[0], child)
            sides[side][0].append(leaves.get(name, places.get(name)))
            sides[side][1].append(int(name in leaves))
    members = [
        each for node in inner if node[4] == "BRANCH_MEMBER"
        for each in [*(float(part) for part in sorted(rng.choice(9, 3, replace=False) + 1)), float("nan")]
    ]  # fmt: skip
    given = {
        f"nodes_{side}{name}": sides[side][place] for side in sides for place, name in enumerate(("nodeids", "leafs"))
    }
    given.update(
        nodes_featureids=[node[2] for node in inner],
        nodes_missing_value_tracks_true=[node[7] for node in inner],
        nodes_modes=helper.make_tensor("m", TensorProto.UINT8, [len(inner)], [(*MODES, "BRANCH_MEMBER").index(node[4]) for node in inner]),
        nodes_splits=helper.make_tensor("s", dtype, [len(inner)], [node[3] for node in inner]),
        leaf_targetids=[int(rng.integers(count)) for _ in leaves],
        leaf_weights=helper.make_tensor("w", dtype, [len(leaves)], [rounded(rng) for _ in leaves]),
        tree_roots=roots,
        n_targets=count,
        aggregate_function=int(rng.integers(4)),
        # 1 and 2 are refused: ONNX Runtime has them the wrong way round.
        post_transform=int(rng.integers(2)) * 3,
    )  # fmt: skip
    if members:
        given["membership_values"] = helper.make_tensor("v", dtype, [len(members)], members)
    return helper.make_node("TreeEnsemble", ["x"], ["score"], domain="ai.onnx.ml", **given), dtype, features


def model_of(node, dtype: int, features: int):
    from onnx import TensorProto, helper

    score = helper.make_tensor_value_info(
        "score", dtype if node.op_type == "TreeEnsemble" else TensorProto.FLOAT, [None, None]
    )
    label = helper.make_tensor_value_info("label", TensorProto.INT64, [None])
    x = helper.make_tensor_value_info("x", dtype, [None, features])
    graph = helper.make_graph([node], "trees", [x], [label, score] if len(node.output) == 2 else [score])
    opsets = [
        helper.make_opsetid("", 18),
        helper.make_opsetid("ai.onnx.ml", 5 if node.op_type == "TreeEnsemble" else 3),
    ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def inputs(rng, dtype: int, features: int):
    from onnx import helper

    x = np.round(3 * rng.normal(size=(ROWS, features)), 1)
    x = np.where(rng.random(x.shape) < 0.3, np.round(x), x)
    made = helper.tensor_dtype_to_np_dtype(dtype)
    if made.kind == "f":
        x[rng.random(x.shape) < 0.1], x[rng.random(x.shape) < 0.03] = np.nan, np.inf
    return x.astype(made)


def read(folder: str, count: int) -> None:
    import onnx
    import onnxruntime
    from from_onnx import reading
    from messages.sources import ReadOnnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    index = {}
    for number in range(count):
        rng = np.random.default_rng(number)
        node, dtype, features = newer(rng, number) if number % 3 == 2 else older(rng, number)
        place = os.path.join(folder, str(number))
        os.makedirs(place)
        file = os.path.join(place, "model.onnx")
        onnx.save(model_of(node, dtype, features), file)
        try:
            session = onnxruntime.InferenceSession(file, options)
        except Exception as error:
            if "NOT_IMPLEMENTED" not in str(error) and "tree_ensemble" not in str(error):
                raise
            continue  # ONNX Runtime has no code for this combination
        x = inputs(rng, dtype, features)
        answers = dict(zip(("label", "score")[2 - len(node.output):], session.run(None, {"x": x}), strict=True))  # fmt: skip
        reading.read(ReadOnnx(path=file, shapes={}, out=place), None)
        np.savez(os.path.join(place, "data.npz"), x=x, **answers)
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        index[number] = [
            node.op_type,
            str(attributes.get("post_transform", b"")),
            str(attributes.get("aggregate_function", "")),
        ]
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
        json.dump(index, file)


def main() -> None:
    what, program, folder, count = sys.argv[1:]
    sys.path.insert(0, program)
    assert what == "read"
    read(folder, int(count))


main()
