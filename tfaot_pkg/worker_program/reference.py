"""TensorFlow's own answers: the original SavedModel, run as TensorFlow runs it, without any of our rewriting."""

import exact
import numpy as np
import signatures

_SHIFT = 2
"""Perturbed inputs are off by up to so many units in the last place."""

_loaded: dict = {}
"""The model that was asked for last, and its other functions: one validation asks many times."""


def reference(args: dict, report) -> dict:
    """Run the signature on args["inputs"] (.npz: name -> samples) cut into batches; write the answers to args["out"].

    For each batch size B and output O the .npz holds "B/O": the answers of all whole batches, or of the first
    args["most"], batch axis first; args["batched"] names the inputs that have a batch axis, args["stacked"] the outputs
    that have one. Answers without batch axis are those of the first batch.

    With args["jit"] XLA compiles the signature first. With args["perturbed"], a number, "B/O/spread" holds by how much
    the answers change where the inputs are off by some roundings, the largest of so many tries, or by how much they are
    off in each of them for lack of digits in special functions (exact.py). With args["tolerant"]
    batches that TensorFlow refuses are zeros, and "B/ran" holds which of them ran; where none did, "B/O" is missing.
    Returns {"operations": of the graph, "refusals": the first messages}.
    """
    function = _function(args)
    with np.load(args["inputs"], allow_pickle=False) as file:
        inputs = dict(file)
    answers, refusals = {}, []
    for size in args["batch_sizes"]:
        answers.update(_at_size(function, inputs, args, size, refusals))
        report(args.get("advance", 1), f"batch size {size}")
    np.savez(args["out"], **answers)
    return {"operations": _operations(_loaded["signature"].function), "refusals": list(dict.fromkeys(refusals))[:3]}


def _function(args: dict):
    import tensorflow as tf

    wanted = (args["folder"], tuple(args["tags"]), args["signature"])
    if _loaded.get("wanted") != wanted:
        _loaded.clear()
        signature = signatures.load_signature(args["folder"], args["tags"], args["signature"])
        _loaded["signature"] = signature
        _loaded["jit"] = tf.function(lambda **feeds: signature(**feeds), jit_compile=True)  # noqa: PLW0108 (no function)
        _loaded["wanted"] = wanted
    return _loaded["jit" if args.get("jit") else "signature"]


def _operations(function) -> list:
    import operations

    return sorted({node.op for node in operations.nodes_of(function.graph.as_graph_def())})


def _at_size(function, inputs: dict, args: dict, size: int, refusals: list) -> dict:
    batches = [_tried(function, inputs, args, start, size, refusals) for start in _starts(inputs, args, size)]
    answers = {f"{size}/ran": np.array([batch is not None for batch in batches])} if args.get("tolerant") else {}
    whole = next((batch for batch in batches if batch is not None), None)
    for name in whole or ():
        parts = [np.zeros_like(whole[name]) if batch is None else batch[name] for batch in batches]
        answers[f"{size}/{name}"] = np.concatenate(parts) if _is_stacked(name, args) else parts[0]
    return answers


def _is_stacked(name: str, args: dict) -> bool:
    return name.removesuffix("/spread") in args["stacked"]


def _starts(inputs: dict, args: dict, size: int) -> range:
    samples = min((len(inputs[name]) for name in args["batched"]), default=size)
    return range(0, samples - size + 1, size)[: args.get("most")]


def _tried(function, inputs: dict, args: dict, start: int, size: int, refusals: list):
    """The answers for one batch; None where TensorFlow refuses it and args["tolerant"]."""
    import tensorflow as tf

    feeds = {
        name: values[start : start + size] if name in args["batched"] else values for name, values in inputs.items()
    }
    try:
        answers = _run(function, feeds)
        if args.get("perturbed"):
            answers.update(_spreads(function, _exactly(args), feeds, answers, args["perturbed"]))
    except (tf.errors.OpError, ValueError, TypeError) as error:
        if not args.get("tolerant"):
            raise
        refusals.append(" ".join(str(error).split())[:200])
        return None
    return answers


def _run(function, feeds: dict) -> dict:
    import tensorflow as tf

    return {name: tensor.numpy() for name, tensor in function(**{n: tf.constant(v) for n, v in feeds.items()}).items()}


def _spreads(function, exactly, feeds: dict, answers: dict, times: int) -> dict:
    """`exactly` is the same function with its special functions in float64, None where it has none."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    spreads = {f"{name}/spread": np.zeros(array.shape) for name, array in answers.items()}
    for _ in range(times):
        moved = {name: _moved(generator, values) for name, values in feeds.items()}
        try:
            theirs = _run(function, moved)
            right = theirs if exactly is None else _run(exactly, moved)
        except tf.errors.OpError:  # the model's own checks refuse what is moved
            continue
        for name, array in answers.items():
            off = np.maximum(_distance(array, theirs[name]), _distance(theirs[name], right[name]))
            np.maximum(spreads[f"{name}/spread"], off, out=spreads[f"{name}/spread"])
    return spreads


def _exactly(args: dict):
    """The signature with its special functions in float64; None where it has none."""
    if "exact" not in _loaded:
        wanted = (args["folder"], args["tags"], args["signature"])
        _loaded["exact"] = signatures.load_signature(*wanted, change=exact.in_double)
    return _loaded["exact"]


def _moved(generator, values):
    if values.dtype.kind != "f":
        return values
    off = generator.uniform(-_SHIFT, _SHIFT, values.shape) * np.finfo(values.dtype).eps
    with np.errstate(all="ignore"):
        return (values + values * off.astype(values.dtype)).astype(values.dtype)


def _distance(first, second):
    """|first - second|; infinite between a number and none, and between other integers."""
    if first.dtype.kind != "f":
        return np.where(first == second, 0.0, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
