"""Export many kinds of honest models, and compare what the worker's loader makes of them with TensorFlow's own loader.

    TOOLCHAIN/bin/python exports.py WORKER_PROGRAM FOLDER

Prints a JSON object: model -> largest difference, or why it was refused.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

layers = tf.keras.layers
v1 = tf.compat.v1
_SPEC = tf.TensorSpec([None, 4], tf.float32, name="x")
_MAKERS = {}


def model(maker):
    _MAKERS[maker.__name__] = maker
    return maker


def _keras(path, *parts, size=4, dtype="float32"):
    tf.keras.Sequential([layers.Input((size,), dtype=dtype), *parts]).export(path, verbose=False)


@model
def normalization(path):
    adapted = layers.Normalization()
    adapted.adapt(np.random.default_rng(0).random((64, 4), np.float32))
    _keras(path, adapted, layers.Rescaling(2.0, 1.0), layers.Dense(3))


@model
def discretization(path):
    _keras(path, layers.Discretization(bin_boundaries=[0.0, 1.0]))


@model
def integer_lookup(path):
    _keras(path, layers.IntegerLookup(vocabulary=[3, 5]), size=1, dtype="int64")


@model
def optimizer_state(path):
    """Saved as a whole, after training: Keras 3 hides its variables from the saver's graph."""
    net = tf.keras.Sequential([layers.Input((4,)), layers.Dense(8), layers.BatchNormalization(), layers.Dense(1)])
    net.compile("adam", "mse")
    net.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)
    tf.saved_model.save(net, path)


@model
def functional(path):
    a, b = layers.Input((4,), name="a"), layers.Input((3,), name="b")
    both = layers.Concatenate()([layers.Dense(4)(a), layers.Dense(4)(b)])
    tf.keras.Model([a, b], {"s": layers.Dense(1)(both), "t": layers.Dense(2)(both)}).export(path, verbose=False)


@model
def recurrent(path):
    """Its predictions change the seed of dropout, which no output needs."""
    lstm = layers.LSTM(4, dropout=0.1, recurrent_dropout=0.2)
    tf.keras.Sequential([layers.Input((5, 3)), lstm, layers.Dense(2)]).export(path, verbose=False)


@model
def module(path):
    """Half precision, variables in lists and under two names, a captured constant, an asset, two signatures."""
    made = tf.Module()
    made.weights = tf.Variable(tf.ones([4, 2], tf.bfloat16))
    made.bias = tf.Variable(tf.ones([2], tf.float16))
    made.steps = [tf.Variable(3, dtype=tf.int64), tf.Variable(4, dtype=tf.int64)]
    made.again = made.bias
    constant = tf.constant(np.arange(4, dtype=np.float32))
    with open(path + ".asset", "w") as file:
        file.write("not read")
    made.asset = tf.saved_model.Asset(path + ".asset")

    def serve(x):
        y = tf.cast(tf.cast(x + constant, tf.bfloat16) @ made.weights, tf.float32)
        return {"y": y + tf.cast(made.bias, tf.float32) * tf.cast(made.steps[1], tf.float32), "x": x}

    made.serve = tf.function(serve, input_signature=[_SPEC])
    tf.saved_model.save(made, path, signatures={"serving_default": made.serve, "other": made.serve})


@model
def custom_gradient(path):
    @tf.custom_gradient
    def clip(x):
        return tf.clip_by_value(x, -1.0, 1.0), lambda upstream: upstream

    made = tf.Module()
    made.factor = tf.Variable(2.0)
    made.serve = tf.function(lambda x: {"y": clip(x * made.factor)}, input_signature=[_SPEC])
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(made, path, signatures=made.serve, options=options)


@model
def jit_inside(path):
    made = tf.Module()
    made.factor = tf.Variable(2.0)
    inner = tf.function(lambda x: tf.nn.softmax(x * made.factor), jit_compile=True)
    made.serve = tf.function(lambda x: {"y": inner(x)}, input_signature=[_SPEC])
    tf.saved_model.save(made, path, signatures=made.serve)


def _version1(path, *, resource, partitioned=False, control_flow=False):
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        partitioner = v1.fixed_size_partitioner(3, axis=0) if partitioned else None
        weights = tf.convert_to_tensor(v1.get_variable("w", [4, 6], use_resource=resource, partitioner=partitioner))
        bias = v1.get_variable("b", initializer=[1.0] * 6, use_resource=resource)
        y = tf.nn.relu(x @ weights + bias) * v1.placeholder_with_default(1.0, [], name="keep")
        if control_flow:
            y = tf.cond(tf.reduce_sum(x) > 0, lambda: y + 1.0, lambda: y * 2.0)
            y = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a + weights[0, 0]), [0, y])[1]
        else:
            v1.train.AdamOptimizer().minimize(tf.reduce_mean(y))
            v1.summary.scalar("mean", tf.reduce_mean(y))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, path, {"x": x}, {"y": y})


@model
def reference_variables(path):
    _version1(path, resource=False)


@model
def resource_variables(path):
    _version1(path, resource=True)


@model
def partitioned_reference_variables(path):
    _version1(path, resource=False, partitioned=True)


@model
def partitioned_resource_variables(path):
    _version1(path, resource=True, partitioned=True)


@model
def control_flow_of_version1(path):
    v1.disable_control_flow_v2()
    _version1(path, resource=False, control_flow=True)
    v1.enable_control_flow_v2()


def _difference(path, scratch):
    import freeze
    import signatures
    from messages import graph
    from messages.requests import ModelFault

    model = graph.Chosen(folder=path, tags=("serve",), signature="serving_default", shapes={}, inputs=(), outputs=())
    try:
        request = graph.Freeze(model=model, weights="shared", threshold=1024, out=scratch)
        freeze.freeze(request, lambda *_: None)
        signature = signatures.load_signature(path, ["serve"], "serving_default")
    except ModelFault as fault:
        return fault.message
    theirs = tf.saved_model.load(path).signatures["serving_default"]
    random = np.random.default_rng(1)
    feeds = {
        name: tf.cast(random.normal(size=[size or 3 for size in spec.shape]), spec.dtype)
        for name, spec in theirs.structured_input_signature[1].items()
    }
    expected, found = theirs(**feeds), signature(**feeds)
    assert sorted(expected) == sorted(found)
    # Relative for numbers above 1: TensorFlow's own threads round sums in one order or another.
    differences = [
        np.abs(np.subtract(expected[key], found[key], dtype=np.float64)) / np.maximum(1, np.abs(expected[key]))
        for key in expected
    ]
    return float(max(np.max(each, initial=0) for each in differences))


def main():
    program, folder = sys.argv[1:]
    sys.path.insert(0, program)
    found = {}
    tf.keras.utils.set_random_seed(7)  # else each run tries other weights
    for name, make in _MAKERS.items():
        path = os.path.join(folder, name)
        make(path)
        found[name] = _difference(path, folder)
    with open(os.path.join(folder, "differences.json"), "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
