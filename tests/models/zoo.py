"""The zoo: one small SavedModel for every kind of model that a physicist brings. Runs in a toolchain's Python.

    python zoo.py FOLDER [NAME...]

writes FOLDER/NAME for each model, by default for all. What is to come of them stands in tests/zoo/cases.py.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

MAKERS = {}


def model(make):
    """Register a maker: a function that writes the model of its name into a folder."""
    MAKERS[make.__name__] = make
    return make


def function(path, body, *, variables=(), **inputs):
    """Save `body`, a function of named tensors, with inputs given as name=(shape, dtype)."""
    module = tf.Module()
    module.kept = list(variables)
    specs = {name: tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in inputs.items()}
    module.body = tf.function(body)
    tf.saved_model.save(module, path, signatures=module.body.get_concrete_function(**specs))


def keras(path, make, *inputs):
    """Save a Keras model made of `make(*inputs)`, each input a shape without the batch, or (shape, dtype, name)."""
    layers = tf.keras.layers
    tensors = []
    for item in inputs:
        shape, dtype, name = item if len(item) == 3 and isinstance(item[0], tuple) else (item, "float32", None)
        tensors.append(layers.Input(shape, dtype=dtype, name=name))
    result = tf.keras.Model(tensors if len(tensors) > 1 else tensors[0], make(layers, *tensors))
    generator = np.random.default_rng(1)
    for weight in result.weights:  # statistics and biases too: zeros would hide faults
        if weight.dtype == "float32" and "seed" not in weight.name:
            values = generator.uniform(-0.5, 0.5, weight.shape)
            weight.assign(np.abs(values) + 0.5 if "variance" in weight.name else values)
    result.export(path, verbose=False)


def noise(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


F, D, N, L, B = tf.float32, tf.float64, tf.int32, tf.int64, tf.bool

# Keras -------------------------------------------------------------------------------------------------------------


@model
def dense(path):
    keras(path, lambda k, x: k.Dense(3, activation="softmax")(k.Dense(64, activation="relu")(x)), (20,))


@model
def activations(path):
    names = "elu selu gelu silu tanh sigmoid softplus softsign mish exponential leaky_relu relu6 hard_sigmoid".split()
    keras(path, lambda k, x: [k.Activation(name)(k.Dense(7)(x)) for name in names], (9,))


@model
def batch_norm(path):
    keras(path, lambda k, x: k.BatchNormalization()(k.Dense(16)(k.BatchNormalization()(x))), (10,))


@model
def conv1d(path):
    def make(k, x):
        x = k.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu")(x)
        return k.Dense(2)(k.Flatten()(k.MaxPooling1D(2)(k.Conv1D(8, 3, strides=2)(x))))

    keras(path, make, (32, 4))


@model
def conv2d(path):
    def make(k, x):
        x = k.MaxPooling2D()(k.Conv2D(8, 3, padding="same", activation="relu")(x))
        return k.Dense(3)(k.GlobalAveragePooling2D()(k.Conv2D(16, 3)(x)))

    keras(path, make, (14, 14, 1))


@model
def conv_kinds(path):
    def make(k, x):
        a = k.Conv2D(6, 3, strides=2, padding="same")(x)
        b = k.Conv2D(6, 3, dilation_rate=2, padding="same")(x)
        c = k.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(x)
        d = k.SeparableConv2D(5, 3, padding="same")(x)
        e = k.Conv2D(6, 3, groups=3, padding="same")(k.Conv2D(6, 1)(x))
        return [a, b, c, d, e]

    keras(path, make, (8, 8, 3))


@model
def conv_transposed(path):
    def make(k, x):
        x = k.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu")(x)
        return k.Conv2DTranspose(1, 2)(x)

    keras(path, make, (5, 5, 3))


@model
def conv3d(path):
    keras(path, lambda k, x: k.GlobalMaxPooling3D()(k.Conv3D(4, 3, activation="relu")(x)), (6, 6, 6, 1))


@model
def pooling(path):
    def make(k, x):
        return [k.AveragePooling2D(3, 2, "same")(x), k.MaxPooling2D(3, 1)(x), k.GlobalMaxPooling2D()(x),
                k.UpSampling2D()(x), k.ZeroPadding2D(1)(x), k.Cropping2D(1)(x)]  # fmt: skip

    keras(path, make, (6, 6, 2))


@model
def lstm(path):
    keras(path, lambda k, x: k.Dense(2)(k.LSTM(12)(k.LSTM(12, return_sequences=True)(x))), (7, 5))


@model
def gru(path):
    keras(path, lambda k, x: k.GRU(12)(x), (7, 5))


@model
def bidirectional(path):
    keras(path, lambda k, x: k.Bidirectional(k.LSTM(8, return_sequences=True))(x), (6, 4))


@model
def masked_rnn(path):
    keras(path, lambda k, x: k.GRU(8)(k.Masking()(x)), (6, 4))


@model
def attention(path):
    def make(k, x):
        y = k.LayerNormalization()(x + k.MultiHeadAttention(4, 8)(x, x))
        return k.GlobalAveragePooling1D()(k.LayerNormalization()(y + k.Dense(16, activation="gelu")(y)))

    keras(path, make, (10, 16))


@model
def embedding(path):
    keras(path, lambda k, x: k.Dense(4)(k.Flatten()(k.Embedding(500, 8)(x))), ((6,), "int32", "tokens"))


@model
def several_inputs(path):
    """Inputs of one shape, whose names sort otherwise than they were made: their order must not matter."""

    def make(k, z, a, m):
        return {"z_out": k.Dense(3)(a), "a_out": k.Dense(3)(z) * 2, "m_out": a - 2 * z + 3 * m}

    keras(path, make, ((3,), "float32", "zulu"), ((3,), "float32", "alpha"), ((3,), "float32", "mike"))


@model
def keras_saved(path):
    tf.saved_model.save(tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)]), path)


@model
def jet_tagger(path):
    """A point cloud with a mask, in the way of ParticleNet: nearest neighbours by top-k, gathered, pooled."""

    def make(k, points, features, mask):
        ops = tf.keras.ops
        distance = ops.sum((points[:, :, None, :] - points[:, None, :, :]) ** 2, axis=-1)
        neighbours = ops.top_k(-distance, 4)[1]
        edges = ops.take_along_axis(features[:, None, :, :], neighbours[..., None], axis=2)
        x = k.Dense(16, activation="relu")(edges - features[:, :, None, :])
        x = ops.mean(x, axis=2) * mask
        return k.Dense(2, activation="softmax")(ops.sum(x, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0))

    keras(path, make, ((12, 2), "float32", "points"), ((12, 5), "float32", "features"), ((12, 1), "float32", "mask"))


@model
def einsum_dense(path):
    keras(path, lambda k, x: k.EinsumDense("abc,cd->abd", output_shape=(None, 6), bias_axes="d")(x), (4, 5))


@model
def residual(path):
    """All of it layers of the kernel library: one call, with any toolchain."""

    def make(k, x):
        x = k.LeakyReLU()(k.Conv2D(8, 3, padding="same")(x))
        inner = k.Conv2D(8, 3, padding="same")(k.Conv2D(8, 1, activation="gelu")(x))
        x = k.ReLU(6.0)(k.Add()([x, k.BatchNormalization()(inner)]))
        return k.Reshape((2, 2))(k.Dense(4, activation="hard_sigmoid")(k.GlobalAveragePooling2D()(x)))

    keras(path, make, (8, 8, 3))


# Borders -----------------------------------------------------------------------------------------------------------


@model
def same_output_twice(path):
    def body(x):
        y = tf.tanh(x)
        return {"a": y, "b": y, "c": y + 1}

    function(path, body, x=([None, 4], F))


@model
def identity_output(path):
    function(
        path, lambda x, y: {"x_again": x, "sum": x + y, "y_too": tf.identity(y)}, x=([None, 4], F), y=([None, 4], F)
    )


@model
def only_identity(path):
    function(path, lambda x: {"y": x}, x=([None, 4], F))


@model
def constant_output(path):
    function(path, lambda x: {"y": x * 2, "table": tf.constant(noise(3, 5)), "c": tf.constant(7)}, x=([None, 4], F))


@model
def large_constant_output(path):
    """A constant of the size of a shared weight that is an output itself."""
    table = tf.Variable(noise(30, 40))
    function(path, lambda x: {"y": x @ table, "table": table.read_value()}, variables=[table], x=([None, 30], F))


@model
def only_constants(path):
    function(path, lambda **_: {"y": tf.constant([1.0, 2.0])}, x=([None, 4], F))


@model
def no_inputs(path):
    function(path, lambda: {"y": tf.constant([1.0, 2.0]) * 2})


@model
def forty_inputs(path):
    inputs = {f"x{i}": ([None, 1 + i % 3], F) for i in range(40)}
    kernel = tf.Variable(noise(sum(shape[1] for shape, _ in inputs.values()), 4))

    def body(**given):
        joined = tf.concat([given[name] for name in inputs], 1)
        return {"y": tf.matmul(joined, kernel), "last": given["x39"] - given["x0"]}

    function(path, body, variables=[kernel], **inputs)


@model
def scalars(path):
    function(path, lambda x, s: {"y": x * s, "t": s + 1, "total": tf.reduce_sum(x)}, x=([None, 4], F), s=([], F))


@model
def only_scalars(path):
    function(path, lambda a, b: {"sum": a + b, "less": a < b}, a=([], F), b=([], F))


@model
def mixed_batch_axes(path):
    kernel = tf.Variable(noise(6, 50))
    function(path, lambda x, table: {"y": (x @ table) @ kernel, "t": tf.transpose(table)}, variables=[kernel],
             x=([None, 3], F), table=([3, 6], F))  # fmt: skip


@model
def no_batch_axis(path):
    function(path, lambda x: {"y": tf.reverse(x, [0]) * 3}, x=([5, 2], F))


@model
def unknown_second_axis(path):
    function(path, lambda x: {"y": tf.reduce_sum(x, axis=1), "z": x * 2}, x=([None, None], F))


@model
def unknown_rank(path):
    function(path, lambda x: {"y": x * 2}, x=(None, F))


@model
def unused_input(path):
    function(path, lambda x, **_: {"y": x + 1}, x=([None, 4], F), unused=([None, 2], N))


@model
def unused_weight(path):
    """A large weight that only a dead branch of the graph reads."""
    kernel, other = tf.Variable(noise(20, 20)), tf.Variable(noise(30, 30))

    def body(x):
        tf.reduce_sum(other)
        return {"y": x @ kernel}

    function(path, body, variables=[kernel, other], x=([None, 20], F))


@model
def dtypes(path):
    kinds = dict(b=B, i8=tf.int8, u8=tf.uint8, i16=tf.int16, u16=tf.uint16, i32=N, u32=tf.uint32, i64=L,
                 u64=tf.uint64, f32=F, f64=D)  # fmt: skip

    def body(**x):
        made = {f"{name}_out": value + value for name, value in x.items() if name != "b"}
        return {**made, "b_out": tf.logical_not(x["b"]), "b_as_f": tf.cast(x["b"], F)}

    function(path, body, **{name: ([None, 3], dtype) for name, dtype in kinds.items()})


@model
def double(path):
    kernel = tf.Variable(noise(20, 30, dtype="float64"))
    function(path, lambda x: {"y": tf.tanh(x @ kernel)}, variables=[kernel], x=([None, 20], D))


@model
def half_inside(path):
    kernel = tf.Variable(noise(20, 30, dtype="float16"))

    def body(x):
        return {"y": tf.cast(tf.tanh(tf.cast(x, tf.float16) @ kernel), F)}

    function(path, body, variables=[kernel], x=([None, 20], F))


@model
def bfloat16_inside(path):
    kernel = tf.Variable(tf.cast(noise(20, 30), tf.bfloat16))

    def body(x):
        return {"y": tf.cast(tf.cast(x, tf.bfloat16) @ kernel, F)}

    function(path, body, variables=[kernel], x=([None, 20], F))


@model
def half_border(path):
    function(path, lambda x: {"y": x * 2}, x=([None, 3], tf.float16))


@model
def short_and_complex_borders(path):
    def body(half, brain, wave, wide):
        return {"half2": half * half, "brain2": brain * brain + tf.cast(half, tf.bfloat16)[:, :2],
                "wave2": wave * wave, "turned": tf.math.conj(wide), "size": tf.abs(wave)}  # fmt: skip

    function(path, body, half=([None, 3], tf.float16), brain=([None, 2], tf.bfloat16), wave=([None, 2], tf.complex64),
             wide=([None], tf.complex128))  # fmt: skip


@model
def complex_scalar(path):
    """Without a batch axis, and given back as it came."""
    function(path, lambda z: {"same": z, "twice": z + z}, z=([], tf.complex64))


@model
def complex_inside(path):
    kernel = tf.constant(noise(20, 20) + 1j * noise(20, 20, seed=2), tf.complex64)

    def body(x):
        z = tf.complex(x, -x) @ kernel
        return {"re": tf.math.real(z), "abs": tf.abs(z)}

    function(path, body, x=([None, 20], F))


@model
def integer_matmul(path):
    weights = np.random.default_rng(0).integers(-5, 5, (20, 20)).astype("int32")

    def body(x):
        return {"y": tf.cast(x, N) @ weights}

    function(path, body, x=([None, 20], tf.int8))


@model
def wide_output(path):
    """Its first axis is three times the batch."""
    function(path, lambda x: {"y": tf.reshape(x, [-1])}, x=([None, 3], F))


@model
def dynamic_output(path):
    """Its first axis depends on the values."""
    function(path, lambda x: {"y": tf.boolean_mask(x, x[:, 0] > 0)}, x=([None, 3], F))


@model
def unbatched_output_from_batch(path):
    function(path, lambda x: {"mean": tf.reduce_mean(x, 0), "n": tf.shape(x)[0]}, x=([None, 3], F))


@model
def strange_names(path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        a = tf.compat.v1.placeholder(F, [None, 3], "a")
        b = tf.compat.v1.placeholder(F, [None, 3], "b")
        builder = tf.compat.v1.saved_model.Builder(path)
        info = tf.compat.v1.saved_model.build_tensor_info
        signature = tf.compat.v1.saved_model.build_signature_def(
            {"class": info(a), 'my input/1:0 "é\\': info(b)},
            {"0": info(a - b), "out-put.1": info(a * b + 1)},
            "predict",
        )
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()


@model
def version1(path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(F, [None, 20], "x")
        kernel = tf.compat.v1.get_variable("kernel", initializer=noise(20, 30), use_resource=False)
        bias = tf.compat.v1.get_variable("bias", initializer=noise(30), use_resource=True)
        y = tf.nn.relu(tf.nn.bias_add(x @ kernel, bias), name="y")
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.saved_model.simple_save(session, path, {"x": x}, {"y": y})


@model
def version1_loop(path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.disable_control_flow_v2()
        x = tf.compat.v1.placeholder(F, [None, 4], "x")
        _, y = tf.compat.v1.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * 2 + 1), [0, x])
        tf.compat.v1.enable_control_flow_v2()
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.saved_model.simple_save(session, path, {"x": x}, {"y": y})


@model
def two_signatures(path):
    module = tf.Module()
    module.kernel = tf.Variable(noise(20, 20))
    spec = tf.TensorSpec([None, 20], F, name="x")
    first = tf.function(lambda x: {"y": x @ module.kernel}).get_concrete_function(spec)
    second = tf.function(lambda x: {"z": x * 2}).get_concrete_function(spec)
    tf.saved_model.save(module, path, signatures={"serving_default": first, "other": second})


# Operations --------------------------------------------------------------------------------------------------------


@model
def while_loop(path):
    """Weights inside of the body; the count of turns depends on the values."""
    kernel = tf.Variable(noise(20, 20) * 0.1)

    def body(x):
        _, y = tf.while_loop(
            lambda i, a: (i < 7) & (tf.reduce_sum(tf.abs(a)) > 1e-3), lambda i, a: (i + 1, tf.tanh(a @ kernel)), [0, x]
        )
        return {"y": y}

    function(path, body, variables=[kernel], x=([None, 20], F))


@model
def cond(path):
    kernel = tf.Variable(noise(20, 20))

    def body(x, flag):
        return {"y": tf.cond(flag, lambda: x @ kernel, lambda: x * 2)}

    function(path, body, variables=[kernel], x=([None, 20], F), flag=([], B))


@model
def case(path):
    def body(x, which):
        branches = [lambda: x, lambda: tf.sin(x), lambda: tf.cumsum(x, 1)]
        return {"y": tf.switch_case(which, branches)}

    function(path, body, x=([None, 4], F), which=([], N))


@model
def map_and_scan(path):
    def body(x):
        doubled = tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)
        running = tf.scan(lambda a, row: a + row, tf.transpose(x))
        return {"doubled": doubled, "running": tf.transpose(running)}

    function(path, body, x=([None, 4], F))


@model
def sorting(path):
    def body(x):
        values, indices = tf.math.top_k(x, 3)
        return {"top": values, "where": indices, "sorted": tf.sort(x), "down": tf.sort(x, direction="DESCENDING"),
                "order": tf.argsort(x, stable=True), "argmax": tf.argmax(x, 1), "argmin": tf.argmin(x, 1)}  # fmt: skip

    function(path, body, x=([None, 9], F))


@model
def sort_kinds(path):
    def body(d, i, x):
        return {
            "d": tf.sort(d),
            "i": tf.sort(i),
            "first_axis": tf.sort(x, axis=1),
            "d_order": tf.argsort(d, stable=True),
        }

    function(path, body, d=([None, 9], D), i=([None, 9], N), x=([None, 5, 3], F))


@model
def top_k_kinds(path):
    def body(d, i):
        return {"d": tf.math.top_k(d, 2)[0], "i": tf.math.top_k(i, 2)[0], "median": tf.math.top_k(d, 5)[0][:, 4]}

    function(path, body, d=([None, 9], D), i=([None, 9], N))


@model
def indexing(path):
    table = tf.constant(noise(5, 3))

    def body(x, i):
        return {
            "gather": tf.gather(table, i), "batched": tf.gather(x, i, batch_dims=1), "hot": tf.one_hot(i, 4),
            "nd": tf.gather_nd(x, i[:, :, None], batch_dims=1), "select": tf.where(x > 0, x, -x),
            "cumsum": tf.cumsum(x, 1), "cumprod": tf.math.cumprod(x, 1, exclusive=True, reverse=True),
            "strided": x[:, 1:4:2], "reversed": x[:, ::-1], "bins": tf.searchsorted(tf.sort(x, 1), x),
            "scatter": tf.tensor_scatter_nd_add(x, [[0, 0]], [10.0]), "roll": tf.roll(x, 1, 1),
        }  # fmt: skip

    function(path, body, x=([None, 5], F), i=([None, 3], N))


@model
def where_positions(path):
    function(path, lambda x: {"y": tf.where(x > 0)}, x=([None, 3], F))


@model
def unique(path):
    def body(x):
        values, indices = tf.unique(x)
        return {"n": tf.size(values), "indices": indices}

    function(path, body, x=([None], N))


@model
def segments(path):
    def body(x, i):
        return {"y": tf.math.unsorted_segment_sum(x, i, 4), "m": tf.math.unsorted_segment_max(x, i, 2)}

    function(path, body, x=([None, 3], F), i=([None], N))


@model
def einsum(path):
    def body(x, y):
        return {"a": tf.einsum("bij,bjk->bik", x, y), "b": tf.einsum("bij,bij->b", x, x), "c": tf.einsum("bij->bji", x)}

    function(path, body, x=([None, 3, 4], F), y=([None, 4, 5], F))


@model
def reductions(path):
    def body(x):
        names = "sum mean max min prod std variance logsumexp".split()
        made = {name: getattr(tf.math, f"reduce_{name}")(x, axis=[1, 2]) for name in names}
        return {**made, "any": tf.reduce_any(x > 1, 1), "all": tf.reduce_all(x > -1, 1), "norm": tf.norm(x, axis=1)}

    function(path, body, x=([None, 3, 4], F))


@model
def mathematics(path):
    def body(x):
        names = ("sin cos tan sinh cosh atan asinh erf erfc exp expm1 sigmoid sign floor ceil round lgamma digamma "
                 "log1p sqrt rsqrt square abs softplus tanh").split()  # fmt: skip
        y = tf.abs(x) + 0.1
        made = {name: getattr(tf.math, name)(y) for name in names}
        made.update(pow=tf.pow(y, 1.7), powi=tf.pow(x, 3.0), atan2=tf.atan2(x, y), mod=tf.math.floormod(x, 0.7))
        made.update(erfinv=tf.math.erfinv(tf.tanh(x) * 0.9), logit=tf.math.log(y), div=tf.math.divide_no_nan(x, x))
        return made

    function(path, body, x=([None, 5], F))


@model
def double_mathematics(path):
    def body(x):
        y = tf.abs(x) + 0.1
        names = "sin cos tan sinh cosh atan asinh erf erfc exp expm1 lgamma log1p sqrt tanh log".split()
        return {**{name: getattr(tf.math, name)(y) for name in names}, "pow": tf.pow(y, tf.constant(1.7, D))}

    function(path, body, x=([None, 5], D))


@model
def bessel(path):
    def body(x):
        y = tf.abs(x) + 0.5
        return {"i0e": tf.math.bessel_i0e(y), "igamma": tf.math.igamma(y, y + 1), "betainc": tf.math.betainc(y, y, tf.tanh(y) * 0.9),
                "zeta": tf.math.zeta(y + 1.5, y)}  # fmt: skip

    function(path, body, x=([None, 5], F))


@model
def integers(path):
    def body(x, y):
        z = tf.abs(y) + 1
        return {"div": x // z, "mod": x % z, "and": tf.bitwise.bitwise_and(x, y), "shift": tf.bitwise.left_shift(x, z),
                "pow": tf.pow(x, z), "big": tf.cast(x, L) * (1 << 40), "clip": tf.clip_by_value(x, 0, 1)}  # fmt: skip

    function(path, body, x=([None, 4], N), y=([None, 4], N))


@model
def linear_algebra(path):
    def body(x):
        a = tf.matmul(x, x, transpose_a=True) + 3.0 * tf.eye(3)
        return {"inv": tf.linalg.inv(a), "chol": tf.linalg.cholesky(a),
                "solve": tf.linalg.solve(a, x), "triangular": tf.linalg.triangular_solve(a, x)}  # fmt: skip

    function(path, body, x=([None, 3, 3], F))


@model
def matrix_exponential(path):
    """Its loops give arrays of unknown shape, of which shapes are asked."""
    function(path, lambda x: {"y": tf.linalg.expm(tf.tanh(x))}, x=([None, 3, 3], F))


@model
def determinant(path):
    function(path, lambda x: {"y": tf.linalg.det(x)}, x=([None, 3, 3], F))


@model
def svd(path):
    def body(x):
        s, u, v = tf.linalg.svd(x)
        return {
            "s": s,
            "back": tf.matmul(u * s[:, None, :], v, transpose_b=True),
            "eigen": tf.linalg.eigvalsh(x + tf.transpose(x, [0, 2, 1])),
        }

    function(path, body, x=([None, 3, 3], F))


@model
def qr(path):
    def body(x):
        q, r = tf.linalg.qr(x)
        return {"back": q @ r}

    function(path, body, x=([None, 4, 3], F))


@model
def fft(path):
    function(path, lambda x: {"power": tf.abs(tf.signal.rfft(x))}, x=([None, 16], F))


@model
def fft_lengths(path):
    """Powers of two, other composite lengths, a large prime, and cropped and padded ones."""

    def body(x):
        z = tf.complex(x, x[:, ::-1])
        return {"two": tf.signal.rfft(x, [256]), "some": tf.signal.fft(z), "prime": tf.signal.ifft(z[:, :263]),
                "back": tf.signal.irfft(tf.signal.rfft(x, [90]), [75])}  # fmt: skip

    function(path, body, x=([None, 360], F))


@model
def fft_axes(path):
    def body(x):
        z = tf.cast(x, tf.complex64)
        return {"real": tf.signal.rfft2d(x), "back": tf.signal.irfft2d(tf.signal.rfft2d(x)),
                "plane": tf.signal.fft2d(z), "space": tf.signal.ifft3d(z[:, None]), "odd": tf.signal.rfft(x, [7])}  # fmt: skip

    function(path, body, x=([None, 12, 20], F))


@model
def complex_arithmetic(path):
    """All of it in terms of real and imaginary parts."""
    kernel = tf.constant(noise(3, 4) + 1j * noise(3, 4, seed=2), tf.complex64)

    def body(z, phase):
        turned = tf.exp(tf.complex(0.0, phase)) * z
        moved = tf.reverse(tf.concat([turned, tf.math.conj(z)], 1), [1])[:, 1:4]
        return {"sum": tf.reduce_sum(moved - z, 1), "angle": tf.math.angle(turned), "size": tf.abs(moved @ kernel),
                "inner": tf.matmul(z[:, None], turned[:, None], adjoint_b=True), "part": tf.math.imag(-moved)}  # fmt: skip

    function(path, body, z=([None, 3], tf.complex64), phase=([None, 3], F))


@model
def rewritten(path):
    """Operations that XLA has no kernel for."""

    def body(x, image, indices):
        sparse = tf.SparseTensor(indices, image[0, 0, :6, 0], [5, 4])
        # The size of Keras's multi_hot is min(6, max(6, largest + 1)): XLA does not see that it is 6.
        kinds = tf.cast(x[:, 0] > 0, N) * 3
        most = tf.minimum(6, tf.maximum(6, tf.reduce_max(kinds) + 1))
        hot = tf.raw_ops.DenseBincount(input=kinds, size=most, weights=tf.zeros([0]), binary_output=True)
        return {"det": tf.linalg.det(x), "hot": hot, "log": tf.linalg.slogdet(x)[1], "sign": tf.linalg.slogdet(x)[0],
                "norm": tf.math.reduce_euclidean_norm(x, [1, 2]), "third": tf.raw_ops.NthElement(input=x, n=2),
                "bicubic": tf.image.resize(image, [7, 5], method="bicubic"),
                "area": tf.image.resize(image, [3, 9], method="area"),
                "corners": tf.compat.v1.image.resize_bicubic(image, [12, 13], align_corners=True),
                "sparse": tf.sparse.sparse_dense_matmul(sparse, x[0]),
                "mapped": tf.map_fn(lambda each: tf.linalg.slogdet(each)[1], x),
                "chosen": tf.cond(x[0, 0, 0] > 0, lambda: tf.linalg.det(x), lambda: tf.linalg.trace(x))}  # fmt: skip

    function(path, body, x=([2, 4, 4], F), image=([2, 6, 8, 2], F), indices=([6, 2], L))


@model
def running_integers(path):
    """Sums and products that wrap around, and segments some of which have no elements."""
    ids = tf.constant([0, 0, 1, 3, 3, 3])
    short = {"int8": tf.int8, "uint16": tf.uint16, "uint32": tf.uint32, "uint64": tf.uint64}
    kinds = ("max", "mean", "min", "prod", "sum")

    def body(x, y):
        numbers = {name: tf.cast(x, dtype) for name, dtype in short.items()}
        sums = {f"{name}_sum": tf.cumsum(each, 1, reverse=True) for name, each in numbers.items()}
        products = {f"{name}_product": tf.math.cumprod(each, 1, exclusive=True) for name, each in numbers.items()}
        segments = {kind: tf.transpose(getattr(tf.math, f"segment_{kind}")(tf.transpose(y), ids)) for kind in kinds}
        segments["whole"] = tf.transpose(tf.math.segment_mean(tf.transpose(x[:, :6]), ids))
        turned = tf.cumsum(tf.complex(y, 2 * y), 1)
        return {**sums, **products, **segments, "re": tf.math.real(turned), "im": tf.math.imag(turned)}

    function(path, body, x=([None, 9], N), y=([None, 6], F))


@model
def wide_bits(path):
    """Bits of a type of another width."""
    function(
        path, lambda x: {"y": tf.bitcast(x, tf.uint8), "z": tf.bitcast(tf.bitcast(x, tf.uint8), N)}, x=([None, 4], F)
    )


@model
def second_gradients(path):
    """Gradients of gradients of maximum pooling, among elements that are the same in bfloat16."""

    def body(x, v):
        # A square, because its one rounding is the same in all code. Only VALID: with SAME, TensorFlow 2.17.1 and
        # 2.21.0 differ from each other in single elements.
        near = 1 + x / 1024
        pooled = tf.nn.max_pool2d(tf.square(near), 3, 2, "VALID")
        first = tf.gradients(tf.reduce_sum(pooled**2), x)[0]
        valid = tf.gradients(tf.reduce_sum(first * x), x)[0]
        largest = tf.nn.max_pool3d(1 + v / 1024, 2, 2, "SAME")
        of_volumes = tf.raw_ops.MaxPool3DGradGrad(
            orig_input=1 + v / 1024, orig_output=largest, grad=v, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1],
            padding="SAME",
        )  # fmt: skip
        return {"valid": valid, "volumes": of_volumes}

    function(path, body, x=([None, 7, 6, 2], F), v=([None, 4, 5, 4, 2], F))


@model
def stateless_random(path):
    def body(x, seed):
        stateless, old = tf.random.stateless_uniform, tf.raw_ops.StatelessRandomUniform
        return {"y": x + stateless([4], [1, 2], alg="philox"),
                "n": x + tf.random.stateless_normal([4], [3, 4], alg="philox"),
                "seeded": stateless([7], seed), "wide": stateless([3], seed, dtype=D),
                "small": stateless([5], seed, -3, 20, N), "large": stateless([5], seed, -3, 1 << 40, L),
                "bits": stateless([5], seed, None, None, tf.uint32), "old": old(shape=[2, 3], seed=seed),
                "rows": tf.random.stateless_normal(tf.shape(x), seed)}  # fmt: skip

    function(path, body, x=([None, 4], F), seed=([2], N))


@model
def stateful_random(path):
    """The numbers are others, so what comes out does not depend on them: it is in [0, 1)."""

    def body(x):
        r = tf.random.uniform(tf.shape(x)) + tf.random.uniform([4])
        shuffled = tf.random.shuffle(tf.range(4) ** 2)
        return {"y": tf.floor(r * 0.5) + x, "z": tf.cast(tf.random.normal([4]) > 1e9, F) + x,
                "w": tf.cast(tf.sort(shuffled), F) + x}  # fmt: skip

    function(path, body, x=([None, 4], F))


@model
def visible_random(path):
    function(path, lambda x: {"y": x + tf.random.uniform(tf.shape(x))}, x=([None, 4], F))


@model
def large_constants(path):
    """Weights that are no variables, and large tables of integers."""
    kernel, table = noise(40, 40), np.arange(1000, dtype="int32")[::-1].copy()

    def body(x, i):
        return {"y": tf.tanh(x @ kernel), "t": tf.gather(table, i + 500)}

    function(path, body, x=([None, 40], F), i=([None, 3], N))


@model
def large_shape_constant(path):
    """Large constants whose values the compiler itself must know: paddings and permutations made of floats."""
    table = tf.constant(np.arange(2048, dtype="float32") % 4)

    def body(x):
        width = tf.cast(tf.reduce_sum(table) / 1024, N)
        return {"y": tf.pad(x, [[0, 0], [width, 0]])[:, 3:7] + table[:4]}

    function(path, body, x=([None, 4], F))


@model
def large_loop_bound(path):
    """A large array of floats of which one element is the size of a slice."""
    sizes = tf.Variable(np.full((600,), 2.0, "float32"))

    def body(x):
        n = tf.cast(sizes[5], N)
        return {"y": tf.reshape(tf.tile(x, [1, n]), [-1, 8]) * sizes[:8]}

    function(path, body, variables=[sizes], x=([None, 4], F))


@model
def integer_table_matmul(path):
    """int32 and int64 tables of more than 1 KB."""
    table = tf.Variable(np.arange(900, dtype="int32").reshape(30, 30))
    wide = tf.Variable(np.arange(900, dtype="int64"))

    def body(i):
        return {"y": tf.gather(table, i), "z": tf.gather(wide, i) + 1}

    function(path, body, variables=[table, wide], i=([None, 2], N))


@model
def shared_in_two_functions(path):
    kernel = tf.Variable(noise(20, 20) * 0.2)

    @tf.function
    def inner(x):
        return tf.tanh(x @ kernel)

    def body(x):
        y = inner(x)
        for _ in tf.range(3):
            y = inner(y) + x
        return {"y": tf.cond(tf.reduce_sum(y) > 0, lambda: inner(y), lambda: y @ tf.transpose(kernel))}

    function(path, body, variables=[kernel], x=([None, 20], F))


@model
def image(path):
    def body(x):
        return {
            "half": tf.image.resize(x, [4, 4]),
            "near": tf.image.resize(x, [16, 16], "nearest"),
            "flip": tf.image.flip_left_right(x),
        }

    function(path, body, x=([None, 8, 8, 3], F))


@model
def asserts(path):
    def body(x):
        tf.debugging.assert_less(x, 1e9)
        return {"y": tf.debugging.check_numerics(x, "x") + 1}

    function(path, body, x=([None, 4], F))


@model
def counter(path):
    count = tf.Variable(0.0)
    function(path, lambda x: {"y": x + count.assign_add(1.0)}, variables=[count], x=([None, 4], F))


@model
def strings(path):
    function(path, lambda x: {"y": tf.strings.as_string(x)}, x=([None, 4], F))


@model
def string_inside(path):
    function(path, lambda x: {"y": tf.strings.length(tf.strings.as_string(x))}, x=([None, 4], N))


@model
def growing_array(path):
    def stacked(x):
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in range(3):
            array = array.write(i, x * (i + 1))
        return {"y": tf.transpose(array.stack(), [1, 0, 2])}

    function(path, stacked, x=([None, 4], F))


@model
def lookup(path):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [3, 4], N, N), -1)
    module = tf.Module()
    module.kept = [table]
    # Keys far apart, and more than a few: found by halving.
    keys = np.unique(np.random.default_rng(0).integers(-(2**62), 2**62, 3000))
    wide = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, noise(len(keys))), 0.5)
    module.kept.append(wide)
    some = tf.constant(keys[:64:9])

    def body(i):
        asked = tf.gather(some, tf.clip_by_value(i, 0, 7)) + tf.cast(i > 1, L)
        _, twice = tf.while_loop(lambda turn, _: turn < 2, lambda turn, i: (turn + 1, table.lookup(i)), [0, i])
        return {
            "y": table.lookup(i),
            "twice": twice,
            "wide": wide.lookup(asked),
            "size": tf.zeros_like(i, L) + wide.size(),
        }

    module.body = tf.function(body)
    spec = tf.TensorSpec([None, 4], N, name="i")
    tf.saved_model.save(module, path, signatures=module.body.get_concrete_function(i=spec))


@model
def python_function(path):
    function(path, lambda x: {"y": tf.numpy_function(lambda a: a * 2, [x], F)}, x=([None, 4], F))


@model
def ragged(path):
    def body(x, lengths):
        rows = tf.RaggedTensor.from_tensor(x, lengths=lengths)
        return {"y": tf.reduce_sum(rows, 1)}

    function(path, body, x=([None, 4], F), lengths=([None], L))


@model
def ragged_rows(path):
    def body(x, lengths):
        return {"y": tf.RaggedTensor.from_tensor(x, lengths=lengths).to_tensor()}

    function(path, body, x=([3, 4], F), lengths=([3], L))


@model
def gamma(path):
    function(path, lambda x: {"y": x + tf.random.stateless_gamma([4], [1, 2], 2.0)}, x=([None, 4], F))


@model
def three_fry(path):
    def body(x, seed):
        return {"y": x + tf.random.stateless_uniform([4], seed, alg="threefry")}

    function(path, body, x=([None, 4], F), seed=([2], N))


def main(argv):
    folder, names = argv[0], argv[1:] or list(MAKERS)
    for name in names:
        tf.keras.utils.set_random_seed(1)
        MAKERS[name](os.path.join(folder, name))


if __name__ == "__main__":
    main(sys.argv[1:])
