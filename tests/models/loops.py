"""Models with loops that go on until no row of the batch wants another turn, or that only seem to: for rows.py."""

import tensorflow as tf
from row_models import Cell, batch_size, dependent, in_loop, independent, of_tensorflow_1, rows, sequences, v1

lengths = (rows(4), rows(dtype=tf.int32, name="n"))


def matrix(rows_, columns):
    return tf.reshape(tf.sin(tf.range(float(rows_ * columns))), [rows_, columns])


class Lstm:
    """Its state is a pair."""

    output_size, state_size = 5, (5, 5)

    def zero_state(self, size, dtype):
        return tf.zeros([size, 5], dtype), tf.zeros([size, 5], dtype)

    def __call__(self, x, state, scope=None):
        cell, hidden = state
        i, j, f, o = tf.split(tf.concat([x, hidden], 1) @ matrix(8, 20), 4, 1)
        cell = tf.sigmoid(f + 1.0) * cell + tf.sigmoid(i) * tf.tanh(j)
        hidden = tf.sigmoid(o) * tf.tanh(cell)
        return hidden, (cell, hidden)


class Gru(Cell):
    def __call__(self, x, state, scope=None):
        r, u = tf.split(tf.sigmoid(tf.concat([x, state], 1) @ matrix(8, 10)), 2, 1)
        candidate = tf.tanh(tf.concat([x, r * state], 1) @ matrix(8, 5))
        state = u * state + (1.0 - u) * candidate
        return state, state


class OfAllRows(Cell):
    def __call__(self, x, state, scope=None):
        state = tf.tanh(x @ matrix(3, 5) + state - tf.reduce_mean(state, 0))
        return state, state


def recurrent(cell, *, layers=1, **options):
    def serve(x, n):
        for i in range(layers):
            with v1.variable_scope(f"layer{i}"):
                x, state = v1.nn.dynamic_rnn(cell, x, sequence_length=n, dtype=tf.float32, **options)
                x = x[..., :3] if i + 1 < layers else x
        return tf.reduce_sum(x, 2) + tf.add_n(
            [tf.reduce_sum(each, 1, keepdims=True) for each in tf.nest.flatten(state)]
        )

    return serve


def both_ways(x, n):
    outputs, states = v1.nn.bidirectional_dynamic_rnn(Cell(), Gru(), x, sequence_length=n, dtype=tf.float32)
    return tf.reduce_sum(tf.concat(outputs, 2), 2) + tf.reduce_sum(tf.concat(states, 1), 1, keepdims=True)


def time_major(x, n):
    outputs, _ = v1.nn.dynamic_rnn(
        Cell(),
        tf.transpose(x, [1, 0, 2]),
        sequence_length=n,
        initial_state=x[:, 0, :1] + tf.zeros([1, 5]),
        time_major=True,
    )
    return tf.transpose(outputs, [1, 0, 2])


for cell in (Cell, Lstm, Gru):
    independent(f"dynamic_rnn with lengths, {cell.__name__}", recurrent(cell()), *sequences)
    independent(
        f"dynamic_rnn of TensorFlow 1 with lengths, {cell.__name__}", of_tensorflow_1(recurrent(cell())), *sequences
    )
independent("dynamic_rnn of two layers with lengths", recurrent(Gru(), layers=2), *sequences)
independent("dynamic_rnn with lengths, time first", time_major, *sequences)
independent("bidirectional_dynamic_rnn with lengths", both_ways, *sequences)
independent("bidirectional_dynamic_rnn of TensorFlow 1 with lengths", of_tensorflow_1(both_ways), *sequences)
dependent("dynamic_rnn with lengths and a mean over rows", recurrent(OfAllRows()), *sequences)
dependent(
    "dynamic_rnn of TensorFlow 1 with lengths and a mean over rows", of_tensorflow_1(recurrent(OfAllRows())), *sequences
)


def going_on(wanted, step, *start, **options):
    """`step` as long as any row wants it."""
    return tf.while_loop(lambda *values: tf.reduce_any(wanted(*values)), step, start, **options)


def large(a):
    return tf.norm(a, axis=1, keepdims=True) > 1.0


def halved(active, a):
    return tf.where(active, a * 0.5, a)


independent(
    "elements until all are small", lambda x: going_on(lambda a: a > 1.0, lambda a: (halved(a > 1.0, a),), x)[0]
)
independent("rows until all are small", lambda x: going_on(large, lambda a: (halved(large(a), a),), x)[0])
independent("rows until all are small, ten turns at most",
            lambda x: going_on(large, lambda a: (halved(large(a), a),), x, maximum_iterations=10)[0])  # fmt: skip
independent("rows until all are small of TensorFlow 1", of_tensorflow_1(
    lambda x: going_on(large, lambda a: (halved(large(a), a),), x)[0]))  # fmt: skip
independent("rows until all are small, in a loop", lambda x: in_loop(
    3, lambda _, a: (going_on(large, lambda b: (halved(large(b), b),), a * 3.0)[0],), x))  # fmt: skip
independent("turns of each row", lambda x: going_on(
    lambda _, a: large(a), lambda k, a: (k + tf.cast(large(a), tf.int32), halved(large(a), a)), tf.zeros([batch_size(x), 1], tf.int32), x)[0])  # fmt: skip
independent("while the least count is below five", lambda x: tf.while_loop(
    lambda k, _: tf.reduce_min(k) < 5, lambda k, a: (tf.where(k < 5, k + 1, k), halved((k < 5)[:, None], a)),
    (tf.cast(x[:, 0], tf.int32), x))[1])  # fmt: skip
independent("turns by the row's own count", lambda x, n: going_on(
    lambda k, _: k < n, lambda k, a: (tf.where(k < n, k + 1, k), halved((k < n)[:, None], a)), tf.zeros_like(n), x)[1], *lengths)  # fmt: skip
independent("turns by the largest count", lambda x, n: in_loop(
    tf.reduce_max(n), lambda i, a: (halved((i < n)[:, None], a),), x), *lengths)  # fmt: skip
independent("turns by the largest count, nine at most", lambda x, n: in_loop(
    tf.minimum(tf.reduce_max(n), 9), lambda i, a: (tf.where((i >= n)[:, None], a, a * 0.5),), x), *lengths)  # fmt: skip
independent("turns by counts of floats", lambda x: going_on(
    lambda i, _: i < x[:, 0], lambda i, a: (i + 1.0, halved((i < x[:, 0])[:, None], a)), tf.constant(0.0), x)[1])  # fmt: skip


def roots(x, *, until=lambda done: tf.logical_not(tf.reduce_all(done))):
    """Newton's method, with a flag for each row that has converged."""

    def step(done, a):
        better = tf.where(done[:, None], a, 0.5 * (a + tf.abs(x) / a))
        return tf.logical_or(done, tf.reduce_max(tf.abs(better - a), 1) < 0.01), better

    return tf.while_loop(
        lambda done, _: until(done), step, (tf.zeros([batch_size(x)], tf.bool), tf.ones_like(x)), maximum_iterations=20
    )[1]


def exponential(x):
    """Scaling and squaring with whole numbers of squarings: no NaN can end the loop for all."""
    squarings = tf.clip_by_value(tf.cast(tf.reduce_max(tf.abs(x), [1, 2]), tf.int32), 0, 12)
    scaled = x / tf.cast(tf.bitwise.left_shift(1, squarings), tf.float32)[:, None, None]
    series = tf.eye(3) + scaled + scaled @ scaled / 2.0 + scaled @ scaled @ scaled / 6.0
    return in_loop(tf.reduce_max(squarings), lambda i, a: (tf.where((i < squarings)[:, None, None], a @ a, a),), series)


independent("roots until all rows have converged", roots)
dependent("roots until the first row has converged",
          lambda x: roots(x, until=lambda done: tf.logical_not(tf.reduce_any(done))))  # fmt: skip
independent("squarings by whole numbers", exponential, rows(3, 3))


def sums(
    x,
    n,
    *,
    size=4,
    turns=lambda n: tf.minimum(tf.reduce_max(n), 4),
    start=None,
    filling=0.0,
    place=lambda i: i,
    mask=lambda i, n: i < n,
):
    """Running sums of each row, up to its own length, in an array that is written place by place."""
    outputs = tf.TensorArray(tf.float32, size)
    outputs = outputs if start is None else outputs.unstack(tf.zeros([size, batch_size(x)]) + start)

    def step(i, outputs, total):
        active = mask(i, n)
        total = tf.where(active, total + x[:, tf.minimum(i, 3)], total)
        return outputs.write(place(i), tf.where(active, total, filling)), total

    return tf.transpose(in_loop(turns(n), step, outputs, tf.zeros([batch_size(x)])).stack())


def decoded(x, *, pad=0, into_array=True):
    """Tokens, until each row has given the end of a text, which is token 0."""
    end = 0

    def step(i, tokens, done, state):
        state = tf.tanh(state @ matrix(4, 4) * 2.0)
        token = tf.where(done, pad, tf.argmax(state, 1, output_type=tf.int32))
        if into_array:
            tokens = tokens.write(i, token)
        else:
            tokens = tf.where((tf.range(8) == i)[None] & ~done[:, None], token[:, None], tokens)
        return i + 1, tokens, done | (token == end), state

    tokens = tf.TensorArray(tf.int32, 8) if into_array else tf.fill([batch_size(x), 8], 9)
    start = (tf.constant(0), tokens, tf.zeros([batch_size(x)], tf.bool), x)
    tokens = tf.while_loop(lambda i, _, done, __: (i < 8) & ~tf.reduce_all(done), step, start)[1]
    return tf.transpose(tokens.stack()) if into_array else tokens


independent("sums up to lengths", sums, *lengths)
independent("sums up to lengths, with minus one behind", lambda x, n: sums(x, n, start=-1.0, filling=-1.0), *lengths)
independent("tokens up to the end of each text", decoded)
independent("tokens in a matrix up to the end of each text", lambda x: decoded(x, into_array=False))
dependent("tokens up to the end of each text, with another one behind", lambda x: decoded(x, pad=3))
dependent("sums into an array of ones", lambda x, n: sums(x, n, start=1.0), *lengths)
dependent("sums with minus one behind", lambda x, n: sums(x, n, filling=-1.0), *lengths)
dependent("sums with the last one behind", lambda x, n: sums(x, n, filling=tf.reduce_sum(x, 1)), *lengths)
dependent("sums beyond the array", lambda x, n: sums(x, n, turns=tf.reduce_max), *lengths)
dependent(
    "sums beyond the array by one", lambda x, n: sums(x, n, turns=lambda n: tf.minimum(tf.reduce_max(n), 5)), *lengths
)
dependent("sums at the place before", lambda x, n: sums(x, n, place=lambda i: tf.maximum(i - 1, 0)), *lengths)
dependent("sums at the first place", lambda x, n: sums(x, n, place=lambda _: 0), *lengths)
dependent("sums up to lengths of others", lambda x, n: sums(x, n, mask=lambda i, n: i < tf.roll(n, 1, 0)), *lengths)
dependent("sums one beyond lengths", lambda x, n: sums(x, n, mask=lambda i, n: i <= n), *lengths)
dependent(
    "sums while the least length lasts",
    lambda x, n: sums(x, n, turns=lambda n: tf.minimum(tf.reduce_min(n), 4)),
    *lengths,
)

dependent("matrix exponential", tf.linalg.expm, rows(3, 3))  # all are NaN if one is
dependent(
    "small elements shrink, too",
    lambda x: going_on(lambda a: a > 1.0, lambda a: (tf.where(a > 1.0, a * 0.5, a * 0.9),), x)[0],
)
dependent("rows until one is small", lambda x: tf.while_loop(
    lambda a: tf.reduce_all(large(a)), lambda a: (halved(large(a), a),), [x])[0])  # fmt: skip
dependent(
    "rows until all are small by another norm",
    lambda x: going_on(large, lambda a: (halved(tf.norm(a, axis=1, keepdims=True) > 0.9, a),), x)[0],
)
dependent("rows until their neighbours are small", lambda x: going_on(
    large, lambda a: (halved(tf.roll(large(a), 1, 0), a) * tf.where(large(a), 0.9, 1.0),), x)[0])  # fmt: skip
dependent("rows until the reversed batch is small", lambda x: going_on(
    large, lambda a: (halved(large(tf.reverse(a, [0])), a) * tf.where(large(a), 0.9, 1.0),), x)[0])  # fmt: skip
dependent("turns of all rows", lambda x: tf.zeros_like(x) + tf.cast(going_on(
    lambda _, a: large(a), lambda k, a: (k + 1, halved(large(a), a)), tf.constant(0), x)[0], tf.float32))  # fmt: skip
dependent("turns of all rows in each", lambda x: going_on(
    lambda _, a: large(a), lambda k, a: (k + 1, halved(large(a), a)), tf.zeros([batch_size(x), 1], tf.int32), x)[0])  # fmt: skip
dependent("rows that want turns again", lambda x, n: going_on(
    lambda i, _: (i + n) % 4 != 0, lambda i, a: (i + 1, halved(((i + n) % 4 != 0)[:, None], a)), tf.constant(0), x,
    maximum_iterations=9)[1], *lengths)  # fmt: skip
dependent("a count that begins again", lambda x, n: going_on(
    lambda i, *_: i < n, lambda i, k, a: (tf.where(k == 2, 0, i + 1), k + 1, halved((i < n)[:, None], a)),
    tf.constant(0), tf.constant(0), x, maximum_iterations=9)[2], *lengths)  # fmt: skip
dependent("counts that grow when they are reached", lambda x, n: going_on(
    lambda i, n, _: (i < n) & (i < 9), lambda i, n, a: (i + 1, tf.where(i < n, n, n + 3), halved((i < n)[:, None], a)), tf.constant(0), n, x)[2],
    *lengths)  # fmt: skip
dependent("turns by the largest of other counts", lambda x, n: in_loop(
    tf.reduce_max(tf.cast(x[:, 0], tf.int32)), lambda i, a: (halved((i < n)[:, None], a),), x), *lengths)  # fmt: skip
dependent(
    "turns by the first count", lambda x, n: in_loop(n[0], lambda i, a: (halved((i < n)[:, None], a),), x), *lengths
)
dependent("turns by the sum of counts", lambda x, n: in_loop(
    tf.reduce_sum(n), lambda i, a: (halved((i < n + 1)[:, None], a),), x), *lengths)  # fmt: skip
dependent("turns by the largest float", lambda x: going_on(
    lambda i, _: i < tf.reduce_max(x), lambda i, a: (i + 1.0, halved(i < tf.reduce_max(x, 1, keepdims=True), a)), tf.constant(0.0), x)[1])  # fmt: skip
dependent("turns limited by the batch", lambda x, n: tf.while_loop(
    lambda i, _: (i < batch_size(x)) & tf.reduce_any(i < n), lambda i, a: (i + 1, halved((i < n)[:, None], a)), (tf.constant(0), x))[1],
    *lengths)  # fmt: skip
dependent("turns as long as two rows want them", lambda x, n: tf.while_loop(
    lambda i, _: tf.reduce_any(i < n) & tf.reduce_any(i + 2 < n), lambda i, a: (i + 1, halved((i < n)[:, None], a)), (tf.constant(0), x))[1],
    *lengths)  # fmt: skip
