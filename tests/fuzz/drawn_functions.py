"""Random functions of TensorFlow, by rows.

`drawn(random)` gives one as a list of steps. Floats are `real`, which is float32, or float64 for the reference.
"""

import numpy as np
import tensorflow as tf

LARGEST = 400
"""Elements of a value in each row."""
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 3e9, 0.5, -2.5]


def inputs(random, rows):
    """What every drawn function takes. Some of the last four of 17 rows have numbers that are special."""
    given = {
        "x": random.normal(size=(rows, 6)).astype(np.float32) * 2,
        "z": random.normal(size=(rows, 4, 3)).astype(np.float32),
        "m": random.normal(size=(rows, 5, 4, 2)).astype(np.float32),
        "i": random.integers(-9, 10, (rows, 5)).astype(np.int32),
        "l": random.integers(-9, 10, (rows, 3)),
        "b": random.random((rows, 4)) < 0.5,
        "d": random.normal(size=(rows, 3)),
    }
    for name in ("x", "z", "m", "d"):
        values = given[name][-4:].reshape(-1)
        chosen = random.random(values.size) < 0.15
        values[chosen] = random.choice(SPECIAL, chosen.sum())
        given[name][-4:] = values.reshape(given[name][-4:].shape)
    return given


class Function:
    """`run(values, real)`: the result for the values of the inputs. `text` names its operations."""

    def __init__(self, random):
        self.random, self.steps, self.names, self.real = random, [], [], tf.float32
        sample = inputs(np.random.default_rng(0), 3)
        self.inputs = list(sample)
        self.values = [tf.constant(each) for each in sample.values()]
        # Half of the functions take few of the inputs.
        self.usable = list(random.permutation(len(self.values))[: random.integers(1, len(self.values) + 1)])
        length = self.random.integers(3, 10)
        while len(self.steps) < length:
            self._step()

    @property
    def text(self):
        return " ".join(self.names)

    def run(self, values, real):
        self.real = real
        values = [tf.cast(value, real) if value.dtype == tf.float32 else value for value in values]
        for function, operands in self.steps:
            values.append(function(*(values[place] for place in operands)))
        return values[-1]

    # Drawing

    def few(self, *choices):
        return choices[self.random.integers(len(choices))]

    def any(self, kinds, *ranks):
        """A value of a kind, of one of the ranks without the batch; later ones more often. None if there is none."""
        fits = [
            place for place in self.usable
            if self.values[place].dtype.as_numpy_dtype in kinds and (not ranks or self.values[place].shape.rank - 1 in ranks)
        ]  # fmt: skip
        return fits[-1 - min(int(self.random.exponential(1.5)), len(fits) - 1)] if fits else None

    def like(self, place):
        """A value of the same type whose shape broadcasts with it."""
        value = self.values[place]
        fits = [each for each in self.usable if self.values[each].dtype == value.dtype
                and self.values[each].shape[1:] == value.shape[1:]]  # fmt: skip
        return self.few(*fits)

    def number(self):
        return (
            self.random.choice(SPECIAL) if self.random.random() < 0.1 else float(np.float32(self.random.normal() * 2))
        )

    def weights(self, *shape):
        return self.random.normal(size=shape).astype(np.float32) / np.sqrt(max(shape[0], 1)).astype(np.float32)

    def add(self, name, function, *operands):
        """Whether the step is one: TensorFlow computes it, and it is not too large."""
        try:
            value = function(*(self.values[place] for place in operands))
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError, ValueError):
            return
        if value.shape.rank < 1 or value.shape[0] != 3 or not 0 < np.prod(value.shape[1:]) <= LARGEST:
            return
        self.steps.append((function, operands))
        self.names.append(name)
        self.usable.append(len(self.values))
        self.values.append(value)

    def _step(self):
        self.few(
            self.unary, self.unary, self.binary, self.binary, self.by_constant, self.integers, self.compared, self.chosen, self.cast,
            self.reduced, self.reduced, self.normalized, self.attention, self.product, self.convolved, self.pooled,
            self.moved, self.moved, self.cut, self.joined, self.gathered, self.scattered, self.ordered, self.summed_up, self.looped,
            self.spread,
        )()  # fmt: skip

    def unary(self):
        place = self.any(FLOATS)
        if place is not None:
            name = self.few(*UNARY)
            self.add(name, UNARY[name], place)

    def binary(self):
        place = self.any(FLOATS)
        if place is not None:
            name = self.few(*BINARY)
            self.add(name, BINARY[name], place, self.like(place))

    def by_constant(self):
        place = self.any(FLOATS)
        if place is None:
            return
        name, number = self.few(*BINARY), self.number()
        if self.random.random() < 0.5:
            number = np.array([self.number() for _ in range(self.values[place].shape[-1])], np.float32)
        function = BINARY[name]
        if self.random.random() < 0.5:
            self.add(name + "_const", lambda v: function(v, tf.cast(tf.constant(number, tf.float32), v.dtype)), place)
        else:
            self.add("const_" + name, lambda v: function(tf.cast(tf.constant(number, tf.float32), v.dtype), v), place)

    def integers(self):
        place = self.any(INTEGERS)
        if place is None:
            return
        number = int(self.few(1, 2, 3, 5, 7))
        name = self.few(*INTEGER, *INTEGER_CONST)
        if name in INTEGER:
            self.add("int_" + name, INTEGER[name], place, self.like(place))
        else:
            function = INTEGER_CONST[name]
            self.add("int_" + name, lambda v: function(v, tf.constant(number, v.dtype)), place)

    def compared(self):
        place = self.any((*FLOATS, *INTEGERS))
        if place is None:
            return
        function = self.few(tf.less, tf.less_equal, tf.greater, tf.greater_equal, tf.equal, tf.not_equal)
        if self.values[place].dtype.is_floating and self.random.random() < 0.3:
            self.add("is", self.few(tf.math.is_nan, tf.math.is_inf, tf.math.is_finite), place)
        else:
            self.add(function.__name__, function, place, self.like(place))

    def chosen(self):
        test = self.any((np.bool_,))
        if test is None:
            return
        function = self.few(tf.logical_and, tf.logical_or, tf.math.logical_xor, None, None)
        if function is not None:
            self.add(function.__name__, function, test, self.like(test))
            return
        fits = [each for each in self.usable if self.values[each].shape == self.values[test].shape
                and self.values[each].dtype != tf.bool]  # fmt: skip
        if fits:
            one = self.few(*fits)
            self.add("where", tf.where, test, one, self.like(one))

    def cast(self):
        place = self.any((*FLOATS, *INTEGERS, np.bool_))
        if place is None:
            return
        dtype = self.values[place].dtype
        to = self.few(tf.int32, tf.int64, tf.float64)
        if dtype == tf.bool:
            self.add("bool_cast", lambda v: tf.cast(v, tf.int32), place)
        elif not dtype.is_floating:
            self.add("int_cast", lambda v: tf.cast(v, to if to != tf.float64 else self.real), place)
        elif to.is_integer:
            # What NaN and numbers out of range become is open.
            self.add("float_cast", lambda v: tf.cast(tf.clip_by_value(_without_nan(v), -99.0, 99.0), to), place)  # fmt: skip
        else:
            self.add("to_double", lambda v: tf.cast(v, tf.float64), place)

    def reduced(self):
        place = self.any((*FLOATS, *INTEGERS, np.bool_), 1, 2, 3)
        if place is None:
            return
        value = self.values[place]
        rank = value.shape.rank
        axes = sorted(
            int(each) for each in self.random.permutation(np.arange(1, rank))[: self.random.integers(1, rank)]
        )
        keep = bool(self.random.integers(2)) or rank - len(axes) < 2
        table = REDUCE if value.dtype.is_floating else (BOOL_REDUCE if value.dtype == tf.bool else INT_REDUCE)
        name = self.few(*table)
        function = table[name]
        if name.startswith("arg"):
            if rank > 2:
                self.add(name, lambda v: function(v, axes[0]), place)
        else:
            self.add(name, lambda v: function(v, axes, keep), place)

    def normalized(self):
        place = self.any(FLOATS, 1, 2, 3)
        if place is None:
            return
        gain, bias = self.weights(self.values[place].shape[-1]), self.weights(self.values[place].shape[-1])

        def layer_norm(v):
            mean, variance = tf.nn.moments(v, [-1], keepdims=True)
            return (v - mean) * tf.math.rsqrt(variance + 1e-3) * tf.cast(gain, v.dtype) + tf.cast(bias, v.dtype)

        name, function = self.few(
            ("softmax", tf.nn.softmax), ("log_softmax", tf.nn.log_softmax), ("layer_norm", layer_norm),
            ("l2_normalize", lambda v: tf.math.l2_normalize(v, -1)),
            ("softmax_1", lambda v: tf.nn.softmax(v, 1)),
        )  # fmt: skip
        self.add(name, function, place)

    def attention(self):
        place = self.any(FLOATS, 2)
        if place is None:
            return
        width = self.values[place].shape[-1]
        q, k, w = (self.weights(width, 4) for _ in range(3))
        scale, causal = 0.5, bool(self.random.integers(2))

        def function(v):
            one, two, three = (tf.einsum("bij,jk->bik", v, tf.cast(each, v.dtype)) for each in (q, k, w))
            score = tf.matmul(one, two, transpose_b=True) * tf.cast(scale, v.dtype)
            if causal:
                mask = tf.linalg.band_part(tf.ones_like(score[0]), -1, 0)
                score = tf.where(mask > 0, score, tf.cast(-1e9, v.dtype))
            return tf.matmul(tf.nn.softmax(score), three)

        self.add("attention", function, place)

    def product(self):
        place = self.any(FLOATS, 1, 2, 3)
        if place is None:
            return
        value = self.values[place]
        weights, bias = self.weights(value.shape[-1], int(self.few(1, 2, 5, 8))), self.number()
        if value.shape.rank == 3 and self.random.random() < 0.4:
            self.add("gram", lambda v: tf.matmul(v, v, transpose_b=True), place)
        else:
            self.add("dense", lambda v: tf.tensordot(v, tf.cast(weights, v.dtype), 1) + tf.cast(bias, v.dtype), place)

    def convolved(self):
        place = self.any(FLOATS, 2, 3)
        if place is None:
            return
        value = self.values[place]
        padding, stride, size = self.few("SAME", "VALID"), int(self.few(1, 2)), int(self.few(1, 2, 3))
        if value.shape.rank == 3:
            weights = self.weights(size, value.shape[-1], 3)
            self.add("conv1d", lambda v: tf.nn.conv1d(v, tf.cast(weights, v.dtype), stride, padding), place)
        else:
            weights = self.weights(size, 2, value.shape[-1], 3)
            if self.random.random() < 0.3:
                self.add("depthwise", lambda v: tf.nn.depthwise_conv2d(v, tf.cast(weights, v.dtype), [1, stride, stride, 1], padding), place)  # fmt: skip
            else:
                self.add("conv2d", lambda v: tf.nn.conv2d(v, tf.cast(weights, v.dtype), stride, padding), place)

    def pooled(self):
        place = self.any((np.float32,), 2, 3)
        if place is None:
            return
        rank = self.values[place].shape.rank - 2
        size, stride = [int(self.few(1, 2, 3)) for _ in range(rank)], int(self.few(1, 2))
        kind, padding = self.few("MAX", "AVG"), self.few("SAME", "VALID")
        # Which of a number and NaN is the larger one depends on their order, in TensorFlow's kernel.
        self.add(
            kind + "_pool",
            lambda v: tf.nn.pool(_without_nan(v), size, kind, strides=[stride] * rank, padding=padding),
            place,
        )

    def moved(self):
        place = self.any((*FLOATS, *INTEGERS, np.bool_))
        if place is None:
            return
        shape = self.values[place].shape
        rank = shape.rank
        axis = int(self.random.integers(1, rank)) if rank > 1 else 0
        order = [0, *(int(each) + 1 for each in self.random.permutation(rank - 1))]
        choices = [("expand", lambda v: tf.expand_dims(v, -1))]
        if rank > 1:
            times = [1] * rank
            times[axis] = 2
            choices += [
                ("flatten", lambda v: tf.reshape(v, [tf.shape(v)[0], -1])),
                ("transpose", lambda v: tf.transpose(v, order)),
                ("reverse", lambda v: tf.reverse(v, [axis])),
                ("tile", lambda v: tf.tile(v, times)),
                ("roll", lambda v: tf.roll(v, 1, axis)),
                ("reshape", lambda v: tf.reshape(v, [-1, shape[-1], *shape[1:-1]])),
            ]
            if self.values[place].dtype != tf.bool:
                mode = self.few("CONSTANT", "REFLECT", "SYMMETRIC")
                padding = [[0, 0]] * rank
                padding[axis] = [int(each) for each in self.random.integers(0, 2, 2)]
                choices.append(("pad " + mode, lambda v: tf.pad(v, padding, mode)))
        if rank == 2:
            size = int(self.few(2, 3))
            choices.append(("broadcast", lambda v: tf.broadcast_to(v[:, None], [tf.shape(v)[0], size, tf.shape(v)[1]])))
        self.add(*self.few(*choices), place)

    def cut(self):
        place = self.any((*FLOATS, *INTEGERS, np.bool_), 1, 2, 3)
        if place is None:
            return
        rank, axis = self.values[place].shape.rank, int(self.random.integers(1, self.values[place].shape.rank))
        start, end, step = self.few((None, None, 2), (1, None, None), (None, -1, None), (None, None, -1), (1, None, 2))
        place_of = tuple(slice(start, end, step) if each == axis else slice(None) for each in range(rank))
        self.add("slice", lambda v: v[place_of], place)

    def joined(self):
        place = self.any((*FLOATS, *INTEGERS, np.bool_), 1, 2, 3)
        if place is None:
            return
        axis = int(self.random.integers(1, self.values[place].shape.rank))
        other = self.like(place)
        if self.random.random() < 0.3:
            self.add("stack", lambda v, w: tf.stack([v, w, v], axis), place, other)
        else:
            self.add("concat", lambda v, w: tf.concat([v, w], axis), place, other)

    def gathered(self):
        place, index = self.any((*FLOATS, *INTEGERS), 1, 2), self.any(INTEGERS, 1)
        if place is None:
            return
        size = self.values[place].shape[1]
        if index is None or self.random.random() < 0.4:
            indices = [int(each) for each in self.random.integers(0, size, self.few(1, 3, 5))]
            self.add("gather_const", lambda v: tf.gather(v, indices, axis=1), place)
        else:
            self.add("gather", lambda v, n: tf.gather(v, tf.math.floormod(n, tf.constant(size, n.dtype)), axis=1, batch_dims=1), place, index)  # fmt: skip

    def scattered(self):
        place, index = self.any((*FLOATS, np.int32), 1), self.any((np.int32,), 1)
        if place is None or index is None or self.values[index].shape[1] > self.values[place].shape[1]:
            return
        size, count = self.values[place].shape[1], self.values[index].shape[1]
        function = self.few(tf.tensor_scatter_nd_add, tf.tensor_scatter_nd_max, tf.tensor_scatter_nd_min)

        def scatter(v, n):
            own = tf.range(tf.shape(n)[0])[:, None] + tf.zeros_like(n)
            return function(v, tf.stack([own, tf.math.floormod(n, size)], -1), v[:, :count])

        self.add(function.__name__, scatter, place, index)

    def ordered(self):
        place = self.any((*FLOATS, np.int32), 1, 2)
        if place is None:
            return
        most = self.values[place].shape[-1]
        count = int(self.random.integers(1, most + 1))
        name, function = self.few(
            ("top_k", lambda v: tf.math.top_k(v, count).values), ("top_k_at", lambda v: tf.math.top_k(v, count).indices),
            ("sort", tf.sort), ("sort_down", lambda v: tf.sort(v, direction="DESCENDING")),
            ("argsort", lambda v: tf.argsort(v, stable=True)),
        )  # fmt: skip
        # TensorFlow's kernels compare with NaN, so what its order is, is open.
        self.add(name, lambda v: function(_without_nan(v)), place)

    def summed_up(self):
        place = self.any((*FLOATS, *INTEGERS), 1, 2, 3)
        if place is None:
            return
        axis = int(self.random.integers(1, self.values[place].shape.rank))
        name, exclusive, reverse = (
            self.few("cumsum", "cumprod"),
            *(bool(each) for each in self.random.integers(0, 2, 2)),
        )
        # Of large factors, the order of the products decides whether one overflows.
        function = {"cumsum": tf.cumsum, "cumprod": lambda v, *how: tf.math.cumprod(_small(v), *how)}[name]
        self.add(name, lambda v: function(v, axis, exclusive, reverse), place)

    def looped(self):
        place = self.any((np.float32,), 1)
        if place is None or self.random.random() < 0.5:
            return
        turns = int(self.few(2, 3))
        name, function = self.few(
            ("while", lambda v: tf.while_loop(lambda i, _: i < turns, lambda i, w: (i + 1, tf.tanh(w) + v), (0, v))[1]),
            ("map_fn", lambda v: tf.map_fn(lambda r: tf.sort(_without_nan(r)) - tf.reduce_mean(r), v)),
        )
        self.add(name, function, place)

    def spread(self):
        place = self.any((np.int32, np.int64), 1)
        if place is None:
            return
        size = int(self.few(3, 5))
        self.add("one_hot", lambda n: tf.one_hot(tf.math.floormod(n, tf.constant(size, n.dtype)), size, dtype=tf.int32), place)  # fmt: skip


def _without_nan(v):
    return tf.where(tf.math.is_nan(v), tf.zeros_like(v), v) if v.dtype.is_floating else v


def _small(v):
    return tf.tanh(v) if v.dtype.is_floating else v


FLOATS, INTEGERS = (np.float32, np.float64), (np.int32, np.int64)
UNARY = {
    "abs": tf.abs, "neg": tf.negative, "relu": tf.nn.relu, "tanh": tf.tanh, "sigmoid": tf.sigmoid, "exp": tf.exp,
    "log": lambda v: tf.math.log(tf.abs(v) + 0.1), "sqrt": lambda v: tf.sqrt(tf.abs(v)), "square": tf.square,
    "rsqrt": lambda v: tf.math.rsqrt(tf.abs(v) + 0.1), "sin": lambda v: tf.sin(tf.clip_by_value(v, -99.0, 99.0)),
    "erf": tf.math.erf, "softplus": tf.nn.softplus, "elu": tf.nn.elu, "gelu": tf.nn.gelu, "floor": tf.floor,
    "ceil": tf.math.ceil, "round": tf.round, "sign": tf.sign, "atan": tf.atan, "expm1": tf.math.expm1,
    "log1p": lambda v: tf.math.log1p(tf.abs(v)), "selu": tf.nn.selu, "swish": tf.nn.swish, "relu6": tf.nn.relu6,
    "leaky": tf.nn.leaky_relu, "reciprocal": tf.math.reciprocal_no_nan, "softsign": tf.nn.softsign, "sinh": tf.sinh,
    "cosh": tf.cosh, "asinh": tf.asinh, "raw_log": tf.math.log, "raw_sqrt": tf.sqrt,
}  # fmt: skip
BINARY = {
    "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "max": tf.maximum, "min": tf.minimum, "div": tf.divide,
    "squared_difference": tf.math.squared_difference, "atan2": tf.atan2, "div_no_nan": tf.math.divide_no_nan,
    "mul_no_nan": tf.math.multiply_no_nan, "xlogy": lambda v, w: tf.math.xlogy(v, tf.abs(w)),
    "pow": lambda v, w: tf.pow(tf.abs(v), tf.clip_by_value(w, -3.0, 3.0)),
}  # fmt: skip
INTEGER = {
    "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "max": tf.maximum, "min": tf.minimum,
    "and": tf.bitwise.bitwise_and, "or": tf.bitwise.bitwise_or, "xor": tf.bitwise.bitwise_xor,
}  # fmt: skip
INTEGER_CONST = {
    "floordiv": tf.math.floordiv, "floormod": tf.math.floormod, "truncmod": tf.truncatemod,
    "left": tf.bitwise.left_shift, "right": tf.bitwise.right_shift, "times": tf.multiply,
}  # fmt: skip
REDUCE = {
    "sum": tf.reduce_sum, "mean": tf.reduce_mean, "max": tf.reduce_max, "min": tf.reduce_min,
    "prod": lambda v, a, k: tf.reduce_prod(_small(v), a, k), "logsumexp": tf.reduce_logsumexp,
    "norm": lambda v, a, k: tf.sqrt(tf.reduce_sum(v * v, a, k)), "variance": tf.math.reduce_variance,
    "std": tf.math.reduce_std, "argmax": tf.argmax, "argmin": tf.argmin,
}  # fmt: skip
INT_REDUCE = {
    "sum": tf.reduce_sum, "max": tf.reduce_max, "min": tf.reduce_min, "prod": tf.reduce_prod, "argmax": tf.argmax,
    "mean": tf.reduce_mean,
}  # fmt: skip
BOOL_REDUCE = {"any": tf.reduce_any, "all": tf.reduce_all}


def drawn(random):
    return Function(random)
