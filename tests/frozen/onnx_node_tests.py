"""ONNX's own tests of its operators: what the front-end reads, and what TensorFlow then computes.

    FRONTEND/bin/python onnx_node_tests.py read WORKER_PROGRAM FOLDER all|one     writes graphs, inputs and answers
    TOOLCHAIN/bin/python onnx_node_tests.py run WORKER_PROGRAM FOLDER all|one     writes results.json

`one`: the first test of each operator only. results.json: name of the test -> [operator, "passed" | "refused" | "failed", why].
"""

import json
import os
import sys
import warnings

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def operator_of(model) -> str:
    node = next((each for each in model.graph.node if each.op_type not in ("Constant", "Cast")), model.graph.node[0])
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def read(folder: str, which: str) -> None:
    """NAME/graph.json and tensors.npz, NAME/data.npz with inputs by name and answers in their order; index.json."""
    import onnx
    from from_onnx import reading
    from messages.requests import ModelFault
    from messages.sources import ReadOnnx
    from onnx.backend.test.case import collect_snippets  # noqa: F401 (imports every case)
    from onnx.backend.test.case.node import collect_testcases

    index, seen = {}, set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        operator = operator_of(case.model)
        if case.kind != "node" or (which == "one" and operator in seen):
            continue
        seen.add(operator)
        place = os.path.join(folder, case.name)
        os.makedirs(place, exist_ok=True)
        file = os.path.join(place, "model.onnx")
        onnx.save(case.model, file)
        try:
            found = reading.read(ReadOnnx(path=file, shapes={}, out=place), None)
            inputs, outputs = case.data_sets[0]
            names = [each.name for each in case.model.graph.input]
            arrays = {f"in/{key}": value for key, value in zip(names, inputs, strict=False)}
            kept = [each.name for each in case.model.graph.output]
            arrays.update({f"out/{key}": value for key, value in zip(kept, outputs, strict=False)})
            np.savez(os.path.join(place, "data.npz"), **{key: array(value) for key, value in arrays.items()})
            index[case.name] = [operator, "", case.rtol, case.atol, [each.key for each in found.inputs]]
        except ModelFault as fault:
            index[case.name] = [operator, fault.message, 0, 0, []]
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
        json.dump(index, file)


def array(value):
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def trees(forest, x):
    """own_calls.trees: TensorFlow has no code for it."""
    import tensorflow as tf
    from messages.forest import margins

    made = tf.numpy_function(lambda rows: margins(forest, rows), [x], forest.total)
    made.set_shape([None, forest.outputs])
    return made


def run(folder: str, _: str) -> None:
    import own_calls

    own_calls.trees = trees
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    results = {}
    for name, (operator, fault, rtol, atol, keys) in index.items():
        if fault:
            results[name] = [operator, "refused", fault]
        else:
            results[name] = [operator, *one(os.path.join(folder, name), rtol, atol, keys)]
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=0)


def one(folder: str, rtol: float, atol: float, keys: list) -> list:
    import tensorflow as tf
    from from_onnx import building
    from from_onnx.graphs import GRAPH, TENSORS
    from messages.requests import ModelFault

    try:
        with open(os.path.join(folder, GRAPH), encoding="utf-8") as file:
            document = json.load(file)
        with np.load(os.path.join(folder, TENSORS)) as file:
            arrays = {name: building._array(file[name], document["dtypes"].get(name)) for name in file.files}
        with np.load(os.path.join(folder, "data.npz")) as file:
            data = dict(file)
        try:
            function = building.function_of(document, arrays)
            made = function(*(tf.constant(data[f"in/{key}"]) for key in keys))
        except ModelFault:
            # The tests give axes, sizes and scales as inputs; in models they are constants.
            keys = as_constants(document, arrays, data, keys)
            function = building.function_of(document, arrays)
            made = function(*(tf.constant(data[f"in/{key}"]) for key in keys))
    except ModelFault as fault:
        return ["refused", fault.message]
    except Exception as error:  # noqa: BLE001 (any other failure is a failed test)
        return ["failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]
    for each in document["outputs"]:
        ours, theirs = made[each["name"]].numpy(), data[f"out/{each['key']}"]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return ["failed", f"{ours.dtype}{list(ours.shape)}, and not {theirs.dtype}{list(theirs.shape)}"]
        if not agree(ours, theirs, rtol, atol):
            return ["failed", f"other values in {each['key']}"]
    return ["passed", ""]


def as_constants(document: dict, arrays: dict, data: dict, keys: list) -> list:
    """Make all inputs but the first, and those of several axes, constants of the graph; returns the others."""
    moved = [key for key in keys if data[f"in/{key}"].ndim < 2 and (key != keys[0] or data[f"in/{key}"].ndim == 0)]
    for number, key in enumerate(moved):
        arrays[f"given{number}"] = data[f"in/{key}"]
        document["graph"]["tensors"][key] = f"given{number}"
    document["inputs"] = [each for each in document["inputs"] if each["key"] not in moved]
    return [key for key in keys if key not in moved]


def agree(ours, theirs, rtol: float, atol: float) -> bool:
    if theirs.dtype.kind not in "fc":
        return bool((ours == theirs).all())
    if theirs.dtype == np.float16:
        rtol = max(rtol, 2.0**-9)  # two roundings
    # Sums are as exact as their largest terms.
    finite = np.abs(theirs[np.isfinite(theirs)])
    return bool(np.allclose(ours, theirs, rtol=rtol, atol=max(atol, 2.0**-22 * finite.max(initial=0)), equal_nan=True))


def main() -> None:
    what, program, folder, which = sys.argv[1:]
    sys.path.insert(0, program)
    {"read": read, "run": run}[what](folder, which)


if __name__ == "__main__":
    main()
