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


def main():
    for function in (residual, flat):
        module = tf.Module()
        module.serve = tf.function(function, input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
        tf.saved_model.save(module, os.path.join(sys.argv[1], function.__name__), signatures=module.serve)


main()
