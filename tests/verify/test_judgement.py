"""Which differences are faults, and what they are called: the rules of docs/decisions/030, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfaot_pkg.ground.signature import DType, Tensor
from tfaot_pkg.verify.classes import answers_of
from tfaot_pkg.verify.evidence import Answers, Spread
from tfaot_pkg.verify.judgement import differences, telling
from tfaot_pkg.verify.oracle import Tried
from tfaot_pkg.verify.rules import EVERYWHERE, RULES, group_of
from tfaot_pkg.worker_program.messages.unspecified_results import (
    CONVERSION,
    MAXIMUM,
    OPERATIONS,
    ORDER,
    OVERFLOW,
    STEP,
    TIES,
)

NAN, INF = np.nan, np.inf
CLASSES = ("main", "scaled", "large", "huge", "subnormal", "boundary", "integers", "nonfinite", "branches", "n=4")
CORNERS = ("huge", "subnormal", "boundary", "integers", "nonfinite")


def judged(
    ours: list[Any],
    eager: list[Any] | None,
    *,
    class_name: str,
    jit: list[Any] | None = None,
    spread: list[float] | None = None,
    seen: list[Any] | None = None,
    exact: list[Any] | None = None,
    flushed: list[Any] | None = None,
    ran: list[bool] | None = None,
    jit_ran: list[bool] | None = None,
    met: dict[str, str] | None = None,
    walked: bool = True,
    rows: list[bool] | None = None,
    defined: list[Any] | None = None,
    by_node: list[Any] | None = None,
    dtype: str = "float32",
    rtol: float = 1e-4,
    operations: tuple[str, ...] = (),
) -> list[tuple[str, int, bool]]:
    """Kind, number of elements and whether it is a fault, of what differs.

    All rows `met` operands, a freedom and its operation, if the model could be `walked`, for all or some `rows`; `seen`
    are answers for perturbed inputs.
    """

    def array(values: list[Any] | None) -> Any:
        return None if values is None else np.array(values, dtype)

    mine = array(ours)
    numbers = np.array(eager if eager is not None else ours, float)
    others = numbers if seen is None else np.array(seen, float)
    answers = Answers(
        ours=mine, eager=array(eager), eager_ran=np.array(ran or [True] * len(ours)) if ran else np.ones(mine.shape, bool),
        jit=array(jit), jit_ran=None if jit_ran is None else np.array(jit_ran), exact=array(exact), flushed=array(flushed),
        defined=array(defined), by_node=array(by_node),
        spread=None if spread is None else Spread(
            change=np.array(spread), low=np.fmin(numbers, others), high=np.fmax(numbers, others),
            missing=np.isnan(numbers) | np.isnan(others),
        ),
        walked=np.array(rows or np.ones(mine.shape), bool) if walked else None,
        free={each: np.ones(mine.shape, bool) for each in (met or {}).items()},
    )  # fmt: skip
    found = differences(
        answers, class_name=class_name, target="x86-64-v3", batch_size=1, output="y", rtol=rtol, atol=1e-6 if rtol else 0,
        operations=frozenset(operations) | {*(met or {}).values()},
    )  # fmt: skip
    return [(one.kind, one.elements, one.is_fault) for one in found]


REAL = [("real", 1, True)]


@pytest.mark.parametrize("class_name", CLASSES)
def test_agreement_with_xla_alone_excuses_nothing(class_name: str) -> None:
    assert judged([-8.9e22], [-0.0], class_name=class_name, jit=[-8.9e22])[0][2] is (class_name != "subnormal")
    assert judged([3], [7], class_name=class_name, jit=[3], dtype="int64")[0][2] is (class_name != "subnormal")


@pytest.mark.parametrize("class_name", CLASSES)
@pytest.mark.parametrize(
    ("ours", "eager", "dtype"),
    [([NAN], [1.0], "float32"), ([INF], [1.0], "float32"), ([0.0], [1.0], "float32"), ([1e30], [1.0], "float32"),
     ([1.0], [NAN], "float32"), ([0], [7], "int64"), ([True], [False], "bool")],
)  # fmt: skip
def test_a_wrong_answer_of_rows_in_which_nothing_is_open_is_a_fault_in_every_class(
    ours: list[Any], eager: list[Any], dtype: str, class_name: str
) -> None:
    """Whatever operations the model has: none of them met operands that leave its result open."""
    every = tuple(sorted(set().union(*OPERATIONS.values()) | {"GatherV2", "Relu"}))
    (found,) = judged(ours, eager, class_name=class_name, jit=eager, exact=eager, dtype=dtype, operations=every)
    # ReLU behind a pooling gives numbers for NaN, whatever the operands.
    assert found[2] or (class_name == "nonfinite" and np.isnan(eager[0]))


@pytest.mark.parametrize("class_name", CLASSES)
@pytest.mark.parametrize("freedom", [CONVERSION, MAXIMUM, ORDER, OVERFLOW, STEP, TIES])
def test_an_open_result_excuses_no_answer_that_nothing_else_gives(class_name: str, freedom: str) -> None:
    """Of many elements, all wrong: no other answer is like ours, and the framework agrees with itself."""
    operation = min(OPERATIONS[freedom])
    right = [float(each) for each in range(40)]
    found = judged([each + 9 for each in right], right, class_name=class_name, jit=right, exact=right,
                   met={freedom: operation})  # fmt: skip
    assert found and all(fault for *_, fault in found)


def test_conversions_out_of_range_are_excused_where_one_was_met() -> None:
    kind = [("undefined result", 1, False)]
    met = {CONVERSION: "Cast"}
    assert judged([0], [4294967294], class_name="main", by_node=[0], dtype="uint32", met=met) == kind
    assert judged([5], [4294967294], class_name="main", by_node=[0], dtype="uint32", met=met) == REAL
    assert judged([0], [4294967294], class_name="scaled", jit=[0], dtype="uint32", met=met) == kind
    assert judged([0], [4294967294], class_name="main", jit=[0], dtype="uint32", operations=("Cast",)) == REAL
    assert judged([0], [9], class_name="main", jit=[0], dtype="uint32", operations=("Cast",), walked=False) == REAL
    assert judged([0], [9], class_name="huge", jit=[0], dtype="uint32", operations=("Cast",), walked=False) == kind


def test_neither_compiled_code_nor_the_program_itself_says_what_a_conversion_of_the_main_class_gives() -> None:
    """A program with a wrong table computes by definition what it computes, and XLA compiles what it was given."""
    wrong: dict[str, Any] = {"dtype": "uint32", "met": {CONVERSION: "Cast"}, "by_node": [0], "jit": [5], "defined": [5]}
    assert judged([5], [4294967294], class_name="main", **wrong) == [("undefined result", 1, True)]
    assert judged([5], [4294967294], class_name="scaled", **wrong)[0][2] is False


@pytest.mark.parametrize(("freedom", "operation"), [(STEP, "Round"), (STEP, "ai.onnx.QLinearConv"), (TIES, "TopKV2")])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_more_main_elements_than_the_framework_shows_to_be_open_are_not_xlas_to_tell(
    freedom: str, operation: str, dtype: str
) -> None:
    right = [row % 2 for row in range(100)]
    wrong = [1 - each for each in right[:20]] + right[20:]
    given: dict[str, Any] = {"class_name": "main", "dtype": dtype, "met": {freedom: operation}, "exact": right}
    few = [1 - each for each in right[:2]] + right[2:]
    # Two answers change with roundings of the inputs: up to eight more may.
    moved: dict[str, Any] = {"spread": [np.inf] * 2 + [0.0] * 98, "seen": few}
    assert not any(fault for *_, fault in judged(few, right, jit=few, **moved, **given))
    assert any(fault for *_, fault in judged(wrong, right, jit=wrong, **moved, **given))
    assert any(fault for *_, fault in judged(wrong, right, jit=wrong, **given))


def test_one_constant_that_is_wrong_by_one_is_no_step() -> None:
    """One of sixteen channels of a quantized net."""
    right = [row % 7 for row in range(320)]
    wrong = [each + (place % 16 == 3) for place, each in enumerate(right)]
    for dtype in ("int8", "float32"):
        (found,) = judged(wrong, right, class_name="main", dtype=dtype, met={STEP: "ai.onnx.QuantizeLinear"})
        assert found[1:] == (20, True)


@pytest.mark.parametrize("class_name", ["main", "scaled", "integers", "branches"])
def test_one_entry_of_a_table_that_is_wrong_by_one_is_no_step_although_nobody_looked(class_name: str) -> None:
    """A table is looked up in, so the model cannot be run node by node; elsewhere it compares."""
    right = [row % 9 for row in range(72)]
    wrong = [each + (each == 8 and row < 30) for row, each in enumerate(right)]
    (found,) = judged(wrong, right, class_name=class_name, dtype="int32", operations=("Less",), walked=False)
    assert found[1:] == (3, True)


def test_places_that_a_rounding_decides_are_between_the_frameworks_own() -> None:
    given: dict[str, Any] = {"class_name": "main", "dtype": "int32", "met": {TIES: "ArgMax"}, "spread": [np.inf] * 8}
    eager, moved = [3, 4] * 4, [4, 3] * 4
    assert judged(moved, eager, seen=moved, **given) == [("ties in sort order", 8, False)]
    assert any(fault for *_, fault in judged([9, 9, 9, *moved[3:]], [3, 4, 3, 4, 3, 4, 3, 9], seen=moved, **given))


def test_the_framework_is_left_where_float64_says_that_it_is_off() -> None:
    exact, eager = [1.0, 2.0, 3.0], [1.003, 1.997, 3.004]
    assert judged([1.001, 2.0, 3.001], eager, class_name="main", exact=exact) == [("rounding", 3, False)]
    assert judged([1.001, 2.0, 3.5], eager, class_name="main", exact=exact) == [
        ("rounding", 2, False),
        ("real", 1, True),
    ]
    assert judged([1.001, 2.0, 3.001], [1.0, 2.0, 3.0], class_name="main", exact=exact)[0][0] == "real"
    assert judged([NAN, 2.0, 3.0], eager, class_name="main", exact=[NAN, 2.0, 3.0])[1:] == REAL


def test_the_error_of_large_numbers_excuses_none_of_small_ones_beside_them() -> None:
    """Energies and probabilities in one output: float32 is off by 0.03 for the first."""
    exact = [[500_000.03 + 7 * row, 0.001 * row] for row in range(10)]
    eager = [[float(np.float32(each[0])) - 0.03, each[1]] for each in exact]
    seen: dict[str, Any] = {"class_name": "main", "exact": exact, "rtol": 1e-9}
    large = [[row[0] - 0.03, row[1]] for row in eager]
    assert judged(large, eager, **seen) == [("rounding", 10, False)]
    assert judged([[row[0], 0.0] for row in eager], eager, **seen) == [("real", 9, True)]
    # Of few rows their own errors are not known.
    few = {**seen, "exact": exact[:2]}
    assert judged([[row[0], 0.0] for row in eager[:2]], eager[:2], **few) == [("rounding", 1, False)]


def test_the_few_answers_that_roundings_move_most_may_be_off_as_far() -> None:
    """As the states of a recurrent net: nearly all are off by a rounding, and one by a thousand of them."""
    exact = [1.0 + 0.001 * row for row in range(40)]
    eager = [each + 1e-6 for each in exact]
    eager[7] += 4e-4
    spread = [2e-6] * 40
    spread[7] = 1e-3
    seen: dict[str, Any] = {"class_name": "main", "exact": exact, "spread": spread}
    ours = [each - 1e-6 for each in exact]
    ours[7] -= 3e-3
    assert judged(ours, eager, **seen) == [("rounding", 1, False)]
    assert judged(ours, eager, **{**seen, "spread": None})[0][2]
    assert judged([*ours[:20], ours[20] + 3e-3, *ours[21:]], eager, **seen)[1:] == [("real", 1, True)]
    assert judged(ours, eager, **seen, rtol=0)[0][2]  # the framework's own bits are wanted
    # One constant that is wrong is in many answers.
    assert judged([each + 2e-4 for each in ours], eager, **seen)[0][2]


def test_an_answer_may_be_off_as_far_as_roundings_move_the_frameworks_at_that_very_place() -> None:
    """Also if the framework happens to be right there in all rows: its error elsewhere says nothing of this state."""
    exact = [[1.0, 2.0 + 0.001 * row] for row in range(40)]
    eager = [[first + 1e-6, second + 1e-6] for first, second in exact]
    spread = [[2e-6, 2e-6] for _ in exact]
    spread[7][1] = 1e-4
    seen: dict[str, Any] = {"class_name": "main", "exact": exact, "spread": spread, "rtol": 1e-6}
    off = [[first - 1e-6, second - 1e-6] for first, second in exact]

    def moved(by: float, row: int = 7) -> list[list[float]]:
        return [[first, second + (by if number == row else 0.0)] for number, (first, second) in enumerate(off)]

    assert judged(moved(2.9e-4), eager, **seen)[-1][2] is False
    assert judged(moved(3.2e-4), eager, **seen)[-1][2]
    assert judged(moved(2.9e-4, row=8), eager, **seen)[-1][2]


def test_a_rounding_that_a_whole_row_shares_is_no_fault_of_all_its_answers() -> None:
    """As the largest number that divides them: of two rows one is off, in half of all answers."""
    exact = [[0.1 + 0.01 * place for place in range(50)] for _ in range(2)]
    eager = [[each * (1 + 1e-6) for each in row] for row in exact]
    spread = [[each * 5e-5 for each in row] for row in exact]
    seen: dict[str, Any] = {"class_name": "main", "exact": exact, "spread": spread, "rtol": 1e-6}
    ours = [[each * (1 + 1e-6) for each in exact[0]], [each * (1 + 4e-5) for each in exact[1]]]
    assert judged(ours, eager, **seen)[-1][2] is False
    assert judged(ours, eager, **{**seen, "spread": [[1e-7] * 50] * 2})[-1][2]
    wrong = [[each * (1 + 1.2e-4) for each in row] for row in exact]
    assert judged(wrong, eager, **seen)[-1][2], "further than roundings move them"


def test_rows_that_were_not_computed_in_float64_have_no_answers_there() -> None:
    """Their places hold NaN or zeros."""
    nan: dict[str, Any] = {"class_name": "nonfinite", "exact": [NAN, 1.0], "met": {MAXIMUM: "Relu"}}
    assert judged([NAN, 1.0], [1.0, 1.0], **nan) == [("NaN rule", 1, False)]
    assert judged([NAN, 1.0], [1.0, 1.0], **nan, rows=[False, True]) == REAL
    near: dict[str, Any] = {"class_name": "main", "dtype": "int64", "exact": [0, 1], "met": {STEP: "Cast"}}
    assert judged([0, 1], [30, 1], **near, rows=[False, True]) == REAL
    # Only their distance from the framework's answers is known.
    exact, eager = [1.0, NAN], [1.003, 2.0]
    assert judged([1.0, 2.002], eager, class_name="main", exact=exact, rows=[True, False]) == [("rounding", 2, False)]
    assert judged([1.0, 2.5], eager, class_name="main", exact=exact, rows=[True, False])[1:] == REAL


def test_noise_of_the_inputs_excuses_as_much_and_no_more() -> None:
    assert judged([1000.0], [1001.0], class_name="scaled", spread=[1.0]) == [("rounding", 1, False)]
    assert judged([1000.0], [1100.0], class_name="scaled", spread=[1.0]) == REAL
    assert judged([1000.0], [1001.0], class_name="main", spread=[1.0]) == [("rounding", 1, True)]


def test_answers_that_jump_excuse_those_between_them_only() -> None:
    jump: dict[str, Any] = {"class_name": "scaled", "spread": [INF]}
    assert judged([5], [3], seen=[7], dtype="int64", **jump) == [("rounding", 1, False)]
    assert judged([9], [3], seen=[7], dtype="int64", **jump) == REAL
    assert judged([3.0001], [NAN], seen=[3.0], **jump) == [("rounding", 1, False)]
    assert judged([3.01], [NAN], seen=[3.0], **jump) == REAL
    assert judged([NAN], [3.0], seen=[NAN], **jump) == [("rounding", 1, False)]
    assert judged([9.0], [3.0], seen=[NAN], **jump) == REAL
    assert judged([NAN], [3.0], seen=[INF], **jump) == REAL


def test_another_leaf_at_a_threshold_is_a_fault() -> None:
    """Of decision trees the spread is zero (worker_program/reference.py), and XLA has no answers."""
    assert judged([1.0, 2.0], [1.0, 2.5], class_name="thresholds", spread=[0.0, 0.0]) == [("real", 1, True)]


def test_overflowing_sums_have_no_right_answer() -> None:
    met = {OVERFLOW: "MatMul"}
    assert judged([5.0, NAN], [INF, 1.0], class_name="boundary", met=met) == [("large argument", 2, False)]
    assert judged([NAN, *[1.0] * 19], [1.0] * 20, class_name="boundary", met=met) == [("large argument", 1, False)]
    assert judged([NAN] * 20, [1.0] * 20, class_name="boundary", met=met) == [("real", 20, True)]
    assert judged([5.0], [INF], class_name="huge", met=met) == [("large argument", 1, False)]
    assert judged([5.0, NAN], [INF, 1.0], class_name="boundary") == [("real", 2, True)]
    resized = {OVERFLOW: "ai.onnx.Resize"}
    assert judged([-INF, 2e38], [NAN, INF], class_name="boundary", met=resized) == [("large argument", 2, False)]
    assert judged([5.0], [INF], class_name="large", met=met) == REAL
    assert judged([5.0], [INF], class_name="large", jit=[5.0], met=met) == [("large argument", 1, False)]
    assert judged([True], [False], class_name="huge", dtype="bool", met=met) == [("large argument", 1, False)]


def test_sums_that_overflow_in_the_framework_node_by_node_may_overflow_in_as_many_other_places() -> None:
    met, ones = {OVERFLOW: "ai.onnx.Resize"}, [1.0] * 20
    changes: dict[str, Any] = {"class_name": "boundary", "exact": ones, "spread": [INF] * 10 + [0.0] * 10}
    seen = [INF] * 10 + [1.0] * 10
    assert judged([*[1.0] * 10, *[INF] * 10], ones, met=met, seen=seen, **changes) == [("large argument", 10, False)]
    fewer = {**changes, "spread": [INF] * 9 + [0.0] * 11}
    assert judged([*[1.0] * 9, *[INF] * 11], ones, met=met, seen=[INF] * 9 + [1.0] * 11, **fewer) == [
        ("real", 11, True)
    ]
    assert judged([*[1.0] * 10, *[INF] * 10], ones, met=met, seen=ones, **changes) == [("real", 10, True)]


def test_what_is_left_of_the_largest_terms_has_no_right_answer_in_some_rows() -> None:
    """3e38 + 1 - 3e38 is 0 or 1, and 1e32 is more than a rounding of 3e38."""
    right = [1.0, 1.0, 1.0, 1e32]
    last: dict[str, Any] = {"class_name": "boundary", "jit": right, "met": {OVERFLOW: "Sum"}}
    assert judged([0.0, 1.0, 1.0, 1e32], right, **last) == [("large argument", 1, False)]
    assert judged([1e32, 1.0, 1.0, 1e32], right, **last) == REAL
    assert judged([1.0, 1.0, 1.0, 0.0], right, **last) == REAL
    few: dict[str, Any] = {**last, "jit": right[:3]}
    assert judged([0.0, 0.0, 0.0], right[:3], **few) == [("real", 3, True)]


def test_open_rows_have_numbers_between_the_frameworks_and_not_in_all_rows() -> None:
    met = {OVERFLOW: "Sum"}
    right = [0, 7, *[3] * 18]
    some = [5, 5, *[3] * 18]
    wide: dict[str, Any] = {"class_name": "huge", "dtype": "int64", "met": met}
    assert judged(some, right, **wide) == [("large argument", 2, False)]
    assert judged([9, 5, *right[2:]], right, **wide) == [("large argument", 1, False), ("real", 1, True)]
    assert judged([5] * 20, right, **wide) == [("real", 20, True)]


def test_a_decomposition_may_overflow_in_the_framework_or_here() -> None:
    solve: dict[str, Any] = {"class_name": "huge", "operations": ("MatrixSolve",)}
    assert judged([NAN], [1.0], jit=[NAN], **solve) == [("large argument", 1, False)]
    assert judged([3e38], [INF], exact=[3e38], **solve) == [("large argument", 1, False)]
    assert judged([NAN], [1.0], jit=[1.0], **solve) == REAL
    assert judged([2.0], [1.0], jit=[2.0], **solve) == REAL
    assert judged([NAN], [1.0], jit=[NAN], class_name="scaled", operations=("MatrixSolve",)) == REAL


def test_a_tolerance_of_zero_asks_for_the_frameworks_bits() -> None:
    near: dict[str, Any] = {"exact": [1.0, 2.0, 3.0], "rtol": 0.0}
    right = [1.0 + 2e-7, 2.0, 3.0]
    assert judged([1.0, 2.0, 3.0], right, class_name="main", **near) == [("rounding", 1, True)]
    assert judged([1.0, 2.0, 3.0], right, class_name="scaled", **near) == [("rounding", 1, False)]


@pytest.mark.parametrize("class_name", ["main", "scaled", "large"])
def test_wrong_places_of_ordinary_numbers_are_faults(class_name: str) -> None:
    tie = [("ties in sort order", 1, True)]
    assert judged([0], [7], class_name=class_name, dtype="int64", operations=("ArgMax",)) == tie
    assert judged([0], [7], class_name=class_name, dtype="int64") == REAL
    near = {TIES: "ArgMax"}
    assert judged([0], [7], class_name=class_name, dtype="int64", met=near, jit=[0]) == [
        ("ties in sort order", 1, False)
    ]


def test_places_of_maxima_beside_nan_are_tensorflows() -> None:
    """TensorFlow has a rule for them, which programs follow; ONNX Runtime's scatters keep what follows the last NaN."""
    given: dict[str, Any] = {"class_name": "nonfinite", "dtype": "int64", "jit": [1]}
    other = [("ties in sort order", 1, True)]
    assert judged([1], [2], **given, met={MAXIMUM: "ArgMax"}, operations=("ArgMax",)) == other
    # The framework's optimizer may have moved it in front of what gives NaN.
    assert judged([1], [2], **given, met={ORDER: "ArgMax"}) == [("NaN rule", 1, False)]
    assert judged([1], [2], **given, met={ORDER: "ai.onnx.Hardmax"}) == [("NaN rule", 1, False)]
    assert judged([NAN], [2.0], class_name="nonfinite", met={MAXIMUM: "TensorScatterMax"}) == REAL
    assert judged([NAN], [2.0], class_name="nonfinite", met={MAXIMUM: "ai.onnx.ScatterElements"}) == [
        ("NaN rule", 1, False)
    ]


def test_few_near_ties_are_excused_and_many_are_not() -> None:
    near = {TIES: "TopKV2"}
    right = [float(each) for each in range(40)]
    few = [*right[:-2], 5.0, 6.0]
    assert judged(few, right, class_name="main", met=near) == [("ties in sort order", 2, False)]
    assert judged(few, right, class_name="main") == [("real", 2, True)]
    assert judged(right[::-1], right, class_name="main", met=near) == [("real", 40, True)]


def test_one_step_of_a_quantized_net_is_excused_and_two_are_not() -> None:
    step, right = {STEP: "ai.onnx.QuantizeLinear"}, list(range(40))
    assert judged([1, *right[1:]], right, class_name="main", dtype="int8", met=step) == [("rounding", 1, False)]
    assert judged([2, *right[1:]], right, class_name="main", dtype="int8", met=step) == REAL
    numbers = [each / 4 for each in right]
    assert judged([0.1, *numbers[1:]], numbers, class_name="main", met=step) == [("rounding", 1, False)]
    assert judged([0.5, *numbers[1:]], numbers, class_name="main", met=step) == REAL


def test_a_step_may_change_all_answers_to_two_rows_by_a_little() -> None:
    """A layer follows, and a batch has few rows."""
    right = [[float(each) for each in range(row, row + 40)] for row in range(3)]
    off = [[each + 0.25 for each in row] for row in right]
    given: dict[str, Any] = {"class_name": "large", "met": {STEP: "ai.onnx.QuantizeLinear"}}
    assert judged(off[:1], right[:1], **given) == [("rounding", 40, False)]
    assert judged([right[0], *off[1:]], right, **given) == [("rounding", 80, False)]
    assert any(fault for *_, fault in judged(off, right, **given))
    assert any(fault for *_, fault in judged([[each + 2 for each in right[0]]], right[:1], **given))


def test_a_step_after_an_open_conversion_is_one_from_what_compiled_code_gives_for_it() -> None:
    """Quantized weights of a bias that a tiny scale divides: the framework's integers are those of its machine."""
    right = [[float(each) for each in range(row, row + 40)] for row in range(2)]
    defined = [[each + 5 for each in row] for row in right]
    off = [[each + 0.25 for each in row] for row in defined]
    given: dict[str, Any] = {"class_name": "subnormal", "met": {STEP: "ai.onnx.Cast"}, "by_node": defined}
    assert judged(off, right, **given)[-1] == ("rounding", 80, False)
    assert any(fault for *_, fault in judged(off, right, **{**given, "by_node": None}))
    assert any(fault for *_, fault in judged([[each + 2 for each in row] for row in defined], right, **given))
    assert any(fault for *_, fault in judged(off, right, **{**given, "class_name": "main"}))


def test_steps_that_other_answers_of_the_framework_share_leave_as_many_others_as_ever() -> None:
    """The mean of 64 bytes is often exactly between two of them."""
    right = [float(each) for each in range(40)]
    half, others = [*(each + 0.5 for each in right[:20]), *right[20:]], [each + 0.5 for each in right[20:25]]
    given: dict[str, Any] = {"class_name": "huge", "met": {STEP: "ai.onnx.QuantizeLinear"}, "jit": half}
    assert judged([*half[:20], *others[:4], *right[24:]], right, **given) == [("rounding", 24, False)]
    assert any(fault for *_, fault in judged([*half[:20], *others, *right[25:]], right, **given))


def test_random_numbers_what_tensorflow_refuses_and_what_it_flushes_are_told_apart() -> None:
    assert judged([1.0], [2.0], class_name="main", operations=("RandomUniform",)) == [("random op", 1, True)]
    assert judged([1.0], None, class_name="integers", ran=[False]) == [("out-of-range index", 1, False)]
    assert judged([1e-39], [1.0], class_name="scaled", flushed=[1.0]) == [("subnormal numbers", 1, False)]


def test_onnx_runtime_flushes_nothing() -> None:
    assert judged([1e-39], [1.0], class_name="scaled", flushed=[1.0], operations=("ai.onnx.Mul",)) == REAL


def test_what_tensorflow_refused_is_no_answer_to_agree_with() -> None:
    """Its place in the array holds zeros."""
    index = ("out-of-range index", 1, False)
    assert judged([0.0, 1.0], [0.0, 1.0], class_name="integers", ran=[False, True]) == [index]
    met = {MAXIMUM: "Max"}
    assert judged([0.0], [5.0], class_name="nonfinite", jit=[0.0], jit_ran=[False]) == REAL
    assert judged([0.0], [5.0], class_name="nonfinite", jit=[0.0], jit_ran=[True], met=met) == [("NaN rule", 1, False)]
    assert judged([1e-39], [0.0], class_name="nonfinite", flushed=[0.0], ran=[False]) == [index]


def test_what_only_single_operations_leave_open_holds_for_them_alone() -> None:
    box: dict[str, Any] = {"class_name": "scaled", "dtype": "int32"}
    size: dict[str, Any] = {"class_name": "nonfinite"}
    found = judged([7], [0], jit=[7], operations=("NonMaxSuppressionV4",), **box)
    assert found == [("out-of-range index", 1, False)]
    assert judged([7], [0], jit=[6], operations=("NonMaxSuppressionV4",), **box)[0][2]
    assert judged([7], [0], jit=[7], **box) == REAL
    nan = [("NaN rule", 1, False)]
    assert judged([NAN], [INF], jit=[NAN], operations=("ComplexAbs",), **size) == nan
    assert judged([NAN], [1.0], jit=[1.0], operations=("ComplexAbs",), **size) == REAL
    assert judged([2.0], [1.0], met={ORDER: "NthElement"}, **size) == nan
    assert judged([2.0], [1.0], operations=("NthElement",), **size) == REAL


def test_indices_are_clamped_where_the_model_has_some() -> None:
    found = judged([1.0, 2.0], [3.0, 2.0], class_name="integers", jit=[1.0, 2.0], operations=("GatherV2",))
    assert found == [("out-of-range index", 1, False)]
    assert judged([1.0, 2.0], [3.0, 2.0], class_name="integers", jit=[1.0, 2.0]) == REAL


def test_infinity_may_be_the_largest_number_of_its_sign() -> None:
    lowest, met = float(np.finfo(np.float32).min), {MAXIMUM: "MaxPool"}
    assert judged([-INF], [lowest], class_name="nonfinite", jit=[lowest], met=met) == [("NaN rule", 1, False)]
    assert judged([-INF], [-lowest], class_name="nonfinite", jit=[-lowest], met=met) == REAL
    assert judged([-INF], [lowest], class_name="large", jit=[lowest], met=met) == REAL


def test_the_users_own_inputs_are_never_excused() -> None:
    """What TensorFlow refuses of them, overflowed sums and rules of XLA among finite numbers are faults."""
    assert judged([1.0], [0.0], class_name="main", ran=[False]) == REAL
    assert judged([5.0], [INF], class_name="main", met={OVERFLOW: "Sum"}) == REAL
    assert judged([5.0], [6.0], class_name="main", jit=[5.0]) == REAL


def test_each_element_is_judged_by_itself() -> None:
    pooled = judged([1.0, INF, 5.0], [NAN, 1.0, 1.0], class_name="nonfinite", jit=[1.0, INF, 1.0],
                    met={MAXIMUM: "ai.onnx.MaxPool"})  # fmt: skip
    assert pooled == [("NaN rule", 2, False), ("real", 1, True)]
    recurrent = judged([NAN, 5.0], [0.5, 1.0], class_name="nonfinite", jit=[NAN, 1.0], met={MAXIMUM: "ai.onnx.LSTM"})
    assert recurrent == [("NaN rule", 1, False), ("real", 1, True)]


@pytest.mark.parametrize("class_name", CLASSES)
def test_places_that_the_optimizer_moved_in_front_of_nan_are_those_of_the_nodes(class_name: str) -> None:
    """ArgMin(Sqrt(x)) is ArgMin(x) in an optimized graph, also for the author's own negative inputs."""
    seen: dict[str, Any] = {"class_name": class_name, "dtype": "int64", "exact": [2], "met": {ORDER: "ArgMin"}}
    assert judged([2], [0], **seen) == [("NaN rule", 1, False)]
    if class_name not in ("nonfinite", "subnormal"):  # of which other rules hold
        assert judged([1], [0], **seen)[0][2]
        assert judged([2], [0], **{**seen, "met": {ORDER: "TopKV2"}})[0][2]


@pytest.mark.parametrize("class_name", CLASSES)
def test_a_power_that_the_optimizer_made_a_root_may_be_that_of_the_nodes(class_name: str) -> None:
    """Pow(-inf, 0.5) is inf, and Sqrt(-inf) NaN; also for the author's own inputs."""
    seen: dict[str, Any] = {"class_name": class_name, "operations": ("Pow",)}
    assert judged([INF, 0.0], [NAN, NAN], exact=[INF, 0.0], **seen) == [("NaN rule", 2, False)]
    assert judged([3.0], [NAN], exact=[INF], **seen) == REAL
    if class_name != "subnormal":  # of which another rule holds
        assert judged([INF], [3.0], exact=[INF], **seen) == REAL
        assert judged([INF], [NAN], exact=[INF], **{**seen, "operations": ("Sqrt",)}) == REAL
        assert judged([INF], [NAN], exact=[INF], **{**seen, "operations": ("Pow", "ai.onnx.Pow")}) == REAL


def test_nan_is_kept_by_maxima_over_an_axis_only() -> None:
    """ONNX Runtime's ReduceMax of 5 numbers leaves NaN out or not by its place."""
    assert judged([NAN], [2.0], class_name="nonfinite", met={MAXIMUM: "ai.onnx.ReduceMax"}) == [("NaN rule", 1, False)]
    assert judged([NAN], [2.0], class_name="nonfinite", met={MAXIMUM: "ai.onnx.Relu"}) == REAL
    assert judged([2.0], [NAN], class_name="nonfinite", met={MAXIMUM: "ai.onnx.ReduceMax"}) == REAL


def test_infinities_and_nan_are_near_to_nothing_else() -> None:
    assert judged([NAN], [1.0], class_name="main") == REAL
    assert judged([1.0], [NAN], class_name="main") == REAL
    assert judged([-INF], [INF], class_name="main") == REAL
    assert judged([1e30], [INF], class_name="main") == REAL
    assert judged([NAN, INF], [NAN, INF], class_name="main") == []


def test_integers_are_equal_or_wrong() -> None:
    assert judged([1000001], [1000000], class_name="main", dtype="int64") == REAL


def test_order_excuses_no_numbers() -> None:
    assert judged([1.0], [2.0], class_name="main", operations=("TopKV2",)) == REAL


def test_subnormal_numbers_are_uncertain_only_if_tensorflow_disagrees_with_itself() -> None:
    assert judged([3e-3], [0.0], class_name="subnormal", jit=[1e-3]) == [("subnormal numbers", 1, False)]
    assert judged([3e-1], [0.0], class_name="subnormal", jit=[1e-3]) == REAL
    assert judged([3e-3], [1e-3], class_name="subnormal", jit=[1e-3]) == REAL
    assert judged([3e-3], [1e-3], class_name="subnormal", flushed=[3e-3], jit=[1e-3]) == REAL


def test_tensorflows_nan_for_angles_of_subnormal_numbers_is_not_the_answer() -> None:
    assert judged([0.5], [NAN], class_name="subnormal", jit=[NAN], operations=("Atan2",)) == [
        ("subnormal numbers", 1, False)
    ]
    assert judged([0.5], [0.6], class_name="subnormal", jit=[0.6], operations=("Atan2",)) == REAL
    assert judged([0.5], [NAN], class_name="subnormal", jit=[NAN]) == REAL


def test_huge_numbers_are_uncertain_only_if_the_model_sorts_and_tensorflow_disagrees_with_itself() -> None:
    """All distances of such points overflow, and no rule says which of them are the nearest."""
    sorts: dict[str, Any] = {"class_name": "huge", "met": {OVERFLOW: "Sum"}, "operations": ("TopKV2",)}
    open_, jit = [[0.0, 1.0], [1.0, 1.0]], [[3e29, 1.0], [1.0, 1.0]]
    ours = [[1e29, 5.0], [3e29, 5.0]]
    assert judged(ours, open_, jit=jit, **sorts) == [("large argument", 4, False)]  # agreement on one row is chance
    assert judged([[4e29, 5.0], ours[1]], open_, jit=jit, **sorts)[1:] == REAL
    assert judged(ours, open_, jit=open_, **sorts) == [("real", 4, True)]
    assert judged(ours, open_, jit=jit, **{**sorts, "class_name": "large"})[-1][2]
    unsorted = judged(ours, open_, jit=jit, **{**sorts, "operations": ()})
    assert unsorted == [("large argument", 1, False), ("real", 3, True)]


def test_numbers_in_the_place_of_overflowed_sums_are_faults() -> None:
    """Whole rows overflow in the framework's own ways to compute them: ours may too, but give no numbers of their own."""
    eager, jit = [[INF, 1.0, 2.0, 3.0]] * 10, [[NAN, 1.0, 2.0, 3.0]] * 10
    wide: dict[str, Any] = {"class_name": "boundary", "jit": jit, "met": {OVERFLOW: "MatMul"}}
    assert judged([[-INF, 1.0, 2.0, 3.0]] * 10, eager, **wide) == [("large argument", 10, False)]
    assert judged([[2.5, 1.0, 2.0, 3.0]] * 10, eager, **wide) == [("real", 10, True)]
    assert judged([[INF, 1.0, 2.0, 2.5]] * 10, eager, **wide) == [("real", 10, True)]
    assert judged([[INF, NAN, 2.0, 3.0]] * 10, eager, **wide) == [("large argument", 10, False)]
    assert judged([[INF, NAN, NAN, 3.0]] * 10, eager, **wide) == [("real", 20, True)]


def test_sums_of_floats_that_overflow_are_numbers_in_another_order() -> None:
    """As float64 shows, which has numbers where the framework's sums of floats end at NaN in each of its runs."""
    lost, exact = [[NAN] * 3] * 10, [[0.1, 0.2, 0.7]] * 10
    wide: dict[str, Any] = {"class_name": "boundary", "jit": lost, "exact": exact, "met": {OVERFLOW: "MatMul"}}
    assert judged([[0.2, 0.1, 0.7]] * 10, lost, **wide) == [("large argument", 30, False)]
    assert judged([[0.2, 0.1, 1.1]] * 10, lost, **wide) == [("large argument", 30, False)]  # few rows show all answers
    assert judged([[0.2, 0.1, 1.4]] * 10, lost, **wide)[-1] == ("real", 10, True)
    assert judged([[0.2, 0.1, 7.0]] * 10, lost, **wide)[-1][0] == "real"


def test_sets_of_points_have_nan_in_every_row() -> None:
    """A search for neighbours finds others in all rows: ours may be others in as many places as XLA's are."""
    eager = [[NAN, *map(float, range(20))]] * 8
    jit = [[NAN, 1.0, 2.0, 3.0, *map(float, range(3, 20))]] * 8
    near: dict[str, Any] = {"class_name": "nonfinite", "jit": jit, "met": {ORDER: "TopKV2"}}
    ours = [[NAN, *map(float, range(17)), 16.0, 17.0, 18.0]] * 8
    assert judged(ours, eager, **near) == [("NaN rule", 24, False)]
    assert judged([[NAN, *map(float, range(16)), 15.0, 16.0, 17.0, 18.0]] * 8, eager, **near)[-1] == ("real", 32, True)
    assert judged([[NAN, *map(float, range(19)), 99.0]] * 8, eager, **near)[-1] == ("real", 8, True)
    assert judged(ours, eager, **{**near, "jit": eager})[-1] == ("real", 24, True)


def test_relu_hides_which_sums_overflowed() -> None:
    """-infinity becomes 0: the framework's does at four places, ours may at four others, and gives no other number."""
    exact = [float(each + 1) * 5e36 for each in range(40)]
    eager = [*[0.0] * 4, *exact[4:]]
    wide: dict[str, Any] = {"class_name": "boundary", "jit": eager, "exact": exact, "met": {OVERFLOW: "ai.onnx.Conv"}}
    ours = [*exact[:8], *[0.0] * 4, *exact[12:]]
    assert judged(ours, eager, **wide) == [("large argument", 8, False)]
    assert judged([*exact[:8], *[1e36] * 4, *exact[12:]], eager, **wide)[-1] == ("real", 4, True)
    assert judged([*exact[:8], *[0.0] * 5, *exact[13:]], eager, **wide)[-1] == ("real", 5, True)
    # A framework whose sums do not overflow shows no such end, and on main inputs there are no such sums.
    assert judged(ours, exact, **{**wide, "jit": exact})[-1] == ("real", 4, True)
    assert judged(ours, eager, **{**wide, "class_name": "main"})[-1] == ("real", 4, True)


def test_one_overflowed_sum_reaches_all_elements_of_its_row() -> None:
    """Ours overflows in rows in which the framework's could: in two, of however many elements, but not in more."""
    right = [[1.0, 2.0, 3.0]] * 10
    wide: dict[str, Any] = {"class_name": "boundary", "met": {OVERFLOW: "ai.onnx.GRU"}}
    assert judged([[NAN] * 3] * 2 + right[2:], right, **wide) == [("large argument", 6, False)]
    assert judged([[NAN] * 3] * 3 + right[3:], right, **wide) == [("real", 9, True)]


def test_ties_excuse_what_roundings_change_in_the_framework() -> None:
    """In 40 rows two numbers are nearly equal; its answers to inputs that are off by a rounding are others in ten."""
    right = [float(each) for each in range(40)]
    spread, seen = [*[20.0] * 10, *[0.0] * 30], [each + 20 for each in right[:10]] + right[10:]
    near: dict[str, Any] = {"class_name": "main", "met": {TIES: "TopKV2"}, "spread": spread, "seen": seen}
    assert judged([*seen[:10], *right[10:]], right, **near) == [("ties in sort order", 10, False)]
    assert judged([*right[:10], 1.0, 2.0, 3.0, *right[13:]], right, **near)[0][1:] == (3, True)
    assert judged([99.0, *right[1:]], right, **near)[0][1:] == (1, True)


def test_rows_sorted_by_nan_are_uncertain_only_if_tensorflow_disagrees_with_itself() -> None:
    ours, eager, jit = [[NAN, 5.0], [5.0, 4.0]], [[5.0, NAN], [4.0, 5.0]], [[5.0, 1.0], [4.0, 5.0]]
    met = {ORDER: "TopKV2"}
    found = judged(ours, eager, class_name="nonfinite", jit=jit, met=met)
    assert found == [("NaN rule", 2, False), ("real", 2, True)]
    assert judged(ours, eager, class_name="nonfinite", jit=jit) == [("real", 4, True)]
    assert judged(ours, eager, class_name="main", jit=jit, met=met) == [("real", 4, True)]


def test_maxima_of_nothing_but_nan_may_be_finite_but_finite_ones_are_tensorflows_to_tell() -> None:
    """ReLU of such a maximum is 0 if TensorFlow's graph optimizer has moved it behind the pooling, else minus infinity."""
    pools = ("MaxPool", "Relu")
    assert judged([0.5], [NAN], class_name="nonfinite", jit=[NAN], operations=pools) == [("NaN rule", 1, False)]
    assert judged([NAN], [0.5], class_name="nonfinite", jit=[0.5], operations=pools) == REAL
    assert judged([0.5], [NAN], class_name="nonfinite", jit=[NAN]) == REAL
    assert judged([0.5], [NAN], class_name="large", jit=[NAN], operations=pools) == REAL


def test_where_nan_is_in_a_window_decides_second_gradients_of_its_maximum() -> None:
    second = {MAXIMUM: "MaxPoolGradGrad"}
    assert judged([0.0], [2.0], class_name="nonfinite", jit=[1.0], met=second) == [("NaN rule", 1, False)]
    assert judged([0.0], [2.0], class_name="large", jit=[1.0], met=second) == REAL
    assert judged([0.0], [2.0], class_name="nonfinite", jit=[1.0], operations=("MaxPoolGrad",)) == REAL


def test_tensorflows_black_for_hues_near_a_full_turn_is_not_the_answer() -> None:
    hues = ("AdjustSaturation",)
    assert judged([1.0], [0.0], class_name="scaled", jit=[1.0], operations=hues) == [("rounding", 1, False)]
    assert judged([1.0], [0.0], class_name="scaled", jit=[0.5], operations=hues) == REAL
    assert judged([1.0], [0.5], class_name="scaled", jit=[1.0], operations=hues) == REAL
    assert judged([1.0], [0.0], class_name="scaled", jit=[1.0]) == REAL


def test_roundings_are_told_from_wrong_values_where_the_tolerance_is_nothing() -> None:
    assert judged([1.0, 8.0], [1.0000005, 8.0], class_name="main", spread=[0.0, 0.0], rtol=0) == [("rounding", 1, True)]
    assert judged([1.0, 8.0], [1.1, 8.0], class_name="main", spread=[0.0, 0.0], rtol=0) == REAL


def test_integers_that_a_rounding_decides_are_ties_only_where_the_model_sorts() -> None:
    jumps: dict[str, Any] = {"class_name": "main", "spread": [INF], "seen": [0], "dtype": "int64"}
    assert judged([0], [7], **jumps) == [("rounding", 1, True)]
    assert judged([0], [7], **jumps, operations=("ArgMax",)) == [("ties in sort order", 1, True)]


def test_each_rule_has_a_source_and_knows_its_classes() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.source and rule.elements and rule.classes <= EVERYWHERE | {"arranged"}
    assert {group_of(each) for each in CLASSES} == EVERYWHERE


@pytest.mark.parametrize(
    ("answers", "tells", "weakness"),
    [
        pytest.param([[[1.0, 2.0]], [[3.0, 2.0], [1.0, 2.0]]], True, "", id="good"),
        pytest.param([[[NAN, NAN]], [[NAN, INF], [NAN, NAN]]], False, "", id="no-number"),
        pytest.param([[[1.0, NAN]], [[3.0, NAN], [1.0, 2.0]]], True, "33 % of its elements are NaN", id="some-numbers"),
        pytest.param([[[-INF, 1.0]], [[-INF, 2.0], [-INF, 1.0]]], True, "", id="masked"),
        pytest.param([[[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]]], True, "all rows have the same answer", id="one-answer"),
        pytest.param([[[1.0, 2.0]]], True, "", id="one-row"),
        pytest.param([np.zeros((2, 0))], True, "", id="no-element"),
        pytest.param([np.zeros((2, 1), np.int64)], True, "", id="integers"),
    ],
)
def test_answers_that_no_fault_could_show_in_are_told(answers: list[Any], tells: bool, weakness: str) -> None:
    assert telling([np.asarray(each) for each in answers], rows=True) == (tells, weakness)


def test_what_does_not_follow_rows_may_be_constant() -> None:
    assert telling([np.ones((4, 2))], rows=False) == (True, "")


def test_an_infinity_of_an_interpolation_may_be_nan_but_a_number_may_not() -> None:
    given: Any = {"class_name": "nonfinite", "operations": ("ResizeBilinear",)}
    assert judged([INF], [NAN], **given) == [("NaN rule", 1, False)]
    assert judged([NAN], [2.0], **given) == [("real", 1, True)]
    assert judged([2.0], [NAN], **given) == [("real", 1, True)]


@pytest.mark.parametrize(
    ("right", "independent", "found"),
    [
        ([1.0, 2.0], True, [("rounding", False, "error of the framework")]),
        ([1.5, 2.5], True, [("real", True, "")]),  # the model itself depends on the size
        ([1.0, 2.0], False, [("real", True, "")]),  # so may its rows
        ([NAN, NAN], True, [("real", True, "")]),
    ],
)
def test_the_frameworks_answers_in_a_batch_of_another_size_are_its_answers(
    right: list[float], independent: bool, found: list[tuple[str, bool, str]]
) -> None:
    """In batches of two it is nearer to float64 than alone, and the library is not."""
    eager = {
        "1/y": [1.1, 2.1], "1/y/exact": right, "2/y": [1.0, 2.0], "2/y/exact": [1.0, 2.0],
        "2/y/spread": [0.0, 0.0], "2/y/low": [1.0, 2.0], "2/y/high": [1.0, 2.0], "2/y/missing": [0.0, 0.0],
    }  # fmt: skip
    tried = Tried(
        name="main", inputs=Path("x.npz"), rows=2, sizes=(1, 2),
        eager={name: np.array(each, "f4") for name, each in eager.items()},
    )  # fmt: skip
    tensor = Tensor(name="y", dtype=DType.FLOAT32, shape=(None,))
    answers = answers_of(tried, {"2/y": np.array([1.1, 2.1], "f4")}, {}, 2, tensor, independent=independent)
    listed = differences(
        answers, class_name="main", target="x86-64-v3", batch_size=2, output="y", rtol=1e-4, atol=1e-6,
        operations=frozenset(),
    )  # fmt: skip
    assert [(each.kind, each.is_fault, each.rule) for each in listed] == found


def test_a_scalar_is_the_answer_for_one_row_if_a_squeeze_left_no_axis() -> None:
    """ONNX's Squeeze without axes: [n] for n rows, and [] for one."""
    numbers = {"": 1.0, "/exact": 1.0, "/spread": 0.0, "/low": 1.0, "/high": 1.0, "/missing": 0.0}
    eager = {f"1/y{name}": np.array(each, "f4") for name, each in numbers.items()}
    tried = Tried(name="main n=1", inputs=Path("x.npz"), rows=1, sizes=(1,), eager=eager)
    tensor = Tensor(name="y", dtype=DType.FLOAT32, shape=(8,), axes=("n",))
    for ours, kinds in (([1.0], []), ([2.0], ["real"])):
        answers = answers_of(tried, {"1/y": np.array(ours, "f4")}, {}, 1, tensor, independent=False)
        given: dict[str, Any] = {"class_name": "n=1", "target": "x86-64-v3", "batch_size": 1, "output": "y"}
        listed = differences(answers, **given, rtol=1e-4, atol=1e-6, operations=frozenset())
        assert [each.kind for each in listed] == kinds
