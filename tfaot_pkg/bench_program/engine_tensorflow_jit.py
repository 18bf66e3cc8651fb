"""TensorFlow with XLA while it runs: `tf.function(jit_compile=True)`."""

from __future__ import annotations

import engine_tensorflow


class Engine(engine_tensorflow.Engine):
    jit = True
