"""The answers of a model's own framework, run as this framework runs it, without any of our rewriting."""

import importlib

import numpy as np
from messages import elements
from messages.elements import write_arrays
from messages.requests import ModelFault, Reference, Referenced, one_line

_SHIFT = 2
"""Perturbed inputs are off by at most this many units in the last place."""

_MODELS = {
    "tensorflow": ("reference_tensorflow", "TensorFlowModel"),
    "onnx": ("from_onnx.answers", "OnnxModel"),
    "jax": ("from_mlir.answers", "JaxModel"),
    "trees": ("from_trees.reading", "TreesModel"),
}
"""Framework -> the module and the class of a model that it runs, made of the request.

Such a model has `run` (held arrays by name -> numbers by name, elements.py), `dtypes` of its inputs, `exactly()`,
which gives None or a more exact `run`, `operations`, the kinds of operations in it, `rejections`, the exceptions of
inputs that the framework refuses, and the framework's `version`.
"""


_NO_THREE_FRY = "counter must be a vector with length at least 2"
"""What TensorFlow says of `alg="threefry"` on a CPU, whose operations know Philox only."""
_THREE_FRY = "TensorFlow draws ThreeFry's numbers on accelerators only: use alg='philox' or 'auto_select'"
_NAMES = {"tensorflow": "TensorFlow", "onnx": "ONNX Runtime", "jax": "JAX", "trees": "the library of the trees"}


def reference(request: Reference, report) -> Referenced:
    """Run the model on the inputs (.npz: name -> samples) cut into batches; write the answers to `request.out`.

    Inputs are held, answers are numbers (elements.py). For each batch size B and output O the .npz holds "B/O": the
    answers of all whole batches, or of the first `most`, batch axis first. Answers without batch axis are those of the
    first batch.

    With `jit` XLA compiles the signature first. With `perturbed`, a number of tries, "B/O/spread" has by how much
    the answers change if the inputs are off by some roundings, the largest of the tries, or by how much they are off in
    each of them for lack of digits in special functions. With `tolerant`, batches that the framework rejects are
    zeros, and "B/ran" holds which of them ran; if none did, "B/O" is missing.
    """
    module, kind = _MODELS[request.framework]
    model = getattr(importlib.import_module(module), kind)(request)
    with np.load(request.inputs, allow_pickle=False) as file:
        inputs = dict(file)
    answers, refusals = {}, []
    for size in request.batch_sizes:
        answers.update(_at_size(model, inputs, request, size, refusals))
        report(request.advance, f"batch size {size}")
    write_arrays(request.out, answers)
    return Referenced(
        version=model.version, operations=tuple(model.operations), refusals=tuple(dict.fromkeys(refusals))[:3]
    )


def _at_size(model, inputs: dict, request: Reference, size: int, refusals: list) -> dict:
    batches = [_tried(model, inputs, request, start, size, refusals) for start in _starts(inputs, request, size)]
    answers = {f"{size}/ran": np.array([batch is not None for batch in batches])} if request.tolerant else {}
    whole = next((batch for batch in batches if batch is not None), None)
    for name in whole or ():
        parts = [np.zeros_like(whole[name]) if batch is None else batch[name] for batch in batches]
        answers[f"{size}/{name}"] = np.concatenate(parts) if _is_stacked(name, request) else parts[0]
    return answers


def _is_stacked(name: str, request: Reference) -> bool:
    return name.removesuffix("/spread") in request.stacked


def _starts(inputs: dict, request: Reference, size: int) -> range:
    samples = min((len(inputs[name]) for name in request.batched), default=size)
    return range(0, samples - size + 1, size)[: request.most]


def _tried(model, inputs: dict, request: Reference, start: int, size: int, refusals: list):
    """The answers for one batch; None if the framework rejects it and `tolerant` is set."""
    feeds = {
        name: values[start : start + size] if name in request.batched else values for name, values in inputs.items()
    }
    try:
        answers = _run(model.run, feeds, request)
        if request.perturbed:
            answers.update(_spreads(model, feeds, answers, request))
    except model.rejections as error:
        if not request.tolerant:
            raise ModelFault(
                f"{_NAMES[request.framework]} cannot run the model on the inputs of the validation: {one_line(error)}",
                _THREE_FRY
                if _NO_THREE_FRY in str(error)
                else "if the model is right, give inputs that it takes: validation: {inputs: FILE.npz}",
            ) from error
        refusals.append(one_line(error))
        return None
    return answers


def _run(run, feeds: dict, request: Reference) -> dict:
    """The answers of a batch; row by row if the framework computes no batches."""
    if not request.by_row:
        return _bounded(run(feeds), feeds, request)
    rows = len(feeds[request.batched[0]])
    parts = [
        run({name: values[i : i + 1] if name in request.batched else values for name, values in feeds.items()})
        for i in range(rows)
    ]
    return {
        name: np.concatenate([part[name] for part in parts]) if name in request.stacked else first
        for name, first in parts[0].items()
    }


def _bounded(answers: dict, feeds: dict, request: Reference) -> dict:
    """`answers`, where outputs whose rows values count have all rows that there may be, and a number."""
    for name, each in request.counted.items():
        values = answers[name]
        most = feeds[each.like].shape[each.axis] if each.like else each.rows
        answers[name] = np.concatenate([values, np.zeros((most - len(values), *values.shape[1:]), values.dtype)])
        answers[each.count] = np.array(len(values), np.int32)
    return answers


def _spreads(model, feeds: dict, answers: dict, request: Reference) -> dict:
    # Always the same moves: the same build must get the same verdict.
    generator = np.random.default_rng(0)
    spreads = {f"{name}/spread": np.zeros(array.shape) for name, array in answers.items()}
    exactly = model.exactly()
    for _ in range(request.perturbed):
        moved = {name: nudged(generator, values, model.dtypes[name]) for name, values in feeds.items()}
        try:
            theirs = _run(model.run, moved, request)
            right = theirs if exactly is None else _run(exactly, moved, request)
        except model.rejections:  # the model's own checks reject the moved inputs
            continue
        for name, array in answers.items():
            # Two ways of being off: by the moved inputs, and by digits that special functions lose.
            off = np.maximum(distance(array, theirs[name]), distance(theirs[name], right[name]))
            np.maximum(spreads[f"{name}/spread"], off, out=spreads[f"{name}/spread"])
    return spreads


def nudged(generator, held, dtype: str):
    """`held`, if floats, off by some roundings."""
    values = elements.numbers(held, dtype)
    if values.dtype.kind != "f":
        return held
    off = generator.uniform(-_SHIFT, _SHIFT, values.shape) * elements.epsilon(dtype)
    with np.errstate(all="ignore"):
        return elements.held((values + values * off.astype(values.dtype)).astype(values.dtype), dtype)


def distance(first, second):
    """|first - second|; infinite between a number and none, and between other integers."""
    if first.dtype.kind != "f":
        return np.where(first == second, 0.0, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
