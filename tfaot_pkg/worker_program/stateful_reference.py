"""TensorFlow's own answers, call by call, for signatures that keep variables or draw random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lifting
import numpy as np
import operations
import reachability
import reference
import saved_model
import signatures
from messages import elements
from messages.elements import features, write_arrays
from messages.requests import DrawNumbers, Nothing, RunSteps
from reference_tensorflow import tensor_of

if TYPE_CHECKING:
    import tensorflow as tf
    from framework_types import Array, Report


def run_steps(request: RunSteps, report: Report) -> Nothing:
    """Run the signature on the arrays in `inputs`, whose first axis is the steps; write the answers to `request.out`.

    For each output O the .npz has "outputs/O", all steps on the first axis, and for each variable V "state/V", its
    value after the last step, both as numbers (messages/elements.py). "spread/" before these names is the largest
    change of these numbers if all inputs change by some roundings.
    """
    with np.load(request.inputs, allow_pickle=False) as file:
        inputs = dict(file)
    steps = _Steps(request)
    answers = steps.run(inputs)
    # A fixed seed: the same build must get the same verdict.
    generator = np.random.default_rng(0)
    spreads = {f"spread/{name}": np.zeros(array.shape) for name, array in answers.items()}
    for _ in range(request.tries):
        nudged = {name: reference.nudged(generator, inputs[name], each) for name, each in steps.dtypes.items()}
        other = steps.run({**inputs, **nudged})
        for name, array in answers.items():
            spread = spreads[f"spread/{name}"]
            np.maximum(spread, reference.distance(array, other[name]), out=spread)
    write_arrays(request.out, answers | spreads)
    return Nothing()


class _Steps:
    def __init__(self, request: RunSteps) -> None:
        graph = saved_model.meta_graph(saved_model.read(request.folder), request.tags)
        name = lifting.with_variables(request.signature)
        found = reachability.reached_by(graph, name, saved_model.require_signature(graph, name))
        operations.require_none(found.faults)
        self._signature = signatures.imported(request.folder, graph, found)
        types = (tensor.dtype.name for tensor in self._signature.function.inputs)
        self.dtypes = dict(zip(self._signature.inputs, types, strict=False))  # variables follow the inputs
        self._begin = {key: variable.numpy() for key, variable in self._signature.variables.items()}
        keys = {each.name: key for key, each in lifting.variables_of(found.variables, graph.graph_def).items()}
        self._kept = {name: self._signature.variables[keys[name]] for name in request.variables}

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        # Each run begins with the trained values, because runs are compared with one another.
        for key, variable in self._signature.variables.items():
            variable.assign(self._begin[key])
        found: dict[str, list[Array]] = {}
        for step in range(len(next(iter(inputs.values())))):
            feeds = {name: tensor_of(inputs[name][step], dtype) for name, dtype in self.dtypes.items()}
            for name, tensor in self._signature(**feeds).items():
                found.setdefault(f"outputs/{name}", []).append(_numbers(tensor))
        answers = {name: np.stack(arrays) for name, arrays in found.items()}
        return {**answers, **{f"state/{name}": _numbers(variable) for name, variable in self._kept.items()}}


def _numbers(tensor: tf.Tensor) -> Array:
    return elements.numbers(tensor.numpy(), tensor.dtype.name)


def draw(request: DrawNumbers, report: Report) -> Nothing:
    """Call the signature `count` times on the arrays in `inputs`; write statistics of each output to `out`."""
    signature = signatures.load_signature(request.folder, request.tags, request.signature)
    types = dict(zip(signature.inputs, (tensor.dtype.name for tensor in signature.function.inputs), strict=False))
    with np.load(request.inputs, allow_pickle=False) as file:
        feeds = {name: tensor_of(file[name], dtype) for name, dtype in types.items()}
    found: dict[str, list[Array]] = {}
    for _ in range(request.count):
        for name, tensor in signature(**feeds).items():
            found.setdefault(name, []).append(features(elements.numbers(tensor.numpy(), tensor.dtype.name)))
    write_arrays(request.out, {name: np.stack(rows) for name, rows in found.items()})
    return Nothing()
