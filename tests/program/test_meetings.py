"""Each way in which rows can meet, in the smallest computation that has it: none may count as independent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.program.listings import Builder, Computation, rows

Write = Callable[[Builder], int]
SLICE_OF_ONE: dict[str, Any] = {
    "offset": [1],
    "collapsed": [0],
    "indexed": [0],
    "vector": 1,
    "operand_batch": [],
    "index_batch": [],
}
INTO_ROWS: dict[str, Any] = {
    "window": [1],
    "inserted": [0],
    "indexed": [0],
    "vector": 1,
    "operand_batch": [],
    "index_batch": [],
}
CONVOLUTION: dict[str, Any] = {
    "input": [0, 1],
    "kernel": [0, 1],
    "output": [0, 1],
    "window": [],
    "feature_groups": 1,
    "batch_groups": 1,
}
INTERACT = "rows interact"
UNLIMITED = "an index may be that of another row, so rows interact"
PLACED = "its rows depend on their position in the batch, or on the batch size"


class Rows:
    """Writes computations on one input of four columns."""

    def __init__(self, builder: Builder) -> None:
        self.batch, self.main, self.builder = builder.batch, builder.main, builder
        self.x = self.main.parameter((self.batch, 4))

    def zeros(self, *shape: int, dtype: str = "f32") -> int:
        return self.main.add("broadcast", shape, self.main.constant(0.0, dtype=dtype), dtype=dtype, dimensions=[])

    def ones(self, *shape: int) -> int:
        return self.main.add("broadcast", shape, self.main.constant(1.0, dtype="f32"), dimensions=[])

    def weights(self, *shape: int) -> int:
        count = 1
        for size in shape:
            count *= size
        return self.main.constant([0.5 * number for number in range(count)], shape, dtype="f32")

    def own(self) -> int:
        """The number of each row, [batch, 1]."""
        return self.main.iota((self.batch, 1))

    def plus(self, index: int, number: int) -> int:
        return self.main.add("add", (self.batch, 1), index, self.column(number), dtype="s32")

    def column(self, number: int) -> int:
        """The same integer for each row, [batch, 1]."""
        return self.main.add("broadcast", (self.batch, 1), self.main.constant(number), dtype="s32", dimensions=[])

    def times(self, index: int, number: int) -> int:
        return self.main.add("multiply", (self.batch, 1), index, self.column(number), dtype="s32")

    def divided(self, index: int, number: int) -> int:
        return self.main.add("divide", (self.batch, 1), index, self.column(number), dtype="s32")

    def row(self, index: int) -> int:
        """A row of the input for each row, by the number of it."""
        return self.main.add("gather", (self.batch, 4), self.x, index, **SLICE_OF_ONE, sizes=[1, 4])

    def square(self, dimension: int) -> int:
        """The first column of the input, repeated along the other axis: [batch, batch]."""
        column = self.main.add("reshape", (self.batch,), self.cut(self.x, (0, self.batch, 1), (0, 1, 1)))
        return self.main.add("broadcast", (self.batch, self.batch), column, dimensions=[dimension])

    def data(self, most: int = 3) -> int:
        """An integer of each row's data, of which the bounds are known, [batch, 1]."""
        column = self.cut(self.x, (0, self.batch, 1), (0, 1, 1))
        number = self.main.add("convert", (self.batch, 1), column, dtype="s32")
        return self.main.add("clamp", (self.batch, 1), self.column(0), number, self.column(most), dtype="s32")

    def cut(self, value: int, *slices: tuple[int, int, int]) -> int:
        shape = [len(range(*each)) for each in slices]
        return self.main.add("slice", shape, value, slices=[list(each) for each in slices])

    def first_batch(self, value: int) -> int:
        return self.cut(value, (0, self.batch, 1), (0, 4, 1))

    def pair(self, one: int, two: int) -> int:
        """Two columns of integers, side by side."""
        return self.main.add("concatenate", (self.batch, 2), one, two, dtype="s32", dimensions=[1])

    def element(self, indices: int) -> int:
        """One element of the input for each row, by row and column, [batch]."""
        return self.main.add(
            "gather", (self.batch,), self.x, indices, offset=[], collapsed=[0, 1], indexed=[0, 1], vector=1,
            operand_batch=[], index_batch=[], sizes=[1, 1],
        )  # fmt: skip

    def spread(self, scalar: int) -> int:
        """A number of all rows, times the input."""
        number = self.main.add("convert", (), scalar)
        return self.main.add("multiply", (self.batch, 4), self.x,
                             self.main.add("broadcast", (self.batch, 4), number, dimensions=[]))  # fmt: skip


# --- indices ----------------------------------------------------------------------------------------------------------


def diagonal(r: Rows) -> int:
    return r.element(r.pair(r.own(), r.own()))


def first_rows_element(r: Rows) -> int:
    """The two columns of the index, in the other order."""
    turned = r.main.add("reverse", (r.batch, 2), r.pair(r.own(), r.zeros(r.batch, 1, dtype="s32")), dtype="s32",
                        dimensions=[1])  # fmt: skip
    return r.element(turned)


def scatter_by_data(r: Rows) -> int:
    return r.main.add("scatter", (r.batch, 4), r.x, r.data(), r.x, **INTO_ROWS)


def scatter_to_the_row_before(r: Rows) -> int:
    return r.main.add("scatter", (r.batch, 4), r.zeros(r.batch, 4), r.plus(r.own(), -1), r.x, **INTO_ROWS)


def scatter_to_a_column_by_place(r: Rows) -> int:
    column = r.main.add("reshape", (r.batch,), r.cut(r.x, (0, r.batch, 1), (0, 1, 1)))
    return r.main.add(
        "scatter", (r.batch, 4), r.zeros(r.batch, 4), r.pair(r.own(), r.own()), column,
        window=[], inserted=[0, 1], indexed=[0, 1], vector=1, operand_batch=[], index_batch=[],
    )  # fmt: skip


def scatter_of_columns_by_data_of_other_rows(r: Rows) -> int:
    """Column j of the result is of row j; where it goes is what row i says."""
    column = r.main.add("reshape", (r.batch,), r.cut(r.x, (0, r.batch, 1), (0, 1, 1)))
    updates = r.main.add("broadcast", (r.batch, r.batch), column, dimensions=[1])
    found = r.main.add("scatter", (4, r.batch), r.zeros(4, r.batch), r.data(), updates, **INTO_ROWS)
    return r.main.add("transpose", (r.batch, 4), found, dimensions=[1, 0])


def scatter_of_several_arrays(r: Rows) -> int:
    shape = {"tuple": [["f32", [r.batch, 4]]] * 2}
    both = r.main.add("scatter", shape, r.x, r.x, r.data(), r.x, r.x, **INTO_ROWS)
    return r.main.add("get-tuple-element", (r.batch, 4), both, index=0)


def scatter_into_the_first_row(r: Rows) -> int:
    return r.main.add("scatter", (r.batch, 4), r.x, r.main.constant([0], (1, 1)), r.weights(1, 4), **INTO_ROWS)


def scatter_of_a_window_into_the_first_row(r: Rows) -> int:
    return r.main.add(
        "scatter", (r.batch, 4), r.x, r.main.constant([0], (1,)), r.weights(1, 4),
        window=[0, 1], inserted=[], indexed=[0], vector=0, operand_batch=[], index_batch=[],
    )  # fmt: skip


def scatter_of_all_rows_one_further(r: Rows) -> int:
    found = r.main.add(
        "scatter", (2 * r.batch, 4), r.zeros(2 * r.batch, 4), r.main.constant([1], (1,)), r.x,
        window=[0, 1], inserted=[], indexed=[0], vector=0, operand_batch=[], index_batch=[],
    )  # fmt: skip
    return r.first_batch(found)


def columns_from_the_batch_size_on(r: Rows) -> int:
    return r.main.add("dynamic-slice", (r.batch, 2), r.x, r.main.constant(0), r.main.constant(r.batch),
                      sizes=[r.batch, 2])  # fmt: skip


def update_from_the_batch_size_on(r: Rows) -> int:
    update = r.cut(r.x, (0, r.batch, 1), (0, 1, 1))
    return r.main.add("dynamic-update-slice", (r.batch, 4), r.x, update, r.main.constant(0), r.main.constant(r.batch))


def update_of_all_rows_one_further(r: Rows) -> int:
    zero, one = r.main.constant(0), r.main.constant(1)
    return r.first_batch(r.main.add("dynamic-update-slice", (2 * r.batch, 4), r.zeros(2 * r.batch, 4), r.x, one, zero))


def update_of_the_first_row(r: Rows) -> int:
    zeros = [r.main.constant(0), r.main.constant(0)]
    return r.main.add("dynamic-update-slice", (r.batch, 4), r.x, r.weights(1, 4), *zeros)


def half_of_the_row_number_twice(r: Rows) -> int:
    return r.row(r.times(r.divided(r.own(), 2), 2))


def quotient_of_negative_numbers(r: Rows) -> int:
    """It is rounded towards zero: the first row takes the second."""
    return r.row(r.plus(r.divided(r.plus(r.times(r.own(), 6), -1), 6), 1))


def quotient_of_falling_numbers(r: Rows) -> int:
    falling = r.plus(r.times(r.own(), -6), 5)
    return r.row(r.times(r.divided(falling, 6), -1))


def remainder_of_the_divisor(r: Rows) -> int:
    flat = r.main.add("reshape", (r.batch * 4,), r.x)
    number = r.plus(r.times(r.own(), 4), 4)
    four = r.column(4)
    rest = r.main.add("remainder", (r.batch, 1), number, four, dtype="s32")
    index = r.main.add("add", (r.batch, 1), r.times(r.own(), 4), r.plus(rest, -4), dtype="s32")
    return r.main.add("gather", (r.batch,), flat, index, **{**SLICE_OF_ONE, "offset": []}, sizes=[1])


def one_of_two_rows_by_a_branch(r: Rows) -> int:
    branches = []
    for factor in (1, 2):
        branch = r.builder.computation()
        number = branch.parameter((r.batch, 1), dtype="s32")
        factors = branch.add("broadcast", (r.batch, 1), branch.constant(factor), dtype="s32", dimensions=[])
        branch.add("multiply", (r.batch, 1), number, factors, dtype="s32")
        branches.append(branch.number)
    own, which = r.own(), r.main.constant(True, dtype="pred")
    return r.row(r.main.add("conditional", (r.batch, 1), which, own, own, dtype="s32", called=branches))


def one_of_two_rows_by_data(r: Rows) -> int:
    large = r.main.add("compare", (r.batch, 1), r.data(), r.column(1), dtype="pred", direction="GT")
    return r.row(r.main.add("select", (r.batch, 1), large, r.column(0), r.own(), dtype="s32"))


def own_row_or_the_fourth(r: Rows) -> int:
    return r.row(r.main.add("minimum", (r.batch, 1), r.column(3), r.own(), dtype="s32"))


def largest_of_two_row_numbers(r: Rows) -> int:
    both = r.pair(r.own(), r.times(r.own(), 2))
    most = r.main.add("reduce", (r.batch,), both, r.main.constant(0), dtype="s32",
                      called=[r.builder.reducer("maximum")], dimensions=[1])  # fmt: skip
    return r.row(r.main.add("reshape", (r.batch, 1), most, dtype="s32"))


def rows_by_a_constant_of_squares(r: Rows) -> int:
    return r.row(r.main.constant([number**2 for number in range(r.batch)], (r.batch, 1)))


def unsigned_difference_below_zero(r: Rows) -> int:
    """There is none: it wraps around, so that the row before is taken."""
    numbers = r.main.add("convert", (r.batch, 1), r.own(), dtype="u32")
    sizes, zero = (
        r.main.add("broadcast", (r.batch, 1), r.main.constant(n, dtype="u32"), dtype="u32", dimensions=[])
        for n in (r.batch, 0)
    )
    difference = r.main.add("subtract", (r.batch, 1), numbers, sizes, dtype="u32")
    below = r.main.add("compare", (r.batch, 1), difference, zero, dtype="pred", direction="LT")
    return r.row(r.main.add("select", (r.batch, 1), below, r.own(), r.plus(r.own(), -1), dtype="s32"))


def quotient_of_floats(r: Rows) -> int:
    """It is not rounded: (2 i + 1) / 2 is never i, so that the row before is taken."""
    odd = r.main.add("convert", (r.batch, 1), r.plus(r.times(r.own(), 2), 1))
    half = r.main.add("divide", (r.batch, 1), odd, r.main.add("convert", (r.batch, 1), r.column(2)))
    own = r.main.add("convert", (r.batch, 1), r.own())
    equal = r.main.add("compare", (r.batch, 1), half, own, dtype="pred", direction="EQ")
    return r.row(r.main.add("select", (r.batch, 1), equal, r.own(), r.plus(r.own(), -1), dtype="s32"))


# --- constants and places ---------------------------------------------------------------------------------------------


def numbers_of_one_more_than_the_batch(r: Rows) -> int:
    numbers = r.main.add("convert", (r.batch + 1,), r.main.iota((r.batch + 1,)))
    return r.cut(numbers, (0, r.batch, 1))


def numbers_of_five_more_than_the_batch(r: Rows) -> int:
    """At the smaller batch size these are twice as many."""
    numbers = r.main.add("convert", (r.batch + 5,), r.main.iota((r.batch + 5,)))
    return r.cut(numbers, (0, r.batch, 1))


def row_numbers(r: Rows) -> int:
    return r.own()


def other_axis(r: Rows) -> int:
    return r.square(1)


def size_of_the_batch(r: Rows) -> int:
    return r.spread(r.main.add("get-dimension-size", (), r.x, dtype="s32", dimensions=[0]))


def size_of_one_more_than_the_batch(r: Rows) -> int:
    longer = r.zeros(r.batch + 1)
    return r.spread(r.main.add("get-dimension-size", (), longer, dtype="s32", dimensions=[0]))


def zeros_with_another_first_row(r: Rows) -> int:
    zeros = [r.main.constant(0), r.main.constant(0)]
    changed = r.main.add("dynamic-update-slice", (r.batch, 4), r.zeros(r.batch, 4), r.weights(1, 4), *zeros)
    return r.main.add("add", (r.batch, 4), r.x, changed)


def constant_that_is_too_long_to_list(r: Rows) -> int:
    weights = r.main.add("constant", (r.batch, 4), digest=f"{r.batch}", values=None)
    return r.main.add("add", (r.batch, 4), r.x, weights)


def batch_size_in_every_row(r: Rows) -> int:
    sizes = r.main.constant([float(r.batch)] * r.batch, (r.batch,), dtype="f32")
    return r.main.add("broadcast", (r.batch, 4), sizes, dimensions=[0])


def weights_by_flat_place_of_one_row_more(r: Rows) -> int:
    repeated = r.main.add("broadcast", (r.batch + 1, 3), r.weights(3), dimensions=[1])
    return r.cut(r.main.add("reshape", ((r.batch + 1) * 3,), repeated), (0, r.batch, 1))


def larger_of_the_batch_size_and_a_number(r: Rows) -> int:
    both = r.main.add("concatenate", (2,), r.main.constant([r.batch], (1,)), r.main.constant([3], (1,)), dtype="s32",
                      dimensions=[0])  # fmt: skip
    most = r.main.add("reduce", (), both, r.main.constant(0), dtype="s32", called=[r.builder.reducer("maximum")],
                      dimensions=[0])  # fmt: skip
    return r.spread(most)


# --- moves ------------------------------------------------------------------------------------------------------------


def second_row_on(r: Rows) -> int:
    twice = r.main.add("concatenate", (2 * r.batch, 4), r.x, r.x, dimensions=[0])
    return r.first_batch(r.cut(twice, (1, 2 * r.batch, 1), (0, 4, 1)))


def all_rows_but_the_last_twice(r: Rows) -> int:
    flat = r.main.add("reshape", (r.batch * 4,), r.x)
    column = r.cut(flat, (1, r.batch * 4 - 3, 4))
    twice = r.main.add("concatenate", (2 * r.batch - 2,), column, column, dimensions=[0])
    return r.cut(twice, (0, r.batch, 1))


def behind_a_row_of_zeros(r: Rows) -> int:
    return r.first_batch(r.main.add("concatenate", (r.batch + 1, 4), r.zeros(1, 4), r.x, dimensions=[0]))


def merged_rows_before_single_elements(r: Rows) -> int:
    flat = r.main.add("reshape", (r.batch * 4,), r.x)
    column = r.main.add("reshape", (r.batch,), r.cut(r.x, (0, r.batch, 1), (0, 1, 1)))
    return r.cut(r.main.add("concatenate", (r.batch * 5,), flat, column, dimensions=[0]), (0, r.batch, 1))


def padded_before_and_cut_behind(r: Rows) -> int:
    zero = r.main.constant(0.0, dtype="f32")
    return r.main.add("pad", (r.batch, 4), r.x, zero, padding=[[1, -1, 0], [0, 0, 0]])


def rows_with_holes_between(r: Rows) -> int:
    zero = r.main.constant(0.0, dtype="f32")
    dilated = r.main.add("reduce-window", (2 * r.batch - 1, 4), r.x, zero, called=[r.builder.reducer("add")],
                         window=[[1, 1, 0, 0, 1, 2], [1, 1, 0, 0, 1, 1]])  # fmt: skip
    return r.first_batch(dilated)


# --- elements that come together --------------------------------------------------------------------------------------


def row_number_of_a_function(r: Rows) -> int:
    numbers = r.main.add("convert", (r.batch, 1), r.own())
    return r.main.add("reshape", (r.batch,), r.main.add("sine", (r.batch, 1), numbers))


def whether_it_is_the_first_row(r: Rows) -> int:
    first = r.main.add("compare", (r.batch, 1), r.own(), r.column(1), dtype="pred", direction="LT")
    return r.main.add("reshape", (r.batch,), r.main.add("convert", (r.batch, 1), first))


def each_row_with_each_other(r: Rows) -> int:
    both = r.main.add("add", (r.batch, r.batch), r.square(0), r.square(1))
    return r.cut(both, (0, r.batch, 1), (0, 2, 1))


def sorted_columns(r: Rows) -> int:
    return r.main.add("sort", (r.batch, 4), r.x, called=[r.builder.reducer("compare")], dimensions=[0])


def matrices_of_rows(r: Rows) -> int:
    return r.cut(r.main.add("cholesky", (r.batch, r.batch), r.square(0)), (0, r.batch, 1), (0, 2, 1))


def columns_scaled_by_rows(r: Rows) -> int:
    column = r.main.add("reshape", (r.batch,), r.cut(r.x, (0, r.batch, 1), (0, 1, 1)))
    others = [r.zeros(r.batch)] * 3
    scaled = r.main.add("batch-norm-inference", (r.batch, r.batch), r.square(0), column, *others, feature=1)
    return r.cut(scaled, (0, r.batch, 1), (0, 2, 1))


def random_numbers(r: Rows) -> int:
    zero = r.main.constant(0.0, dtype="f32")
    return r.main.add("add", (r.batch, 4), r.x, r.main.add("rng", (r.batch, 4), zero, zero))


def features_of_rows_through_a_filter_of_rows(r: Rows) -> int:
    data = r.main.add("transpose", (4, r.batch), r.x, dimensions=[1, 0])
    made = r.main.add("convolution", (4, r.batch), data, r.square(0), **CONVOLUTION)
    return r.main.add("transpose", (r.batch, 4), made, dimensions=[1, 0])


def sum_of_equal_features(r: Rows) -> int:
    made = r.main.add("convolution", (1, 4), r.ones(1, r.batch), r.ones(4, r.batch), **CONVOLUTION)
    return r.main.add("broadcast", (r.batch, 4), r.main.add("reshape", (4,), made), dimensions=[1])


# --- loops over the rows ----------------------------------------------------------------------------------------------

Turn = Callable[[Computation, int, int, int], int]


def loop(
    r: Rows,
    turn: Turn,
    *,
    condition: Callable[[Computation, int], int] | None = None,
    first: int = 0,
    step: int = 1,
) -> int:
    """`turn(body, i, out, x)` gives the next `out` for each i from `first` on while `condition(computation, i)`."""
    state = {"tuple": [["s32", []], ["f32", [r.batch, 4]], ["f32", [r.batch, 4]]]}
    body = r.builder.computation()
    whole = body.parameter(state)
    i = body.add("get-tuple-element", (), whole, index=0, dtype="s32")
    out, x = (body.add("get-tuple-element", (r.batch, 4), whole, index=n) for n in (1, 2))
    after = turn(body, i, out, x)
    body.add("tuple", state, body.add("add", (), i, body.constant(step), dtype="s32"), after, x)
    asked = r.builder.computation()
    i = asked.add("get-tuple-element", (), asked.parameter(state), index=0, dtype="s32")
    (condition or below_batch)(asked, i)
    start = r.main.add("tuple", state, r.main.constant(first), r.zeros(r.batch, 4), r.x)
    done = r.main.add("while", state, start, called=[body.number, asked.number])
    return r.main.add("get-tuple-element", (r.batch, 4), done, index=1)


def compared(computation: Computation, i: int, limit: int, direction: str = "LT") -> int:
    return computation.add("compare", (), i, computation.constant(limit), dtype="pred", direction=direction)


def below_batch(computation: Computation, i: int) -> int:
    return compared(computation, i, computation.batch)


def row_of(body: Computation, i: int, value: int) -> int:
    return body.add("dynamic-slice", (1, 4), value, i, body.constant(0), sizes=[1, 4])


def copied(body: Computation, i: int, out: int, x: int) -> int:
    return body.add("dynamic-update-slice", (body.batch, 4), out, row_of(body, i, x), i, body.constant(0))


def added(body: Computation, i: int, out: int, x: int) -> int:
    """To what is there, so that another turn for a row makes a difference."""
    both = body.add("add", (1, 4), row_of(body, i, out), row_of(body, i, x))
    return body.add("dynamic-update-slice", (body.batch, 4), out, both, i, body.constant(0))


def turn_too_many(r: Rows) -> int:
    return loop(r, added, condition=lambda c, i: compared(c, i, c.batch, "LE"))


def turns_that_end_at_another_number(r: Rows) -> int:
    def both(c: Computation, i: int) -> int:
        return c.add("and", (), below_batch(c, i), compared(c, i, 3), dtype="pred")

    return loop(r, copied, condition=both)


def turns_from_the_second_on(r: Rows) -> int:
    return loop(r, copied, first=1)


def every_second_turn(r: Rows) -> int:
    return loop(r, copied, step=2)


def turns_that_end_with_a_faster_count(r: Rows) -> int:
    state = {"tuple": [["s32", []], ["f32", [r.batch, 4]], ["f32", [r.batch, 4]], ["s32", []]]}
    body = r.builder.computation()
    whole = body.parameter(state)
    i, j = (body.add("get-tuple-element", (), whole, index=n, dtype="s32") for n in (0, 3))
    out, x = (body.add("get-tuple-element", (r.batch, 4), whole, index=n) for n in (1, 2))
    counts = [body.add("add", (), n, body.constant(step), dtype="s32") for n, step in ((i, 1), (j, 2))]
    body.add("tuple", state, counts[0], copied(body, i, out, x), x, counts[1])
    asked = r.builder.computation()
    whole = asked.parameter(state)
    below = [below_batch(asked, asked.add("get-tuple-element", (), whole, index=n, dtype="s32")) for n in (0, 3)]
    asked.add("and", (), *below, dtype="pred")
    start = r.main.add("tuple", state, r.main.constant(0), r.zeros(r.batch, 4), r.x, r.main.constant(0))
    done = r.main.add("while", state, start, called=[body.number, asked.number])
    return r.main.add("get-tuple-element", (r.batch, 4), done, index=1)


def row_of_the_turn_for_all_rows(r: Rows) -> int:
    def turn(body: Computation, i: int, out: int, x: int) -> int:
        row = body.add("reshape", (4,), row_of(body, i, x))
        return body.add("add", (body.batch, 4), x, body.add("broadcast", (body.batch, 4), row, dimensions=[1]))

    return loop(r, turn)


def row_of_the_turn_by_data_of_all_rows(r: Rows) -> int:
    def turn(body: Computation, i: int, out: int, x: int) -> int:
        turns = body.add("broadcast", (body.batch, 1), i, dtype="s32", dimensions=[])
        column = body.add("slice", (body.batch, 1), x, slices=[[0, body.batch, 1], [0, 1, 1]])
        where = body.add("convert", (body.batch, 1), column, dtype="s32")
        indices = body.add("concatenate", (body.batch, 2), turns, where, dtype="s32", dimensions=[1])
        found = body.add("gather", (body.batch,), x, indices, offset=[], collapsed=[0, 1], indexed=[0, 1], vector=1,
                         operand_batch=[], index_batch=[], sizes=[1, 1])  # fmt: skip
        return body.add("broadcast", (body.batch, 4), found, dimensions=[0])

    return loop(r, turn)


def row_of_the_turn_into_all_rows(r: Rows) -> int:
    """A loop in the loop, whose turns are others."""
    state = {"tuple": [["s32", []], ["f32", [r.batch, 4]], ["f32", [1, 4]]]}
    inner = r.builder.computation()
    whole = inner.parameter(state)
    j = inner.add("get-tuple-element", (), whole, index=0, dtype="s32")
    filled = inner.add("get-tuple-element", (r.batch, 4), whole, index=1)
    row = inner.add("get-tuple-element", (1, 4), whole, index=2)
    written = inner.add("dynamic-update-slice", (r.batch, 4), filled, row, j, inner.constant(0))
    inner.add("tuple", state, inner.add("add", (), j, inner.constant(1), dtype="s32"), written, row)
    asked = r.builder.computation()
    below_batch(asked, asked.add("get-tuple-element", (), asked.parameter(state), index=0, dtype="s32"))

    def turn(body: Computation, i: int, out: int, x: int) -> int:
        start = body.add("tuple", state, body.constant(0), out, row_of(body, i, x))
        done = body.add("while", state, start, called=[inner.number, asked.number])
        return body.add("get-tuple-element", (body.batch, 4), done, index=1)

    return loop(r, turn)


def loop_that_turns_rows_round(r: Rows) -> int:
    """What it hands on is an element of a tuple, but not of the one that it was given."""

    def turn(body: Computation, i: int, out: int, x: int) -> int:
        both = body.add("tuple", {"tuple": [["f32", [body.batch, 4]]] * 2}, x,
                        body.add("reverse", (body.batch, 4), x, dimensions=[0]))  # fmt: skip
        return body.add("get-tuple-element", (body.batch, 4), both, index=1)

    return loop(r, turn, condition=lambda c, i: compared(c, i, 3))


CASES: dict[Callable[[Rows], int], tuple[str, str]] = {
    diagonal: ("gather", PLACED),
    first_rows_element: ("gather", INTERACT),
    scatter_by_data: ("scatter", INTERACT),
    scatter_to_the_row_before: ("scatter", INTERACT),
    scatter_to_a_column_by_place: ("scatter", PLACED),
    scatter_of_columns_by_data_of_other_rows: ("scatter", INTERACT),
    scatter_of_several_arrays: ("scatter", INTERACT),
    scatter_into_the_first_row: ("scatter", INTERACT),
    scatter_of_a_window_into_the_first_row: ("scatter", INTERACT),
    scatter_of_all_rows_one_further: ("scatter", INTERACT),
    columns_from_the_batch_size_on: ("dynamic-slice", PLACED),
    update_from_the_batch_size_on: ("dynamic-update-slice", PLACED),
    update_of_all_rows_one_further: ("dynamic-update-slice", INTERACT),
    update_of_the_first_row: ("dynamic-update-slice", INTERACT),
    half_of_the_row_number_twice: ("gather", INTERACT),
    quotient_of_negative_numbers: ("gather", INTERACT),
    quotient_of_falling_numbers: ("gather", INTERACT),
    remainder_of_the_divisor: ("gather", INTERACT),
    one_of_two_rows_by_a_branch: ("gather", INTERACT),
    one_of_two_rows_by_data: ("gather", INTERACT),
    own_row_or_the_fourth: ("gather", INTERACT),
    largest_of_two_row_numbers: ("gather", INTERACT),
    rows_by_a_constant_of_squares: ("gather", INTERACT),
    unsigned_difference_below_zero: ("gather", UNLIMITED),
    quotient_of_floats: ("gather", UNLIMITED),
    numbers_of_one_more_than_the_batch: ("iota", PLACED),
    numbers_of_five_more_than_the_batch: ("iota", PLACED),
    row_numbers: ("", PLACED),
    other_axis: ("", INTERACT),
    size_of_the_batch: ("multiply", PLACED),
    size_of_one_more_than_the_batch: ("get-dimension-size", PLACED),
    zeros_with_another_first_row: ("dynamic-update-slice", PLACED),
    constant_that_is_too_long_to_list: ("constant", PLACED),
    batch_size_in_every_row: ("constant", PLACED),
    weights_by_flat_place_of_one_row_more: ("reshape", PLACED),
    larger_of_the_batch_size_and_a_number: ("reduce", PLACED),
    second_row_on: ("slice", INTERACT),
    all_rows_but_the_last_twice: ("slice", INTERACT),
    behind_a_row_of_zeros: ("concatenate", INTERACT),
    merged_rows_before_single_elements: ("concatenate", INTERACT),
    padded_before_and_cut_behind: ("pad", INTERACT),
    rows_with_holes_between: ("reduce-window", INTERACT),
    row_number_of_a_function: ("sine", PLACED),
    whether_it_is_the_first_row: ("compare", PLACED),
    each_row_with_each_other: ("add", INTERACT),
    sorted_columns: ("sort", INTERACT),
    matrices_of_rows: ("cholesky", INTERACT),
    columns_scaled_by_rows: ("batch-norm-inference", INTERACT),
    random_numbers: ("rng", PLACED),
    features_of_rows_through_a_filter_of_rows: ("convolution", INTERACT),
    sum_of_equal_features: ("convolution", PLACED),
    turn_too_many: ("dynamic-slice", INTERACT),
    turns_that_end_at_another_number: ("dynamic-slice", INTERACT),
    turns_from_the_second_on: ("dynamic-slice", INTERACT),
    every_second_turn: ("dynamic-slice", INTERACT),
    turns_that_end_with_a_faster_count: ("dynamic-slice", INTERACT),
    row_of_the_turn_for_all_rows: ("add", INTERACT),
    row_of_the_turn_by_data_of_all_rows: ("gather", INTERACT),
    row_of_the_turn_into_all_rows: ("while", INTERACT),
    loop_that_turns_rows_round: ("reverse", INTERACT),
}


@pytest.mark.parametrize("write", CASES, ids=lambda write: write.__name__)
def test_rows_that_meet_are_found(write: Callable[[Rows], int]) -> None:
    (meeting,) = rows(lambda builder: write(Rows(builder))).meetings
    assert (meeting.operation, meeting.reason) == CASES[write]


# --- computations that change with the batch size ---------------------------------------------------------------------


def other_order_of_operands(r: Rows) -> int:
    both = (r.x, r.zeros(r.batch, 4))
    return r.main.add("subtract", (r.batch, 4), *(both if r.batch == 5 else both[::-1]))


def other_function(r: Rows) -> int:
    functions = [r.builder.reducer("maximum"), r.builder.reducer("maximum")]
    used = [functions[0], functions[0 if r.batch == 5 else 1]]
    zero = r.main.constant(0.0, dtype="f32")
    one, two = (r.main.add("reduce", (r.batch,), r.x, zero, called=[each], dimensions=[1]) for each in used)
    return r.main.add("add", (r.batch,), one, two)


def other_dimension(r: Rows) -> int:
    return r.main.add("reverse", (r.batch, 4), r.x, dimensions=[1 if r.batch == 5 else 0])


def other_type(r: Rows) -> int:
    dtype = "f64" if r.batch == 5 else "f32"
    return r.main.add("convert", (r.batch, 4), r.main.add("convert", (r.batch, 4), r.x, dtype=dtype))


def more_columns_of_large_batches(r: Rows) -> int:
    columns = 2 if r.batch < 100 else 3
    zero = r.main.constant(0.0, dtype="f32")
    part = r.cut(r.x, (0, r.batch, 1), (0, columns, 1))
    return r.main.add("reduce", (r.batch,), part, zero, called=[r.builder.reducer("maximum")], dimensions=[1])


def odd_batches_only(r: Rows) -> int:
    """TensorFlow computes `batch % 2` when it lowers a graph."""
    return r.spread(r.main.constant(r.batch % 2))


CHANGES: dict[Callable[[Rows], int], str] = {
    other_order_of_operands: "subtract of node 'node/subtract' is subtract in the other",
    other_function: "reduce of node 'node/reduce' is reduce in the other",
    other_dimension: "dimensions of reverse depends on the batch size",
    other_type: "ranks or element types differ",
    more_columns_of_large_batches: "sizes of slice in node 'node/slice' do not grow with the batch",
    odd_batches_only: "a constant of node 'node/constant' does not grow with the batch",
}


@pytest.mark.parametrize("write", CHANGES, ids=lambda write: write.__name__)
def test_computations_that_change_with_the_batch_size_are_found(write: Callable[[Rows], int]) -> None:
    (meeting,) = rows(lambda builder: write(Rows(builder))).meetings
    assert meeting.reason == f"its computation changes with the batch size: {CHANGES[write]}"
