"""TensorFlow's own answers: the original SavedModel, run as TensorFlow runs it, without any of our rewriting."""

import freeze
import numpy as np


def reference(args: dict, report) -> dict:
    """Run the signature on args["inputs"] (.npz: name -> samples) cut into batches; write the answers to args["out"].

    For each batch size B and output O the .npz holds "B/O": the answers of all whole batches, batch axis first;
    args["batched"] names the inputs that have a batch axis, args["stacked"] the outputs that have one. Answers
    without batch axis are those of the first batch.
    """
    import tensorflow as tf

    loaded, function = freeze.load_signature(args["folder"], args["tags"], args["signature"])
    with np.load(args["inputs"], allow_pickle=False) as file:
        inputs = dict(file)
    answers = {}
    for size in args["batch_sizes"]:
        batches = [_run(tf, function, inputs, args["batched"], start, size) for start in _starts(inputs, args, size)]
        for name in batches[0]:
            parts = [batch[name] for batch in batches]
            answers[f"{size}/{name}"] = np.concatenate(parts) if name in args["stacked"] else parts[0]
        report(1, f"batch size {size}")
    np.savez(args["out"], **answers)
    del loaded
    return {}


def _starts(inputs: dict, args: dict, size: int) -> range:
    samples = min((len(inputs[name]) for name in args["batched"]), default=size)
    return range(0, samples - size + 1, size)


def _run(tf, function, inputs: dict, batched: list, start: int, size: int) -> dict:
    feeds = {
        name: tf.constant(values[start : start + size] if name in batched else values)
        for name, values in inputs.items()
    }
    return {name: tensor.numpy() for name, tensor in function(**feeds).items()}
