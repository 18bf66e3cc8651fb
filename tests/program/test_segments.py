"""Indices into flattened rows, `row * n + i`: rows stay apart if i is shown to be 0 to n - 1, or left out; each beside the
nearest one that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.program.listings import Builder, Computation, rows

N = 3  # segments of a row


class Flattened:
    """Writes a sum of a row's four numbers into N places, by indices that are computed of the numbers."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.main, self.batch = builder, builder.main, builder.batch
        self.x = self.main.parameter((self.batch, 4))
        self.data = self.op("convert", self.x)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.batch, 4)

    def op(self, opcode: str, *operands: int, dtype: str = "s32", **attributes: Any) -> int:
        return self.main.add(opcode, self.shape, *operands, dtype=dtype, **attributes)

    def same(self, number: float, dtype: str = "s32") -> int:
        return self.op("broadcast", self.main.constant(number, dtype=dtype), dtype=dtype, dimensions=[])

    def compared(self, one: int, direction: str, two: int) -> int:
        return self.op("compare", one, two, dtype="pred", direction=direction)

    def clip(self, low: int, high: int) -> int:
        return self.op("clamp", self.same(low), self.data, self.same(high))

    def where(self, pred: int, one: int, two: int) -> int:
        return self.op("select", pred, one, two)

    def inside(self, value: int, low: int, high: int, opcode: str = "and") -> int:
        ends = (self.compared(value, "GE", self.same(low)), self.compared(value, "LT", self.same(high)))
        return self.op(opcode, *ends, dtype="pred")

    def own(self, local: int) -> int:
        """The index among all rows' places."""
        number = self.main.add("iota", self.shape, dtype="s32", dimensions=[0])
        return self.op("add", self.op("multiply", number, self.same(N)), local)

    def some(self) -> int:
        return self.compared(self.data, "GT", self.same(7))

    def modulo(self, divisor: int) -> int:
        """As Python has it."""
        rest, zero = self.op("remainder", self.data, self.same(divisor)), self.same(0)
        signs = self.compared(
            self.compared(rest, "LT", zero), "NE", self.compared(self.same(divisor), "LT", zero)
        )  # fmt: skip
        wrong = self.op("and", signs, self.compared(rest, "NE", zero), dtype="pred")
        return self.where(wrong, self.op("add", rest, self.same(divisor)), rest)

    def rounded(self, low: float, high: float) -> int:
        """Floats between these, or NaN, as integers."""
        limits = self.same(low, "f32"), self.same(high, "f32")
        smaller = self.op("minimum", self.op("floor", self.x, dtype="f32"), limits[1], dtype="f32")
        return self.op("convert", self.op("maximum", smaller, limits[0], dtype="f32"))

    def scattered(self, indices: int, values: int | None = None) -> int:
        count = 4 * self.batch
        index = self.main.add("reshape", (count, 1), indices, dtype="s32")
        value = self.main.add("reshape", (count,), self.x if values is None else values)
        zeros = self.main.add(
            "broadcast", (N * self.batch,), self.main.constant(0.0, dtype="f32"), dimensions=[]
        )  # fmt: skip
        summed = self.main.add(
            "scatter", (N * self.batch,), zeros, index, value, called=[self.builder.reducer("add")],
            window=[], inserted=[0], indexed=[0], vector=1, operand_batch=[], index_batch=[],
        )  # fmt: skip
        return self.main.add("reshape", (self.batch, N), summed)

    def gathered(self, indices: int) -> int:
        count = 4 * self.batch
        index = self.main.add("reshape", (count, 1), indices, dtype="s32")
        places = self.main.add("slice", (self.batch, N), self.x, slices=[[0, self.batch, 1], [0, N, 1]])
        table = self.main.add("reshape", (N * self.batch,), places)
        return self.main.add(
            "reshape", self.shape, self.main.add(
                "gather", (count,), table, index, offset=[], collapsed=[0], indexed=[0], vector=1,
                operand_batch=[], index_batch=[], sizes=[1],
            ))  # fmt: skip

    def reduced(self, write: Callable[[Computation, Sequence[int]], int]) -> int:
        """The place of a number of each row, [batch], by a function of two numbers and their places."""
        function = self.builder.computation()
        pair = [("f32", ()), ("s32", ())]
        given = [function.add("parameter", (), dtype=dtype, number=i) for i, (dtype, _) in enumerate((*pair, *pair))]
        larger = function.add("compare", (), given[0], given[2], dtype="pred", direction="GE")
        number = function.add("select", (), larger, given[0], given[2])
        place = write(function, [larger, *given])
        function.add("tuple", {"tuple": [["f32", []], ["s32", []]]}, number, place)
        places = self.main.add("iota", (self.batch, N), dtype="s32", dimensions=[1])
        first = self.main.add("slice", (self.batch, N), self.x, slices=[[0, self.batch, 1], [0, N, 1]])
        starts = (self.main.constant(-1e9, dtype="f32"), self.main.constant(0))
        both = self.main.add(
            "reduce", {"tuple": [["f32", [self.batch]], ["s32", [self.batch]]]}, first, places, *starts,
            called=[function.number], dimensions=[1],
        )  # fmt: skip
        found = self.main.add("get-tuple-element", (self.batch,), both, dtype="s32", index=1)
        return self.op("broadcast", found, dimensions=[0])

    def counted(self, elements: int) -> int:
        """How many of the first elements of a row are positive."""
        part = self.main.add("slice", (self.batch, elements), self.x, slices=[[0, self.batch, 1], [0, elements, 1]])
        zeros = self.main.add(
            "broadcast", (self.batch, elements), self.main.constant(0.0, dtype="f32"), dimensions=[]
        )  # fmt: skip
        positive = self.main.add("compare", (self.batch, elements), part, zeros, dtype="pred", direction="GT")
        ones = self.main.add("convert", (self.batch, elements), positive, dtype="s32")
        sum_ = self.main.add("reduce", (self.batch,), ones, self.main.constant(0), dtype="s32",
                             called=[self.builder.reducer("add")], dimensions=[1])  # fmt: skip
        return self.op("broadcast", sum_, dimensions=[0])


def guarded(f: Flattened, low: int, high: int, opcode: str = "and") -> int:
    return f.scattered(f.own(f.where(f.inside(f.data, low, high, opcode), f.data, f.same(0))))


def guarded_after(f: Flattened, high: int) -> int:
    """The guard is of the row's own number, and what it guards is the index among all rows' places."""
    return f.scattered(f.where(f.inside(f.data, 0, high), f.own(f.data), f.same(-1)))


def guarded_by_opposite(f: Flattened, high: int) -> int:
    outside = f.op("not", f.inside(f.data, 0, high), dtype="pred")
    return f.scattered(f.own(f.where(outside, f.same(0), f.data)))


def dropped(f: Flattened, other: Callable[[Flattened], int]) -> int:
    return f.scattered(f.where(f.some(), f.own(f.clip(0, N - 1)), other(f)))


def of_all(f: Flattened, places: int) -> int:
    return f.same(f.batch * places)


def shifted(f: Flattened, number: int) -> int:
    """An index that is left out, then moved: no longer left out."""
    index = f.where(f.some(), f.own(f.clip(0, N - 1)), f.same(-1))
    return f.scattered(f.op("add", index, f.same(number)))


def chosen(function: Computation, given: Sequence[int]) -> int:
    larger, _, one, _, two = given
    return function.add("select", (), larger, one, two, dtype="s32")


def summed(function: Computation, given: Sequence[int]) -> int:
    _, _, one, _, two = given
    return function.add("add", (), one, two, dtype="s32")


def of_other_elements(f: Flattened) -> int:
    """The guard is of another element of the row."""
    other = f.op("reverse", f.data, dimensions=[1])
    return f.scattered(f.own(f.where(f.inside(other, 0, N), f.data, f.same(0))))


def reshaped(f: Flattened, *, alike: bool) -> int:
    """Guard and number are reshaped before they come together: the same way, or the guard of turned elements."""
    inside = f.inside(f.data, 0, N)
    data = f.data if alike else f.op("reverse", f.data, dimensions=[1])
    count = 4 * f.batch
    pred = f.main.add("reshape", (count,), inside, dtype="pred")
    index = f.main.add("reshape", (count,), f.own(data), dtype="s32")
    outside = f.main.add("broadcast", (count,), f.main.constant(-1), dtype="s32", dimensions=[])
    return f.scattered(f.main.add("select", (count,), pred, index, outside, dtype="s32"))


PAIRS: dict[str, tuple[Callable[[Flattened], int], Callable[[Flattened], int]]] = {
    "clipped": (lambda f: f.scattered(f.own(f.clip(0, N - 1))), lambda f: f.scattered(f.own(f.clip(0, N)))),
    "clipped, gathered": (lambda f: f.gathered(f.own(f.clip(0, N - 1))), lambda f: f.gathered(f.own(f.clip(-1, 1)))),
    "modulo": (lambda f: f.scattered(f.own(f.modulo(N))), lambda f: f.scattered(f.own(f.modulo(N + 1)))),
    "remainder": (
        lambda f: f.scattered(f.own(f.op("abs", f.op("remainder", f.data, f.same(N))))),
        lambda f: f.scattered(f.own(f.op("remainder", f.data, f.same(N)))),
    ),
    "absolute value": (
        lambda f: f.scattered(f.own(f.op("abs", f.clip(1 - N, 0)))),
        lambda f: f.scattered(f.own(f.op("abs", f.op("minimum", f.data, f.same(0))))),
    ),
    "the least integer has no absolute value": (
        lambda f: f.scattered(f.own(f.op("minimum", f.op("abs", f.clip(1 - 2**31, 0)), f.same(N - 1)))),
        lambda f: f.scattered(f.own(f.op("minimum", f.op("abs", f.clip(-(2**31), 0)), f.same(N - 1)))),
    ),
    "guarded above": (lambda f: guarded(f, 0, N), lambda f: guarded(f, 0, N + 1)),
    "guarded below": (lambda f: guarded(f, 0, N), lambda f: guarded(f, -1, N)),
    "guarded on both sides": (lambda f: guarded(f, 0, N), lambda f: guarded(f, 0, N, "or")),
    "guarded later": (lambda f: guarded_after(f, N), lambda f: guarded_after(f, N + 1)),
    "guarded by the opposite": (lambda f: guarded_by_opposite(f, N), lambda f: guarded_by_opposite(f, N + 1)),
    "guarded by itself": (lambda f: guarded(f, 0, N), of_other_elements),
    "reshaped alike": (lambda f: reshaped(f, alike=True), lambda f: reshaped(f, alike=False)),
    "left out below": (lambda f: dropped(f, lambda f: f.same(-1)), lambda f: dropped(f, lambda f: f.same(0))),
    "left out above": (lambda f: dropped(f, lambda f: of_all(f, N)), lambda f: dropped(f, lambda f: of_all(f, N - 1))),
    "left out by data": (
        lambda f: dropped(f, lambda f: f.op("minimum", f.data, f.same(-1))), lambda f: dropped(f, lambda f: f.data),
    ),
    "left out, not moved": (lambda f: dropped(f, lambda f: f.same(-1)), lambda f: shifted(f, 1)),
    "left out of sums alone": (
        lambda f: dropped(f, lambda f: f.same(-1)),
        lambda f: f.gathered(f.where(f.some(), f.own(f.clip(0, N - 1)), f.same(-1))),
    ),
    "rounded": (
        lambda f: f.scattered(f.own(f.rounded(0.0, N - 0.5))), lambda f: f.scattered(f.own(f.rounded(0.0, N))),
    ),
    "rounded, of NaN": (
        lambda f: f.scattered(f.own(f.op("subtract", f.rounded(0.0, 2.0), f.same(0)))),
        lambda f: f.scattered(f.own(f.op("subtract", f.rounded(1.0, 3.0), f.same(1)))),
    ),
    "place of the largest": (
        lambda f: f.scattered(f.own(f.reduced(chosen))), lambda f: f.scattered(f.own(f.reduced(summed))),
    ),
    "counted": (lambda f: f.scattered(f.own(f.counted(N - 1))), lambda f: f.scattered(f.own(f.counted(N)))),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_sums_over_segments_of_own_rows_are_independent(name: str) -> None:
    write, _ = PAIRS[name]
    assert rows(lambda builder: write(Flattened(builder))).independent


@pytest.mark.parametrize("name", PAIRS)
def test_sums_that_may_reach_another_row_are_dependent(name: str) -> None:
    _, write = PAIRS[name]
    (meeting,) = rows(lambda builder: write(Flattened(builder))).meetings
    is_gather = name in ("clipped, gathered", "left out of sums alone")
    # An index of another form, such as 0 of the first row, is not only without a limit.
    others = ("left out below", "left out by data", "left out, not moved")
    reason = "rows interact" if name in others else "an index may be that of another row, so rows interact"
    assert (meeting.operation, meeting.reason) == ("gather" if is_gather else "scatter", reason)
