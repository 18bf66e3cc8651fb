"""Single operations and layers of many kinds, each as the worker lists it, and what XLA computes for them.

    TOOLCHAIN/bin/python operations.py FOLDER WORKER_PROGRAM

Runs inside a toolchain's Python. FOLDER/FAMILY/NAME has what answered.py writes.
"""

import functools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import answered  # (first: it silences TensorFlow)
import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
FAMILIES = {}


def _of_all_rows(x):
    """Each row's two smallest elements, by their places in all rows: indices and their bound hold the batch size."""
    count = tf.shape(x)[0]
    places = tf.argsort(x, axis=1)[:, :2] + 5 * tf.range(count)[:, None]
    return tf.gather(tf.reshape(x, [-1]), tf.math.floormod(places, tf.reshape(5 * count, [1, 1])))


def _channels_first(x):
    """Two convolutions and means as exporters of PyTorch write them: images are transposed before and after each."""
    random = np.random.default_rng(2)

    def convolved(image, filters):
        weights = random.normal(size=(3, 3, image.shape[1], filters)).astype(np.float32)
        bias = random.normal(size=(filters, 1, 1)).astype(np.float32)
        last = tf.nn.conv2d(tf.transpose(image, [0, 2, 3, 1]), weights, 1, "SAME")
        return tf.nn.relu(tf.transpose(last, [0, 3, 1, 2]) + bias)

    first = convolved(x, 4)
    both = tf.concat([convolved(first, 5), first], 1)
    return tf.concat([tf.reduce_mean(both, [2, 3])[:, :, None], tf.reduce_max(both, 2)], 2)


def _scattered(function, x):
    """Each element with up to three others of its row."""
    count = tf.shape(x)[0]
    places = tf.math.floormod(tf.range(72) * 7, 20)[None, :] + tf.zeros([count, 1], tf.int32)
    indices = tf.stack([tf.range(count)[:, None] + tf.zeros_like(places), places], -1)
    return function(x, indices, tf.tile(tf.reverse(x, [1]), [1, 3]))


def _image(x):
    """Twenty numbers and NaN as an image; of large ones, sums would depend on their order."""
    return tf.reshape(tf.where(tf.abs(x) > 100, 1.0, x), [-1, 4, 5, 1])


def rows(*shape, dtype=tf.float32, name="x"):
    return tf.TensorSpec([None, *shape], dtype, name=name)


def case(family, name, serve, *specs):
    FAMILIES.setdefault(family, {})[name] = (serve, specs or (rows(6),))


def layer(family, name, shape, *parts, dtype="float32"):
    """A model of layers; made when it is asked for."""

    def made():
        value = first = keras.Input(shape, dtype=dtype)
        for part in parts:
            value = part()(value) if isinstance(part, functools.partial) else part(value)
        return keras.Model(first, value)

    FAMILIES.setdefault(family, {})[name] = (made, None)


P = functools.partial


def convolutions():
    def add(name, shape, kind, *args, **options):
        layer("convolutions", name, shape, P(kind, *args, **options))

    case("convolutions", "channels first", _channels_first, rows(3, 6, 7))
    add("1d", (12, 3), layers.Conv1D, 5, 3, strides=2, padding="same")
    add("1d causal", (12, 3), layers.Conv1D, 5, 3, padding="causal", dilation_rate=2)
    add("2d dilated", (9, 8, 3), layers.Conv2D, 4, 3, dilation_rate=(2, 1))
    add("2d groups", (9, 8, 6), layers.Conv2D, 4, (3, 2), strides=(2, 1), groups=2, padding="same")
    add("3d", (5, 6, 4, 2), layers.Conv3D, 3, (2, 3, 2), strides=(2, 1, 1), padding="same")
    add("3d groups", (5, 4, 4, 4), layers.Conv3D, 6, 2, groups=2)
    add("3d dilated", (6, 5, 5, 2), layers.Conv3D, 3, 2, dilation_rate=2)
    add("depthwise 1d", (10, 3), layers.DepthwiseConv1D, 3, strides=2, depth_multiplier=2)
    add("depthwise 2d", (9, 8, 3), layers.DepthwiseConv2D, 3, padding="same", depth_multiplier=2, dilation_rate=2)
    add("separable 1d", (10, 3), layers.SeparableConv1D, 4, 3, padding="same")
    add("separable 2d", (9, 8, 3), layers.SeparableConv2D, 4, 3, strides=2)
    add("1d transposed", (7, 3), layers.Conv1DTranspose, 4, 3, strides=2)
    add("2d transposed", (5, 4, 3), layers.Conv2DTranspose, 4, 3, strides=(2, 3), padding="same")
    add("2d transposed wide", (5, 4, 3), layers.Conv2DTranspose, 2, 2, strides=3, output_padding=1)
    add("3d transposed", (3, 4, 3, 2), layers.Conv3DTranspose, 3, 2, strides=2)
    case(
        "convolutions", "computed filters",
        lambda x, w: tf.map_fn(
            lambda pair: tf.nn.conv2d(pair[0][None], pair[1], 1, "SAME")[0], (x, w), fn_output_signature=tf.float32
        ),
        rows(5, 6, 2), rows(3, 3, 2, 4, name="w"),
    )  # fmt: skip


def pools():
    for kind in ("Max", "Average"):
        for axes, shape in (("1D", (11, 3)), ("2D", (9, 7, 2)), ("3D", (5, 6, 4, 2))):
            pool = getattr(layers, f"{kind}Pooling{axes}")
            layer("pools", f"{kind} {axes} same", shape, P(pool, 3, strides=2, padding="same"))
            layer("pools", f"{kind} {axes}", shape, P(pool, 2, strides=1))
            layer("pools", f"Global{kind} {axes}", shape, P(getattr(layers, f"Global{kind}Pooling{axes}")))
    case("pools", "dilated", lambda x: tf.nn.pool(x, [2, 3], "MAX", dilations=[2, 1]), rows(9, 7, 2))
    case("pools", "over channels", lambda x: tf.nn.max_pool(x, [1, 1, 1, 2], [1, 1, 1, 2], "VALID"), rows(4, 3, 6))
    case("pools", "local response", lambda x: tf.nn.local_response_normalization(x, 2), rows(4, 3, 6))


def sizes():
    layer("sizes", "upsampled 1d", (5, 3), P(layers.UpSampling1D, 3))
    layer("sizes", "upsampled 2d", (4, 5, 3), P(layers.UpSampling2D, (2, 3)))
    layer("sizes", "bilinear", (4, 5, 3), P(layers.UpSampling2D, 2, interpolation="bilinear"))
    layer("sizes", "upsampled 3d", (3, 2, 4, 2), P(layers.UpSampling3D, 2))
    layer("sizes", "padded and cropped", (6, 5, 2), P(layers.ZeroPadding2D, ((1, 2), (0, 3))), P(layers.Cropping2D, 2))
    for method in ("nearest", "bilinear"):
        case("sizes", f"resized {method}", lambda x, m=method: tf.image.resize(x, [7, 3], m), rows(4, 5, 2))
    # The first row has NaN, which only the pixels that use it may show.
    for method in ("nearest", "bilinear", "bicubic", "area"):
        for size in ([7, 8], [3, 4], [2, 9]):
            case("sizes", f"with NaN {method} {size}", lambda x, m=method, s=size: tf.image.resize(_image(x), s, m),
                 rows(20))  # fmt: skip
    for padding in ("SAME", "VALID"):
        case("sizes", f"patches with NaN {padding}", lambda x, p=padding: tf.image.extract_patches(
            _image(x), [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1], p), rows(20))  # fmt: skip
    case("sizes", "reflected", lambda x: tf.pad(x, [[0, 0], [2, 1], [1, 2]], "REFLECT"), rows(4, 5))
    case("sizes", "symmetric", lambda x: tf.pad(x, [[0, 0], [2, 1], [1, 2]], "SYMMETRIC"), rows(4, 5))
    case("sizes", "patches", lambda x: tf.image.extract_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1], "SAME"),
         rows(6, 7, 2))  # fmt: skip
    case("sizes", "space to depth", lambda x: tf.nn.space_to_depth(x, 2), rows(4, 6, 3))
    case("sizes", "depth to space", lambda x: tf.nn.depth_to_space(x, 2), rows(2, 3, 8))
    case("sizes", "rolled", lambda x: tf.roll(x, [1, -2], [1, 2]), rows(4, 5))
    case("sizes", "strided", lambda x: x[:, ::-2, 1:4, None], rows(7, 5))
    case("sizes", "tiled", lambda x: tf.tile(tf.repeat(x, 3, axis=1), [1, 2]), rows(3))
    case("sizes", "stacked", lambda x: tf.stack(tf.unstack(x, axis=2)[::-1], 1), rows(3, 4))


def recurrent():
    for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
        name = kind.__name__
        layer("recurrent", name, (7, 3), P(kind, 5))
        layer("recurrent", f"{name} masked", (7, 3), P(layers.Masking, 0.5), P(kind, 5, return_sequences=True))
        layer("recurrent", f"{name} backwards, stacked", (7, 3), P(kind, 5, go_backwards=True, return_sequences=True),
              P(kind, 4))  # fmt: skip
    layer(
        "recurrent",
        "both ways, masked",
        (7, 3),
        P(layers.Masking),
        P(layers.Bidirectional, layers.LSTM(4, return_sequences=True)),
        P(layers.Bidirectional, layers.GRU(3, reset_after=False)),
    )
    layer("recurrent", "convolutional", (4, 6, 5, 2), P(layers.ConvLSTM2D, 3, 3, padding="same"))
    layer("recurrent", "each step", (4, 3), P(layers.TimeDistributed, layers.Dense(2, "relu")))
    case(
        "recurrent", "lengths", lambda x, n: tf.reverse_sequence(x, tf.clip_by_value(n, 0, 5), 1),
        rows(5, 3), rows(dtype=tf.int32, name="n"),
    )  # fmt: skip


def normalizations():
    for name, shape, part in (
        ("layer", (6, 8), P(layers.LayerNormalization, axis=[1, 2])),
        ("group", (4, 4, 6), P(layers.GroupNormalization, 3)),
        ("unit", (7,), P(layers.UnitNormalization)),
        ("batch", (4, 4, 3), P(layers.BatchNormalization)),
    ):
        layer("normalizations", name, shape, part)
    ones = tf.constant([0.5, 1.0, 2.0])
    case("normalizations", "fused", lambda x: tf.compat.v1.nn.fused_batch_norm(
        x, ones, ones + 1, ones * 3, ones * 2, epsilon=0.01, is_training=False)[0], rows(4, 4, 3))  # fmt: skip
    case("normalizations", "l2", lambda x: tf.math.l2_normalize(x, [1, 2]), rows(3, 4))
    case("normalizations", "moments", lambda x: tf.concat(tf.nn.moments(x, [1]), 1), rows(7, 4))


def attention():
    def heads(**options):
        def made(x):
            return layers.MultiHeadAttention(2, 4)(x, x, **options)

        return made

    layer("attention", "heads", (6, 8), heads())
    layer("attention", "causal", (6, 8), heads(use_causal_mask=True))
    layer("attention", "plain", (6, 8), lambda x: layers.Attention()([x, x]))
    layer("attention", "additive", (6, 8), lambda x: layers.AdditiveAttention()([x, x]))


def activations():
    for name in ("elu exponential gelu hard_sigmoid leaky_relu linear mish relu relu6 selu sigmoid silu softmax "
                 "softplus softsign tanh log_softmax hard_silu celu glu hard_tanh soft_shrink squareplus "
                 "tanh_shrink sparse_plus").split():  # fmt: skip
        function = getattr(keras.activations, name, None)
        if function is not None:
            case("activations", name, function, rows(12))
    layer("activations", "prelu", (5,), P(layers.PReLU, alpha_initializer="ones"))
    case("activations", "gelu of tanh", lambda x: tf.nn.gelu(x, approximate=True), rows(12))


def numbers():
    names = ("abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp expm1 floor "
             "lgamma log log1p log_sigmoid reciprocal rint round rsqrt sigmoid sign sin sinh sqrt square tan tanh "
             "bessel_i0e bessel_i1e is_finite is_inf is_nan softplus").split()  # fmt: skip
    for name in names:
        case("numbers", name, getattr(tf.math, name), rows(24))
    pairs = ("add atan2 divide divide_no_nan equal floordiv floormod greater greater_equal less less_equal maximum "
             "minimum mod multiply not_equal pow squared_difference subtract truediv xdivy xlog1py xlogy nextafter").split()  # fmt: skip
    for name in pairs:
        case("numbers", f"{name} of two", getattr(tf.math, name), rows(24), rows(24, name="y"))
    case("numbers", "clipped", lambda x: tf.clip_by_value(x, -1.0, 0.5), rows(24))
    case("numbers", "polynomial", lambda x: tf.math.polyval([x, x + 1, x * 2], x), rows(24))
    case("numbers", "where", lambda x: tf.where(tf.math.is_nan(x), tf.zeros_like(x), x), rows(24))


def types():
    integers = (tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64)
    for dtype in integers:

        def arithmetic(x, y):
            return {
                "a": x + y, "b": x - y, "c": x * y, "d": tf.minimum(x, y), "e": tf.maximum(x, y), "f": x < y,
                "g": tf.bitwise.bitwise_xor(x, y), "h": tf.bitwise.invert(x), "i": tf.reduce_sum(x, 1),
                "j": tf.reduce_max(y, 1), "k": tf.where(x == y, x, y), "l": tf.bitwise.left_shift(x, y),
                "m": tf.bitwise.right_shift(x, y), "n": tf.bitwise.bitwise_and(x, y) | tf.bitwise.bitwise_or(x, y),
                "o": tf.raw_ops.PopulationCount(x=x),
            }  # fmt: skip

        def division(x, y):
            y = tf.where(y == 0, tf.ones_like(y), y)
            made = {"a": x // y, "b": tf.math.floormod(x, y), "c": tf.truncatediv(x, y)}
            return {**made, "d": tf.truncatemod(x, y)} if x.dtype in (tf.int32, tf.int64) else made

        def signs(x):
            return {"a": tf.abs(x), "b": -x, "c": tf.sign(x)}

        pair = rows(16, dtype=dtype), rows(16, dtype=dtype, name="y")
        case("types", dtype.name, arithmetic, *pair)
        case("types", f"{dtype.name} divided", division, *pair)
        if dtype.name[0] == "i":
            case("types", f"{dtype.name} signs", signs, pair[0])
        every = (*integers, tf.float32, tf.float64, tf.bool)
        case("types", f"from {dtype.name}", lambda x, every=every: {d.name: tf.cast(x, d) for d in every}, pair[0])
    for dtype in (tf.float32, tf.float64, tf.bool):
        every = (*integers, tf.float32, tf.float64, tf.bool)
        case("types", f"from {dtype.name}", lambda x, every=every: {d.name: tf.cast(x, d) for d in every},
             rows(16, dtype=dtype))  # fmt: skip
    for dtype in (tf.float64, tf.float32):

        def floats(x, y, dtype=dtype):
            x, y = tf.cast(x, dtype), tf.cast(y, dtype)
            made = {
                "a": x + y * x, "b": tf.exp(x), "c": tf.tanh(y), "d": tf.reduce_sum(x, 1), "e": tf.nn.softmax(x),
                "f": tf.matmul(x[:, :, None], y[:, None, :]), "g": tf.reduce_max(x, 1), "h": tf.sqrt(tf.abs(y)),
                "i": tf.math.log1p(tf.abs(x)), "j": tf.floor(x), "k": tf.maximum(x, y), "l": x < y, "m": tf.sign(x), "o": tf.sigmoid(x), "p": x ** 2 / (y * y + 1), "q": tf.math.rsqrt(tf.abs(x) + 1),
                "r": tf.nn.softmax(x[:, :, None] * y[:, None, :], 1),
            }  # fmt: skip
            return {name: tf.cast(value, tf.float32) if value.dtype == dtype else value for name, value in made.items()}

        case("floats", dtype.name, floats, rows(9), rows(9, name="y"))
    case("types", "truth", lambda x, y: {
        "a": x & y, "b": x | y, "c": x ^ y, "d": ~x, "e": tf.reduce_any(x, 1), "f": tf.reduce_all(x, 1),
        "g": tf.cast(x, tf.int8) < tf.cast(y, tf.int8), "h": x == y, "i": tf.math.count_nonzero(x, 1),
        "j": tf.where(x, 1.0, 2.0), "k": tf.sort(tf.cast(x, tf.int32))}, rows(9, dtype=tf.bool),
        rows(9, dtype=tf.bool, name="y"))  # fmt: skip
    case("types", "bits", lambda x: tf.bitcast(x, tf.int32), rows(9))


def orders():
    for dtype in (tf.float32, tf.int32, tf.float64, tf.int64):
        name = dtype.name
        case("orders", f"sorted {name}", lambda x: {"a": tf.sort(x), "b": tf.sort(x, 1, "DESCENDING")},
             rows(13, dtype=dtype))  # fmt: skip
        case("orders", f"sorted by {name}", lambda x: {"a": tf.argsort(x, stable=True)}, rows(13, dtype=dtype))
        case("orders", f"extremes {name}", lambda x: {"a": tf.argmax(x, 2), "b": tf.argmin(x, 1, tf.int32)},
             rows(5, 7, dtype=dtype))  # fmt: skip
        case("orders", f"top {name}", lambda x: dict(zip("ab", tf.math.top_k(x, 3), strict=True)),
             rows(13, dtype=dtype))  # fmt: skip
    case("orders", "of a middle axis", lambda x: {"a": tf.sort(x, 1), "b": tf.argsort(x, 1, "DESCENDING", True)},
         rows(6, 3))  # fmt: skip
    for k in (1, 20):
        case("orders", f"top {k}", lambda x, k=k: dict(zip("ab", tf.math.top_k(x, k), strict=True)), rows(20))
    case("orders", "in top", lambda x, n: tf.math.in_top_k(tf.clip_by_value(n, 0, 7), x, 3), rows(8),
         rows(dtype=tf.int32, name="n"))  # fmt: skip
    case("orders", "searched", lambda x: tf.searchsorted(tf.zeros_like(x[:, :1]) + tf.constant([[-1.0, 0.0, 0.5, 2.0]]), x),
         rows(5))  # fmt: skip
    # The order of this sort, within a loop, is a constant of the loop's body.
    case("orders", "boxes", lambda x, y: tf.image.non_max_suppression_padded(
        tf.concat([x, x + tf.abs(y)], 2), tf.reduce_sum(x, 2), 4, pad_to_max_output_size=True, sorted_input=False)[0],
        rows(7, 2), rows(7, 2, name="y"))  # fmt: skip
    case("orders", "median", lambda x: tf.sort(x)[:, 4], rows(9))


def cumulative():
    for name in ("cumsum", "cumprod"):
        function = getattr(tf.math, name)
        for exclusive in (False, True):
            for reverse in (False, True):
                case("cumulative", f"{name} {exclusive} {reverse}",
                     lambda x, f=function, e=exclusive, r=reverse:
                     f(x, 1, exclusive=e, reverse=r), rows(9, 3))  # fmt: skip
    case("cumulative", "last axis", lambda x: tf.cumsum(x, 2), rows(3, 11))
    case("cumulative", "int32", lambda x: tf.cumsum(x, 1), rows(11, dtype=tf.int32))
    case("cumulative", "logsumexp", lambda x: tf.math.cumulative_logsumexp(x, 1), rows(9))


def reductions():
    for name in "sum mean max min prod logsumexp std variance".split():
        function = getattr(tf.math, f"reduce_{name}")
        case("reductions", name, lambda x, f=function: {
            "a": f(x, 1), "b": f(x, [1, 2], keepdims=True), "c": f(x, -1)}, rows(5, 7))  # fmt: skip
    for name in "sum max min prod".split():
        function = getattr(tf.math, f"reduce_{name}")
        case("reductions", f"{name} of integers", lambda x, f=function: {
            "a": f(x, 1), "b": f(x, [1, 2]), "c": f(x, 2)}, rows(5, 7, dtype=tf.int64))  # fmt: skip
    # Nearly half of the square roots are NaN, and some rows of them have no number.
    for dtype in (tf.float32, tf.float64):
        case("reductions", f"places of extremes, {dtype.name}", lambda x: {
            "a": tf.argmax(x, 1), "b": tf.argmin(x, 1, tf.int32), "c": tf.argmax(tf.reshape(tf.sqrt(x), [-1, 8, 3]), 2),
            "d": tf.argmin(tf.reshape(tf.sqrt(x), [-1, 3, 8]), 1)}, rows(24, dtype=dtype))  # fmt: skip
        case("reductions", f"scattered maxima, {dtype.name}", lambda x: {
            "a": _scattered(tf.tensor_scatter_nd_max, x), "b": _scattered(tf.tensor_scatter_nd_min, tf.sqrt(x))},
            rows(24, dtype=dtype))  # fmt: skip


def places():
    n = rows(4, dtype=tf.int32, name="n")
    for dtype in (tf.int32, tf.int64):
        case("places", f"gather {dtype.name}", lambda x, n: tf.gather(x, n, axis=1, batch_dims=1), rows(6, 3),
             rows(4, dtype=dtype, name="n"))  # fmt: skip
    case("places", "table", lambda n: tf.gather(tf.reshape(tf.range(30.0), [10, 3]), n), n)
    case(
        "places", "gather of two", lambda x, n: tf.gather_nd(x, tf.reshape(n, [-1, 2, 2]), batch_dims=1), rows(5, 6), n
    )
    case("places", "gather of all rows as one", _of_all_rows, rows(5))
    case("places", "gathers at one place", lambda x: tf.gather(x, 2, axis=1) - tf.gather(x, 0, axis=1), rows(3, 4))
    case("places", "gather of a middle axis", lambda x, n: tf.gather(x, n, axis=2, batch_dims=1), rows(3, 6, 2), n)
    case(
        "places", "gather in two batches", lambda x, n: tf.gather(x, n[:, :, None], axis=2, batch_dims=2), rows(4, 6), n
    )
    case("places", "one hot", lambda n: tf.one_hot(n, 5, 2.0, -1.0), n)
    case("places", "one hot middle", lambda n: tf.one_hot(n, 5, axis=1), n)
    layer("places", "embedding", (4,), P(layers.Embedding, 9, 3), dtype="int32")
    layer("places", "embedding int64, masked", (4,), P(layers.Embedding, 9, 3, mask_zero=True), P(layers.LSTM, 3),
          dtype="int64")  # fmt: skip

    def numbered(x, n):
        every = tf.range(tf.shape(x)[0])[:, None]
        return tf.stack([every + tf.zeros_like(n), n], -1)

    case("places", "scatter added", lambda x, n: tf.tensor_scatter_nd_add(x, numbered(x, n), x[:, :4]), rows(6), n)
    case(
        "places", "scatter updated", lambda x, n: tf.tensor_scatter_nd_update(x, numbered(x, n), x[:, 1:5]), rows(6), n
    )
    case("places", "scatter max", lambda x, n: tf.tensor_scatter_nd_max(x, numbered(x, n), x[:, 1:5]), rows(6), n)
    case("places", "scatter of vectors", lambda x, n: tf.tensor_scatter_nd_sub(x, numbered(x, n), x[:, 1:5]),
         rows(6, 3), n)  # fmt: skip
    case("places", "scatter into zeros", lambda x, n: tf.scatter_nd(numbered(x, n), x[:, :4], [tf.shape(x)[0], 6]),
         rows(6), n)  # fmt: skip
    for kind in ("sum", "prod", "mean"):
        function = getattr(tf.math, f"unsorted_segment_{kind}")
        case("places", f"segment {kind}", lambda x, n, f=function: tf.reshape(f(
            x, tf.where((n < 0) | (n > 2), -1, n + 3 * tf.range(tf.shape(x)[0])[:, None]), 3 * tf.shape(x)[0]),
            [-1, 3]), rows(4), n)  # fmt: skip
    case(
        "places",
        "diagonals",
        lambda x: {
            "a": tf.linalg.diag_part(x),
            "b": tf.linalg.set_diag(x, x[:, 0]),
            "c": tf.linalg.band_part(x, 1, 0),
            "d": tf.linalg.trace(x),
            "e": tf.linalg.diag(x[:, 1]),
        },
        rows(4, 4),
    )
    case(
        "places",
        "dynamic slice",
        lambda x, n: tf.map_fn(
            lambda p: tf.slice(p[0], [tf.clip_by_value(p[1][0], 0, 4)], [2]), (x, n), fn_output_signature=tf.float32
        ),
        rows(6),
        n,
    )
    case("places", "binned", lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 2.0]), rows(6))
    case("places", "masked", lambda n: tf.sequence_mask(n, 5, tf.float32), n)


def products():
    other = rows(3, 4, name="y")
    for equation, shape, second in (
        ("bij,bkj->bik", (5, 4), (3, 4)), ("bij,bij->b", (3, 4), (3, 4)), ("bi,bj->bij", (3,), (4,)),
        ("bijk,bkl->bijl", (2, 3, 4), (4, 5)), ("bij,bjk->bki", (3, 4), (4, 2)), ("bii->bi", (4, 4), None),
    ):  # fmt: skip
        specs = (rows(*shape),) if second is None else (rows(*shape), rows(*second, name="y"))
        case("products", equation.replace(">", ""), lambda *v, e=equation: tf.einsum(e, *v), *specs)
    case("products", "int32", lambda x, y: tf.matmul(x, y, transpose_b=True), rows(3, 4, dtype=tf.int32),
         rows(2, 4, dtype=tf.int32, name="y"))  # fmt: skip
    case("products", "float64", lambda x, y: tf.matmul(x, y, transpose_a=True), rows(3, 4, dtype=tf.float64),
         rows(3, 2, dtype=tf.float64, name="y"))  # fmt: skip
    case("products", "cross", tf.linalg.cross, rows(3), rows(3, name="y"))
    case("products", "tensordot", lambda x: tf.tensordot(x, tf.reshape(tf.range(24.0), [3, 4, 2]), [[2, 1], [1, 0]]),
         rows(3, 4))  # fmt: skip
    case("products", "left weights", lambda x: tf.einsum("ij,bjk->bik", tf.reshape(tf.range(12.0), [4, 3]), x), other)


def control():
    def while_any(x):
        return tf.while_loop(lambda i, _: i < 5, lambda i, v: (i + 1, tf.where(v > 0, v * 0.5, v - 1.0)), (0, x))[1]

    case("control", "while", while_any)
    case("control", "mapped", lambda x: tf.map_fn(lambda r: tf.sort(r) * tf.reduce_sum(r), x))
    case("control", "scanned", lambda x: tf.transpose(tf.scan(lambda a, b: a * 0.5 + b, tf.transpose(x)), [1, 0]))

    def scanned(function, x, *start, **given):
        found = tf.scan(function, tf.transpose(x, [1, 0, 2]), start, **given)
        return tf.transpose(tf.concat(found, -1), [1, 0, 2])

    # A few rows at a time (row_blocks.py): one of 80 elements, of 24 two.
    case("control", "scanned steps", lambda x: scanned(lambda a, b: (a[0] * 0.5 + b,), x, x[:, 0]), rows(6, 80))
    case("control", "scanned backwards", lambda x: scanned(
        lambda a, b: (a[0] * 0.5 + b, a[1] * a[0] - b), x, x[:, 0], x[:, 1], reverse=True), rows(5, 24))  # fmt: skip
    case("control", "last of scanned steps", lambda x: scanned(lambda a, b: (tf.tanh(a[0]) + b,), x, x[:, 0])[:, -1],
         rows(4, 70))  # fmt: skip
    case("control", "counted by rows", lambda n: tf.map_fn(lambda k: tf.while_loop(
        lambda i, _: i < k, lambda i, s: (i + 1, s + i), (0, 0))[1], tf.clip_by_value(n, 0, 9)),
        rows(dtype=tf.int32, name="n"))  # fmt: skip
    case("control", "chosen by rows", lambda n, x: tf.map_fn(lambda p: tf.switch_case(
        p[0], [lambda: p[1] * 2.0, lambda: tf.sort(p[1]), lambda: -p[1]]), (n, x), fn_output_signature=tf.float32),
        rows(dtype=tf.int32, name="n"), rows(4))  # fmt: skip


def main(folder, worker_program, *wanted):
    for family in (convolutions, pools, sizes, recurrent, normalizations, attention, activations, numbers, types, orders,
                   cumulative, reductions, places, products, control):  # fmt: skip
        family()
    keras.utils.set_random_seed(1)
    for family, cases in FAMILIES.items():
        for name, (serve, specs) in cases.items():
            if not wanted or family in wanted:
                model = serve if specs is not None else serve()
                answered.write(
                    os.path.join(folder, family, name),
                    worker_program,
                    model,
                    specs,
                    by_xla=family in ("orders", "places", "types"),
                    one_zero=family == "orders",
                )


main(*sys.argv[1:])
