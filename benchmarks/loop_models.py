"""Write the models that benchmarks/loops.py measures, each as a SavedModel.

    PYTHON loop_models.py FOLDER [NAME...]     in a Python that has TensorFlow; prints their names

Each is one operation, or a short chain. The timer runs models on zeros, so noise is added to what they read first:
functions are computed of ordinary numbers, and sorts have something to do.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

MODELS: dict[str, tuple[Callable[..., Any], tuple[int, ...], Any]] = {}


def model(name: str, *shape: int, dtype: Any = tf.float32) -> Callable[..., None]:
    """Register a function of an input of `shape` for each row."""

    def register(body: Callable[..., Any]) -> None:
        MODELS[re.sub("[^a-z0-9]+", "-", name)] = (body, shape, dtype)

    return register


def noisy(x: Any) -> Any:
    shape, random = x.shape[1:], np.random.default_rng(3)
    if x.dtype == tf.bool:
        return tf.math.logical_xor(x, tf.constant(random.random(shape) < 0.5))
    values = random.normal(size=shape, scale=3 if x.dtype.is_floating else 50)
    return x + tf.cast(tf.constant(values), x.dtype)


SIZES = {"f32": tf.float32, "f64": tf.float64, "i32": tf.int32, "i64": tf.int64, "f16": tf.float16}

for name, function in {
    "exp": tf.exp,
    "log": lambda x: tf.math.log(tf.abs(x)),
    "log1p": lambda x: tf.math.log1p(tf.abs(x)),
    "expm1": tf.math.expm1,
    "sin": tf.sin,
    "cos": tf.cos,
    "tan": tf.tan,
    "tanh": tf.tanh,
    "sigmoid": tf.sigmoid,
    "erf": tf.math.erf,
    "sqrt": lambda x: tf.sqrt(tf.abs(x)),
    "rsqrt": lambda x: tf.math.rsqrt(tf.abs(x)),
    "pow": lambda x: tf.pow(tf.abs(x), 1.7),
    "square_root_cube": lambda x: tf.pow(tf.abs(x), 1.5),
    "pow_of_two": lambda x: tf.pow(x[:, :32], x[:, 32:]),
    "atan2": lambda x: tf.atan2(x[:, :32], x[:, 32:]),
    "atan": tf.atan,
    "asin": lambda x: tf.asin(tf.tanh(x)),
    "acos": lambda x: tf.acos(tf.tanh(x)),
    "sinh": tf.sinh,
    "cosh": tf.cosh,
    "asinh": tf.asinh,
    "acosh": lambda x: tf.acosh(1 + tf.abs(x)),
    "atanh": lambda x: tf.atanh(tf.tanh(x)),
    "floor": tf.floor,
    "round": tf.round,
    "rint": tf.math.rint,
    "ceil": tf.math.ceil,
    "floormod": lambda x: x % 1.5,
    "floordiv": lambda x: x // 1.5,
    "sign": tf.sign,
    "gelu": tf.nn.gelu,
    "softplus": tf.nn.softplus,
    "selu": tf.nn.selu,
    "swish": tf.nn.silu,
    "lgamma": tf.math.lgamma,
    "erfc": tf.math.erfc,
    "isnan_where": lambda x: tf.where(tf.math.is_nan(x), 0.0, x),
    "compare_bool": lambda x: tf.logical_and(x > 0.1, x < 2.0),
    "to_i32": lambda x: tf.cast(x, tf.int32),
    "to_i64": lambda x: tf.cast(x, tf.int64),
    "to_f64": lambda x: tf.cast(x, tf.float64),
    "clip": lambda x: tf.clip_by_value(x, -1.0, 1.0),
}.items():
    model(f"f32 {name}", 64)(function)

for kind in ("f64", "i32", "i64", "f16"):
    dtype = SIZES[kind]
    model(f"{kind} arithmetic", 64, dtype=dtype)(lambda x: tf.maximum(x * 3 + 1, x - 7) * x)
    model(f"{kind} compare", 64, dtype=dtype)(lambda x: tf.where(x > 1, x, -x))
    model(f"{kind} sum", 8, 64, dtype=dtype)(lambda x: tf.reduce_sum(x, -1))
    model(f"{kind} sum middle", 8, 64, dtype=dtype)(lambda x: tf.reduce_sum(x, 1))
    model(f"{kind} max", 8, 64, dtype=dtype)(lambda x: tf.reduce_max(x, -1))
    model(f"{kind} to f32", 64, dtype=dtype)(lambda x: tf.cast(x, tf.float32))
for kind in ("i32", "i64"):
    model(f"{kind} divide", 64, dtype=SIZES[kind])(lambda x: x // 3)
    model(f"{kind} modulo", 64, dtype=SIZES[kind])(lambda x: x % 7)
    model(f"{kind} divide two", 64, dtype=SIZES[kind])(lambda x: x[:, :32] // x[:, 32:])
    model(f"{kind} shift", 64, dtype=SIZES[kind])(lambda x: tf.bitwise.right_shift(x, tf.cast(3, x.dtype)))
for kind, of in {
    "exp": tf.exp,
    "log": lambda x: tf.math.log(tf.abs(x)),
    "tanh": tf.tanh,
    "sqrt": lambda x: tf.sqrt(tf.abs(x)),
    "sin": tf.sin,
}.items():
    model(f"f64 {kind}", 64, dtype=tf.float64)(of)
model("bool and not", 64, dtype=tf.bool)(lambda x: tf.logical_and(x, tf.logical_not(x[:, ::-1])))
model("bool to f32", 64, dtype=tf.bool)(lambda x: tf.cast(x, tf.float32))
model("bool any", 8, 64, dtype=tf.bool)(lambda x: tf.reduce_any(x, -1))
model("bool select", 64, dtype=tf.bool)(lambda x: tf.where(x, 1.0, -1.0))
model("bool count", 8, 64, dtype=tf.bool)(lambda x: tf.reduce_sum(tf.cast(x, tf.float32), -1))

for size in (2, 3, 5, 8, 12, 20, 100, 2000):
    for named, of in {
        "sum": tf.reduce_sum,
        "max": tf.reduce_max,
        "mean": tf.reduce_mean,
        "prod": tf.reduce_prod,
    }.items():
        if named in ("sum", "max") or size in (3, 20, 100):
            model(f"{named} last {size}", 24, size)(lambda x, of=of: of(x, -1))
            model(f"{named} middle {size}", size, 12)(lambda x, of=of: of(x, 1))
    model(f"argmax last {size}", 6, size)(lambda x: tf.argmax(x, -1, output_type=tf.int32))
    model(f"softmax {size}", 12, size)(tf.nn.softmax)
model("sum middle 20 of 3", 20, 3)(lambda x: tf.reduce_sum(x, 1))
model("sum middle 20 of 3, kept", 8, 20, 3)(lambda x: tf.reduce_sum(x, 2))
model("max middle 8 of 40", 8, 40)(lambda x: tf.reduce_max(x, 1))
model("sum both", 12, 7)(lambda x: tf.reduce_sum(x, [1, 2]))
model("argmax middle", 20, 16)(lambda x: tf.argmax(x, 1, output_type=tf.int32))
model("argmin i64", 100)(lambda x: tf.argmin(x, 1))
model("cumsum 9", 9)(lambda x: tf.cumsum(x, 1))
model("cumsum 100", 100)(lambda x: tf.cumsum(x, 1))
model("cumsum middle", 20, 8)(lambda x: tf.cumsum(x, 1))
model("cumprod 20", 20)(lambda x: tf.math.cumprod(x, 1))
model("logsumexp", 12, 10)(lambda x: tf.reduce_logsumexp(x, -1))
model("norm", 12, 3)(lambda x: tf.norm(x, axis=-1))
model("l2 normalize", 12, 5)(lambda x: tf.math.l2_normalize(x, -1))
model("all close", 20)(lambda x: tf.reduce_all(x > -1.0, 1))
model("variance", 6, 33)(lambda x: tf.math.reduce_variance(x, -1))


def normalized(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5)


for size in (3, 7, 33, 100):
    model(f"layer norm {size}", 12, size)(normalized)
    model(f"masked softmax {size}", 4, size)(lambda x: tf.nn.softmax(tf.where(x > 0.0, x, -1e9)))

model("distances", 20, 3)(lambda x: tf.reduce_sum((x[:, :, None] - x[:, None]) ** 2, -1))
model("distances 2", 20, 2)(lambda x: tf.sqrt(tf.reduce_sum((x[:, :, None] - x[:, None]) ** 2, -1) + 1e-6))
model("neighbours", 20, 3)(
    lambda x: tf.reduce_mean(
        tf.gather(x, tf.math.top_k(-tf.reduce_sum((x[:, :, None] - x[:, None]) ** 2, -1), 4).indices, batch_dims=1), 2
    )
)
model("pairs", 20, 4)(lambda x: x[:, :, None] * x[:, None])
model("outer sum", 20)(lambda x: x[:, :, None] + x[:, None])
model("masses", 10, 4)(
    lambda x: (
        (x[:, :, None, 0] + x[:, None, :, 0]) ** 2 - tf.reduce_sum((x[:, :, None, 1:] + x[:, None, :, 1:]) ** 2, -1)
    )
)

model("transpose 20 x 30", 20, 30)(lambda x: tf.transpose(x, [0, 2, 1]))
model("transpose 3 x 100", 3, 100)(lambda x: tf.transpose(x, [0, 2, 1]))
model("transpose 100 x 3", 100, 3)(lambda x: tf.transpose(x, [0, 2, 1]))
model("transpose heads", 12, 4, 16)(lambda x: tf.transpose(x, [0, 2, 1, 3]))
model("transpose 4d", 6, 7, 8)(lambda x: tf.transpose(x, [0, 3, 2, 1]))
model("concat", 5, 6)(lambda x: tf.concat([x, x * 2.0, x[:, :, :3]], -1))
model("concat middle", 5, 6)(lambda x: tf.concat([x, x * 2.0], 1))
model("stack last", 16)(lambda x: tf.stack([x, x * 2.0, x + 1.0], -1))
model("split", 24)(lambda x: tf.add_n(tf.split(x, 4, -1)))
model("strided", 40)(lambda x: x[:, ::2] + x[:, 1::2])
model("pad", 5, 6)(lambda x: tf.pad(x, [[0, 0], [1, 2], [3, 1]]))
model("pad image", 10, 10, 3)(lambda x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]))
model("tile", 5, 6)(lambda x: tf.tile(x, [1, 2, 3]))
model("repeat", 10, 4)(lambda x: tf.repeat(x, 3, 1))
model("reverse", 40)(lambda x: tf.reverse(x, [1]))
model("roll", 40)(lambda x: tf.roll(x, 3, 1))
model("swap pairs", 16, 2)(lambda x: tf.reverse(x, [2]))
model("space to depth", 8, 8, 3)(lambda x: tf.nn.space_to_depth(x, 2))
model("one hot", 10, dtype=tf.int32)(lambda x: tf.one_hot(tf.abs(x) % 12, 12))
model("embedding", 10, dtype=tf.int32)(
    lambda x: tf.gather(tf.constant(np.arange(800, dtype="f4").reshape(50, 16)), tf.abs(x) % 50)
)
model("embedding of 3", 10, dtype=tf.int32)(
    lambda x: tf.gather(tf.constant(np.arange(150, dtype="f4").reshape(50, 3)), tf.abs(x) % 50)
)
model("gather scalars", 40)(lambda x: tf.gather(x, tf.cast(tf.abs(x * 10), tf.int32) % 40, batch_dims=1))
model("gather columns", 40)(lambda x: tf.gather(x, [3, 7, 1, 30, 22], axis=1))
model("scatter", 10, 8)(
    lambda x: tf.tensor_scatter_nd_add(tf.transpose(x, [1, 0, 2]), [[1], [3], [1]], tf.transpose(x[:, :3], [1, 0, 2]))[
        0
    ]
)
model("sort 9", 9)(lambda x: tf.sort(x, 1))
model("sort 100", 100)(lambda x: tf.sort(x, 1))
model("argsort 20", 20)(lambda x: tf.argsort(x, 1, stable=True))
model("argsort 100", 100)(lambda x: tf.argsort(x, 1, stable=True))
model("top 5 of 20", 20)(lambda x: tf.math.top_k(x, 5)[0])
model("top 5 of 200", 200)(lambda x: tf.math.top_k(x, 5)[1])
model("top 20 of 100", 100)(lambda x: tf.math.top_k(x, 20)[0])
model("top 40 of 100", 100)(lambda x: tf.math.top_k(x, 40)[0])

model("resize nearest", 8, 8, 3)(lambda x: tf.image.resize(x, [16, 16], method="nearest"))
model("resize bilinear", 8, 8, 3)(lambda x: tf.image.resize(x, [16, 16]))
model("max pool 3", 9, 9, 4)(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"))
model("average pool 3", 9, 9, 4)(lambda x: tf.nn.avg_pool2d(x, 3, 1, "SAME"))
model("max pool 1d", 40, 3)(lambda x: tf.nn.max_pool1d(x, 3, 2, "VALID"))
model("average pool 1d", 40, 8)(lambda x: tf.nn.avg_pool1d(x, 2, 2, "VALID"))

model("matmul 7 x 5 x 3", 7, 5)(lambda x: tf.matmul(x, tf.constant(np.linspace(-1, 1, 15, dtype="f4").reshape(5, 3))))
model("matmul 1 x 13 x 9", 13)(lambda x: tf.matmul(x, tf.constant(np.linspace(-1, 1, 117, dtype="f4").reshape(13, 9))))
model("batched 6 x 5 x 6", 6, 5)(lambda x: tf.matmul(x, x, transpose_b=True))
model("batched 20 x 16 x 20", 20, 16)(lambda x: tf.matmul(x, x, transpose_b=True))
model("batched 3 x 3", 3, 3)(lambda x: tf.matmul(x, x))
model("einsum of three", 8, 4)(lambda x: tf.einsum("bij,jk,bik->bi", x, tf.constant(np.eye(4, dtype="f4") * 2), x))
model("einsum diagonal", 8, 8)(lambda x: tf.einsum("bij,bji->b", x, x))
model("einsum outer", 6, 8)(lambda x: tf.einsum("bi,bj->bij", x[:, 0], x[:, 1]))
model("matrix vector", 12, 12)(lambda x: tf.linalg.matvec(x, x[:, 0]))


@model("while scalar", 8)
def _(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 20, lambda i, v: (i + 1, v * 0.9 + 0.1), (0, x))[1]


@model("while matrix", 8)
def _(x: Any) -> Any:
    step = tf.constant(np.linspace(-0.3, 0.3, 64, dtype="f4").reshape(8, 8))
    return tf.while_loop(lambda i, _: i < 10, lambda i, v: (i + 1, tf.tanh(tf.matmul(v, step))), (0, x))[1]


def scanned(step: Callable[..., Any], x: Any, start: Any) -> Any:
    """All states of a recurrence over the first axis of each row."""
    return tf.transpose(tf.scan(step, tf.transpose(x, [1, 0, 2]), start), [1, 0, 2])


@model("scan affine", 64, 16)
def _(x: Any) -> Any:
    return scanned(lambda state, each: 0.9 * state + 0.1 * each, x, tf.zeros_like(x[:, 0]))


@model("scan tanh", 20, 12)
def _(x: Any) -> Any:
    return scanned(lambda state, each: tf.tanh(0.5 * state + each), x, tf.zeros_like(x[:, 0]))


@model("scan last", 64, 16)
def _(x: Any) -> Any:
    return scanned(lambda state, each: 0.9 * state + 0.1 * each, x, tf.zeros_like(x[:, 0]))[:, -1]


@model("scan matrix", 30, 32)
def _(x: Any) -> Any:
    weights = tf.constant(np.random.default_rng(1).normal(size=(32, 32), scale=0.15).astype("f4"))
    return scanned(lambda state, each: tf.tanh(tf.matmul(state, weights) + each), x, tf.zeros_like(x[:, 0]))


@model("scan gated", 20, 16)
def _(x: Any) -> Any:
    """A gated unit, of inputs that need no product."""
    random = np.random.default_rng(1)
    update, made = (tf.constant(random.normal(size=(16, 16), scale=0.2).astype("f4")) for _ in range(2))

    def step(state: Any, each: Any) -> Any:
        gate = tf.sigmoid(tf.matmul(state, update) + each)
        return gate * state + (1 - gate) * tf.tanh(tf.matmul(state, made) + each)

    return scanned(step, x, tf.zeros_like(x[:, 0]))


@model("while lstm", 20, 16)
def _(x: Any) -> Any:
    random = np.random.default_rng(1)
    own, weights = (tf.constant(random.normal(size=(16, 64), scale=0.2).astype("f4")) for _ in range(2))

    def step(i: Any, h: Any, c: Any) -> Any:
        gates = tf.matmul(x[:, i], own) + tf.matmul(h, weights)
        kept, taken, made, out = tf.split(gates, 4, axis=1)
        c = tf.sigmoid(kept) * c + tf.sigmoid(taken) * tf.tanh(made)
        return i + 1, tf.sigmoid(out) * tf.tanh(c), c

    zeros = tf.zeros_like(x[:, 0])
    return tf.while_loop(lambda i, *_: i < 20, step, (0, zeros, zeros))[1]


@model("attention", 12, 16)
def _(x: Any) -> Any:
    random = np.random.default_rng(1)
    q, k, v = (
        tf.einsum("bti,ij->btj", x, tf.constant(random.normal(size=(16, 16), scale=0.25).astype("f4")))
        for _ in range(3)
    )
    return tf.nn.gelu(normalized(x + tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 4.0), v)))


@model("f64 network", 20, dtype=tf.float64)
def _(x: Any) -> Any:
    random = np.random.default_rng(2)
    for width in (32, 32, 10):
        x = tf.tanh(normalized(tf.matmul(x, tf.constant(random.normal(size=(x.shape[1], width), scale=0.3)))))
    return x


@model("viterbi", 15, 5)
def _(x: Any) -> Any:
    """The likeliest path through 15 steps of 5 states."""
    change = tf.constant(np.random.default_rng(4).normal(size=(5, 5)).astype("f4"))
    state, came = x[:, 0], []
    for step in range(1, 15):
        scores = state[:, :, None] + change
        came.append(tf.argmax(scores, 1, output_type=tf.int32))
        state = tf.reduce_max(scores, 1) + x[:, step]
    path = [tf.argmax(state, 1, output_type=tf.int32)]
    for before in reversed(came):
        path.append(tf.gather(before, path[-1], batch_dims=1))
    return tf.stack(path[::-1], 1)


def by_columns(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`of`, which changes the first axis, for the second one: rows of a batch stay apart."""
    return lambda x: tf.transpose(of(tf.transpose(x, [1, 0, 2])), [1, 0, 2])


def places(x: Any, size: int) -> Any:
    return tf.cast(tf.abs(x * 10), tf.int32) % size


PARTS = tf.constant([0, 2, 1, 0, 3, 3, 2, 0, 1, 1, 2, 3])
model("scatter update", 10, 8)(
    by_columns(lambda x: tf.tensor_scatter_nd_update(x, [[1], [3], [7]], x[:3] * 2.0)),
)
model("scatter max", 10, 8)(by_columns(lambda x: tf.tensor_scatter_nd_max(x, [[1], [3], [1]], x[7:])))
model("segment sum", 12, 5)(by_columns(lambda x: tf.math.unsorted_segment_sum(x, PARTS, 4)))
model("segment mean", 12, 5)(by_columns(lambda x: tf.math.unsorted_segment_mean(x, PARTS, 4)))
model("segment max", 12, 16)(by_columns(lambda x: tf.math.unsorted_segment_max(x, PARTS, 4)))


def flattened(i: Any, count: int) -> Any:
    """Indices among the `count` elements of all rows."""
    first = count * tf.reshape(tf.range(tf.shape(i)[0]), [-1] + [1] * (len(i.shape) - 1))
    return tf.reshape(i + first, [-1])


def over_edges(x: Any, combine: Callable[..., Any]) -> Any:
    """`combine(senders' features, receivers' features, receivers, points in all)` of 40 edges between 16 points."""
    points, count = tf.reshape(x, [-1, 8]), 16 * tf.shape(x)[0]
    edges = places(tf.reshape(x[:, :10], [-1, 2, 40]), 16)
    senders, receivers = (flattened(edges[:, side], 16) for side in (0, 1))
    found = combine(tf.gather(points, senders), tf.gather(points, receivers), receivers, count)
    return tf.reshape(found, [-1, 16, 8])


def attended(sent: Any, received: Any, receivers: Any, count: Any) -> Any:
    scores = tf.reduce_sum(sent * received, 1, keepdims=True)
    largest = tf.math.unsorted_segment_max(scores, receivers, count)
    weights = tf.exp(scores - tf.gather(largest, receivers))
    whole = tf.math.unsorted_segment_sum(weights, receivers, count)
    return tf.math.unsorted_segment_sum(weights / tf.gather(whole, receivers) * sent, receivers, count)


model("messages over edges", 16, 8)(
    lambda x: over_edges(x, lambda sent, _, receivers, count: tf.math.unsorted_segment_sum(sent, receivers, count))
)
model("largest over edges", 16, 8)(
    lambda x: over_edges(x, lambda sent, _, receivers, count: tf.math.unsorted_segment_max(sent, receivers, count))
)
model("attention over edges", 16, 8)(lambda x: over_edges(x, attended))
model("pooled by the largest", 16, 8)(
    lambda x: tf.reshape(
        tf.math.unsorted_segment_sum(
            tf.reshape(x, [-1, 8]), flattened(tf.argmax(x, -1, output_type=tf.int32), 8), 8 * tf.shape(x)[0]
        ),
        [-1, 8, 8],
    )
)

model("cumsum middle 7 of 5", 7, 5)(lambda x: tf.cumsum(x, 1))
model("cumsum reversed", 20)(lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True))
model("cumprod middle 9 of 6", 9, 6)(lambda x: tf.math.cumprod(x, 1))
model("cumulative logsumexp", 13)(lambda x: tf.math.cumulative_logsumexp(x, 1))
model("reverse sequence", 12, 3)(lambda x: tf.reverse_sequence(x, 1 + places(x[:, 0, 0], 12), seq_axis=1, batch_axis=0))
model("one hot of largest", 7)(lambda x: tf.one_hot(tf.argmax(x, 1), 7))
model("embedding of 64", 10, dtype=tf.int32)(
    lambda x: tf.gather(tf.constant(np.arange(3200, dtype="f4").reshape(50, 64)), tf.abs(x) % 50)
)
model("embedding mean", 10, dtype=tf.int32)(
    lambda x: tf.reduce_mean(tf.gather(tf.constant(np.arange(800, dtype="f4").reshape(50, 16)), tf.abs(x) % 50), 1)
)
model("embedding one", 1, dtype=tf.int32)(
    lambda x: tf.gather(tf.constant(np.arange(800, dtype="f4").reshape(50, 16)), tf.abs(x) % 50)
)
model("gather nd", 6, 7)(
    lambda x: tf.gather_nd(x, tf.stack([places(x[:, :, 0], 6), places(x[:, :, 1], 7)], -1), batch_dims=1)
)
model("gather rows", 10, 8)(lambda x: tf.gather(x, places(x[:, :5, 0], 10), batch_dims=1))
model("masked sum", 4, 33)(lambda x: tf.reduce_sum(tf.where(x > 0.0, x, 0.0), -1))
model("masked mean", 12, 5)(
    lambda x: (
        tf.reduce_sum(tf.where(x[:, :, :1] > 0.0, x, 0.0), 1)
        / (1.0 + tf.reduce_sum(tf.cast(x[:, :, :1] > 0.0, tf.float32), 1))
    )
)
model("is in set", 10, dtype=tf.int32)(
    lambda x: tf.reduce_any(x[:, :, None] == tf.constant([11, -11, 22, 13, 211]), -1)
)
model("number of equal ones", 12, dtype=tf.int32)(
    lambda x: tf.reduce_sum(tf.cast(x[:, :, None] == x[:, None], tf.int32), -1)
)
model("histogram", 40)(lambda x: tf.reduce_sum(tf.one_hot(places(x, 8), 8), 1))
model("search in sorted ones", 20)(
    lambda x: tf.searchsorted(tf.tile(tf.constant([[-3.0, -1.0, 0.5, 1.0, 4.0]]), [tf.shape(x)[0], 1]), x)
)

model("bits", 64, dtype=tf.int32)(
    lambda x: tf.bitwise.bitwise_xor(tf.bitwise.bitwise_and(x, 255), tf.bitwise.left_shift(x, 3))
)
model("number of bits", 64, dtype=tf.int32)(lambda x: tf.raw_ops.PopulationCount(x=x))
model("u8 to f32", 8, 8, 3, dtype=tf.uint8)(lambda x: tf.cast(x, tf.float32) / 255.0)
model("i32 clip", 64, dtype=tf.int32)(lambda x: tf.clip_by_value(x, -30, 40))
model("clip by norm", 20)(lambda x: tf.clip_by_norm(x, 1.0, axes=[1]))
model("f16 rounded", 64)(lambda x: tf.cast(tf.cast(x, tf.float16), tf.float32))
model("bf16 rounded", 64)(lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32))
model("complex abs", 64)(lambda x: tf.abs(tf.complex(x[:, :32], x[:, 32:])))
model("complex product", 64)(
    lambda x: tf.math.real(tf.complex(x[:, :32], x[:, 32:]) * tf.complex(x[:, 32:], x[:, :32]))
)
model("polynomial", 64)(lambda x: tf.math.polyval([tf.constant(each) for each in (0.3, -0.2, 1.5, -0.7, 0.1)], x))
model("digamma", 64)(lambda x: tf.math.digamma(1.0 + tf.abs(x)))
model("erfinv", 64)(lambda x: tf.math.erfinv(tf.tanh(x)))
model("bessel i0e", 64)(tf.math.bessel_i0e)
model("cross entropy", 10)(
    lambda x: -tf.reduce_sum(tf.constant(np.linspace(0, 1, 10, dtype="f4")) * tf.nn.log_softmax(x), -1)
)
model("batch norm", 8, 7)(
    lambda x: x * tf.constant(np.linspace(1, 2, 7, dtype="f4")) + tf.constant(np.linspace(-1, 1, 7, dtype="f4"))
)

model("sort 20 descending", 20)(lambda x: tf.sort(x, 1, direction="DESCENDING"))
model("sort rows of 10", 6, 10)(lambda x: tf.sort(x, -1))
model("sort i32", 12, dtype=tf.int32)(lambda x: tf.sort(x, 1))
model("argsort 9 descending", 9)(lambda x: tf.argsort(x, 1, direction="DESCENDING", stable=True))
model("median", 15)(lambda x: tf.sort(x, 1)[:, 7])
for size, count in ((20, 1), (50, 3), (100, 50), (200, 50)):
    model(f"top {count} of {size}", size)(lambda x, count=count: tf.math.top_k(x, count)[0])

model("pad reflect", 5, 6)(lambda x: tf.pad(x, [[0, 0], [2, 1], [1, 3]], mode="REFLECT"))
model("pad symmetric", 20)(lambda x: tf.pad(x, [[0, 0], [3, 4]], mode="SYMMETRIC"))
model("pad by a number", 12, 16)(lambda x: tf.pad(x, [[0, 0], [0, 4], [0, 0]], constant_values=-1.0))
model("space to depth 4", 8, 8, 1)(lambda x: tf.nn.space_to_depth(x, 4))
model("depth to space", 4, 4, 12)(lambda x: tf.nn.depth_to_space(x, 2))
model("extract patches", 8, 8, 2)(
    lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
)
model("extract patches of 2", 8, 8, 4)(
    lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
)
model("batched 5 x 7 x 3", 56)(
    lambda x: tf.matmul(tf.reshape(x[:, :35], [-1, 5, 7]), tf.reshape(x[:, 35:], [-1, 7, 3]))
)
model("batched 5 x 7 x 3, turned", 56)(
    lambda x: tf.matmul(tf.reshape(x[:, :35], [-1, 7, 5]), tf.reshape(x[:, 35:], [-1, 7, 3]), transpose_a=True)
)
model("batched 1 x 20 x 30", 31, 20)(lambda x: tf.matmul(x[:, :1], x[:, 1:], transpose_b=True))
model("dot of two", 2, 50)(lambda x: tf.reduce_sum(x[:, 0] * x[:, 1], -1))
model("quadratic form", 12, 13)(lambda x: tf.einsum("bi,bij,bj->b", x[:, :, 0], x[:, :, 1:], x[:, :, 0]))
model("cross", 10, 3)(lambda x: tf.linalg.cross(x, tf.roll(x, 1, 1)))
model("diagonal", 6, 6)(tf.linalg.diag_part)
model("diagonal matrix", 6)(tf.linalg.diag)
model("trace", 6, 6)(tf.linalg.trace)
model("band", 6, 6)(lambda x: tf.linalg.band_part(x, 1, 1))


def served(body: Callable[..., Any]) -> Any:
    return tf.function(lambda x: {"y": body(noisy(x))}, autograph=False)


def main(folder: str, *names: str) -> None:
    for name, (body, shape, dtype) in MODELS.items():
        if names and name not in names:
            continue
        print(name, flush=True)
        path = os.path.join(folder, name)
        if os.path.exists(path):
            continue
        module = tf.Module()
        module.serve = served(body)
        spec = tf.TensorSpec([None, *shape], dtype, name="x")
        tf.saved_model.save(module, path, signatures=module.serve.get_concrete_function(spec))


if __name__ == "__main__":
    main(*sys.argv[1:])
