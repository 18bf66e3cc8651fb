"""What is known of a loop's iterations without running it: how many they are, and which arrays they fill."""

from __future__ import annotations

import pytest

from tfaot_pkg.compiler.iterations import exact_iterations_of, filled, iterations_of
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified

_LOOP = """\
%0 f32[batch,4] = parameter number=0
%1 s32[] = constant literal={{{start}}}
%2 (s32[], f32[batch,4]) = while %1 %0
  body:
    %3 s32[] = parameter number=0
    %4 f32[batch,4] = parameter number=1
    %5 s32[] = constant literal={{0}}
    %6 f32[] = convert %3
    %7 f32[batch,{size}] = broadcast %6 dimensions=[]
    %8 s32[] = constant literal={{{number}}}
    {place}
    %10 f32[batch,4] = dynamic-update-slice %4 %7 %5 %9
    %11 s32[] = constant literal={{{step}}}
    %12 s32[] = {change} %3 %11
    give %12 %10
  condition:
    %13 s32[] = parameter number=0
    %14 f32[batch,4] = parameter number=1
    %15 s32[] = constant literal={{{end}}}
    %16 pred[] = compare %13 %15 direction={direction}
{more}%21 f32[batch,4] = get-tuple-element %2 index=1
give %21
"""
_UP = dict(start=0, size=1, number=0, place="%9 s32[] = add %3 %8", step=1, change="add", end=4, direction="LT")
_DOWN = dict(start=3, change="subtract", end=0, direction="GE")


def _known(**changed: object) -> dict[int, Operation]:
    more = changed.pop("more", "    give %16\n")
    program = verified(parse(_LOOP.format(**{**_UP, **changed, "more": more})), "reading")
    return program.entry.by_id()


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({}, 4),
        ({"direction": "LE"}, 5),
        ({"step": 3}, 2),
        (_DOWN, 4),
        ({**_DOWN, "direction": "GT"}, 3),
        ({**_DOWN, "change": "add", "step": -2}, 2),
        ({"direction": "GE"}, None),
        ({"change": "subtract"}, None),
        ({"direction": "EQ"}, None),
        # A counter that wraps around goes on.
        ({"direction": "LE", "end": 2**31 - 1, "start": 2**31 - 9}, None),
        ({"direction": "LT", "end": 2**31 - 1, "start": 2**31 - 9}, 8),
        ({"direction": "LT", "end": 2**31 - 1, "start": 2**31 - 9, "step": 5}, None),
        ({**_DOWN, "end": -(2**31), "start": -(2**31) + 5}, None),
        ({**_DOWN, "end": -(2**31) + 1, "start": -(2**31) + 5}, 5),
    ],
)
def test_iterations_are_counted_up_and_down(changed: dict[str, object], count: int | None) -> None:
    known = _known(**changed)
    assert iterations_of(known[2], known) == exact_iterations_of(known[2], known) == count


def test_a_test_that_is_no_counting_may_end_a_loop_before() -> None:
    more = """\
    %17 pred[] = compare %13 %15 direction=EQ
    %18 pred[] = and %16 %17
    give %18
"""
    known = _known(more=more)
    assert iterations_of(known[2], known) == 4
    assert exact_iterations_of(known[2], known) is None


@pytest.mark.parametrize(
    ("changed", "is_filled"),
    [
        ({}, True),
        (_DOWN, True),
        # As in JAX: from the last one on, and indices that would be counted from the end.
        ({"number": 3, "place": "%9 s32[] = subtract %8 %3"}, True),
        ({"size": 2, "number": 2, "place": "%9 s32[] = multiply %3 %8", "end": 2}, True),
        # HLO clamps the last place.
        ({"size": 3, "number": 3, "place": "%9 s32[] = multiply %3 %8", "end": 2}, True),
        ({"size": 4, "end": 1}, True),
        ({"end": 3}, False),
        ({"end": 0}, False),
        ({"number": 2, "place": "%9 s32[] = multiply %3 %8"}, False),
        ({"number": 1}, False),
        ({"direction": "EQ"}, False),
    ],
)
def test_an_array_is_filled_if_its_parts_are_all_of_it(changed: dict[str, object], is_filled: bool) -> None:
    known = _known(**changed)
    assert filled(known[2], known) == (frozenset({1}) if is_filled else frozenset())


def test_an_array_that_the_condition_reads_is_not_filled() -> None:
    more = """\
    %17 s32[] = constant literal={0}
    %18 f32[batch,1] = dynamic-slice %14 %17 %13 sizes=[batch,1]
    %19 s32[] = constant literal={1}
    %20 pred[] = compare %13 %19 direction=NE
    give %16
"""
    assert not filled(_known(more=more)[2], _known(more=more))


@pytest.mark.parametrize(
    ("dtype", "end", "limit", "count"),
    [("s8", "100", "%10", 100), ("f32", "100.0", "%10", None), ("s8", "100", "%9", None), ("s32", "100", "%9", 300)],
)
def test_counters_are_counted_in_their_types(dtype: str, end: str, limit: str, count: int | None) -> None:
    """A limit of 300 is 44 as int8: conversions are not looked through then."""
    text = f"""\
%0 s32[] = constant literal={{300}}
%1 {dtype}[] = convert %0
%2 {dtype}[] = constant literal={{{"0.0" if dtype == "f32" else 0}}}
%3 ({dtype}[], {dtype}[]) = while %2 %1
  body:
    %4 {dtype}[] = parameter number=0
    %5 {dtype}[] = parameter number=1
    %6 {dtype}[] = constant literal={{{"1.0" if dtype == "f32" else 1}}}
    %7 {dtype}[] = add %4 %6
    give %7 %5
  condition:
    %8 {dtype}[] = parameter number=0
    %9 {dtype}[] = parameter number=1
    %10 {dtype}[] = constant literal={{{end}}}
    %11 pred[] = compare %8 {limit} direction=LT
    give %11
%12 {dtype}[] = get-tuple-element %3 index=0
give %12
"""
    program = verified(parse(text), "reading")
    known = program.entry.by_id()
    assert iterations_of(known[3], known) == count
