"""Random stacks of Keras' layers, with weights that are drawn too; a second one of the same layers is in float64."""

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
LARGEST = 600
ACTIVATIONS = ("relu", "tanh", "sigmoid", "elu", "selu", "gelu", "swish", "softplus", "softsign", "linear", "leaky_relu", "softmax")  # fmt: skip


def inputs(random, rows):
    """The last row has numbers that are large, small, and zeros of both signs."""
    shapes = {"x": (7,), "z": (8, 4), "m": (7, 6, 3)}
    given = {name: random.normal(size=(rows, *shape)).astype(np.float32) for name, shape in shapes.items()}
    for values in given.values():
        last = values[-1].reshape(-1)
        last[:4] = [0.0, -0.0, 1e4, 1e-30]
    given["i"] = random.integers(0, 9, (rows, 6)).astype(np.int32)
    return given


class Stack:
    """`run(values, real)`: the result for the values of the inputs. `text` names its layers.

    The layers are called one by one: a model of Keras would trace each of them three times before it runs.
    """

    def __init__(self, random):
        self.random = random
        names = ("x", "z", "m", "i")
        self.place = int(random.integers(4))
        value = tf.constant(inputs(np.random.default_rng(0), 3)[names[self.place]])
        self.parts, self.layers, self.doubles, self.weights = [], [], [], []
        first = value
        if value.dtype == tf.int32:
            value = self._tried(value, (layers.Embedding, {"input_dim": 9, "output_dim": 4}))
        while len(self.parts) < 2 + random.integers(6):
            value = self._tried(value, self._drawn(value.shape.rank - 1, value.shape[-1]))
        self.text = " ".join(kind.__name__ for kind, _ in self.parts)
        for kind, options in self.parts:
            self.doubles.append(kind(**options, dtype="float64"))
        self._called(self.doubles, tf.cast(first, tf.float64) if first.dtype == tf.float32 else first)
        for layer, double in zip(self.layers, self.doubles, strict=True):
            # Variances are not negative, and counts of random numbers stay.
            drawn = [random.normal(size=each.shape).astype(np.float32) * 0.5 for each in layer.weights]
            drawn = [np.abs(new) + 0.1 if "var" in old.path else new for old, new in zip(layer.weights, drawn, strict=True)]  # fmt: skip
            for each in (layer, double):
                each.set_weights(drawn)
            groups = (layer.trainable_variables, layer.non_trainable_variables)
            self.weights.append([[each.numpy() for each in group] for group in groups])

    def run(self, values, real):
        """In a graph, weights are constants."""
        value = values[self.place]
        if tf.executing_eagerly():
            return self._called(self.layers if real == tf.float32 else self.doubles, value)
        for layer, groups in zip(self.layers, self.weights, strict=True):
            value, _ = layer.stateless_call(*([tf.constant(each) for each in group] for group in groups), value)
        return value

    def few(self, *choices):
        return choices[self.random.integers(len(choices))]

    def _called(self, parts, value):
        for layer in parts:
            value = layer(value)
        return value

    def _tried(self, value, part):
        """`value` after the layer `part`, or without it where it does not fit or is too large."""
        kind, options = part
        try:
            layer = kind(**options)
            made = layer(value)
        except (ValueError, TypeError, tf.errors.OpError):
            return value
        if made.shape.rank < 2 or not 0 < np.prod(made.shape[1:]) <= LARGEST:
            return value
        self.parts.append(part)
        self.layers.append(layer)
        return made

    def _drawn(self, rank, width):
        few = self.few
        activation, units, padding = few(*ACTIVATIONS), int(few(1, 3, 5, 8)), few("same", "valid")
        size, stride = int(few(1, 2, 3)), int(few(1, 2))
        every = [
            (layers.Dense, {"units": units, "activation": activation}), (layers.Activation, {"activation": activation}),
            (layers.LayerNormalization, {"axis": -1}), (layers.BatchNormalization, {}), (layers.Dropout, {"rate": 0.3}),
            (layers.UnitNormalization, {}), (layers.Rescaling, {"scale": 0.5, "offset": -1.0}), (layers.PReLU, {}),
        ]  # fmt: skip
        window = {"strides": stride, "padding": padding}
        if rank == 1:
            every += [(layers.RepeatVector, {"n": 3}), (layers.Reshape, {"target_shape": (-1, 1)})]
        elif rank == 2:
            every += [
                (layers.Conv1D, {"filters": units, "kernel_size": size, "activation": activation, **window}),
                (layers.Conv1D, {"filters": units, "kernel_size": size, "padding": "causal", "dilation_rate": stride}),
                (layers.SeparableConv1D, {"filters": units, "kernel_size": size, **window}),
                (layers.DepthwiseConv1D, {"kernel_size": size, **window}),
                (layers.Conv1DTranspose, {"filters": units, "kernel_size": size, **window}),
                (layers.MaxPooling1D, {"pool_size": size, **window}),
                (layers.AveragePooling1D, {"pool_size": size, **window}), (layers.GlobalMaxPooling1D, {}),
                (layers.GlobalAveragePooling1D, {}), (layers.Flatten, {}), (layers.Permute, {"dims": (2, 1)}),
                (layers.UpSampling1D, {"size": 2}), (layers.ZeroPadding1D, {"padding": (1, 0)}),
                (layers.Cropping1D, {"cropping": (0, 1)}), (layers.LSTM, {"units": 3, "return_sequences": bool(few(0, 1))}),
                (layers.GRU, {"units": 3, "reset_after": bool(few(0, 1))}),
                (layers.SimpleRNN, {"units": 4, "return_sequences": True}), (layers.Softmax, {"axis": 1}),
            ]  # fmt: skip
        else:
            every += [
                (layers.Conv2D, {"filters": units, "kernel_size": size, "activation": activation, **window}),
                (layers.SeparableConv2D, {"filters": units, "kernel_size": size, **window}),
                (layers.DepthwiseConv2D, {"kernel_size": size, "depth_multiplier": stride, **window}),
                (layers.Conv2DTranspose, {"filters": units, "kernel_size": size, **window}),
                (layers.MaxPooling2D, {"pool_size": size, **window}),
                (layers.AveragePooling2D, {"pool_size": size, **window}), (layers.GlobalMaxPooling2D, {}),
                (layers.GlobalAveragePooling2D, {"keepdims": bool(few(0, 1))}), (layers.Flatten, {}),
                (layers.UpSampling2D, {"size": 2, "interpolation": few("nearest", "bilinear")}),
                (layers.ZeroPadding2D, {"padding": 1}), (layers.Cropping2D, {"cropping": ((1, 0), (0, 1))}),
                (layers.Permute, {"dims": (2, 3, 1)}), (layers.Reshape, {"target_shape": (-1, width)}),
                (layers.GroupNormalization, {"groups": 1}),
            ]  # fmt: skip
        return few(*every)


def drawn(random):
    return Stack(random)
