"""Models whose computation is another one at some sizes, and models that only seem so: what the analysis finds.

    TOOLCHAIN/bin/python size_choices.py FILE WORKER_PROGRAM

Runs inside a toolchain's Python. FILE has, for each model, the operations that choose (worker_program/shape_analysis.py).
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf

MODELS = {}
LONGEST = 1000


def chosen(serve):
    """Another computation at some batch sizes."""
    MODELS[f"chosen-{serve.__name__}"] = (serve, False)
    return serve


def same(serve):
    MODELS[f"same-{serve.__name__}"] = (serve, False)
    return serve


def chosen_by_n(serve):
    """Another computation at some sizes of the second axis."""
    MODELS[f"chosen-{serve.__name__}"] = (serve, True)
    return serve


def same_at_any_n(serve):
    MODELS[f"same-{serve.__name__}"] = (serve, True)
    return serve


W = tf.reshape(tf.sin(tf.range(12.0)), [4, 3])


def batch(x):
    return tf.shape(x)[0]


def length(x):
    return tf.shape(x)[1]


@chosen
def big(x):
    return tf.cond(batch(x) > 500, lambda: x * 0, lambda: x)


@chosen
def odd(x):
    return tf.cond(tf.equal(batch(x) % 1000, 0), lambda: x * 2, lambda: x)


@chosen
def switch(x):
    return tf.switch_case(batch(x) // 1000, [lambda: x, lambda: x * 2.0])


@chosen
def where_(x):
    return tf.where(batch(x) > 500, x, x * 2)


@chosen
def castmul(x):
    return x * tf.cast(batch(x) > 500, tf.float32)


@chosen
def mini(x):
    return x * tf.cast(tf.minimum(batch(x), 500), tf.float32)


@chosen
def floord(x):
    return x + tf.cast(batch(x) // 1000, tf.float32)


@chosen
def ceild(x):
    return x + tf.math.ceil(tf.cast(batch(x), tf.float32) / 1000.0)


@chosen
def rangebig(x):
    return x * tf.cast(tf.range(batch(x)) > 500, tf.float32)[:, None]


@chosen
def rangediv(x):
    return x + tf.cast(tf.range(batch(x)) // 1000, tf.float32)[:, None]


@chosen
def slice500(x):
    return tf.reduce_sum(x[:500], 0)


@chosen
def slice_out(x):
    return x[:500]


@chosen
def size_(x):
    return tf.cond(tf.size(x) > 2000, lambda: x * 2, lambda: x)


@chosen
def onessum(x):
    return tf.cond(tf.reduce_sum(tf.ones_like(x[:, 0])) > 500.0, lambda: x * 2, lambda: x)


@chosen
def onessum2(x):
    return tf.where(tf.reduce_sum(tf.ones([batch(x)])) > 500.0, x, x * 2)


@chosen
def whileh(x):
    i = tf.constant(0)
    y = x
    return tf.while_loop(lambda i, _: i < batch(x) // 1000, lambda i, y: (i + 1, y * 2), (i, y))[1]


@same
def whilen(x):
    return tf.while_loop(lambda i, _: i < batch(x), lambda i, y: (i + 1, y * 2), (0, x))[1]


@chosen
def incond(x):
    n = batch(x)
    return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.cond(n > 500, lambda: y * 2, lambda: y)), (0, x))[
        1
    ]


@chosen
def sqrtn(x):
    return tf.where(tf.sqrt(tf.cast(batch(x), tf.float32)) > 22.0, x, x * 2)


@chosen
def whileshape(x):
    k = tf.while_loop(lambda i: i * i < batch(x), lambda i: (i + 1,), (1,))[0]
    return tf.reduce_sum(tf.reshape(tf.tile(x[:, :1], [1, k * 0 + 2]), [batch(x), -1]), 1)


@chosen
def whilepred(x):
    k = tf.while_loop(lambda i: i * i < batch(x), lambda i: (i + 1,), (1,))[0]
    return tf.cond(k > 22, lambda: x, lambda: x * 2)


@chosen
def padmult(x):
    n = batch(x)
    p = (-n) % 1000
    return tf.pad(x, [[0, p], [0, 0]])[:n]


@chosen
def bmax(x):
    return x * tf.cast(tf.maximum(batch(x), 200), tf.float32)


@chosen
def signs(x):
    return x * tf.cast(tf.sign(batch(x) - 500), tf.float32)


@chosen
def argm(x):
    return x * tf.cast(tf.argmax(tf.stack([batch(x), 500])), tf.float32)


@chosen
def gath(x):
    return x * tf.gather(tf.range(10.0), tf.minimum(batch(x) // 100, 9))


@chosen
def linsp(x):
    return x * tf.linspace(0.0, 1.0, batch(x))[:, None]


@chosen
def bits(x):
    return x * tf.cast(tf.bitwise.bitwise_and(batch(x), 512), tf.float32)


@chosen
def cast8(x):
    return x * tf.cast(tf.cast(batch(x), tf.int8), tf.float32)


@chosen
def relun(x):
    return x + tf.nn.relu(tf.cast(batch(x), tf.float32) - 500.0)


@chosen
def clipn(x):
    return x + tf.cast(tf.clip_by_value(batch(x), 0, 500), tf.float32)


@chosen
def poly3(x):
    n = batch(x)
    return x * tf.cast((n - 5) * (n - 7) * (n - 132) * (n - 2) * (n - 3), tf.float32)


@chosen
def quad(x):
    n = batch(x)
    return x * tf.cast(n * n, tf.float32)


@chosen
def eyeb(x):
    return tf.matmul(tf.eye(batch(x)), x)


@chosen
def onehot(x):
    return tf.one_hot(tf.range(batch(x)), 600)


@chosen
def topk(x):
    return tf.math.top_k(tf.transpose(x), k=tf.minimum(batch(x), 5))[0]


@chosen
def splitb(x):
    return tf.concat(tf.split(x, 1), 0) + tf.cast(batch(x) > 3, tf.float32)


@chosen
def shapeeq(x):
    return tf.cond(tf.reduce_all(tf.shape(x) == [1000, 4]), lambda: x * 2, lambda: x)


@chosen
def strided(x):
    return tf.reduce_sum(x[::2], 0)


@chosen
def nested(x):
    @tf.function
    def f(n, y):
        return tf.cond(n > 500, lambda: y * 2, lambda: y)

    return f(batch(x), x)


@chosen
def hashed(x):
    return x * tf.cast(tf.random.stateless_uniform([2], [batch(x), 1])[0], tf.float32)


@chosen
def cumul(x):
    return x * tf.cast(tf.cumsum(tf.ones([batch(x)])) > 500.0, tf.float32)[:, None]


@chosen
def segm(x):
    return x * tf.cast(tf.reduce_max(tf.range(batch(x))) > 500, tf.float32)


@chosen
def dynpart(x):
    return tf.where(tf.shape(tf.zeros([batch(x) * 2]))[0] > 1000, x, x * 2)


@chosen
def tfexpn(x):
    return x + tf.exp(-tf.cast(batch(x), tf.float32) * 100.0)


@chosen
def zerosum(x):
    return tf.cond(tf.reduce_sum(tf.cast(x, tf.int32)[:, 0] * 0 + 1) > 500, lambda: x * 2, lambda: x)


@chosen
def tf1loop(x):
    tf.compat.v1.disable_control_flow_v2()
    try:
        n = batch(x)
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.where(n > 500, y * 2, y)), (0, x))[1]
    finally:
        tf.compat.v1.enable_control_flow_v2()


TABLE = tf.constant([min(place, 300) for place in range(1200)])


@chosen
def element(x):
    return x + tf.cast(TABLE[batch(x)], tf.float32)


@chosen
def sliced_table(x):
    return x + tf.cast(tf.slice(TABLE, [batch(x)], [1]), tf.float32)


@chosen
def rolled_table(x):
    return x + tf.cast(tf.roll(TABLE, -batch(x), 0)[0], tf.float32)


@chosen
def element_of_table(x):
    return x + tf.cast(tf.gather_nd(TABLE, [batch(x)]), tf.float32)


@chosen
def cut_table(x):
    return x + tf.cast(TABLE[: batch(x)], tf.float32)[:, None]


@chosen
def size_of_cut(x):
    return x * tf.cast(tf.shape(TABLE[: batch(x)])[0], tf.float32)


@chosen
def size_of_rest(x):
    return x * tf.cast(tf.shape(TABLE[batch(x) :])[0], tf.float32)


@chosen
def begun_with_zeros(x):
    return x * tf.concat([tf.zeros([300]), tf.ones([batch(x)])], 0)[: batch(x), None]


@chosen
def padded_table(x):
    return x * tf.pad(tf.ones([300]), [[0, batch(x)]])[: batch(x), None]


@chosen
def padded_in_front(x):
    return x * tf.pad(tf.ones([batch(x)]), [[300, 0]])[: batch(x), None]


@chosen
def tiled_table(x):
    return x + tf.cast(tf.tile(TABLE, [batch(x)])[: batch(x)], tf.float32)[:, None]


@chosen
def other_end(x):
    return tf.reshape(tf.tile(x, [1, 300]), [batch(x), 1200])[:, batch(x) - 500]


@chosen
def few_numbers(x):
    return x * tf.cast(tf.shape(tf.range(0, batch(x), 1000))[0], tf.float32)


@chosen
def ones_for_few_numbers(x):
    return x * tf.cast(tf.reduce_sum(tf.ones_like(tf.range(0, batch(x), 1000))), tf.float32)


@chosen
def windows(x):
    return x * tf.cast(tf.shape(tf.nn.max_pool1d(x[None], 1000, 1000, "SAME"))[1], tf.float32)


@chosen
def windows_beyond_traced_batches(x):
    ones = tf.ones([1, batch(x), 1])
    return x * tf.cast(tf.shape(tf.nn.conv1d(ones, tf.ones([9, 1, 1]), 20000, "SAME"))[1], tf.float32)


@chosen
def wraps_around(x):
    return tf.cond(batch(x) * 1000000 > 0, lambda: x, lambda: x * 2)


@chosen
def divided_after_wrapping(x):
    return tf.cond(batch(x) * 1000000 // 1000000 > 0, lambda: x, lambda: x * 2)


@chosen
def rounded_float(x):
    return tf.cond(tf.cast(batch(x), tf.float32) + 16777216.0 > 16777216.0, lambda: x, lambda: x * 2)


@chosen
def rounded_quotient(x):
    third = tf.cast(batch(x), tf.float32) / 49.0
    return tf.cond(third * 49.0 >= tf.cast(batch(x), tf.float32), lambda: x, lambda: x * 2)


@chosen
def nothing_by_nothing(x):
    rest = tf.cast(batch(x) - 500, tf.float32)
    return x * tf.cast(tf.math.is_finite(rest / rest), tf.float32)


@chosen
def after_a_constant_power(x):
    return x * (tf.pow(tf.constant(2.0), 0.5) * tf.cast(batch(x) > 500, tf.float32) + 1.0)


@same
def limited_by_the_largest_integer(x):
    return tf.reshape(x, [tf.clip_by_value(batch(x), 1, 2**31 - 1), 4])


@same
def twice_as_a_float(x):
    rows = tf.cast(tf.cast(batch(x), tf.float32) * 2.0, tf.int32)
    return tf.reshape(tf.reshape(x, [rows, 2]), [batch(x), 4])


@same
def positions_of_fixed_axes(x):
    return x + tf.pad(tf.zeros([batch(x), 3]), [[0, 0], [1, 0]], constant_values=2.0)


@same
def initial_states(x):
    return x + tf.tanh(tf.tile(tf.constant([[0.1, 0.2, 0.3, 0.4]]), [batch(x), 1]))


@same
def boxes(x):
    corners = tf.sort(tf.reshape(tf.tile(x, [1, 6]), [batch(x), 6, 4]), 2)
    return tf.image.non_max_suppression_padded(
        corners, corners[..., 0], 4, pad_to_max_output_size=True, canonicalized_coordinates=True
    )[0]


@chosen_by_n
def s_element(x):
    return x + tf.cast(TABLE[length(x)], tf.float32)


@same
def plain(x):
    return tf.nn.softmax(x @ W)


@same
def zeros_(x):
    return x @ W + tf.zeros([batch(x), 3])


@same
def reshape_(x):
    return tf.reshape(tf.reshape(x, [batch(x), 2, 2]), [-1, 4])


@same
def reshape2(x):
    return tf.reshape(tf.reshape(x, [-1, 2]), [batch(x), 4])


@same
def flat_(x):
    return tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1]])


@same
def tdot(x):
    return tf.tensordot(tf.reshape(x, [-1, 2, 2]), tf.ones([2, 5]), 1)


@same
def gatherb(x):
    idx = tf.argsort(x)[:, :2]
    return tf.gather(x, idx, batch_dims=1)


@same
def gathernd(x):
    n = batch(x)
    i = tf.stack([tf.range(n), tf.argmax(x, 1, tf.int32)], 1)
    return tf.gather_nd(x, i)


@same
def bcast(x):
    return tf.broadcast_to(tf.constant([1.0, 2, 3, 4]), tf.shape(x)) + x


@same
def pos(x):
    n = batch(x)
    return tf.cond(n > 0, lambda: x * 2, lambda: x)


@same
def halfexact(x):
    n = batch(x)
    return tf.reshape(x, [(n * 4) // 4, 4])


@same
def bdyn(x):
    s = tf.broadcast_dynamic_shape(tf.shape(x), [1, 4])
    return tf.broadcast_to(x, s)


@same
def tile_(x):
    return tf.concat([x, tf.tile(tf.constant([[1.0, 2.0]]), [batch(x), 1])], 1)


@same
def repeat_(x):
    return tf.repeat(x, 2, axis=1)


@same
def einsum_(x):
    return tf.einsum("bi,ij->bj", x, W)


@same
def select_(x):
    return tf.where(x > 0.0, x, tf.zeros_like(x))


@same
def ensure(x):
    tf.debugging.assert_less(batch(x), 10000)
    return x * 2


@same
def bmask(x):
    return tf.boolean_mask(x, [True, False, True, True], axis=1)


@same
def onesd(x):
    return x / tf.reduce_sum(tf.ones_like(x), 1, keepdims=True)


@same
def datacmp(x):
    return x * tf.cast(x > tf.cast(batch(x), tf.float32), tf.float32)


@same
def lastrow(x):
    return x[-1:]


@same
def frame_(x):
    return tf.signal.frame(x, 2, 1)


@chosen_by_n
def s_big(x):
    return tf.cond(length(x) > 500, lambda: x * 2, lambda: x)


@chosen_by_n
def s_small(x):
    return tf.cond(length(x) < 8, lambda: x * 2, lambda: x)


@chosen_by_n
def s_mod(x):
    return tf.cond(length(x) % 7 == 0, lambda: x * 2, lambda: x)


@chosen_by_n
def s_minpos(x):
    return x * tf.cast(tf.minimum(length(x), 8), tf.float32)


@same_at_any_n
def s_mean(x):
    return tf.reduce_mean(x, 1)


@same_at_any_n
def s_inv(x):
    return tf.reduce_sum(x, 1) * (1.0 / tf.cast(length(x), tf.float32))


@same_at_any_n
def s_mask(x):
    n = length(x)
    m = tf.range(n)[:, None] >= tf.range(n)[None]
    a = tf.matmul(x, x, transpose_b=True)
    return tf.matmul(tf.nn.softmax(tf.where(m, a, -1e9)), x)


@same_at_any_n
def s_band(x):
    n = length(x)
    m = tf.linalg.band_part(tf.ones([n, n]), -1, 0)
    return tf.matmul(m * tf.matmul(x, x, transpose_b=True), x)


@same_at_any_n
def s_pos(x):
    return x + tf.gather(tf.ones([1000, 4]), tf.range(length(x)))


@same_at_any_n
def s_poscut(x):
    return x + tf.ones([1000, 4])[: length(x)]


@same_at_any_n
def s_rev(x):
    return x[:, ::-1] * tf.cast(tf.range(length(x))[::-1], tf.float32)[None, :, None]


@chosen_by_n
def s_revmask(x):
    return x * tf.cast(tf.range(length(x))[::-1] > 500, tf.float32)[None, :, None]


@same_at_any_n
def s_posmask(x):
    return x * tf.cast(tf.range(length(x)) > 500, tf.float32)[None, :, None]


@chosen_by_n
def s_lastmask(x):
    return x * tf.cast(tf.range(length(x)) > length(x) - 3, tf.float32)[None, :, None]


@same_at_any_n
def s_flat(x):
    return tf.reshape(tf.matmul(tf.reshape(x, [-1, 4]), W), [batch(x), length(x), 3])


@same_at_any_n
def s_pairs(x):
    n = length(x)
    a = tf.tile(x[:, :, None], [1, 1, n, 1])
    b = tf.tile(x[:, None], [1, n, 1, 1])
    p = tf.reshape(tf.concat([a, b], -1), [-1, n * n, 8])
    return tf.reduce_sum(p, 1)


@same_at_any_n
def s_sin(x):
    return x + tf.sin(tf.cast(tf.range(length(x)), tf.float32) * 0.1)[None, :, None]


@same_at_any_n
def s_scan(x):
    return tf.scan(lambda a, b: a + b, tf.transpose(x, [1, 0, 2]))[-1]


@same_at_any_n
def s_lstm(x):
    return _lstm(x)


_lstm = tf.keras.layers.LSTM(3, return_sequences=True)
_lstm.build((None, None, 4))


@same
def vectorized(x):
    return tf.vectorized_map(lambda row: row / (1.0 + tf.reduce_sum(row)), x)


@chosen
def more_than_one(x):
    return tf.cond(batch(x) > 1, lambda: x * 2, lambda: x)


@same
def products_of_zeros(x):
    return x + tf.matmul(tf.zeros([batch(x), 4]), tf.ones([4, 4]))


@same_at_any_n
def relu_of_counted_elements(x):
    return x + tf.nn.relu(tf.reshape(tf.cast(tf.range(4 * length(x)), tf.float32), [length(x), 4]) - 100.0)


@chosen_by_n
def relu_of_a_flat_square(x):
    """An element of the square has another place for each n."""
    places = tf.cast(tf.range(length(x)), tf.float32)
    flat = tf.nn.relu(tf.reshape(places[:, None] - places, [-1]))
    return tf.matmul(tf.reshape(flat, [1, length(x), length(x)]), x)


@same_at_any_n
def diagonal_of_an_identity(x):
    return x + tf.linalg.diag_part(tf.eye(length(x)))[:, None]


@chosen_by_n
def several_diagonals(x):
    return x + tf.reduce_max(tf.linalg.diag_part(tf.eye(length(x)), k=(-1, 1)))


@same_at_any_n
def mapped_over_n(x):
    return tf.transpose(tf.vectorized_map(lambda i: tf.gather(x, i, axis=1) * 2.0, tf.range(length(x))), [1, 0, 2])


@chosen_by_n
def places_for_more_than_two(x):
    places = tf.range(length(x))
    return x * tf.cast(tf.where(length(x) > 2, places, tf.zeros_like(places)), tf.float32)[:, None]


def of_stablehlo(lines):
    """A model that is a module of StableHLO; %n is the batch size, %z what multiplies the rows."""
    text = """module @m attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %many = stablehlo.constant dense<500> : tensor<i32>
    LINES
    %f = stablehlo.convert %z : (tensor<i32>) -> tensor<f32>
    %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %s = stablehlo.concatenate %n1, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %b = stablehlo.dynamic_broadcast_in_dim %f, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
    %y = stablehlo.multiply %x, %b : tensor<?x4xf32>
    return %y : tensor<?x4xf32>
  }
}""".replace("LINES", "\n    ".join(lines))

    def serve(x):
        from tensorflow.compiler.tf2xla.ops import gen_xla_ops

        (y,) = gen_xla_ops.xla_call_module(
            args=[x], version=9, module=text.encode(), Sout=[tf.TensorShape([None, 4])], Tout=[tf.float32],
            platforms=["CPU"],
        )  # fmt: skip
        return y

    return serve


_COMPARED = "%p = stablehlo.compare GT, %n, %many, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"
MODELS["chosen-compared in StableHLO"] = (
    of_stablehlo([_COMPARED, "%z = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>"]), False,
)  # fmt: skip
MODELS["chosen-divided in StableHLO"] = (of_stablehlo(["%z = stablehlo.divide %n, %many : tensor<i32>"]), False)
MODELS["chosen-a branch of StableHLO"] = (
    of_stablehlo([
        _COMPARED, '%z = "stablehlo.if"(%p) ({', "stablehlo.return %n : tensor<i32>", "}, {",
        "stablehlo.return %many : tensor<i32>", "}) : (tensor<i1>) -> tensor<i32>",
    ]), False,
)  # fmt: skip
MODELS["chosen-cut out of a shape in StableHLO"] = (
    of_stablehlo([
        "%n2 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>",
        "%v = stablehlo.concatenate %four, %n2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>",
        "%c = stablehlo.slice %v [1:2] : (tensor<2xi32>) -> tensor<1xi32>",
        "%k = stablehlo.reshape %c : (tensor<1xi32>) -> tensor<i32>",
        "%p = stablehlo.compare GT, %k, %many, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "%z = stablehlo.select %p, %k, %many : tensor<i1>, tensor<i32>",
    ]), False,
)  # fmt: skip
MODELS["same-divided without a remainder in StableHLO"] = (
    of_stablehlo(["%m = stablehlo.multiply %n, %many : tensor<i32>", "%z = stablehlo.divide %m, %many : tensor<i32>"]),
    False,
)
_NUMBER_OF_ROWS = "%z = stablehlo.get_dimension_size %w, dim = 0 : (tensor<?x6xf32>) -> tensor<i32>"
_ZERO = "%zero = stablehlo.constant dense<0.0> : tensor<f32>"
_NONE = "%none = stablehlo.constant dense<0> : tensor<1xi32>"
_PADDED = (
    "%w = stablehlo.pad %x, %zero, low = [LOW, 2], high = [1, 0], interior = [0, 0]"
    " : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x6xf32>"
)
_TWO_COLUMNS = (
    '%a = "stablehlo.dynamic_gather"(%x, %none, %v) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1],'
    " start_index_map = [1]>}> : (tensor<?x4xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<?x2xf32>"
)
_THREE_COLUMNS = (
    '%a = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],'
    " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}>"
    " : (tensor<?x4xf32>, tensor<?x1xi32>) -> tensor<?x3xf32>"
)
MODELS["same-the size of a pad in StableHLO"] = (
    of_stablehlo([_ZERO, _PADDED.replace("LOW", "2"), _NUMBER_OF_ROWS]), False,
)  # fmt: skip
MODELS["chosen-compared behind a pad in StableHLO"] = (
    of_stablehlo([
        _ZERO, _PADDED.replace("LOW", "2"), _NUMBER_OF_ROWS.replace("%z", "%k"), _COMPARED.replace("%n", "%k"),
        "%z = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>",
    ]), False,
)  # fmt: skip
MODELS["same-the size of columns that JAX cuts out and sorts in StableHLO"] = (
    of_stablehlo([
        _NONE, "%two = stablehlo.constant dense<2> : tensor<1xi32>",
        "%n2 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>",
        "%v = stablehlo.concatenate %n2, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>",
        _TWO_COLUMNS,
        "%c = stablehlo.concatenate %a, %x, dim = 1 : (tensor<?x2xf32>, tensor<?x4xf32>) -> tensor<?x6xf32>",
        '%w = "stablehlo.sort"(%c) <{dimension = 1 : i64}> ({', "^bb0(%left: tensor<f32>, %right: tensor<f32>):",
        "%o = stablehlo.compare LT, %left, %right : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        "stablehlo.return %o : tensor<i1>", "}) : (tensor<?x6xf32>) -> tensor<?x6xf32>", _NUMBER_OF_ROWS,
    ]), False,
)  # fmt: skip
MODELS["same-the number of gathered rows in StableHLO"] = (
    of_stablehlo([
        "%one = stablehlo.constant dense<1> : tensor<1xi32>",
        "%n2 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>",
        "%v = stablehlo.concatenate %n2, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>",
        "%i = stablehlo.dynamic_iota %v, dim = 0 : (tensor<2xi32>) -> tensor<?x1xi32>",
        _THREE_COLUMNS,
        "%w = stablehlo.concatenate %a, %a, dim = 1 : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x6xf32>",
        _NUMBER_OF_ROWS,
    ]), False,
)  # fmt: skip
MODELS["same-the size in StableHLO"] = (of_stablehlo(["%z = stablehlo.add %n, %many : tensor<i32>"]), False)


def found(serve, has_n):
    """The operations that choose."""
    import shape_analysis
    from messages.graph import Feed, Fetch, Symbol
    from tensorflow.python.framework import convert_to_constants

    spec = tf.TensorSpec([None, None, 4] if has_n else [None, 4], tf.float32, "x")
    concrete = tf.function(serve, input_signature=[spec], autograph=False).get_concrete_function()
    frozen = convert_to_constants.convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    shape, axes = ((None, LONGEST, 4), ("", "n", "")) if has_n else ((None, 4), ())
    feed = Feed(name="x", node=frozen.inputs[0].op.name, dtype="float32", shape=shape, axes=axes)
    outputs = [
        Fetch(name="y", node=each.op.name, index=each.value_index, dtype=each.dtype.name, shape=())
        for each in frozen.outputs
    ]
    symbols = [Symbol(name="n", minimum=1, maximum=LONGEST)] if has_n else []
    listed = shape_analysis.size_choices(frozen.graph.as_graph_def(), [feed], outputs, symbols)
    return [[each.operation, each.by_batch, list(each.symbols)] for each in listed]


def main(file, worker_program):
    sys.path.insert(0, worker_program)
    answers = {name: found(serve, has_n) for name, (serve, has_n) in MODELS.items()}
    with open(file, "w") as to:
        json.dump(answers, to)


if __name__ == "__main__":
    main(*sys.argv[1:])
