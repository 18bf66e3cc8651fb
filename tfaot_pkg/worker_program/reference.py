"""The answers of a model's own framework, run as this framework runs it, without any of our rewrites."""

import importlib

import numpy as np
from messages import elements
from messages.elements import write_arrays
from messages.requests import ModelFault, Reference, Referenced, one_line

_SHIFT = 2
"""Perturbed inputs differ by at most this many units in the last place."""

_MODELS = {
    "tensorflow": ("reference_tensorflow", "TensorFlowModel"),
    "onnx": ("from_onnx.answers", "OnnxModel"),
    "jax": ("from_mlir.answers", "JaxModel"),
    "trees": ("from_trees.reading", "TreesModel"),
}
"""Framework -> the module and class of the model that it runs, constructed from the request.

Such a model has `run` (held arrays by name -> numbers by name, elements.py), `dtypes` of its inputs, `exactly()`,
which returns None or a more exact `run`, `operations`, the kinds of operations in it, `rejections`, the exceptions that
the framework raises for inputs it rejects, and the framework's `version`. With `is_continuous` false, its answers are
steps, at thresholds that the library must have to the bit: roundings of inputs excuse no difference.
"""


_NO_THREE_FRY = "counter must be a vector with length at least 2"
"""TensorFlow's error for `alg="threefry"` on a CPU, whose operations support Philox only."""
_THREE_FRY = "TensorFlow draws ThreeFry's numbers on accelerators only: use alg='philox' or 'auto_select'"
_ADVICE = {
    _NO_THREE_FRY: _THREE_FRY,
    "No OpKernel was registered": "TensorFlow has no kernel of this operation for CPUs, so there are no answers to "
    "compare with: replace it (SegmentSumV2 by tf.math.unsorted_segment_sum; NCHW by a transposed array)",
}
"""What to do, by a part of TensorFlow's message."""
_OTHER_INPUTS = "if the model is right, give inputs that it takes: validation: {inputs: FILE.npz}"
_NAMES = {"tensorflow": "TensorFlow", "onnx": "ONNX Runtime", "jax": "JAX", "trees": "the library of the trees"}


def reference(request: Reference, report) -> Referenced:
    """Run the model on the inputs (.npz: name -> samples) cut into batches; write the answers to `request.out`.

    Inputs are held arrays, answers are numbers (elements.py). For each batch size B and output O the .npz contains
    "B/O": answers of all whole batches, or of the first `most`, batch axis first. Answers without a batch axis are
    those of the first batch.

    With `jit` XLA compiles the signature first. With `perturbed`, a number of tries, "B/O/spread" is how much the
    answers change if the inputs change by some roundings (the largest change of all tries), or how much each try is off
    because special functions lose digits. With `tolerant`, batches that the framework rejects are zeros, and "B/ran"
    is false for these; if none ran, "B/O" is missing. Batches that are not `chosen` are zeros, too.
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
    starts = _starts(inputs, request, size)
    chosen = request.chosen.get(str(size), range(len(starts)))
    batches = [
        _tried(model, inputs, request, start, size, refusals) if number in chosen else None
        for number, start in enumerate(starts)
    ]
    rejected = [number in chosen and batch is None for number, batch in enumerate(batches)]
    answers = {f"{size}/ran": ~np.array(rejected, bool)} if request.tolerant else {}
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
                next((advice for part, advice in _ADVICE.items() if part in str(error)), _OTHER_INPUTS),
            ) from error
        refusals.append(one_line(error))
        return None
    return answers


def _run(run, feeds: dict, request: Reference) -> dict:
    """The answers of a batch; row by row if the framework cannot compute batches."""
    if not request.by_row:
        return _bounded(run(feeds), feeds, request)
    rows = len(feeds[request.batched[0]])
    parts = [
        run({name: values[i : i + 1] if name in request.batched else values for name, values in feeds.items()})
        for i in range(rows)
    ]
    return {
        # Outputs without a batch axis are those of the first row.
        name: np.concatenate([part[name] for part in parts]) if name in request.stacked else first
        for name, first in parts[0].items()
    }


def _bounded(answers: dict, feeds: dict, request: Reference) -> dict:
    """`answers`; outputs whose number of rows depends on values are padded, with that number beside them."""
    for name, each in request.counted.items():
        answers[each.count] = np.array(len(answers[name]), np.int32)
        answers[name] = elements.padded(answers[name], each.most(feeds))
    return answers


def _spreads(model, feeds: dict, answers: dict, request: Reference) -> dict:
    # A fixed seed: the same build must get the same verdict.
    generator = np.random.default_rng(0)
    spreads = {f"{name}/spread": np.zeros(array.shape) for name, array in answers.items()}
    if not getattr(model, "is_continuous", True):
        return spreads
    exactly = model.exactly()
    for _ in range(request.perturbed):
        moved = {name: nudged(generator, values, model.dtypes[name]) for name, values in feeds.items()}
        try:
            theirs = _run(model.run, moved, request)
            right = theirs if exactly is None else _run(exactly, moved, request)
        except model.rejections:  # the model's own checks reject the perturbed inputs
            continue
        for name, array in answers.items():
            # Two sources of error: the perturbed inputs, and digits lost in special functions.
            off = np.maximum(distance(array, theirs[name]), distance(theirs[name], right[name]))
            np.maximum(spreads[f"{name}/spread"], off, out=spreads[f"{name}/spread"])
    return spreads


def nudged(generator, held, dtype: str):
    """`held`, perturbed by some roundings if it has floats."""
    values = elements.numbers(held, dtype)
    if values.dtype.kind != "f":
        return held
    # Relative to each number, so that zeros stay zeros.
    off = generator.uniform(-_SHIFT, _SHIFT, values.shape) * elements.epsilon(dtype)
    with np.errstate(all="ignore"):
        return elements.held((values + values * off.astype(values.dtype)).astype(values.dtype), dtype)


def distance(first, second):
    """|first - second|; infinite between a number and NaN, and between integers that differ."""
    if first.dtype.kind != "f":
        return np.where(first == second, 0.0, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
