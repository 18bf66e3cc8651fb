"""ONNX files with inputs beside them: what ONNX Runtime answers, and verdicts on other answers.

    FRONTEND/bin/python judged_files.py read WORKER_PROGRAM FOLDER     reads NAME.onnx and NAME.npz, which has its inputs

results.json: {name: verdict}. A verdict is {"refused": why}, {"failed": why}, or {"off": the largest difference of numbers,
relative to the largest one of their output or to 1, "labels": rows whose whole numbers differ, "ties": those of them
whose highest scores are equal but for rounding}.
"""

import json
import os
import sys

import numpy as np

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
            runtime = answers._whole(found.file, fusing=False)
            feeds = {each.key: given[each.key] for each in found.inputs}
            made = runtime.run([each.key for each in found.outputs], feeds)
        except ModelFault as fault:
            results[name] = {"refused": str(fault)}
            continue
        arrays = {f"in/{each.key}": given[each.key] for each in found.inputs}
        arrays |= {f"out/{each.key}": values for each, values in zip(found.outputs, made, strict=True)}
        np.savez(os.path.join(place, "data.npz"), **arrays)
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file)


def judged(ours: dict, data: dict) -> dict:
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
    assert what == "read"
    read(folder)


if __name__ == "__main__":
    main()
