"""List the computations of many small models, as the worker does when it freezes one: FOLDER/NAME.json each.

    TOOLCHAIN/bin/python rows.py FOLDER WORKER_PROGRAM

Runs inside a toolchain's Python. Names that begin with "independent" are models of which each row depends on the same
row of the inputs alone; of those that begin with "dependent" no row does.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import loops  # noqa: F401 (its models are listed, too)
import tensorflow as tf
from row_models import (
    MODELS,
    Cell,
    batch_size,
    dependent,
    in_loop,
    independent,
    listing,
    of_tensorflow_1,
    row_numbers,
    rows,
    sequences,
    v1,
)

layers = tf.keras.layers


def keras(name, *chain, spec):
    """An independent model of layers, or of functions of Keras tensors."""
    value = first = tf.keras.Input(spec.shape[1:], dtype=spec.dtype)
    for layer in chain:
        value = layer(value)
    independent(name, tf.keras.Model(first, value), spec)


def as_column(values):
    return tf.cast(values, tf.float32)[:, None]


def halves(x):
    half = batch_size(x) // 2
    return x[:half], x[half:]


dependent("mean", lambda x: x - tf.reduce_mean(x, 0))
dependent("softmax", lambda x: tf.nn.softmax(x, 0))
dependent("odd batches only", lambda x: x * tf.cast(batch_size(x) % 2, tf.float32))
dependent("sort", lambda x: tf.sort(x, 0))
dependent("rank", lambda x: x + as_column(tf.argsort(tf.argsort(x[:, 0]))))
dependent("reverse", lambda x: tf.reverse(x, [0]))
dependent("reverse by index", lambda x: tf.gather(x, batch_size(x) - 1 - row_numbers(x)))
dependent("roll", lambda x: tf.roll(x, 1, 0))
dependent("neighbour", lambda x: tf.gather(x, tf.roll(row_numbers(x), 1, 0)))
dependent("shift", lambda x: tf.concat([x[1:], x[:1]], 0))
dependent("gather by data", lambda x: tf.gather(x, tf.argmax(x, 1)))
dependent("first row", lambda x: x + x[0])
dependent("last row", lambda x: x + x[-1])
dependent("batch size", lambda x: x * tf.cast(batch_size(x), tf.float32))
dependent("row number", lambda x: x + as_column(row_numbers(x)))
dependent("odd rows", lambda x: x * as_column(row_numbers(x) % 2))
dependent("masked sum", lambda x: x + tf.reduce_sum(tf.where(x > 0, x, 0.0)))
dependent("boolean mask", lambda x: x + tf.reduce_sum(tf.boolean_mask(x, x[:, 0] > 0)))
dependent("count", lambda x: x * tf.cast(tf.math.count_nonzero(x > 0), tf.float32))
dependent("cond on the batch", lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x))
dependent("cond on the size", lambda x: tf.cond(batch_size(x) > 3, lambda: x * 2.0, lambda: x * 3.0))
dependent("cond on a large size", lambda x: tf.cond(batch_size(x) > 100, lambda: x * 2.0, lambda: x + 3.0))
dependent("while", lambda x: tf.while_loop(lambda a: tf.reduce_max(a) > 1.0, lambda a: (a * 0.5,), [x])[0])
dependent("turns of the size", lambda x: in_loop(batch_size(x), lambda _, a: (a * 0.5,), x))
dependent(
    "normalization in training", lambda x: (x - tf.nn.moments(x, [0])[0]) * tf.math.rsqrt(tf.nn.moments(x, [0])[1])
)
dependent("fused normalization in training",
          lambda x: tf.compat.v1.nn.fused_batch_norm(x, tf.ones(3), tf.zeros(3), is_training=True)[0], rows(4, 4, 3))  # fmt: skip
dependent("running sum", lambda x: tf.cumsum(x, 0))
dependent("scan", lambda x: tf.scan(lambda a, b: a + b, x))
dependent("fold", lambda x: x + tf.foldl(lambda a, b: a + b, x))
dependent("attention over rows", lambda x: tf.matmul(x, x, transpose_b=True) @ x)
dependent("covariance", lambda x: x @ (tf.transpose(x) @ x))
dependent("norm of all", lambda x: tf.nn.l2_normalize(x, axis=None))
dependent("largest of all", lambda x: x / tf.reduce_max(tf.abs(x)))
dependent("top of rows", lambda x: x + tf.math.top_k(tf.transpose(x), 1)[0][:, 0])
dependent("segment sum", lambda x: tf.gather(
    tf.math.unsorted_segment_sum(x, tf.cast(tf.abs(x[:, 0]), tf.int32), 9), tf.cast(tf.abs(x[:, 0]), tf.int32)))  # fmt: skip
dependent("total", tf.reduce_sum)
dependent("random", lambda x: x + tf.random.stateless_uniform(tf.shape(x), [1, 2]))
dependent("all pairs", lambda x: tf.reduce_sum(tf.abs(x[:, None] - x[None]), 1))
dependent("pairs by loops",
          lambda x: tf.map_fn(lambda a: tf.reduce_sum(tf.map_fn(lambda b: tf.reduce_max(a * b), x)), x))  # fmt: skip
dependent("first row in a loop", lambda x: tf.map_fn(lambda a: a + x[0], x))
dependent("row before in a loop",
          lambda x: tf.map_fn(lambda i: x[tf.maximum(i - 1, 0)], row_numbers(x), fn_output_signature=tf.float32))  # fmt: skip
dependent("turn of a loop", lambda x: tf.map_fn(
    lambda t: t[0] * tf.cast(t[1], tf.float32), (x, row_numbers(x)), fn_output_signature=tf.float32))  # fmt: skip
dependent("convolution over rows", lambda x: tf.nn.conv1d(x[None], tf.ones([3, 4, 4]), 1, "SAME")[0])
dependent("rows cut apart", lambda x: tf.reshape(tf.transpose(x), tf.shape(x)))
dependent("sorted flat", lambda x: tf.reshape(tf.sort(tf.reshape(x, [-1])), [-1, 4]))
dependent("scattered elsewhere", lambda x: tf.tensor_scatter_nd_update(
    tf.zeros_like(x), tf.roll(row_numbers(x), 1, 0)[:, None], x))  # fmt: skip
dependent("flat index beyond the row", lambda x: tf.gather(tf.reshape(x, [-1]), row_numbers(x) * 4 + 5)[:, None])
dependent("siamese, the wrong half", lambda x, y: tf.reshape(tf.concat([x, y], 0), [-1, 2, 4])[:, 0],
          rows(4), rows(4, name="y"))  # fmt: skip


def recurrent_1(x, lengths, *, mixed=lambda state: state):
    """An LSTM in which steps are copied through after the end of a sequence."""
    time_first = tf.transpose(x, [1, 0, 2])
    inputs = tf.TensorArray(tf.float32, 6).unstack(time_first)
    outputs = tf.TensorArray(tf.float32, 6)
    zeros = tf.zeros([batch_size(x), 5])
    weights = tf.reshape(tf.sin(tf.range(8.0 * 20)), [8, 20])

    def step(time, outputs, cell, hidden):
        i, j, f, o = tf.split(tf.concat([inputs.read(time), hidden], 1) @ weights, 4, 1)
        new_cell = tf.sigmoid(f + 1.0) * cell + tf.sigmoid(i) * tf.tanh(j)
        new_hidden = tf.sigmoid(o) * tf.tanh(mixed(new_cell))
        ended = (time >= lengths)[:, None]
        outputs = outputs.write(time, tf.where(ended, tf.zeros_like(hidden), new_hidden))
        return time + 1, outputs, tf.where(ended, cell, new_cell), tf.where(ended, hidden, new_hidden)

    loop = tf.while_loop(lambda time, *_: time < 6, step, (tf.constant(0), outputs, zeros, zeros))
    return tf.reduce_sum(loop[1].stack(), 0) + loop[3]


weights = tf.TensorSpec([4], tf.float32, name="w")
dependent("first row joined", lambda x, w: x + tf.concat([w[None], tf.zeros([batch_size(x) - 1, 4])], 0),
          rows(4), weights)  # fmt: skip
dependent("first row padded", lambda x, w: x + tf.pad(w[None], [[0, batch_size(x) - 1], [0, 0]]), rows(4), weights)
dependent("first row scattered", lambda x, w: x + tf.tensor_scatter_nd_update(tf.zeros_like(x), [[0]], w[None]),
          rows(4), weights)  # fmt: skip
dependent("first row updated", lambda x, w: x + in_loop(
    1, lambda i, a: (tf.tensor_scatter_nd_update(a, i[None, None], w[None]),), tf.zeros_like(x)), rows(4), weights)  # fmt: skip
dependent("some rows of weights", lambda x, w: x + (tf.zeros([batch_size(x) + 3, 4]) + w)[2:-1] * tf.pad(
    w[None], [[0, batch_size(x) + 2], [0, 0]])[:-3], rows(4), weights)  # fmt: skip
dependent("weights by flat place", lambda x, w: x + tf.reshape(tf.zeros_like(x) + w, [-1])[:batch_size(x), None],
          rows(4), weights)  # fmt: skip
dependent("weights turned", lambda x, w: x + tf.reshape(
    tf.transpose(tf.zeros_like(x) + w), tf.shape(x)), rows(4), weights)  # fmt: skip
dependent("running sum of weights", lambda x, w: x + tf.cumsum(tf.zeros_like(x) + w, 0), rows(4), weights)
dependent("convolved weights", lambda x, w: x + tf.nn.conv1d((tf.zeros_like(x) + w)[None], tf.ones([3, 4, 4]), 1, "SAME")[0],
          rows(4), weights)  # fmt: skip
dependent("product of weights", lambda x, w: x + tf.matmul(tf.zeros_like(x) + w, tf.zeros_like(x) + w, transpose_a=True)[0],
          rows(4), weights)  # fmt: skip
independent("queries", lambda x, w: x + tf.reshape(tf.reshape(tf.tile(tf.reshape(w, [1, 2, 2]), [batch_size(x), 1, 1]), [-1, 2])
            @ tf.ones([2, 2]), [-1, 4]), rows(4), weights)  # fmt: skip
dependent("summed weights", lambda x, w: x + tf.reduce_sum(tf.zeros_like(x) + w, 0), rows(4), weights)

dependent("lstm of TensorFlow 1 with a mean over rows", of_tensorflow_1(
    lambda x, n: recurrent_1(x, n, mixed=lambda c: c - tf.reduce_mean(c, 0))), *sequences)  # fmt: skip
dependent("while of TensorFlow 1", of_tensorflow_1(
    lambda x: tf.while_loop(lambda a: tf.reduce_max(a) > 1.0, lambda a: (a * 0.5,), [x])[0]))  # fmt: skip
dependent("loop of TensorFlow 1 with the last row", of_tensorflow_1(
    lambda x: in_loop(3, lambda i, a: (a + a[-1] * tf.cast(i, tf.float32),), x)))  # fmt: skip
dependent("turns of TensorFlow 1 by the size", of_tensorflow_1(
    lambda x: in_loop(batch_size(x), lambda _, a: (a * 0.5,), x)))  # fmt: skip
dependent("cond of TensorFlow 1", of_tensorflow_1(
    lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x)))  # fmt: skip
independent("lstm of TensorFlow 1", of_tensorflow_1(recurrent_1), *sequences)
independent("dynamic_rnn of TensorFlow 1", of_tensorflow_1(
    lambda x: v1.nn.dynamic_rnn(Cell(), x, dtype=tf.float32)[0]), rows(6, 3))  # fmt: skip
independent("loop of TensorFlow 1 over time", of_tensorflow_1(
    lambda x: in_loop(5, lambda i, a: (tf.tanh(a) + x * tf.cast(i, tf.float32),), x)))  # fmt: skip
independent("loop of TensorFlow 1 in a loop", of_tensorflow_1(
    lambda x: in_loop(3, lambda i, a: (in_loop(i, lambda _, b: (b * 0.5,), a),), x)))  # fmt: skip
independent("cond of TensorFlow 1", of_tensorflow_1(
    lambda x, training: tf.cond(training, lambda: x * 2.0, lambda: x)),
    rows(4), tf.TensorSpec([], tf.bool, name="training"))  # fmt: skip
independent("cond of TensorFlow 1 in a loop", of_tensorflow_1(
    lambda x: in_loop(5, lambda i, a: (tf.cond(i > 2, lambda: a * 2.0, lambda: a + x),), x)))  # fmt: skip
independent("map of TensorFlow 1", of_tensorflow_1(lambda x: tf.map_fn(lambda r: r / (1.0 + tf.reduce_sum(r)), x)))

normalization = layers.BatchNormalization()
normalization.build((None, 4))
independent("normalization", lambda x: normalization(x, training=False))
keras("image normalization", layers.BatchNormalization(), spec=rows(6, 6, 3))
independent("layer normalization of Keras 2", lambda x: tf.reshape(tf.compat.v1.nn.fused_batch_norm(
    tf.reshape(x, [1, -1, 4, 1]), tf.ones([batch_size(x)]), tf.zeros([batch_size(x)]), epsilon=1e-3, data_format="NCHW")[0],
    [-1, 4]))  # fmt: skip
independent("dense", lambda x: tf.tanh(x @ tf.ones([4, 300])) @ tf.ones([300, 2]))
for name, layer in {
    "layer normalization": layers.LayerNormalization(),
    "group normalization": layers.GroupNormalization(3),
    "unit normalization": layers.UnitNormalization(),
    "lstm": layers.LSTM(5),
    "lstm sequence": layers.LSTM(5, return_sequences=True),
    "lstm backwards": layers.LSTM(5, go_backwards=True),
    "lstm unrolled": layers.LSTM(5, unroll=True),
    "gru": layers.GRU(5),
    "gru of the first kind": layers.GRU(5, reset_after=False),
    "simple rnn": layers.SimpleRNN(5),
    "cells": layers.RNN([layers.LSTMCell(3), layers.GRUCell(3)]),
    "bidirectional": layers.Bidirectional(layers.LSTM(5)),
    "conv1d": layers.Conv1D(4, 3, padding="same"),
    "causal": layers.Conv1D(4, 3, padding="causal", dilation_rate=2),
    "depthwise 1d": layers.DepthwiseConv1D(3),
    "separable 1d": layers.SeparableConv1D(4, 3),
    "transposed 1d": layers.Conv1DTranspose(4, 3, strides=2),
    "pool 1d": layers.MaxPooling1D(2),
    "time distributed": layers.TimeDistributed(layers.Dense(5)),
    "einsum dense": layers.EinsumDense("abc,cd->abd", output_shape=(None, 5)),
}.items():
    keras(name, layer, spec=rows(6, 3))
for name, layer in {
    "conv2d": layers.Conv2D(4, 3),
    "dilated": layers.Conv2D(4, 3, dilation_rate=2, padding="same"),
    "grouped": layers.Conv2D(4, 3, groups=2),
    "depthwise": layers.DepthwiseConv2D(3),
    "separable": layers.SeparableConv2D(4, 3),
    "transposed": layers.Conv2DTranspose(4, 3, strides=2),
    "pool": layers.AveragePooling2D(2),
    "upsampled": layers.UpSampling2D(interpolation="bilinear"),
    "resized": layers.Resizing(7, 9),
    "cropped": layers.CenterCrop(3, 3),
}.items():
    keras(name, layer, spec=rows(8, 8, 2))
keras("conv3d", layers.Conv3D(4, 3), spec=rows(6, 6, 6, 2))
keras("transposed 3d", layers.Conv3DTranspose(2, 2), spec=rows(4, 4, 4, 2))
keras("convolutional lstm", layers.ConvLSTM2D(3, 3), spec=rows(3, 6, 6, 2))
keras("images in time", layers.TimeDistributed(layers.Conv2D(2, 3)), spec=rows(3, 6, 6, 3))
keras("lstm with a mask", layers.Masking(), layers.LSTM(5), spec=rows(6, 3))
keras("gru with a mask", layers.Masking(), layers.GRU(5, return_sequences=True), spec=rows(6, 3))
keras("bidirectional with a mask", layers.Masking(), layers.Bidirectional(layers.GRU(5)), spec=rows(6, 3))
keras("embedding", layers.Embedding(50, 8), layers.GlobalAveragePooling1D(), spec=rows(6, dtype=tf.int32))
keras("embedding with a mask", layers.Embedding(50, 8, mask_zero=True), layers.LSTM(4), spec=rows(6, dtype=tf.int32))
keras("one hot", layers.CategoryEncoding(5, output_mode="one_hot"), spec=rows(1, dtype=tf.int32))
keras("reshaped", layers.Reshape((2, 6)), layers.Permute((2, 1)), layers.Flatten(), layers.Dense(3), spec=rows(4, 3))
keras("repeated", layers.RepeatVector(3), layers.GlobalMaxPooling1D(), spec=rows(4))
keras("dropout", layers.Dropout(0.5), layers.GaussianNoise(0.1), layers.SpatialDropout1D(0.2), spec=rows(4, 3))
keras("activations", layers.PReLU(), layers.LeakyReLU(), layers.ELU(), layers.Softmax(), spec=rows(4))
keras("buckets", layers.Discretization([0.0, 1.0]), spec=rows(4))
for causal in (False, True):
    attention = layers.MultiHeadAttention(2, 4)
    keras(f"attention{' to the past' if causal else ''}",
          lambda x, attention=attention, causal=causal: attention(x, x, use_causal_mask=causal), spec=rows(6, 8))  # fmt: skip
keras("dot attention", lambda x: layers.Attention()([x, x]), spec=rows(4, 3))
keras("additive attention", lambda x: layers.AdditiveAttention()([x, x]), spec=rows(4, 3))

independent("top k", lambda x: tf.math.top_k(x, 2)[0])
independent("places of top k", lambda x: tf.cast(tf.math.top_k(x, 2)[1], tf.float32))
independent("sort", lambda x: tf.sort(x, 1))
independent("argsort", lambda x: tf.argsort(x, 1))
independent("argmax", lambda x: tf.argmax(x, 1))
independent("flat argmax", lambda x: tf.argmax(tf.reshape(x, [-1, 12]), 1), rows(4, 3))
independent("search", lambda x: tf.searchsorted(tf.sort(x, 1), x))
independent("reverse", lambda x: tf.reverse(x, [1]))
independent("reverse sequence", lambda x, n: tf.reverse_sequence(x, n, 1, 0), rows(4), rows(dtype=tf.int32, name="n"))
independent("roll", lambda x: tf.roll(x, 1, 1))
independent("running sum", lambda x: tf.cumsum(x, 1))
independent("einsum", lambda x: tf.einsum("bij,bjk->bik", x, x), rows(4, 4))
independent("products", lambda x: tf.matmul(x, x, transpose_b=True), rows(4, 3))
independent("filters of the row", lambda x, w: tf.einsum("bij,bjk->bik", x, w), rows(4, 3), rows(3, 2, name="w"))
independent("masked sum", lambda x: x * tf.reduce_sum(tf.where(x > 0, x, 0.0), 1, keepdims=True))
independent("any of the row", lambda x: tf.where(tf.reduce_any(x > 0, 1, keepdims=True), x, -x))
independent("sequence mask", lambda x, n: x * tf.cast(tf.sequence_mask(n, 4), tf.float32),
            rows(4), rows(dtype=tf.int32, name="n"))  # fmt: skip
independent("norm", lambda x: tf.nn.l2_normalize(x, 1))


def edges(x, gather):
    distances = tf.reduce_sum((x[:, :, None] - x[:, None]) ** 2, -1)
    return tf.reduce_mean(gather(x, tf.math.top_k(-distances, 3)[1]), 2)


def with_row_numbers(x, indices):
    numbers = tf.tile(tf.reshape(row_numbers(x), [-1, 1, 1, 1]), [1, *indices.shape[1:], 1])
    return tf.concat([numbers, indices[..., None]], 3)


independent(
    "edges by row numbers", lambda x: edges(x, lambda x, i: tf.gather_nd(x, with_row_numbers(x, i))), rows(6, 3)
)
independent("edges by batch_dims", lambda x: edges(x, lambda x, i: tf.gather(x, i, batch_dims=1)), rows(6, 3))
independent(
    "edges by gather_nd", lambda x: edges(x, lambda x, i: tf.gather_nd(x, i[..., None], batch_dims=1)), rows(6, 3)
)
independent("edges by flat indices", lambda x: edges(
    x, lambda x, i: tf.gather(tf.reshape(x, [-1, 3]), i + row_numbers(x)[:, None, None] * 6)), rows(6, 3))  # fmt: skip
independent(
    "gather of the row", lambda x, i: tf.gather(x, i, axis=1, batch_dims=1), rows(4), rows(3, dtype=tf.int32, name="i")
)
independent("gather of two axes", lambda x, i: tf.gather(x, i, axis=2, batch_dims=2),
            rows(4, 5), rows(4, 3, dtype=tf.int32, name="i"))  # fmt: skip
independent("last valid", lambda x, n: tf.gather_nd(x, tf.stack([row_numbers(x), n - 1], 1)),
            rows(4, 3), rows(dtype=tf.int32, name="n"))  # fmt: skip
independent("mesh of indices", lambda x, i: tf.gather_nd(
    x, tf.stack([tf.meshgrid(row_numbers(x), tf.range(3), indexing="ij")[0], i], -1)),
    rows(4), rows(3, dtype=tf.int32, name="i"))  # fmt: skip
independent("scatter into the row", lambda x: tf.tensor_scatter_nd_update(
    tf.zeros_like(x), tf.stack([row_numbers(x), tf.argmax(x, 1, output_type=tf.int32)], 1), x[:, 0]))  # fmt: skip
independent("scatter into a column", lambda x: tf.transpose(
    tf.tensor_scatter_nd_update(tf.transpose(x), [[1]], x[None, :, 0])))  # fmt: skip
independent("map", lambda x: tf.map_fn(lambda r: r / (1.0 + tf.reduce_sum(r)), x))
independent("map of two", lambda x, y: tf.map_fn(
    lambda t: t[0] * tf.reduce_sum(t[1]), (x, y), fn_output_signature=tf.float32), rows(4), rows(3, name="y"))  # fmt: skip
independent("map by row numbers",
            lambda x: tf.map_fn(lambda i: x[i] * 2.0, row_numbers(x), fn_output_signature=tf.float32))  # fmt: skip
independent("map of a map", lambda x: tf.map_fn(lambda r: tf.map_fn(lambda e: e * tf.reduce_sum(r), r), x))
independent("map of a loop", lambda x: tf.map_fn(lambda r: in_loop(3, lambda _, a: (a * 0.5,), r), x))
independent("map of a cond", lambda x: tf.map_fn(lambda r: tf.cond(r[0] > 0, lambda: r, lambda: -r), x))
independent("map of a while",
            lambda x: tf.map_fn(lambda r: tf.while_loop(lambda a: tf.reduce_max(a) > 1.0, lambda a: (a * 0.5,), [r])[0], x))  # fmt: skip
independent("vectorized map", lambda x: tf.vectorized_map(lambda r: r / (1.0 + tf.reduce_sum(r)), x))
independent("vectorized gather", lambda x: tf.vectorized_map(lambda r: tf.gather(r, tf.argsort(r)), x))
independent(
    "vectorized scatter", lambda x: tf.vectorized_map(lambda r: tf.tensor_scatter_nd_update(r, [[1]], [2.0]), x)
)
independent("vectorized convolution", lambda x, w: tf.vectorized_map(
    lambda t: tf.nn.conv1d(t[0][None], t[1], 1, "SAME")[0], (x, w)), rows(5, 2), rows(3, 2, 2, name="w"))  # fmt: skip
independent("loop over time", lambda x: in_loop(5, lambda i, a: (a * 0.5 + tf.cast(i, tf.float32),), x))
independent("array in a loop", lambda x: tf.transpose(
    in_loop(4, lambda i, a: (a.write(i, x[:, i]),), tf.TensorArray(tf.float32, 4)).stack()))  # fmt: skip
independent("cond on a constant", lambda x: tf.cond(tf.constant(True), lambda: x, lambda: -x))
independent("weights as input", lambda x, w: x @ w, rows(4), tf.TensorSpec([4, 3], tf.float32, name="w"))
independent(
    "several inputs and outputs", lambda x, y: {"s": x + y, "p": tf.reduce_sum(x * y, 1)}, rows(4), rows(4, name="y")
)
independent("constant output", lambda x: {"y": x * 2.0, "c": tf.constant([1.0, 2.0])})
independent("zeros", lambda x: tf.zeros([batch_size(x), 3]))
independent("class token", lambda x: tf.concat([tf.tile(tf.ones([1, 1, 3]), [batch_size(x), 1, 1]), x], 1), rows(4, 3))
independent("siamese", lambda x, y: tf.subtract(*halves(tf.tanh(tf.concat([x, y], 0) @ tf.ones([4, 3])))),
            rows(4), rows(4, name="y"))  # fmt: skip
independent("stack", lambda x, y: tf.reduce_sum(tf.stack([x, y], 0), 0), rows(4), rows(4, name="y"))
independent("time first", lambda x: tf.transpose(
    tf.reshape(tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, 3]) @ tf.ones([3, 5]), [6, -1, 5]), [1, 0, 2]), rows(6, 3))  # fmt: skip
independent("space to batch", lambda x: tf.batch_to_space(
    tf.nn.relu(tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]])), [2, 2], [[0, 0], [0, 0]]), rows(4, 4, 3))  # fmt: skip
independent("depth to space", lambda x: tf.nn.depth_to_space(x, 2), rows(4, 4, 4))
independent("patches", lambda x: tf.image.extract_patches(
    x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"), rows(4, 4, 3))  # fmt: skip
independent("fft", lambda x: tf.abs(tf.signal.rfft(x)), rows(8))
independent("cholesky", lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + tf.eye(3)), rows(3, 3))
independent("inverse", lambda x: tf.linalg.inv(x + 3.0 * tf.eye(3)), rows(3, 3))
independent("singular values", lambda x: tf.linalg.svd(x, compute_uv=False), rows(3, 3))
independent("eigenvalues", lambda x: tf.linalg.eigvalsh(x + tf.transpose(x, [0, 2, 1])), rows(3, 3))
independent("qr", lambda x: tf.linalg.qr(x)[1], rows(3, 3))
independent("diagonals", lambda x: tf.linalg.diag(tf.linalg.diag_part(x)), rows(3, 3))
independent("special functions", lambda x: tf.math.betainc(2.0, 3.0, tf.sigmoid(x)) + tf.math.igamma(2.0, x * x))
independent("integers", lambda x: x // 3 + x % 2 - tf.abs(x), rows(4, dtype=tf.int32))
independent("random weights", lambda x: x @ tf.random.stateless_normal([4, 3], [1, 2]))

# -- sums over segments of flattened rows ------------------------------------------------------------------------------

graph = (rows(5, 3, name="points"), rows(2, 8, dtype=tf.int32, name="edges"))


def flattened(i, count=5):
    """Indices among the elements of all rows, of which each has `count`."""
    first = count * tf.reshape(row_numbers(i), [-1] + [1] * (len(i.shape) - 1))
    return tf.reshape(i + first, [-1])


def sums(values, ids, count=5):
    """By row and segment; `ids` are flattened."""
    flat = tf.reshape(values, [-1, values.shape[-1]])
    found = tf.math.unsorted_segment_sum(flat, ids, count * batch_size(values))
    return tf.reshape(found, [-1, count, values.shape[-1]])


def clipped(i, most=4):
    return tf.clip_by_value(i, 0, most)


def messages(points, edges, guard):
    senders, receivers = (flattened(guard(edges[:, side])) for side in (0, 1))
    sent = tf.tanh(tf.gather(tf.reshape(points, [-1, 3]), senders))
    return sums(tf.reshape(sent, [-1, 8, 3]), receivers)


def attended(points, edges):
    """Weights of a softmax over the edges that a point receives."""
    senders, receivers = (flattened(clipped(edges[:, side])) for side in (0, 1))
    flat, count = tf.reshape(points, [-1, 3]), 5 * batch_size(points)
    scores = tf.reduce_sum(tf.gather(flat, senders) * tf.gather(flat, receivers), -1, keepdims=True)
    largest = tf.math.unsorted_segment_max(scores, receivers, count)
    weights = tf.exp(scores - tf.gather(largest, receivers))
    whole = tf.math.unsorted_segment_sum(weights, receivers, count)
    sent = weights / tf.gather(whole, receivers) * tf.gather(flat, senders)
    return sums(tf.reshape(sent, [-1, 8, 3]), receivers)


def neighbours(points):
    distances = tf.reduce_sum((points[:, :, None] - points[:, None]) ** 2, -1)
    nearest = tf.math.top_k(-distances, 3).indices
    return tf.reshape(tf.gather(tf.reshape(points, [-1, 3]), flattened(nearest)), [-1, 5, 3, 3])


def masked(points, edges, other):
    """Some edges belong to no segment."""
    receivers = tf.where(tf.reshape(edges[:, 0] > 2, [-1]), flattened(clipped(edges[:, 1])), other(points))
    return sums(tf.cast(edges[:, 0, :, None], tf.float32), receivers)


dependent("edges as they come", lambda x, e: messages(x, e, lambda i: i), *graph)
dependent("edges up to the number of points", lambda x, e: messages(x, e, lambda i: clipped(i, 5)), *graph)
dependent("edges below a wrong limit", lambda x, e: messages(x, e, lambda i: i % 6), *graph)
dependent("masked edges to the first row", lambda x, e: masked(x, e, lambda _: 0), *graph)
independent("clipped edges", lambda x, e: messages(x, e, clipped), *graph)
independent("edges modulo the number of points", lambda x, e: messages(x, e, lambda i: i % 5), *graph)
independent("checked edges", lambda x, e: messages(x, e, lambda i: tf.where((i >= 0) & (i < 5), i, 0)), *graph)
independent("masked edges", lambda x, e: masked(x, e, lambda _: -1), *graph)
independent("masked edges beyond", lambda x, e: masked(x, e, lambda x: 5 * batch_size(x)), *graph)
independent("attention over edges", attended, *graph)
independent("nearest neighbours", neighbours, graph[0])
independent(
    "pooled by the largest", lambda x: sums(x, flattened(tf.argmax(x, -1, output_type=tf.int32), 3), 3), graph[0]
)
independent("bins", lambda x: sums(x, flattened(
    tf.cast(tf.clip_by_value(tf.floor(x[..., 0] * 4.0), 0.0, 3.0), tf.int32), 4), 4), graph[0])  # fmt: skip
independent("bins by edges", lambda x: sums(x, flattened(tf.reshape(
    tf.searchsorted([0.1, 0.2, 0.5], tf.reshape(x[..., 0], [-1])), [-1, 5]), 4), 4), graph[0])  # fmt: skip


def main():
    folder, worker_program = sys.argv[1:]
    sys.path.insert(0, worker_program)
    for name, (serve, specs) in MODELS.items():
        with open(os.path.join(folder, f"{name}.json"), "w") as file:
            file.write(listing(serve, specs))


if __name__ == "__main__":
    main()
