"""TensorFlow's own answers: the original SavedModel, run as TensorFlow runs it, without any of our rewriting."""

from dataclasses import dataclass

import numpy as np
import operations
import signatures
from lowerings import rename_output
from messages import elements
from messages.requests import Reference, Referenced

_SPECIAL = frozenset("Betainc Digamma Igamma IgammaGradA Igammac Lgamma Polygamma Zeta".split())
"""Their series lose digits in float32, as XLA's do: igamma(a, a + 1) is off by 5e-3 at a = 5,000, and by 0.1 at 1e5.

So they are computed in float64 as well, which tells how far off TensorFlow's own answers are."""
_SHIFT = 2
"""Perturbed inputs are off by at most this many units in the last place."""

_loaded: dict = {}
"""The model that was asked for last, and its other functions: one validation asks many times."""


def reference(request: Reference, report) -> Referenced:
    """Run the signature on the inputs (.npz: name -> samples) cut into batches; write the answers to `request.out`.

    Inputs are held, answers are numbers (elements.py). For each batch size B and output O the .npz holds "B/O": the
    answers of all whole batches, or of the first `most`, batch axis first. Answers without batch axis are those of the
    first batch.

    With `jit` XLA compiles the signature first. With `perturbed`, a number of tries, "B/O/spread" holds by how much
    the answers change if the inputs are off by some roundings, the largest of the tries, or by how much they are off in
    each of them for lack of digits in special functions. With `tolerant`, batches that TensorFlow rejects are zeros,
    and "B/ran" holds which of them ran; if none did, "B/O" is missing.
    """
    function = _function(request)
    with np.load(request.inputs, allow_pickle=False) as file:
        inputs = dict(file)
    signature = _loaded["signature"]
    # Behind the inputs come what the function captures: its variables.
    given = dict(zip(signature.inputs, (tensor.dtype.name for tensor in signature.function.inputs), strict=False))
    function = _Typed(function, given)
    answers, refusals = {}, []
    for size in request.batch_sizes:
        answers.update(_at_size(function, inputs, request, size, refusals))
        report(request.advance, f"batch size {size}")
    np.savez(request.out, **answers)
    return Referenced(
        operations=tuple(_operations(_loaded["signature"].function)), refusals=tuple(dict.fromkeys(refusals))[:3]
    )


def _function(request: Reference):
    import tensorflow as tf

    wanted = (request.folder, request.tags, request.signature)
    if _loaded.get("wanted") != wanted:
        _loaded.clear()
        signature = signatures.load_signature(request.folder, request.tags, request.signature)
        _loaded["signature"] = signature
        _loaded["jit"] = tf.function(lambda **feeds: signature(**feeds), jit_compile=True)  # noqa: PLW0108 (no function)
        _loaded["wanted"] = wanted
    return _loaded["jit" if request.jit else "signature"]


def _operations(function) -> list:
    return sorted({node.op for node in operations.nodes_of(function.graph.as_graph_def())})


def _at_size(function, inputs: dict, request: Reference, size: int, refusals: list) -> dict:
    batches = [_tried(function, inputs, request, start, size, refusals) for start in _starts(inputs, request, size)]
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


def _tried(function, inputs: dict, request: Reference, start: int, size: int, refusals: list):
    """The answers for one batch; None if TensorFlow rejects it and `tolerant` is set."""
    import tensorflow as tf

    feeds = {
        name: values[start : start + size] if name in request.batched else values for name, values in inputs.items()
    }
    try:
        answers = _run(function, feeds)
        if request.perturbed:
            answers.update(_spreads(function, _exactly(request), feeds, answers, request.perturbed))
    except (tf.errors.OpError, ValueError, TypeError) as error:
        if not request.tolerant:
            raise
        refusals.append(" ".join(str(error).split())[:200])
        return None
    return answers


@dataclass(frozen=True)
class _Typed:
    """A function of tensors, with the types of its inputs by name."""

    function: object
    dtypes: dict


def _run(typed: _Typed, feeds: dict) -> dict:
    """The answers as numbers."""
    given = {name: _tensor(values, typed.dtypes[name]) for name, values in feeds.items()}
    return {name: _numbers(tensor) for name, tensor in typed.function(**given).items()}


def _tensor(held, dtype: str):
    import tensorflow as tf

    made = tf.constant(held)
    return made if made.dtype == dtype else tf.bitcast(made, dtype)


def _numbers(tensor):
    return elements.numbers(tensor.numpy(), tensor.dtype.name)


def _spreads(function, exactly, feeds: dict, answers: dict, times: int) -> dict:
    """`exactly` is the same function with its special functions in float64, None if it has none."""
    import tensorflow as tf

    # Always the same moves: the same build must get the same verdict.
    generator = np.random.default_rng(0)
    spreads = {f"{name}/spread": np.zeros(array.shape) for name, array in answers.items()}
    for _ in range(times):
        moved = {name: _moved(generator, values, function.dtypes[name]) for name, values in feeds.items()}
        try:
            theirs = _run(function, moved)
            right = theirs if exactly is None else _run(_Typed(exactly, function.dtypes), moved)
        except tf.errors.OpError:  # the model's own checks reject the moved inputs
            continue
        for name, array in answers.items():
            off = np.maximum(_distance(array, theirs[name]), _distance(theirs[name], right[name]))
            np.maximum(spreads[f"{name}/spread"], off, out=spreads[f"{name}/spread"])
    return spreads


def _exactly(request: Reference):
    """The signature with its special functions in float64; None if it has none."""
    if "exact" not in _loaded:
        wanted = (request.folder, request.tags, request.signature)
        _loaded["exact"] = signatures.load_signature(*wanted, change=_in_double)
    return _loaded["exact"]


def _moved(generator, held, dtype: str):
    values = elements.numbers(held, dtype)
    if values.dtype.kind != "f":
        return held
    off = generator.uniform(-_SHIFT, _SHIFT, values.shape) * elements.epsilon(dtype)
    with np.errstate(all="ignore"):
        return elements.held((values + values * off.astype(values.dtype)).astype(values.dtype), dtype)


def _distance(first, second):
    """|first - second|; infinite between a number and none, and between other integers."""
    if first.dtype.kind != "f":
        return np.where(first == second, 0.0, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _in_double(graph_def) -> bool:
    """Let the special functions of float32 in `graph_def` be computed in float64; whether there were any."""
    from tensorflow.core.framework import types_pb2

    found = False
    for nodes, function in [(graph_def.node, None), *((f.node_def, f) for f in graph_def.library.function)]:
        for node in [node for node in nodes if node.op in _SPECIAL and node.attr["T"].type == types_pb2.DT_FLOAT]:
            found = True
            _compute_in_double(nodes, node, function)
    return found


def _compute_in_double(nodes, node, function) -> None:
    """`node` becomes a cast of what it was to float32."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    made = nodes.add(name=f"{node.name}/in_double", op=node.op)
    made.attr["T"].type = types_pb2.DT_DOUBLE
    for index, text in enumerate(node.input):
        if text.startswith("^"):
            made.input.append(text)
            continue
        given = nodes.add(name=f"{node.name}/double_{index}")
        _become_cast(given, text, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE)
        made.input.append(f"{given.name}:y:0" if function is not None else given.name)
    output = op_def_registry.get(node.op).output_arg[0].name
    result = f"{made.name}:{output}:0" if function is not None else made.name
    _become_cast(node, result, types_pb2.DT_DOUBLE, types_pb2.DT_FLOAT)
    if function is not None:
        rename_output(function, node.name, "y")


def _become_cast(node, text: str, source: int, target: int) -> None:
    node.op = "Cast"
    node.input[:] = [text]
    node.attr.clear()
    node.attr["SrcT"].type = source
    node.attr["DstT"].type = target
