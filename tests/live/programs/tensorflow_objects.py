"""Models of Keras 2 and 3, and a module of TensorFlow."""

from __future__ import annotations

import time

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import tfaot_pkg

x = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
RESULT = {}


def judge(name, net, theirs):
    model = tfaot_pkg.compile(net, x)
    start = time.perf_counter()
    tfaot_pkg.compile(net, x)
    again = time.perf_counter() - start
    (ours,) = model(x).values()
    RESULT[name] = [float(np.abs(ours - np.asarray(theirs)).max()), model.report.verdict, again]


class Scaled(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable([1.0, 2.0, 3.0, 4.0])

    def __call__(self, features):
        return tf.nn.softmax(features * self.scale)


for title, library in {"keras3": keras, "keras2": tf_keras}.items():
    net = library.Sequential([library.layers.Input((4,)), library.layers.Dense(8, "relu"), library.layers.Dense(2)])
    judge(title, net, net(x))
module = Scaled()
judge("module", module, module(x))
