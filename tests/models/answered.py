"""A model as the worker lists it, and what XLA computes for it: `frozen.json`, `weights.bin` and `answers.npz`."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# As in tests/conftest.py, whoever starts this: answers are kept, and read by other tests.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"

import numpy as np
import tensorflow as tf

ROWS = 5


def write(out, worker_program, model, specs, *, by_xla, one_zero=False):
    """`model`: a Keras model, or a function of tensors whose specifications are `specs`.

    `by_xla`: TensorFlow's own kernels reject the inputs, or leave open what they give for them. For others, XLA takes
    liberties with NaN and infinities (`xla_cpu_enable_fast_min_max`), as in no code that is compiled ahead of time.
    `one_zero`: without -0.0, which XLA sorts below 0.0. For TensorFlow, and in programs, they are equal.
    """
    if worker_program not in sys.path:
        sys.path.insert(0, worker_program)
    import freeze
    from messages import graph, wire

    saved = os.path.join(out, "model")
    module = tf.Module()
    if specs is None:
        module.net, function = model, lambda x: model(x, training=False)
        specs = [tf.TensorSpec([None, *model.inputs[0].shape[1:]], model.inputs[0].dtype, name="x")]
    else:
        function = model

    def serve(*values):
        results = function(*values)
        return results if isinstance(results, dict) else {"y": results}

    module.serve = tf.function(serve, input_signature=list(specs))
    tf.saved_model.save(module, saved, signatures=module.serve)
    chosen = graph.Chosen(folder=saved, tags=("serve",), signature="serving_default", shapes={}, inputs=(), outputs=())
    asked = graph.Freeze(model=chosen, weights="shared", threshold=1024, out=out, constants=True)
    frozen = freeze.freeze(asked, lambda *_: None)
    with open(os.path.join(out, "frozen.json"), "w") as file:
        file.write(wire.encoded(frozen))
    inputs = [given(spec, seed) for seed, spec in enumerate(specs)]
    if one_zero:
        inputs = [np.where(each == 0, np.zeros_like(each), each) for each in inputs]
    # As the inputs of the signature are named.
    answers = tf.function(serve, input_signature=list(specs), jit_compile=by_xla)(*map(tf.constant, inputs))
    np.savez(
        os.path.join(out, "answers.npz"), **{f"in_{spec.name}": each for spec, each in zip(specs, inputs, strict=True)},
        **{f"out_{key}": value.numpy() for key, value in answers.items()},
    )  # fmt: skip


def given(spec, seed):
    """Rows of random numbers; in the first one the ends of the type, and what lies near zero."""
    random, dtype = np.random.default_rng(seed), spec.dtype.as_numpy_dtype
    shape = [ROWS, *spec.shape[1:]]
    kind = np.dtype(dtype).kind
    if kind == "b":
        return random.random(shape) < 0.5
    if kind == "f":
        values = (2 * random.normal(size=shape)).astype(dtype)
        special = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            1e-37,
            1e30,
            -1e30,
            3e9,
            -3e9,
            0.5,
            -0.5,
            1.5,
            2.5,
            127.5,
            -129.0,
        ]
    else:
        values = random.integers(0, 6, shape).astype(dtype)
        ends = np.iinfo(dtype)
        special = [ends.max, ends.min, 0, 1, ends.max, ends.min, 7, 31, 64, 3, 100]
        special += [ends.min, -1, -5] if kind == "i" else []
        if spec.name == "n":
            special = [ends.max, ends.min, 1, 5]
    flat = values[0].reshape(-1) if values.ndim > 1 else values
    count = min(flat.size, len(special)) if values.ndim == 2 else 0
    order = random.permutation(len(special))[:count]
    flat[:count] = np.array(special, object)[order].astype(dtype)
    return values
