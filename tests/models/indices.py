"""Models with inputs of integers that must be in range: indices, lengths, divisors, amounts of shifts.

    python indices.py FOLDER

writes FOLDER/NAME for each model. Runs in a toolchain's Python.
"""

import inspect
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

_RANDOM = np.random.default_rng(1)
TABLE = _RANDOM.normal(size=(50, 4)).astype(np.float32)
PLACES = _RANDOM.normal(size=30).astype(np.float32)
OTHER = _RANDOM.normal(size=(7, 4)).astype(np.float32)


def floats(*shape):
    return tf.TensorSpec(shape, tf.float32)


def integers(*shape, dtype=tf.int32):
    return tf.TensorSpec(shape, dtype)


def graph_network(nodes, edge_index):
    sources, targets = edge_index[0], edge_index[1]
    messages = tf.nn.tanh(tf.gather(nodes, sources) + tf.gather(nodes, targets) * 0.5)
    return nodes + tf.math.unsorted_segment_sum(messages, targets, tf.shape(nodes)[0])


def of_two_kinds(hits, tracks, edge_index):
    """Edges from nodes of one kind to those of another one."""
    messages = tf.gather(hits, edge_index[:, 0])
    return tracks + tf.math.unsorted_segment_sum(messages, edge_index[:, 1], tf.shape(tracks)[0])


def pooled(nodes, graph):
    """The number of the graph of each node, of four graphs."""
    return tf.math.unsorted_segment_mean(nodes, graph, 4)


def gather_nd(x, i):
    return tf.gather_nd(x, i)


def masked(x, length):
    mask = tf.sequence_mask(length, tf.shape(x)[1], dtype=tf.float32)
    return tf.reduce_sum(x * mask[:, :, tf.newaxis], 1) / tf.cast(tf.maximum(length, 1), tf.float32)[:, tf.newaxis]


MODELS = {
    "graph_network": (graph_network, floats(None, 4), integers(2, None, dtype=tf.int64)),
    "of_two_kinds": (of_two_kinds, floats(None, 4), floats(None, 4), integers(None, 2)),
    "pooled": (pooled, floats(None, 4), integers(None)),
    "embedding": (lambda tokens: tf.gather(TABLE, tokens), integers(None, 6)),
    "two_tables": (lambda ids: tf.gather(TABLE, ids[:, 0]) + tf.gather(OTHER, ids[:, 1]), integers(None, 2)),
    "float_ids": (lambda x: tf.gather(OTHER, tf.cast(x[:, 2], tf.int32)) * x[:, :1], floats(None, 3)),
    "one_hot": (lambda kind: tf.one_hot(kind, 9), integers(None)),
    "batch_dims": (lambda x, i: tf.gather(x, i, batch_dims=1), floats(None, 5, 3), integers(None, 4)),
    "gather_nd": (gather_nd, floats(6, 5, 3), integers(None, 2)),
    "scatter_nd": (lambda i, x: tf.scatter_nd(i, x, [8, 3]), integers(5, 1), floats(5, 3)),
    "slice_start": (lambda x, start: tf.slice(x, [0, start], [-1, 3]), floats(4, 10), integers()),
    "masked": (masked, floats(None, 12, 3), integers(None)),
    "divisor": (lambda x, y: x // y + x % y, integers(None, 3), integers(None, 3)),
    "mean_of_count": (lambda x, n: tf.cast(tf.reduce_sum(x, 1) // n, tf.float32), integers(None, 3), integers(None)),
    "shifted": (lambda x, by: tf.bitwise.left_shift(x, by) + tf.bitwise.right_shift(x, by), integers(None), integers(None)),
    "after_loop": (
        lambda tokens: tf.while_loop(
            lambda i, _: i < 6,
            lambda i, a: (i + 1, tf.tanh(a) + tf.gather(TABLE, tokens[:, i])),
            [0, tf.zeros((tf.shape(tokens)[0], 4))],
        )[1],
        integers(None, 6),
    ),
    "guarded": (lambda tokens: tf.gather(TABLE, tf.where(tokens < 50, tokens, 0)), integers(None, 2)),
    "unseen": (lambda i, j: tf.gather(PLACES, i * 5 + j) * tf.cast(i < 20, tf.float32), integers(None), integers(None)),
    "turned": (lambda x, length: tf.reverse_sequence(x, length, seq_axis=1), floats(4, 7), integers(4)),
    "shifted_ids": (lambda tokens: tf.gather(TABLE, tokens - 3), integers(None, 2)),
    "logarithm_of_count": (lambda n: tf.math.log(tf.cast(n - 1, tf.float32)), integers(None, 1)),
}  # fmt: skip


def main(folder):
    for name, (body, *specs) in MODELS.items():
        module = tf.Module()
        names = inspect.signature(body).parameters
        signature = [tf.TensorSpec(spec.shape, spec.dtype, name=each) for each, spec in zip(names, specs, strict=True)]

        def answer(*given, body=body):
            return {"y": body(*given)}

        # Otherwise all arguments would have the name `given`.
        answer.__signature__ = inspect.signature(body)
        module.body = tf.function(answer).get_concrete_function(*signature)
        tf.saved_model.save(module, os.path.join(folder, name), signatures=module.body)


main(sys.argv[1])
