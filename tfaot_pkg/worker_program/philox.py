"""TensorFlow's stateless random numbers as integer arithmetic: XLA's generator gives the same bits in another order.

Philox 4x32 with ten rounds (Salmon et al., SC 2011): block i of four words is a function of a key of 64 bits and of a
counter of 128 bits plus i. Numbers are made of consecutive words.
"""

from __future__ import annotations

import math
from typing import SupportsInt

import numpy as np
import tensorflow as tf

_ALGORITHMS = (1, 3)
"""Philox, and the device's default, which is Philox on CPUs."""
# The constants of the paper for Philox 4x32.
_MULTIPLIERS, _WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
_ROUNDS = 10


def is_known(algorithm: SupportsInt | None) -> bool:
    return algorithm is not None and int(algorithm) in _ALGORITHMS


def uniform(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Floats in [0, 1)."""
    if dtype == tf.float64:
        low, high = _pairs(shape, key, counter)
        return _shaped(_double(low, high), shape)
    return _shaped(_single(_words(shape, key, counter, 1)), shape)


def normal(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """float32 by Box and Muller's method: each pair of words gives two numbers."""
    words = tf.reshape(_words(shape, key, counter, 1), [-1, 2])
    # TensorFlow's BoxMullerFloat (random_distributions.h) has the same limit, below which log would be infinite.
    radius = tf.sqrt(-2.0 * tf.math.log(tf.maximum(_single(words[:, 0]), 1e-7)))
    angle = np.float32(2 * math.pi) * _single(words[:, 1])
    return _shaped(tf.reshape(tf.stack([tf.sin(angle) * radius, tf.cos(angle) * radius], 1), [-1]), shape)


def integers(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Integers of all bits of the words."""
    if dtype.size == 4:
        return _shaped(tf.cast(_words(shape, key, counter, 1), tf.uint32), shape)
    low, high = _pairs(shape, key, counter)
    return _shaped(low | tf.bitwise.left_shift(high, _u64(32)), shape)


def _pairs(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    words = tf.reshape(_words(shape, key, counter, 2), [-1, 2])
    return words[:, 0], words[:, 1]


def _shaped(values: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    return tf.reshape(values[: tf.reduce_prod(shape)], shape)


def _words(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor, each: int) -> tf.Tensor:
    """At least `each` words of 32 bits, in uint64, for every number of an array of `shape`."""
    # Four words a block, as TensorFlow fills its arrays; the last block may be used in part.
    blocks = (tf.reduce_prod(tf.cast(shape, tf.int32)) * each + 3) // 4
    low = counter[0] + tf.cast(tf.range(blocks), tf.uint64)
    # The carry of the 128-bit counter.
    high = counter[1] + tf.cast(low < counter[0], tf.uint64)
    words = [low & _u64(_WORD), _upper(low), high & _u64(_WORD), _upper(high)]
    keys = [key[0] & _u64(_WORD), _upper(key[0])]
    for _ in range(_ROUNDS):
        products = [words[0] * _u64(_MULTIPLIERS[0]), words[2] * _u64(_MULTIPLIERS[1])]
        words = [
            _upper(products[1]) ^ words[1] ^ keys[0],
            products[1] & _u64(_WORD),
            _upper(products[0]) ^ words[3] ^ keys[1],
            products[0] & _u64(_WORD),
        ]
        keys = [(one + _u64(step)) & _u64(_WORD) for one, step in zip(keys, _WEYL, strict=True)]
    return tf.reshape(tf.stack(words, 1), [-1])


def _upper(x: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.right_shift(x, _u64(32))


def _u64(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint64)


def _single(words: tf.Tensor) -> tf.Tensor:
    """Floats in [0, 1) of 23 bits each."""
    # With the exponent bits of 1 the number is in [1, 2), and subtracting 1 is exact.
    bits = tf.cast(words & _u64(0x7FFFFF), tf.uint32) | tf.constant(127 << 23, tf.uint32)
    return tf.bitcast(bits, tf.float32) - 1.0


def _double(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    # 20 bits of the first word above all 32 of the second, as Uint64ToDouble (random_distributions_utils.h).
    bits = tf.bitwise.left_shift(low & _u64(0xFFFFF), _u64(32)) | high | _u64(1023 << 52)
    return tf.bitcast(bits, tf.float64) - 1.0
