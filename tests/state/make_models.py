"""Make models with variables that change, and what TensorFlow computes with them: one folder each below FOLDER.

    TOOLCHAIN/bin/python make_models.py FOLDER

Beside each SavedModel, in NAME.npz: "inputs/NAME", the inputs of all steps on a first axis; "outputs/NAME", what the
function gave at each step when Python ran it; "state/NAME", each variable after the last step, under the name in Python.
Of recurrent networks, the outputs are those of one run over the whole sequence, by a layer without state.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

layers = tf.keras.layers
FRAMES = 1000
STEPS = 50
BATCH = 16


class Counter(tf.Module):
    """Variables of several types, changed under conditions and in a loop; `gain` is only read."""

    def __init__(self):
        self.total = tf.Variable([1.0, 2.0], name="total")
        self.steps = tf.Variable(np.int64(0), name="steps")
        self.seen = tf.Variable(False, name="seen")
        self.table = tf.Variable(np.zeros((4, 2), np.float32), name="table")
        self.gain = tf.Variable(2.0, name="gain")

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
    def step(self, x):
        before = self.total.read_value()
        self.total.assign_add(x * self.gain)
        if tf.reduce_sum(x) > 1.0:
            self.total.assign(self.total * 0.5)
            self.seen.assign(True)
        for index in tf.range(3):
            self.total.assign_sub(x * tf.cast(index, tf.float32))
        self.table.scatter_nd_update([[tf.math.floormod(self.steps, 4)]], [x])
        self.steps.assign(self.steps + 1)
        return {"before": before, "total": 10.0 * self.total, "steps": self.steps.read_value()}


def counter(folder):
    module = Counter()
    tf.saved_model.save(module, f"{folder}/counter", signatures=module.step)
    x = np.random.default_rng(1).standard_normal((40, 2), np.float32)
    outputs = [module.step(each) for each in x]
    state = {each.name.partition(":")[0]: each.numpy() for each in module.variables}
    write(f"{folder}/counter.npz", {"x": x}, outputs, state)


class Frames(tf.Module):
    """A recurrent network that keeps its state from frame to frame."""

    def __init__(self, network):
        self.network = network
        self.kept = [each.value for each in network.variables]

    @tf.function(input_signature=[tf.TensorSpec([1, 1, 4], tf.float32, name="frame")])
    def step(self, frame):
        return {"y": self.network(frame)}


def recurrent(folder, kind):
    layer = {"gru": layers.GRU, "lstm": layers.LSTM, "simple_rnn": layers.SimpleRNN}[kind]

    def network(frames, **options):
        return tf.keras.Sequential(
            [layers.Input(batch_shape=(1, frames, 4)), layer(12, **options), layers.Dense(3, activation="tanh")]
        )

    frames = np.random.default_rng(2).standard_normal((FRAMES, 1, 1, 4), np.float32)
    stateful, whole = network(1, stateful=True), network(FRAMES, return_sequences=True)
    whole.set_weights(stateful.get_weights()[: len(whole.get_weights())])
    module = Frames(stateful)
    tf.saved_model.save(module, f"{folder}/{kind}", signatures=module.step)
    answers = whole(frames.reshape(1, FRAMES, 4)).numpy()[0]
    write(f"{folder}/{kind}.npz", {"frame": frames}, [{"y": each[None]} for each in answers], {})


class Training(tf.Module):
    """One step of training; with `frozen`, batch normalization uses its moving averages and leaves them alone."""

    def __init__(self, network, optimizer, shape, frozen):
        self.network, self.optimizer, self.frozen = network, optimizer, frozen
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer.build(network.trainable_variables)
        self.kept = [each.value for each in [*network.variables, *optimizer.variables]]
        specs = [tf.TensorSpec([BATCH, *shape], tf.float32, name="x"), tf.TensorSpec([BATCH], tf.int32, name="y")]
        self.step = tf.function(self._step, input_signature=specs)
        self.gradients = tf.function(self._gradients, input_signature=specs)

    def _tape(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss(y, self.network(x, training=not self.frozen))
        return loss, tape.gradient(loss, self.network.trainable_variables)

    def _step(self, x, y):
        loss, gradients = self._tape(x, y)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables, strict=True))
        return {"loss": loss}

    def _gradients(self, x, y):
        loss, gradients = self._tape(x, y)
        names = [each.path.replace("/", "_") for each in self.network.trainable_variables]
        return {"loss": loss, **dict(zip(names, gradients, strict=True))}


OPTIMIZERS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.05),
    "momentum": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9),
    "adam": lambda: tf.keras.optimizers.Adam(0.005),
}


def classifier(kind):
    """A network of `kind`, and the shape of its input.

    No bias stands before a normalization, which would take it away: its gradient is rounding errors, and Adam makes
    whole steps of these.
    """
    normalization = [layers.BatchNormalization(), layers.ReLU()]
    if kind == "dense":
        parts = [layers.Dense(24, use_bias=False), *normalization, layers.Dense(16, activation="relu"), layers.Dense(5)]
        return tf.keras.Sequential([layers.Input((12,)), *parts]), (12,)
    parts = [layers.Conv2D(6, 3, use_bias=False, padding="same"), *normalization, layers.MaxPooling2D()]
    parts += [layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(5)]
    return tf.keras.Sequential([layers.Input((8, 8, 1)), *parts]), (8, 8, 1)


def training(folder, kind, optimizer, mode):
    name = f"{kind}_{optimizer}_{mode}"
    network, shape = classifier(kind)
    module = Training(network, OPTIMIZERS[optimizer](), shape, frozen=mode == "inference")
    random = np.random.default_rng(3)
    x = random.standard_normal((STEPS, BATCH, *shape), np.float32)
    # Labels that can be learned, so that the loss falls.
    y = np.argmax(x.reshape(STEPS, BATCH, -1)[..., :5], -1).astype(np.int32)
    signatures = {"serving_default": module.step, "gradients": module.gradients}
    tf.saved_model.save(module, f"{folder}/{name}", signatures=signatures)
    # In training, the network would change its moving averages here.
    slopes = {each: values.numpy() for each, values in module.gradients(x[0], y[0]).items()} if module.frozen else {}
    outputs = [module.step(*each) for each in zip(x, y, strict=True)]
    state = {each.path: each.numpy() for each in [*network.variables, *module.optimizer.variables]}
    write(f"{folder}/{name}.npz", {"x": x, "y": y}, outputs, state, {f"gradients/{n}": v for n, v in slopes.items()})


def write(path, inputs, outputs, state, more=None):
    stacked = {name: np.stack([np.asarray(each[name]) for each in outputs]) for name in outputs[0]}
    np.savez(
        path,
        **{f"inputs/{name}": values for name, values in inputs.items()},
        **{f"outputs/{name}": values for name, values in stacked.items()},
        **{f"state/{name}": values for name, values in state.items()},
        **(more or {}),
    )


def main(folder, *names):
    """Write the models of these names into `folder`: counter, a recurrent layer, or KIND_OPTIMIZER_MODE."""
    for name in names:
        tf.keras.utils.set_random_seed(7)
        match name.split("_"):
            case ["counter"]:
                counter(folder)
            case [kind, optimizer, mode]:
                training(folder, kind, optimizer, mode)
            case _:
                recurrent(folder, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
