"""Loops that go on until all rows are done, in HLO by hand: what TensorFlow's own models (tests/models/loops.py) do not reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.program.listings import Builder, Computation, rows


@dataclass(frozen=True, kw_only=True)
class Loop:
    """While i < max(n), or any(n > i): places of an array are written, and a value is halved, up to the row's own n."""

    dtype: str = "s32"
    limit: int | None = 4
    step: int = 1
    first: int = 0
    start: float = 0.0
    filling: float = 0.0
    direction: str = "LT"
    reduced: bool = False  # any(i < n) instead of i < max(n)
    floats: bool = False  # of the lengths and the counter
    output: int = 1  # the carried array that is given back, of counter, places, value, lengths

    def __call__(self, b: Builder) -> int:
        n = b.batch
        number = "f32" if self.floats else self.dtype
        shapes: list[list[Any]] = [[number, []], ["f32", [4, n]], ["f32", [n]], [number, [n]]]
        state = {"tuple": shapes}
        body, i, places, value, lengths = self._carried(b, state)
        active = self._below(body, i, lengths, n)
        half = body.add(
            "multiply", (n,), value, body.add("broadcast", (n,), body.constant(0.5, dtype="f32"), dimensions=[])
        )
        filling = body.add("broadcast", (n,), body.constant(self.filling, dtype="f32"), dimensions=[])
        written = body.add("reshape", (1, n), body.add("select", (n,), active, half, filling))
        places = body.add("dynamic-update-slice", (4, n), places, written, i, body.constant(0))
        later = body.add("add", (), i, body.constant(self.step, dtype=number), dtype=number)
        body.add("tuple", state, later, places, body.add("select", (n,), active, half, value), lengths)
        condition = self._condition(b, state, number)
        m = b.main
        x = m.parameter((n,))
        begin = m.add("broadcast", (4, n), m.constant(self.start, dtype="f32"), dimensions=[])
        own = x if self.floats else m.add("convert", (n,), x, dtype=number)
        carried = m.add("tuple", state, m.constant(self.first, dtype=number), begin, x, own)
        done = m.add("while", state, carried, called=[body.number, condition])
        result = m.add(
            "get-tuple-element", shapes[self.output][1], done, index=self.output, dtype=shapes[self.output][0]
        )
        return m.add("transpose", (n, 4), result, dimensions=[1, 0]) if self.output == 1 else result

    def _carried(self, b: Builder, state: dict[str, list[list[Any]]]) -> tuple[Computation, int, int, int, int]:
        made = b.computation()
        whole = made.parameter(state)
        parts = [
            made.add("get-tuple-element", shape, whole, index=k, dtype=dtype)
            for k, (dtype, shape) in enumerate(state["tuple"])
        ]
        return made, parts[0], parts[1], parts[2], parts[3]

    def _below(self, made: Computation, i: int, lengths: int, n: int) -> int:
        number = "f32" if self.floats else self.dtype
        spread = made.add("broadcast", (n,), i, dtype=number, dimensions=[])
        return made.add("compare", (n,), spread, lengths, dtype="pred", direction=self.direction)

    def _condition(self, b: Builder, state: dict[str, list[list[Any]]], number: str) -> int:
        reducer = b.reducer("or" if self.reduced else "maximum")
        made, i, _, _, lengths = self._carried(b, state)
        if self.reduced:
            each = self._below(made, i, lengths, b.batch)
            wanted = made.add(
                "reduce", (), each, made.constant(False, dtype="pred"), dtype="pred", called=[reducer], dimensions=[0]
            )
        else:
            most = made.add(
                "reduce", (), lengths, made.constant(0, dtype=number), dtype=number, called=[reducer], dimensions=[0]
            )
            wanted = made.add("compare", (), i, most, dtype="pred", direction=self.direction)
        if self.limit is not None:
            limit = made.constant(self.limit, dtype=number)
            within = made.add("compare", (), i, limit, dtype="pred", direction="LT")
            made.add("and", (), within, wanted, dtype="pred")
        return made.number


PLACES, VALUE = Loop(), Loop(output=2)
INDEPENDENT = {
    "places": PLACES,
    "a value": VALUE,
    "places, by any": replace(PLACES, reduced=True),
    "a value, by any": replace(VALUE, reduced=True),
    "a value without a limit": replace(VALUE, limit=None),
    "a value with a limit beyond the places": replace(VALUE, limit=9),
    "a value by any of floats": replace(VALUE, reduced=True, floats=True, limit=None),
    "a value with a count in 64 bits": replace(VALUE, dtype="s64", limit=None),
    "places that begin with minus one": replace(PLACES, start=-1.0, filling=-1.0),
    "places from the second on": replace(PLACES, first=1),
}
DEPENDENT = {
    "places without a limit": replace(PLACES, limit=None),
    "places with one turn too many": replace(PLACES, limit=5),
    "places from before the first": replace(PLACES, first=-1),
    "places that begin with ones": replace(PLACES, start=1.0),
    "places that begin with the other zero": replace(PLACES, start=-0.0),
    "every second place": replace(PLACES, step=2),
    "the same place again and again": replace(PLACES, step=0),
    "a count that falls": replace(VALUE, step=-1),
    "a count of two that may overflow": replace(VALUE, step=2, limit=None),
    "a count of eight bits that may overflow": replace(VALUE, dtype="s8", direction="LE", limit=None, reduced=True),
    "up to the length itself, which may be the largest number": replace(
        VALUE, direction="LE", reduced=True, limit=None
    ),
    "a value by the largest float": replace(VALUE, floats=True, limit=None),
    "rows that go on where they differ": replace(VALUE, direction="NE", reduced=True),
    "the count": replace(VALUE, output=0),
}


@pytest.mark.parametrize("loop", INDEPENDENT.values(), ids=INDEPENDENT.keys())
def test_rows_that_are_done_and_stay_as_they_are_do_not_depend_on_others(loop: Loop) -> None:
    assert rows(loop).meetings == ()


@pytest.mark.parametrize("loop", DEPENDENT.values(), ids=DEPENDENT.keys())
def test_rows_that_change_in_further_turns_depend_on_others(loop: Loop) -> None:
    (meeting,) = rows(loop, output_has_batch_axis=loop.output != 0).meetings
    assert meeting.operation == "reduce"
