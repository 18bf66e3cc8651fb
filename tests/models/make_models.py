"""Make the tests' SavedModels: one folder each below FOLDER, in about five seconds.

    TOOLCHAIN/bin/python make_models.py FOLDER CANARIES

Runs inside a toolchain's Python, not in the tests' own. The hostile model NAME tries to write the file CANARIES/NAME.

To add a model write a function with `@model` and use `models["NAME"]` in a test: the fixture `models` (tests/conftest.py)
makes all of them once, and again when this file changes.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

_MAKERS = {}


def model(maker):
    """Register the maker of a model; it gets the folder to write and the path of the file that a hostile one writes."""
    _MAKERS[maker.__name__] = maker
    return maker


class Dense(tf.Module):
    """x [N, 4] -> y [N, 3], through 64 hidden values: one weight is large enough to be shared, the others are not."""

    def __init__(self, seed=1):
        random = np.random.default_rng(seed)
        self.first = tf.Variable(random.normal(size=(4, 64)).astype(np.float32))
        self.second = tf.Variable(random.normal(size=(64, 3)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def serve(self, x):
        return {"y": tf.tanh(x @ self.first) @ self.second}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def twice(self, x):
        return {"y": 2.0 * (tf.tanh(x @ self.first) @ self.second)}


@model
def dense(folder, canary):
    """Two signatures: serving_default and twice."""
    module = Dense()
    tf.saved_model.save(module, folder, signatures={"serving_default": module.serve, "twice": module.twice})


@model
def dense_retrained(folder, canary):
    """As dense, with other weights."""
    module = Dense(seed=2)
    tf.saved_model.save(module, folder, signatures=module.serve)


@model
def two_inputs(folder, canary):
    """Inputs and outputs that only their names and positions tell apart."""
    specs = [tf.TensorSpec([None, 3], tf.float32, name=name) for name in ("first", "second")]
    _save(folder, lambda first, second: {"sum": first + second, "difference": first - 2.0 * second}, *specs)


def _save(folder, function, *specs):
    """A model without variables: `function` of tensors like `specs` gives its outputs by name."""
    module = tf.Module()
    module.serve = tf.function(function, input_signature=specs)
    tf.saved_model.save(module, folder, signatures=module.serve)


@model
def mixed(folder, canary):
    """From x [N, ?, 2] -> y [N, 2], and what has no batch axis: the vector `shift`, the scalars `steps` and `total`."""

    def serve(shift, steps, x):
        y = tf.cast(steps, tf.float32) * tf.reduce_sum(x, axis=1) + shift
        return {"y": y, "total": tf.cast(tf.reduce_sum(y), tf.float64)}

    specs = (
        tf.TensorSpec([2], tf.float32, name="shift"),
        tf.TensorSpec([], tf.int32, name="steps"),
        tf.TensorSpec([None, None, 2], tf.float32, name="x"),
    )
    _save(folder, serve, *specs)


@model
def text_input(folder, canary):
    _save(folder, lambda words: {"y": tf.strings.length(words)}, tf.TensorSpec([None], tf.string, name="words"))


@model
def unsupported(folder, canary):
    """XLA has no kernel for FractionalMaxPool."""

    def serve(x):
        pooled = tf.raw_ops.FractionalMaxPool(value=x, pooling_ratio=[1.0, 1.5, 1.5, 1.0], name="the_pool")
        return {"y": pooled.output}

    _save(folder, serve, tf.TensorSpec([None, 6, 6, 1], tf.float32, name="image"))


@model
def centred(folder, canary):
    """Rows that depend on one another: each is less the mean of all."""

    def serve(x):
        return {"y": x - tf.reduce_mean(x, 0, name="mean_of_rows")}

    _save(folder, serve, tf.TensorSpec([None, 3], tf.float32, name="x"))


@model
def heavy(folder, canary):
    """Takes XLA some seconds for each unit: for tests that interrupt it."""

    def serve(x):
        for turn in range(60):
            x = tf.math.top_k(tf.sort(tf.linalg.matmul(x, x) + float(turn), axis=-1), k=16).values
            x = tf.linalg.inv(x + 3.0 * tf.eye(16))
        return {"y": x}

    _save(folder, serve, tf.TensorSpec([None, 16, 16], tf.float32, name="x"))


def _v1_model(folder, *, input_key="x", output_key="y", init=None, with_variable=False):
    """A SavedModel of TensorFlow 1's kind, whose signature may have any keys; `init` builds its initializer."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        factor = v1.get_variable("factor", initializer=2.0, use_resource=True) if with_variable else 2.0
        y = tf.multiply(x, factor, name="y")
        main = init() if init else None
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.signature_def_utils.predict_signature_def({input_key: x}, {output_key: y})
        builder = v1.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}, main_op=main
        )
        builder.save()


@model
def odd_names(folder, canary):
    """Names that would be code in C++, CMake, XML or a shell."""
    _v1_model(folder, input_key='in "put" */ }} ${HOME} \\', output_key="sortie <é> --> ]] $(id)\n#define x")


@model
def hostile_signature(folder, canary):
    def serve(x):
        tf.io.write_file(canary, "written by the signature")
        return {"y": x * 2.0}

    _save(folder, serve, tf.TensorSpec([None, 4], tf.float32, name="x"))


@model
def hostile_initializer(folder, canary):
    _v1_model(folder, init=lambda: tf.raw_ops.WriteFile(filename=canary, contents="written by the initializer"))


@model
def hostile_saver(folder, canary):
    """Writes with SaveV2, which every honest model holds too: only there it is not reached by signature or initializer."""
    _v1_model(
        folder,
        init=lambda: tf.raw_ops.SaveV2(
            prefix=canary, tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
        ),
    )


@model
def hostile_saver_function(folder, canary):
    """The same, out of a function that the signature calls."""

    def serve(x):
        save = tf.raw_ops.SaveV2(prefix=canary, tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)])
        with tf.control_dependencies([save]):
            return {"y": x * 2.0}

    _save(folder, serve, tf.TensorSpec([None, 4], tf.float32, name="x"))


@model
def hostile_restore(folder, canary):
    """WriteFile as a control input of the saver's restore operation, put in after the export."""
    from tensorflow.core.protobuf import saved_model_pb2

    _v1_model(folder, with_variable=True)
    path = os.path.join(folder, "saved_model.pb")
    saved = saved_model_pb2.SavedModel()
    with open(path, "rb") as file:
        saved.ParseFromString(file.read())
    graph = saved.meta_graphs[0].graph_def
    with tf.Graph().as_default() as extra:
        tf.raw_ops.WriteFile(filename=tf.constant(canary, name="evil_path"), contents="by restore", name="evil")
    graph.node.extend(extra.as_graph_def().node)
    restore = saved.meta_graphs[0].saver_def.restore_op_name
    next(node for node in graph.node if node.name == restore).input.append("^" + graph.node[-1].name)
    with open(path, "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))


@model
def hostile_python(folder, canary):
    def serve(x):
        return {"y": tf.reshape(tf.numpy_function(lambda values: values, [x], tf.float32), [-1, 4])}

    _save(folder, serve, tf.TensorSpec([None, 4], tf.float32, name="x"))


def main():
    (root,) = sys.argv[1:]
    canaries = os.path.join(root, "canaries")
    os.mkdir(canaries)
    for name, make in _MAKERS.items():
        make(os.path.join(root, name), os.path.join(canaries, name))


if __name__ == "__main__":
    main()
