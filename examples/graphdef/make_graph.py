"""Write tagger.pbtxt: a frozen graph as TensorFlow 1 made it, with batch normalization and dropout.

python make_graph.py       with any TensorFlow; the graph is here already
"""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_control_flow_v2()


def weights(name, random, *shape):
    values = np.round(random.normal(size=shape, scale=0.5), 2).astype(np.float32)
    return v1.get_variable(name, shape, tf.float32, v1.constant_initializer(values))


def main():
    random = np.random.default_rng(7)
    with tf.Graph().as_default(), v1.Session() as session:
        jets = v1.placeholder(tf.float32, [None, 4], name="jet/features-v2")
        training = v1.placeholder(tf.bool, [], name="is_training")
        keep = v1.placeholder(tf.float32, [], name="keep_prob")
        x = tf.nn.relu(tf.matmul(jets, weights("hidden/kernel", random, 4, 8)))
        now, mean = tf.reduce_mean(x, 0), weights("hidden/moving_mean", random, 8)
        x = x - v1.cond(training, lambda: tf.identity(now), lambda: tf.identity(mean))
        x = v1.nn.dropout(x, keep_prob=keep)
        tf.nn.softmax(tf.matmul(x, weights("tag/kernel", random, 8, 3)), name="tag/Softmax")
        session.run(v1.global_variables_initializer())
        frozen = v1.graph_util.convert_variables_to_constants(session, session.graph_def, ["tag/Softmax"])
    tf.io.write_graph(frozen, ".", "tagger.pbtxt")


if __name__ == "__main__":
    main()
