"""ONNX files with inputs beside them: what ONNX Runtime answers, and what the converted graphs compute.

    FRONTEND/bin/python judged_files.py read WORKER_PROGRAM FOLDER     reads NAME.onnx and NAME.npz, which has its inputs
    TOOLCHAIN/bin/python judged_files.py run WORKER_PROGRAM FOLDER     writes results.json

results.json: {name: verdict}. A verdict is {"refused": why}, {"failed": why}, or {"off": the largest difference of numbers,
relative to the largest one of their output or to 1, "labels": rows whose whole numbers differ, "ties": those of them
whose highest scores are equal but for rounding}. Forests are computed by forest.py: TensorFlow has no code for them.
"""

import json
import os
import sys

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
TIE = 2e-6
"""Scores that differ by less, relative to the largest one, are equal but for rounding."""


def files_in(folder: str) -> list:
    return sorted(name[:-5] for name in os.listdir(folder) if name.endswith(".onnx"))


def read(folder: str) -> None:
    from from_onnx import answers, reading
    from messages.requests import ModelFault
    from messages.sources import ReadOnnx

    results = {}
    for name in files_in(folder):
        place = os.path.join(folder, f"{name}.read")
        os.makedirs(place, exist_ok=True)
        try:
            found = reading.read(ReadOnnx(path=os.path.join(folder, f"{name}.onnx"), shapes={}, out=place), None)
            with np.load(os.path.join(folder, f"{name}.npz")) as file:
                given = dict(file)
            runtime = answers._whole(found.file)
            feeds = {each.key: given[each.key] for each in found.inputs}
            made = runtime.run([each.key for each in found.outputs], feeds)
        except ModelFault as fault:
            results[name] = {"refused": str(fault)}
            continue
        arrays = {f"in/{each.name}": given[each.key] for each in found.inputs}
        arrays |= {f"out/{each.name}": values for each, values in zip(found.outputs, made, strict=True)}
        np.savez(os.path.join(place, "data.npz"), **arrays)
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file)


def computed(forest, x):
    """own_calls.trees for TensorFlow."""
    import tensorflow as tf
    from messages.forest import margins

    made = tf.numpy_function(lambda rows: margins(forest, rows), [x], forest.total)
    made.set_shape([None, forest.outputs])
    return made


def run(folder: str) -> None:
    import own_calls

    own_calls.trees = computed
    import tensorflow as tf
    from messages.requests import ModelFault

    # No program comes from what Grappler makes of a graph, and its folding of constants gives wrong numbers for some.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
        results = json.load(file)
    for name in files_in(folder):
        if name in results:
            continue
        try:
            results[name] = judged(os.path.join(folder, f"{name}.read"))
        except ModelFault as fault:
            results[name] = {"refused": str(fault)}
        except Exception as error:  # noqa: BLE001 (a verdict: the test names all files that failed)
            results[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file)


def judged(place: str) -> dict:
    import tensorflow as tf
    from from_onnx import building
    from from_onnx.graphs import GRAPH, TENSORS

    with open(os.path.join(place, GRAPH), encoding="utf-8") as file:
        document = json.load(file)
    with np.load(os.path.join(place, TENSORS)) as file:
        arrays = {name: building._array(file[name], document["dtypes"].get(name)) for name in file.files}
    with np.load(os.path.join(place, "data.npz")) as file:
        data = dict(file)
    feeds = [tf.constant(data[f"in/{each['name']}"]) for each in document["inputs"]]
    ours = {name: each.numpy() for name, each in building.function_of(document, arrays)(*feeds).items()}
    theirs = {name[4:]: each for name, each in data.items() if name.startswith("out/")}
    for name, right in theirs.items():
        if ours[name].dtype != right.dtype or ours[name].shape != right.shape:
            return {"failed": f"{name} is {ours[name].dtype}{ours[name].shape}, not {right.dtype}{right.shape}"}
    numbers = [name for name, right in theirs.items() if right.dtype.kind == "f"]
    differ = {name: ours[name] != theirs[name] for name in theirs if name not in numbers}
    differ = [each.reshape(len(each), -1).any(1) if each.ndim else each[None] for each in differ.values()]
    wrong = np.any(differ, axis=0) if differ else np.zeros(1, bool)
    equal = np.any([is_tie(theirs[name], len(wrong)) for name in numbers], axis=0) if numbers else np.zeros(1, bool)
    off = max([difference(ours[name], theirs[name]) for name in numbers], default=0.0)
    return {"off": off, "labels": int(wrong.sum()), "ties": int((wrong & equal).sum())}


def difference(ours, theirs) -> float:
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    finite = np.isfinite(theirs)
    if not (finite | same).all():
        return float("inf")
    largest = max(1.0, float(np.abs(theirs[finite]).max(initial=0)))
    apart = np.where(same, 0, np.abs(ours.astype(float) - theirs.astype(float)))
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0)) / largest


def is_tie(scores, rows: int):
    """Which rows have two highest scores that are equal but for rounding."""
    if scores.ndim != 2 or len(scores) != rows or scores.shape[1] < 2:
        return np.zeros(rows, bool)
    second, first = np.sort(scores, -1)[:, -2:].T
    return first - second <= TIE * max(1.0, float(np.abs(scores).max()))


def main() -> None:
    what, program, folder = sys.argv[1:]
    sys.path.insert(0, program)
    {"read": read, "run": run}[what](folder)


main()
