"""Write SavedModels with hundreds of operations below the folder that is named. Runs inside a toolchain."""

import os
import sys

import tensorflow as tf


def residual(x):
    """40 blocks, each in a scope of its own: 8 operations that are not constants."""
    for number in range(40):
        with tf.name_scope(f"block_{number}"):
            y = x
            for half in "ab":
                with tf.name_scope(half):
                    weights = tf.constant(0.1 * (number + 1), shape=[8, 8])
                    y = tf.nn.relu(tf.nn.bias_add(tf.matmul(y, weights), tf.ones([8])))
            x = tf.tanh(x + y)
    return {"y": x}


def flat(x):
    """300 operations without any scope."""
    for _ in range(150):
        x = tf.tanh(x) * 1.5
    return {"y": x}


RECURRENT = [
    tf.keras.layers.GRU(4, return_sequences=True),
    tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(4, return_sequences=True)),
    tf.keras.layers.SimpleRNN(4, return_sequences=True),
    tf.keras.layers.LSTM(4, recurrent_activation="hard_sigmoid"),
]


def recurrent(x):
    """Layers of Keras, a loop that is none, and a choice that depends on the input."""
    x = tf.reshape(x, [-1, 4, 2])
    for layer in RECURRENT:
        x = layer(x)
    x = tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, tf.tanh(y * 1.5)), [0, x])[1]
    return {"y": tf.cond(tf.reduce_sum(x) > 2.0, lambda: tf.exp(x), lambda: x * 2.0)}


def main():
    for function in (globals()[name] for name in sys.argv[2:]):
        module = tf.Module()
        module.layers = RECURRENT
        module.serve = tf.function(function, input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
        tf.saved_model.save(module, os.path.join(sys.argv[1], function.__name__), signatures=module.serve)


main()
