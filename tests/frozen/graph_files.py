"""Graphs as people have them from TensorFlow 1, with inputs and TensorFlow's answers to them beside each.

TOOLCHAIN/bin/python graph_files.py FOLDER
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.compiler.tf2xla import tf2xla_pb2
from tensorflow.python.ops.rnn import dynamic_rnn

v1 = tf.compat.v1
_SEED = 3


def weights(name, *shape, resource=False):
    random = np.random.default_rng(_SEED + sum(map(ord, name)))
    start = v1.constant_initializer(random.normal(size=shape, scale=0.5).astype(np.float32))
    return v1.get_variable(name, shape, tf.float32, start, use_resource=resource)


def dense(x, name, size, resource=False):
    with v1.variable_scope(name):
        kernel, bias = weights("kernel", x.shape[1], size, resource=resource), weights("bias", size, resource=resource)
        return tf.nn.bias_add(tf.matmul(x, kernel), bias, name="out")


def batch_norm(x, name, training):
    """As tf.layers.batch_normalization(training=PLACEHOLDER): statistics of the batch, or the moving ones."""
    size = x.shape[-1]
    with v1.variable_scope(name):
        mean, gamma, beta = weights("moving_mean", size), weights("gamma", size), weights("beta", size)
        variance = tf.abs(weights("moving_variance", size)) + 0.5
        now = tf.nn.moments(x, list(range(len(x.shape) - 1)))
        used = v1.cond(training, lambda: tuple(map(tf.identity, now)), lambda: (tf.identity(mean), variance))
        return tf.nn.batch_normalization(x, used[0], used[1], beta, gamma, 1e-3)


def convolutional():
    """Pictures, batch normalization and dropout, which placeholders switch."""
    images = v1.placeholder(tf.float32, [None, 8, 8, 1], name="input/images-1")
    training = v1.placeholder(tf.bool, name="is_training")
    keep = v1.placeholder(tf.float32, [], name="keep_prob")
    x = tf.nn.conv2d(images, weights("conv", 3, 3, 1, 4), strides=1, padding="SAME")
    x = tf.nn.relu(batch_norm(x, "bn", training))
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    x = tf.reshape(x, [-1, 64])
    x = v1.nn.dropout(x, keep_prob=keep)
    tf.nn.softmax(dense(x, "top", 3), name="predictions/Softmax")
    return {"input/images-1": (8, 8, 1)}, {training: False, keep: 1.0}, ["predictions/Softmax"]


def tagger():
    """As DeepJet's: several inputs, and Keras's learning phase with a default."""
    phase = v1.placeholder_with_default(False, [], name="keras_learning_phase")
    jets, tracks = (
        v1.placeholder(tf.float32, [None, *shape], name=f"input_{i}") for i, shape in ((1, [6]), (2, [5, 4]))
    )
    parts = tf.reduce_max(tf.nn.relu(tf.tensordot(tracks, weights("embed", 4, 8), 1)), axis=1)
    x = batch_norm(tf.concat([jets, parts], 1), "bn", phase)
    x = tf.nn.relu(dense(x, "first", 16))
    x = v1.cond(phase, lambda: tf.nn.dropout(x, 0.5), lambda: tf.identity(x), name="dropout_1/cond")
    tf.nn.softmax(dense(x, "ID_pred", 4), name="ID_pred/Softmax")
    tf.identity(dense(x, "regression", 1), name="regression_pred/BiasAdd")
    return {"input_1": (6,), "input_2": (5, 4)}, {}, ["ID_pred/Softmax", "regression_pred/BiasAdd"]


def recurrent():
    """An LSTM cell in a loop of TensorFlow 1."""
    x = v1.placeholder(tf.float32, [None, 5, 3], name="x")
    kernel, bias = weights("kernel", 7, 16), weights("bias", 16)
    steps = tf.transpose(x, [1, 0, 2])
    zeros = tf.zeros([tf.shape(x)[0], 4])

    def step(time, carry, hidden):
        gates = tf.matmul(tf.concat([tf.gather(steps, time), hidden], 1), kernel) + bias
        i, j, f, o = tf.split(gates, 4, axis=1)
        carry = carry * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return time + 1, carry, tf.tanh(carry) * tf.sigmoid(o)

    _, _, last = v1.while_loop(lambda time, *_: time < 5, step, [0, zeros, zeros])
    tf.identity(last, name="last")
    return {"x": (5, 3)}, {}, ["last"]


class Cell:
    """What dynamic_rnn takes for a cell; those of TensorFlow 1 are gone with Keras 3."""

    output_size, state_size = 4, (4, 4)

    def zero_state(self, batch, dtype):
        return tf.zeros([batch, 4], dtype), tf.zeros([batch, 4], dtype)

    def __call__(self, x, state, scope=None):
        with v1.variable_scope("lstm", reuse=v1.AUTO_REUSE):
            gates = tf.matmul(tf.concat([x, state[1]], 1), weights("kernel", 7, 16)) + weights("bias", 16)
        i, j, f, o = tf.split(gates, 4, axis=1)
        carry = state[0] * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        hidden = tf.tanh(carry) * tf.sigmoid(o)
        return hidden, (carry, hidden)


def lengths():
    """dynamic_rnn with TensorArrays and the length of each sequence."""
    x, length = v1.placeholder(tf.float32, [None, 6, 3], name="x"), v1.placeholder(tf.int32, [None], name="length")
    outputs, state = dynamic_rnn(Cell(), x, sequence_length=length, dtype=tf.float32)
    tf.identity(outputs, name="sequence")
    tf.identity(state[1], name="last")
    return {"x": (6, 3), "length": ()}, {}, ["last", "sequence"]


def fixed():
    """The shapes of an example of tfcompile: a batch of one."""
    x = v1.placeholder(tf.float32, [1, 4], name="x")
    tf.nn.relu(dense(x, "layer", 3), name="result")
    return {"x": (1, 4)}, {}, ["result"]


def names():
    """Names that TensorFlow takes, and that no C++ does."""
    first, second = (v1.placeholder(tf.float32, [None, 4], name=name) for name in ("in-put/a.b", "in_put/a_b"))
    both = tf.nn.relu(first * second, name="cafe/x")
    tf.split(both, 2, axis=1, name="out")
    return {"in-put/a.b": (4,), "in_put/a_b": (4,)}, {}, ["out", "out:1"]


def variables():
    """Variables of both kinds, one of which is trained, and nothing of the training is an output."""
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    wanted = v1.placeholder(tf.float32, [None, 2], name="wanted")
    hidden = tf.tanh(dense(x, "old", 6))
    result = tf.identity(dense(hidden, "new", 2, resource=True), name="result")
    loss = tf.reduce_mean((result - wanted) ** 2)
    v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return {"x": (4,)}, {}, ["result"]


MODELS = {each.__name__: each for each in (convolutional, tagger, recurrent, fixed, names, variables)}
# As most such graphs were made, with Switch, Merge and Enter; and as later releases made them, with If and While.
MODELS |= {"switched_tagger": tagger, "switched_recurrent": recurrent, "switched_lengths": lengths}


def write(folder, name, make):
    (v1.disable_control_flow_v2 if name.startswith("switched") else v1.enable_control_flow_v2)()
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        inputs, constants, outputs = make()
        session.run(v1.global_variables_initializer())
        random = np.random.default_rng(1)
        batched = name != "fixed"
        feeds = {
            key: random.normal(size=(6, *shape) if batched else shape).astype(np.float32)
            for key, shape in inputs.items()
        }
        if "length" in feeds:
            feeds["length"] = np.arange(1, 7, dtype=np.int32)
        given = {**{f"{key}:0": value for key, value in feeds.items()}, **constants}
        answers = session.run([key if ":" in key else f"{key}:0" for key in outputs], given)
        np.savez(os.path.join(folder, f"{name}.npz"), **feeds)
        np.savez(os.path.join(folder, f"{name}.answers.npz"), **dict(zip(outputs, answers, strict=True)))
        nodes = [key.partition(":")[0] for key in outputs]
        frozen = v1.graph_util.convert_variables_to_constants(session, session.graph_def, nodes)
        store(frozen, folder, f"{name}.pb")
        store(frozen, folder, f"{name}.pbtxt")
        if name == "variables":
            saver = v1.train.Saver(write_version=v1.train.SaverDef.V2)
            saver.save(session, os.path.join(folder, "v2.ckpt"), global_step=7)
            v1.train.Saver(write_version=v1.train.SaverDef.V1).save(session, os.path.join(folder, "v1.ckpt"))
            store(session.graph_def, folder, "unfrozen.pb")
            values = {each.op.name: session.run(each) for each in v1.global_variables()}
            np.savez(os.path.join(folder, "variables.values.npz"), **values)
    if name == "variables":
        objects = tf.train.Checkpoint(
            layers={str(i): tf.Variable(value, name=key) for i, (key, value) in enumerate(values.items())}
        )
        objects.write(os.path.join(folder, "objects"))
    if name == "fixed":
        write_config(folder)


def odd(folder):
    """Graphs that other programs wrote, or that are damaged."""
    with open(os.path.join(folder, "names.pb"), "rb") as file:
        graph = v1.GraphDef.FromString(file.read())
    for node in graph.node:
        node.name = node.name.replace("cafe", "café")
        node.input[:] = [text.replace("cafe", "café") for text in node.input]
    store_bytes(graph, folder, "cafe.pb")
    next(node for node in graph.node if node.op == "Relu").attr.clear()
    store_bytes(graph, folder, "untyped.pb")
    with tf.Graph().as_default() as words:
        tf.strings.length(v1.placeholder(tf.string, [None], name="words"), name="lengths")
    store_bytes(words.as_graph_def(), folder, "words.pb")
    shutil.copyfile(os.path.join(folder, "module", "saved_model.pb"), os.path.join(folder, "part.pb"))
    with open(os.path.join(folder, "nested.pbtxt"), "w") as file:
        file.write(
            "node { name: 'a' op: 'X' attr { key: 'f' value { " + "func { name: 'g' attr { key: 'f' value { " * 3000
        )


def store_bytes(graph_def, folder, name):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(graph_def.SerializeToString())


def store(graph_def, folder, name):
    if name.endswith(".pbtxt"):
        # tf.io.write_graph of 2.20 passes an argument that its protobuf no longer has.
        with open(os.path.join(folder, name), "w") as file:
            file.write(text_format.MessageToString(graph_def))
    else:
        store_bytes(graph_def, folder, name)


def write_config(folder):
    config = tf2xla_pb2.Config()
    feed = config.feed.add(name="values")
    feed.id.node_name = "x"
    feed.shape.CopyFrom(tf.TensorShape([1, 4]).as_proto())
    config.fetch.add(name="answer").id.node_name = "result"
    with open(os.path.join(folder, "fixed.config.pbtxt"), "w") as file:
        file.write(text_format.MessageToString(config))
    with open(os.path.join(folder, "fixed.config.pb"), "wb") as file:
        file.write(config.SerializeToString())


class Score(tf.Module):
    """Saved without a signature."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(np.random.default_rng(5).normal(size=(4, 2)).astype(np.float32), name="kernel")
        self.shift = tf.constant([0.5, -0.5])

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def score(self, x):
        return {"score": tf.tanh(x @ self.kernel + self.shift), "total": tf.reduce_sum(x, 1)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)] * 2)
    def both(self, first, second):
        return first @ self.kernel, second @ self.kernel


def write_module(folder):
    module = Score()
    tf.saved_model.save(module, os.path.join(folder, "module"))
    x = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    np.savez(os.path.join(folder, "module.npz"), x=x)
    np.savez(os.path.join(folder, "module.answers.npz"), **module.score(x))


class Noisy(tf.Module):
    """Inference and training in one signature."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(np.random.default_rng(5).normal(size=(4, 2)).astype(np.float32), name="top/kernel")

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 4], tf.float32, name="x"),
            tf.TensorSpec([], tf.bool, name="training"),
            tf.TensorSpec([], tf.float32, name="scale"),
        ]
    )
    def score(self, x, training, scale):
        x = tf.cond(training, lambda: x + tf.random.normal(tf.shape(x)), lambda: x * scale)
        return {"score": tf.tanh(x @ self.kernel)}


def write_noisy(folder):
    module = Noisy()
    tf.saved_model.save(module, os.path.join(folder, "noisy"), signatures=module.score)
    x = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    np.savez(os.path.join(folder, "noisy.npz"), x=x)
    answers = module.score(x, tf.constant(False), tf.constant(2.0))
    np.savez(os.path.join(folder, "noisy.answers.npz"), **answers)


def main():
    folder = sys.argv[1]
    for name, make in MODELS.items():
        write(folder, name, make)
    write_module(folder)
    write_noisy(folder)
    odd(folder)


if __name__ == "__main__":
    main()
