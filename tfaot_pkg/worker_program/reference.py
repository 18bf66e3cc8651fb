"""The answers of a model's own framework, run as this framework runs it, without any of our rewrites."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from float64_reference import Walks
from messages import elements
from messages.elements import write_arrays
from messages.requests import ModelFault, Reference, Referenced, one_line

if TYPE_CHECKING:
    from framework_types import Array, Report


_SHIFT = 2
"""Perturbed inputs differ by at most this many units in the last place."""

_MODELS = {
    "tensorflow": ("reference_tensorflow", "TensorFlowModel"),
    "onnx": ("from_onnx.answers", "OnnxModel"),
    "qonnx": ("from_onnx.executed", "QonnxModel"),
    "hls4ml": ("from_hls4ml.emulator", "Hls4mlModel"),
    "conifer": ("from_conifer.emulator", "ConiferModel"),
    "jax": ("from_mlir.answers", "JaxModel"),
    "trees": ("from_trees.reading", "TreesModel"),
}
"""Framework -> the module and class of the model that it runs, constructed from the request.

Such a model has `run` (held arrays by name -> numbers by name, elements.py), `dtypes` of its inputs, `operations`, the
kinds of operations in it, `rejections`, the exceptions that the framework raises for inputs it rejects, and the
framework's `version`. If its graph can be run node by node it has `walk` (float64_reference.py), and `not_walked`, the
exceptions for nodes that cannot. With `is_continuous` false, its answers are steps, at thresholds that the library must
have to the bit: roundings of inputs excuse no difference. `compared` are the columns of each input that the model
compares with single numbers, such as categories, which roundings must not change.
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
_BESIDE = ("spread", "low", "high", "missing", "exact", "defined")
"""What may stand beside an output's answers."""
_OTHER_INPUTS = "if the model is right, give inputs that it takes: validation: {inputs: FILE.npz}"
_NAMES = {
    "tensorflow": "TensorFlow",
    "onnx": "ONNX Runtime",
    "qonnx": "QONNX",
    "hls4ml": "hls4ml",
    "conifer": "conifer",
    "jax": "JAX",
    "trees": "the library of the trees",
}


class Model(Protocol):
    """A model that its framework runs, as `_MODELS` says."""

    version: str
    dtypes: Mapping[str, str]
    rejections: tuple[type[Exception], ...]

    @property
    def operations(self) -> Sequence[str]: ...
    def run(self, feeds: dict[str, Array]) -> dict[str, Array]: ...


def reference(request: Reference, report: Report) -> Referenced:
    """Run the model on the inputs (.npz: name -> samples) cut into batches; write the answers to `request.out`.

    Inputs are held arrays, answers are numbers (elements.py). For each batch size B and output O the .npz contains
    "B/O": answers of all whole batches, or of the first `most`, batch axis first. Answers without a batch axis are
    those of the first batch.

    With `jit` XLA compiles the signature first; ONNX Runtime fuses operators of an ONNX file. With `perturbed`, a
    number of tries, "B/O/spread" is how much the answers change if the inputs change by some roundings (the largest
    change of all tries), "B/O/low" and "B/O/high" are the least and the largest answers, and "B/O/missing" says whether
    one was NaN. There may also be "B/O/exact", the answers in float64, "B/O/defined", those with what compiled code
    defines, and masks of rows, "B/free/FREEDOM/OPERATION" and "B/walked" (float64_reference.py). With `tolerant`,
    batches that the framework rejects are zeros, and "B/ran" is false for these; if none ran, "B/O" is missing. Batches
    that are not `chosen` are zeros, too.
    """
    module, kind = _MODELS[request.framework]
    model: Model = getattr(importlib.import_module(module), kind)(request)
    with np.load(request.inputs, allow_pickle=False) as file:
        inputs = dict(file)
    answers: dict[str, Array] = {}
    refusals: list[str] = []
    walks = Walks(model, request)
    for size in request.batch_sizes:
        answers.update(_at_size(model, inputs, request, size, refusals, walks))
        report(request.advance, f"batch size {size}")
    write_arrays(request.out, answers)
    return Referenced(
        version=model.version, operations=tuple(model.operations), refusals=tuple(dict.fromkeys(refusals))[:3]
    )


def _at_size(
    model: Model, inputs: dict[str, Array], request: Reference, size: int, refusals: list[str], walks: Walks
) -> dict[str, Array]:
    starts = _starts(inputs, request, size)
    chosen = request.chosen.get(str(size), range(len(starts)))
    batches = [
        _tried(model, inputs, request, start, size, refusals, walks) if number in chosen else None
        for number, start in enumerate(starts)
    ]
    rejected = [number in chosen and batch is None for number, batch in enumerate(batches)]
    answers = {f"{size}/ran": ~np.array(rejected, bool)} if request.tolerant else {}
    answered = [batch for batch in batches if batch is not None]
    shapes = {name: array for batch in answered for name, array in batch.items()}
    for name, like in shapes.items():
        nothing = _nothing(name, like)
        parts = [nothing if batch is None else batch.get(name, nothing) for batch in batches]
        answers[f"{size}/{name}"] = np.concatenate(parts) if _is_stacked(name, request) else parts[0]
    return answers


def _nothing(name: str, like: Array) -> Array:
    """What stands in the place of the answers of a batch that did not run."""
    return np.full_like(like, np.nan) if name.endswith("/exact") and like.dtype.kind == "f" else np.zeros_like(like)


def _is_stacked(name: str, request: Reference) -> bool:
    if name == "walked" or name.startswith("free/"):
        return bool(request.batched)
    for kind in _BESIDE:
        name = name.removesuffix(f"/{kind}")
    return name in request.stacked


def _starts(inputs: Mapping[str, Array], request: Reference, size: int) -> range:
    samples = min((len(inputs[name]) for name in request.batched), default=size)
    return range(0, samples - size + 1, size)[: request.most]


def _tried(
    model: Model, inputs: dict[str, Array], request: Reference, start: int, size: int, refusals: list[str], walks: Walks
) -> dict[str, Array] | None:
    """The answers for one batch; None if the framework rejects it and `tolerant` is set."""
    feeds = {
        name: values[start : start + size] if name in request.batched else values for name, values in inputs.items()
    }
    try:
        answers = _run(model.run, feeds, request)
        if request.perturbed:
            answers.update(_explored(model, feeds, answers, request, walks.of(feeds, answers, size)))
    except model.rejections as error:
        if not request.tolerant:
            raise ModelFault(
                f"{_NAMES[request.framework]} cannot run the model on the inputs of the validation: {one_line(error)}",
                next((advice for part, advice in _ADVICE.items() if part in str(error)), _OTHER_INPUTS),
            ) from error
        refusals.append(one_line(error))
        return None
    return answers


def _run(
    run: Callable[[dict[str, Array]], dict[str, Array]], feeds: dict[str, Array], request: Reference
) -> dict[str, Array]:
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


def _bounded(answers: dict[str, Array], feeds: dict[str, Array], request: Reference) -> dict[str, Array]:
    """`answers`; outputs whose number of rows depends on values are padded, with that number beside them."""
    for name, each in request.counted.items():
        answers[each.count] = np.array(len(answers[name]), np.int32)
        answers[name] = elements.padded(answers[name], each.most(feeds))
    return answers


def _explored(
    model: Model, feeds: dict[str, Array], answers: dict[str, Array], request: Reference, walked: dict[str, Array]
) -> dict[str, Array]:
    """What is known beside the `answers` of a batch, from perturbed runs and from `walked` (float64_reference.py)."""
    found = {name: array for name, array in walked.items() if not name.endswith("/plain")}
    changes = {name: _Changes(array) for name, array in answers.items()}
    for name, array in walked.items():
        if name.endswith("/plain"):
            changes[name.removesuffix("/plain")].add(array)
    for theirs in _perturbed_runs(model, feeds, request):
        for name, change in changes.items():
            change.add(theirs[name])
    for name, change in changes.items():
        found |= {
            f"{name}/spread": change.spread, f"{name}/low": change.low, f"{name}/high": change.high,
            f"{name}/missing": change.missing,
        }  # fmt: skip
    return found


def _perturbed_runs(model: Model, feeds: dict[str, Array], request: Reference) -> Iterator[dict[str, Array]]:
    """The answers for inputs that are off by some roundings; none if no input has floats."""
    # A fixed seed: the same build must get the same verdict.
    generator = np.random.default_rng(0)
    if not getattr(model, "is_continuous", True):
        return
    if not any(elements.numbers(values, model.dtypes[name]).dtype.kind == "f" for name, values in feeds.items()):
        return
    for _ in range(request.perturbed):
        moved = {name: nudged(generator, values, model.dtypes[name]) for name, values in feeds.items()}
        for name, columns in getattr(model, "compared", {}).items():
            moved[name][:, list(columns)] = feeds[name][:, list(columns)]
        try:
            yield _run(model.run, moved, request)
        except model.rejections:  # the model's own checks reject the perturbed inputs
            continue


class _Changes:
    """How the answers for one output change from run to run. Those with another shape are left out."""

    def __init__(self, answers: Array) -> None:
        self._answers = answers
        self.spread = np.zeros(answers.shape)
        self.low, self.high = answers.astype(np.float64), answers.astype(np.float64)
        self.missing = np.isnan(self.low)

    def add(self, theirs: Array) -> None:
        if theirs.shape != self._answers.shape:
            return
        np.maximum(self.spread, distance(self._answers, theirs), out=self.spread)
        numbers = theirs.astype(np.float64)
        self.missing |= np.isnan(numbers)
        np.fmin(self.low, numbers, out=self.low)
        np.fmax(self.high, numbers, out=self.high)


def nudged(generator: np.random.Generator, held: Array, dtype: str) -> Array:
    """`held`, perturbed by some roundings if it has floats."""
    values = elements.numbers(held, dtype)
    if values.dtype.kind != "f":
        return held
    # Relative to each number, so that zeros stay zeros.
    off = generator.uniform(-_SHIFT, _SHIFT, values.shape) * elements.epsilon(dtype)
    with np.errstate(all="ignore"):
        return elements.held((values + values * off.astype(values.dtype)).astype(values.dtype), dtype)


def distance(first: Array, second: Array) -> Array:
    """|first - second|; infinite between a number and NaN, and between integers that differ."""
    if first.dtype.kind != "f":
        return np.where(first == second, 0.0, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
