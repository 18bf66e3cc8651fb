"""Networks of Keras as tf2onnx exports them, with rows beside them.

python exported_networks.py FOLDER     writes NAME.onnx, and NAME.npz with its inputs
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf
import tf2onnx

_RANDOM = np.random.default_rng(1)
_SIZE = 7  # of further axes without one
L = tf.keras.layers
MAKERS = {}


def network(function):
    MAKERS[function.__name__] = function
    return function


def in_order(*layers):
    return tf.keras.Sequential(list(layers))


@network
def dense():
    return in_order(L.Input((16,)), L.Dense(32, "relu"), L.BatchNormalization(), L.Dropout(0.2), L.Dense(4, "softmax"))


@network
def activations():
    x = L.Input((12,))
    names = ("selu", "swish", "gelu", "softplus", "softsign", "tanh", "sigmoid", "hard_sigmoid", "exponential", "elu")
    made = [L.Dense(8, name)(x) for name in names]
    made += [layer(L.Dense(8)(x)) for layer in (L.LeakyReLU(), L.PReLU(), L.ThresholdedReLU(), L.ReLU(6.0))]
    return tf.keras.Model(x, L.Dense(3)(L.Concatenate()(made)))


@network
def images():
    layers = (L.Conv2D(8, 3, activation="relu", padding="same"), L.MaxPool2D(), L.Conv2D(16, 3, strides=2))
    last = (L.BatchNormalization(), L.ReLU(6.0), L.GlobalAveragePooling2D(), L.Dense(5, "softmax"))
    return in_order(L.Input((16, 16, 3)), *layers, *last)


@network
def mobile():
    image = L.Input((32, 32, 3))
    x = L.Conv2D(8, 3, 2, "same", use_bias=False)(image)
    for width, stride in ((8, 1), (16, 2), (16, 1)):
        y = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(4 * width, 1, use_bias=False)(x)))
        y = L.ZeroPadding2D(((0, 1), (0, 1)))(y) if stride == 2 else y
        y = L.DepthwiseConv2D(3, stride, "valid" if stride == 2 else "same", use_bias=False)(y)
        y = L.Conv2D(width, 1)(L.ReLU(6.0)(L.BatchNormalization()(y)))
        x = L.Add()([x, y]) if x.shape == y.shape else y
    return tf.keras.Model(image, L.Dense(4, "softmax")(L.GlobalAveragePooling2D()(x)))


@network
def u_net():
    image = L.Input((16, 16, 2))
    first = L.Conv2D(8, 3, padding="same", activation="relu")(image)
    second = L.Conv2D(16, 3, padding="same", activation="relu")(L.MaxPool2D()(first))
    wide = [L.UpSampling2D(interpolation="bilinear")(second), L.Conv2DTranspose(8, 3, 2, "same")(second)]
    return tf.keras.Model(image, L.Conv2D(1, 1, activation="sigmoid")(L.Concatenate()([first, *wide])))


@network
def normalized_and_resized():
    """Keras takes the sizes of the image out of its shape to normalize it, and tf2onnx leaves that."""
    layers = (L.SeparableConv2D(8, 3, dilation_rate=2), L.AveragePooling2D(), L.LayerNormalization(), L.UpSampling2D())
    return in_order(L.Input((24, 24, 3)), *layers, L.Cropping2D(2), L.Flatten(), L.Dense(2))


@network
def series():
    layers = (L.Conv1D(16, 1, activation="relu"), L.Conv1D(8, 3, padding="causal", dilation_rate=2), L.MaxPool1D(2))
    return in_order(L.Input((20, 6)), *layers, L.GlobalMaxPooling1D(), L.Dense(3))


@network
def volumes():
    return in_order(L.Input((8, 8, 8, 1)), L.Conv3D(4, 3, activation="relu"), L.MaxPool3D(), L.Flatten(), L.Dense(2))


def recurrent(*layers, shape=(10, 5)):
    return in_order(L.Input(shape), *layers, L.Dense(2, "sigmoid"))


@network
def lstm():
    return recurrent(L.LSTM(12, return_sequences=True), L.LSTM(8))


@network
def gru():
    return recurrent(L.GRU(12, return_sequences=True), L.GRU(8))


@network
def gru_of_keras_1():
    """A loop of ONNX: its GRU has no biases of the kind that `reset_after=False` needs."""
    return recurrent(L.GRU(12, return_sequences=True, reset_after=False), L.GRU(8, reset_after=False))


@network
def long_gru_of_keras_1():
    return recurrent(L.GRU(6, reset_after=False), shape=(50, 5))


@network
def plain_recurrent():
    return recurrent(L.SimpleRNN(12))


@network
def both_directions():
    return recurrent(L.Bidirectional(L.LSTM(8, return_sequences=True)), L.Bidirectional(L.GRU(6)))


@network
def backwards():
    return recurrent(L.LSTM(8, go_backwards=True))


@network
def masked():
    return recurrent(L.Masking(), L.LSTM(8))


@network
def any_number_of_steps():
    return recurrent(L.LSTM(8, return_sequences=True), L.GlobalAveragePooling1D(), shape=(None, 5))


@network
def images_in_time():
    each = (L.TimeDistributed(L.Conv2D(4, 3)), L.TimeDistributed(L.Flatten()))
    return recurrent(*each, L.GRU(6), shape=(6, 8, 8, 1))


@network
def convolutions_in_time():
    return in_order(L.Input((4, 8, 8, 1)), L.ConvLSTM2D(3, 3), L.Flatten(), L.Dense(2))


@network
def words():
    ids, more = L.Input((6,), dtype="int32"), L.Input((4,))
    value = L.Concatenate()([L.Flatten()(L.Embedding(20, 5)(ids)), more])
    return tf.keras.Model([ids, more], L.Dense(3)(value))


@network
def words_with_gaps():
    ids = L.Input((6,), dtype="int32")
    return tf.keras.Model(ids, L.Dense(3)(L.LSTM(6)(L.Embedding(20, 5, mask_zero=True)(ids))))


def encoded(x):
    x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 4)(x, x))
    return L.LayerNormalization()(x + L.Dense(16)(L.Dense(32, "gelu")(x)))


@network
def transformer():
    x = L.Input((9, 16))
    return tf.keras.Model(x, L.Dense(2, "softmax")(L.GlobalAveragePooling1D()(encoded(encoded(x)))))


@network
def transformer_of_any_size():
    x = L.Input((None, 16))
    return tf.keras.Model(x, L.Dense(2, "softmax")(L.GlobalMaxPooling1D()(encoded(x))))


@network
def tagger_of_four():
    inputs, towers = [L.Input((15,))], []
    for count, width, units in ((6, 16, 24), (5, 8, 24), (4, 12, 16)):
        inputs.append(L.Input((count, width)))
        x = L.Conv1D(8, 1, activation="relu")(L.Conv1D(16, 1, activation="relu")(L.BatchNormalization()(inputs[-1])))
        towers.append(L.LSTM(units, go_backwards=True, implementation=2)(x))
    x = L.Dense(32, "relu")(L.Concatenate()([L.BatchNormalization()(inputs[0]), *towers]))
    return tf.keras.Model(inputs, L.Dense(6, "softmax")(x))


@network
def deep_sets():
    x, mask = L.Input((None, 6)), L.Input((None, 1))
    value = L.Dense(8, "relu")(L.Dense(16, "relu")(x)) * mask
    value = tf.reduce_sum(value, 1) / (tf.reduce_sum(mask, 1) + 10.0)
    return tf.keras.Model([x, mask], L.Dense(2, "softmax")(value))


@network
def edge_convolutions():
    points, features = L.Input((12, 2)), L.Input((12, 4))
    apart = tf.reduce_sum(tf.math.squared_difference(points[:, :, None], points[:, None]), -1)
    near = tf.math.top_k(-apart, k=5).indices[:, :, 1:]
    rows = tf.tile(tf.reshape(tf.range(tf.shape(features)[0]), (-1, 1, 1, 1)), (1, 12, 4, 1))
    by_place = tf.gather_nd(features, tf.concat([rows, near[..., None]], -1))
    centre = tf.tile(features[:, :, None], [1, 1, 4, 1])
    edges = tf.concat([centre, by_place - centre, tf.gather(features, near, batch_dims=1)], -1)
    value = tf.reduce_mean(L.Conv2D(8, 1, activation="relu")(edges), [1, 2])
    return tf.keras.Model([points, features], L.Dense(2, "softmax")(value))


@network
def kinematics():
    p = L.Input((5, 4))
    pt = tf.sqrt(p[..., 0] ** 2 + p[..., 1] ** 2 + 1e-6)
    angle = tf.atan2(p[..., 1], p[..., 0])
    parts = (tf.math.log(pt), tf.asinh(p[..., 2] / pt), tf.sin(angle), tf.where(pt > 1.0, pt, 0.0))
    x = tf.cumsum(tf.stack(parts, -1), 1)
    x = tf.gather(x, tf.argsort(pt, -1, "DESCENDING"), batch_dims=1)
    return tf.keras.Model(p, L.Dense(2)(L.Flatten()(x)))


@network
def images_resized():
    x = L.Input((8, 8, 2))
    made = [
        tf.image.resize(x, (13, 11)),
        tf.image.resize(x, (16, 16), "nearest"),
        tf.image.resize(x, (5, 5), "bicubic"),
    ]
    return tf.keras.Model(x, made)


def settle(model) -> None:
    """Numbers other than those that layers begin with, so that nothing is a product with 1 or a sum with 0."""
    for weight in model.weights:
        if "variance" in weight.name:
            weight.assign(_RANDOM.uniform(0.5, 2, weight.shape))
        elif any(part in weight.name for part in ("mean", "beta", "bias")):
            weight.assign(0.3 * _RANDOM.normal(size=weight.shape))


def drawn(given, name: str):
    shape = (4, *(_SIZE if size is None else size for size in given.shape[1:]))
    if given.dtype.is_integer:
        return _RANDOM.integers(0, 20, shape).astype(given.dtype.as_numpy_dtype)
    values = _RANDOM.normal(size=shape).astype(np.float32)
    if name == "masked":
        values[0, 6:], values[1, 3:] = 0, 0
    return values


def main():
    (folder,) = sys.argv[1:]
    for name, make in MAKERS.items():
        tf.keras.backend.clear_session()
        tf.random.set_seed(1)
        model = make()
        settle(model)
        specs = [tf.TensorSpec(each.shape, each.dtype, name=f"x{i}") for i, each in enumerate(model.inputs)]
        arrays = {spec.name: drawn(spec, name) for spec in specs}
        for opset in (13, 18):
            made, _ = tf2onnx.convert.from_keras(model, specs, opset=opset)
            with open(os.path.join(folder, f"{name}_{opset}.onnx"), "wb") as file:
                file.write(made.SerializeToString())
            np.savez(os.path.join(folder, f"{name}_{opset}.npz"), **arrays)


main()
