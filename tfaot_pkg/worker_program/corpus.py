"""Small models of many kinds, to try a toolchain with: SavedModels that need no Keras."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import tensorflow as tf
from messages.requests import Corpus, WriteCorpus

if TYPE_CHECKING:
    from framework_types import Report


Maker: TypeAlias = Callable[[str], None]
"""Writes a SavedModel to a folder."""

_MAKERS: dict[str, Maker] = {}


def write_corpus(request: WriteCorpus, report: Report) -> Corpus:
    """Write a SavedModel of each model below `request.out`."""
    for name, make in _MAKERS.items():
        make(os.path.join(request.out, name))
        report(1, name)
    return Corpus(names=tuple(_MAKERS))


def _model(make: Maker) -> Maker:
    _MAKERS[make.__name__.strip("_")] = make
    return make


def _save(
    path: str,
    body: Callable[..., dict[str, tf.Tensor]],
    variables: Iterable[tf.Variable],
    **inputs: tuple[list[int | None], tf.DType],
) -> None:
    """Save `body` as a function of `inputs`, given by name as (shape, dtype)."""
    module = tf.Module()
    # TensorFlow cannot save a function with variables that no object of the module owns.
    module.kept = list(variables)
    specs = {name: tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in inputs.items()}
    module.body = tf.function(body, autograph=False)
    tf.saved_model.save(module, path, signatures=module.body.get_concrete_function(**specs))


def _weights(*shapes: tuple[int, ...]) -> list[tf.Variable]:
    """Variables with the same values each time, scaled so that layers keep the magnitude of their inputs."""
    generator = np.random.default_rng(1)
    return [
        tf.Variable(generator.normal(size=shape, scale=1 / np.sqrt(np.prod(shape[:-1]) or 1)).astype("float32"))
        for shape in shapes
    ]


@_model
def dense(path: str) -> None:
    first, second, third = kept = _weights((32, 128), (128, 128), (128, 10))

    def body(x: tf.Tensor) -> dict[str, tf.Tensor]:
        x = tf.nn.relu(tf.matmul(x, first))
        x = tf.tanh(tf.matmul(x, second))
        return {"probability": tf.nn.softmax(tf.matmul(x, third))}

    _save(path, body, kept, x=([None, 32], tf.float32))


@_model
def convolutions(path: str) -> None:
    first, second, last = kept = _weights((3, 3, 3, 16), (3, 3, 16, 16), (256, 10))

    def body(image: tf.Tensor) -> dict[str, tf.Tensor]:
        x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(image, first, 1, "SAME")), 2, 2, "VALID")
        x = tf.nn.elu(tf.nn.conv2d(x, second, 2, "SAME"))
        return {"score": tf.matmul(tf.reshape(x, [-1, 256]), last)}

    _save(path, body, kept, image=([None, 16, 16, 3], tf.float32))


@_model
def recurrent(path: str) -> None:
    of_input, of_state, last = kept = _weights((8, 64), (16, 64), (16, 4))

    def body(x: tf.Tensor) -> dict[str, tf.Tensor]:
        # The steps are written out; `loop` below has a loop of TensorFlow's.
        state = cell = tf.zeros([tf.shape(x)[0], 16])
        for step in range(12):
            gates = tf.matmul(x[:, step], of_input) + tf.matmul(state, of_state)
            i, f, g, o = tf.split(gates, 4, axis=1)
            cell = tf.sigmoid(f) * cell + tf.sigmoid(i) * tf.tanh(g)
            state = tf.sigmoid(o) * tf.tanh(cell)
        return {"y": tf.matmul(state, last)}

    _save(path, body, kept, x=([None, 12, 8], tf.float32))


@_model
def loop(path: str) -> None:
    (step,) = kept = _weights((16, 16))

    def body(x: tf.Tensor) -> dict[str, tf.Tensor]:
        def iteration(number: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return number + 1, tf.tanh(tf.matmul(value, step))

        return {"y": tf.while_loop(lambda number, _: number < 10, iteration, (0, x))[1]}

    _save(path, body, kept, x=([None, 16], tf.float32))


@_model
def attention(path: str) -> None:
    query, key, value = kept = _weights((16, 16), (16, 16), (16, 16))

    def body(x: tf.Tensor) -> dict[str, tf.Tensor]:
        q, k, v = (tf.einsum("bti,ij->btj", x, weight) for weight in (query, key, value))
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 4.0)
        y = x + tf.matmul(weights, v)
        mean, variance = tf.nn.moments(y, [-1], keepdims=True)
        return {"y": tf.nn.gelu((y - mean) * tf.math.rsqrt(variance + 1e-5))}

    _save(path, body, kept, x=([None, 12, 16], tf.float32))


@_model
def neighbours(path: str) -> None:
    def body(points: tf.Tensor) -> dict[str, tf.Tensor]:
        # Otherwise distances could be NaN or infinite, and the order of equal neighbours is not defined.
        points = tf.tanh(tf.where(tf.math.is_finite(points), points, tf.zeros_like(points)))
        distance = tf.reduce_sum((points[:, :, None] - points[:, None]) ** 2, -1)
        nearest = tf.math.top_k(-distance, 4).indices
        return {"mean": tf.reduce_mean(tf.gather(points, nearest, batch_dims=1), 2), "nearest": nearest}

    _save(path, body, [], points=([None, 20, 3], tf.float32))


@_model
def moves(path: str) -> None:
    def body(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "sorted": tf.sort(x, axis=1),
            "order": tf.argsort(x, axis=1, stable=True),
            "padded": tf.pad(tf.reverse(x, [1]), [[0, 0], [2, 3]]),
            "sums": tf.cumsum(x, axis=1),
        }

    _save(path, body, [], x=([None, 9], tf.float32))


@_model
def mathematics(path: str) -> None:
    def body(x: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "f": tf.sin(x) + tf.math.erf(x) * tf.math.log1p(tf.abs(x)),
            "d": tf.cast(x, tf.float64) ** 3,
            "i": (n * 7) % 5 + n // 3,
        }

    _save(path, body, [], x=([None, 6], tf.float32), n=([None, 6], tf.int32))


@_model
def decomposition(path: str) -> None:
    """Partly XLA's code: the project's compiler has no Cholesky decomposition."""
    # Wide, because XLA compiles whole models with fewer than 30,000 operations a row beside a segment (decision 042).
    first, second = kept = _weights((16, 256), (256, 256))

    def body(x: tf.Tensor) -> dict[str, tf.Tensor]:
        wide = tf.tanh(tf.matmul(tf.tanh(tf.matmul(x, first)), second))
        root = tf.reshape(wide[:, :16], [-1, 4, 4])
        # Symmetric and positive definite for all inputs, as a Cholesky decomposition needs.
        return {"y": tf.linalg.cholesky(tf.matmul(root, root, transpose_b=True) + 2.0 * tf.eye(4))}

    _save(path, body, kept, x=([None, 16], tf.float32))
