"""Which differences are faults, and what they are called: the rules of docs/decisions/030, without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfaot_pkg.verify.judgement import Answers, differences, telling

NAN, INF = np.nan, np.inf


def judged(
    ours: list[Any],
    eager: list[Any] | None,
    *,
    class_name: str,
    jit: list[Any] | None = None,
    spread: list[float] | None = None,
    flushed: list[Any] | None = None,
    ran: list[bool] | None = None,
    jit_ran: list[bool] | None = None,
    dtype: str = "float32",
    rtol: float = 1e-4,
    operations: tuple[str, ...] = (),
) -> list[tuple[str, int, bool]]:
    """Kind, number of elements and whether it is a fault, of what differs."""

    def array(values: list[Any] | None) -> Any:
        return None if values is None else np.array(values, dtype)

    answers = Answers(
        ours=array(ours), eager=array(eager), eager_ran=np.array(ran or [True] * len(ours)), jit=array(jit),
        jit_ran=None if jit_ran is None else np.array(jit_ran),
        spread=None if spread is None else np.array(spread), flushed=array(flushed),
    )  # fmt: skip
    found = differences(
        answers, class_name=class_name, target="x86-64-v3", batch_size=1, output="y", rtol=rtol, atol=1e-6 if rtol else 0,
        operations=frozenset(operations),
    )  # fmt: skip
    return [(one.kind, one.elements, one.is_fault) for one in found]


@pytest.mark.parametrize("class_name", ["main", "scaled", "large", "branches"])
def test_finite_numbers_are_eager_tensorflows_to_tell_whatever_xla_says(class_name: str) -> None:
    assert judged([-8.9e22], [-0.0], class_name=class_name, jit=[-8.9e22]) == [("real", 1, True)]


@pytest.mark.parametrize(
    ("class_name", "kind"),
    [("nonfinite", "NaN rule"), ("integers", "out-of-range index"), ("subnormal", "subnormal numbers")],
)
def test_rules_of_xla_excuse_what_they_explain(class_name: str, kind: str) -> None:
    assert judged([1.0, 2.0], [3.0, 2.0], class_name=class_name, jit=[1.0, 2.0]) == [(kind, 1, False)]


def test_what_agrees_with_neither_of_tensorflows_answers_is_a_fault() -> None:
    assert judged([1.0], [NAN], class_name="nonfinite", jit=[NAN]) == [("real", 1, True)]
    assert judged([1.0], [2.0], class_name="boundary", jit=[3.0]) == [("real", 1, True)]


def test_noise_of_the_inputs_excuses_as_much_and_no_more() -> None:
    assert judged([1000.0], [1001.0], class_name="scaled", spread=[1.0]) == []
    assert judged([1000.0], [1100.0], class_name="scaled", spread=[1.0]) == [("real", 1, True)]
    assert judged([1000.0], [1001.0], class_name="main", spread=[1.0]) == [("rounding", 1, True)]


def test_overflowing_sums_have_no_right_answer() -> None:
    assert judged([5.0, NAN], [INF, 1.0], class_name="boundary") == [("large argument", 2, False)]
    assert judged([5.0], [INF], class_name="huge") == [("large argument", 1, False)]
    assert judged([NAN], [1.0], class_name="huge") == [("real", 1, True)]


@pytest.mark.parametrize("class_name", ["boundary", "huge"])
def test_the_place_of_the_largest_of_overflowing_sums_is_no_fault(class_name: str) -> None:
    tie = ("ties in sort order", 1, False)
    assert judged([0], [7], class_name=class_name, dtype="int64", operations=("ArgMax",)) == [tie]
    assert judged([True], [False], class_name=class_name, dtype="bool") == [("large argument", 1, False)]


@pytest.mark.parametrize("class_name", ["main", "scaled", "large"])
def test_wrong_places_of_ordinary_numbers_are(class_name: str) -> None:
    found = judged([0], [7], class_name=class_name, dtype="int64", operations=("ArgMax",))
    assert found == [("ties in sort order", 1, True)]
    assert judged([0], [7], class_name=class_name, dtype="int64") == [("real", 1, True)]


def test_random_numbers_what_tensorflow_refuses_and_what_it_flushes_are_told_apart() -> None:
    assert judged([1.0], [2.0], class_name="main", operations=("RandomUniform",)) == [("random op", 1, True)]
    assert judged([1.0], None, class_name="integers", ran=[False]) == [("out-of-range index", 1, False)]
    assert judged([1e-39], [1.0], class_name="scaled", flushed=[1.0]) == [("subnormal numbers", 1, False)]


def test_what_tensorflow_refused_is_no_answer_to_agree_with() -> None:
    """Its place in the array holds zeros."""
    index = ("out-of-range index", 1, False)
    assert judged([0.0, 1.0], [0.0, 1.0], class_name="integers", ran=[False, True]) == [index]
    assert judged([0.0], [5.0], class_name="nonfinite", jit=[0.0], jit_ran=[False]) == [("real", 1, True)]
    assert judged([0.0], [5.0], class_name="nonfinite", jit=[0.0], jit_ran=[True]) == [("NaN rule", 1, False)]
    assert judged([1e-39], [0.0], class_name="nonfinite", flushed=[0.0], ran=[False]) == [index]


def test_infinity_may_be_the_largest_number_of_its_sign() -> None:
    lowest = float(np.finfo(np.float32).min)
    assert judged([-np.inf], [lowest], class_name="nonfinite", jit=[0.0]) == [("NaN rule", 1, False)]
    assert judged([-np.inf], [-lowest], class_name="nonfinite", jit=[0.0]) == [("real", 1, True)]
    assert judged([-np.inf], [lowest], class_name="large", jit=[lowest]) == [("real", 1, True)]


def test_the_users_own_inputs_are_never_excused() -> None:
    """What TensorFlow refuses of them, overflowed sums and rules of XLA among finite numbers are faults."""
    assert judged([1.0], [0.0], class_name="main", ran=[False]) == [("real", 1, True)]
    assert judged([5.0], [INF], class_name="main") == [("real", 1, True)]
    assert judged([5.0], [6.0], class_name="main", jit=[5.0]) == [("real", 1, True)]


def test_each_element_is_judged_by_itself() -> None:
    pooled = judged([1.0, np.inf, 5.0], [NAN, 1.0, 1.0], class_name="nonfinite", operations=("ai.onnx.MaxPool",))
    assert pooled == [("NaN rule", 2, False), ("real", 1, True)]
    recurrent = judged([NAN, 5.0], [0.5, 1.0], class_name="nonfinite", operations=("ai.onnx.LSTM",))
    assert recurrent == [("NaN rule", 1, False), ("real", 1, True)]
    found = judged([1.0, 9.0, 3.0], [NAN, 2.0, 3.0], class_name="nonfinite", jit=[1.0, 2.0, 3.0])
    assert found == [("NaN rule", 1, False), ("real", 1, True)]


def test_infinities_and_nan_are_near_to_nothing_else() -> None:
    assert judged([NAN], [1.0], class_name="main") == [("real", 1, True)]
    assert judged([1.0], [NAN], class_name="main") == [("real", 1, True)]
    assert judged([-INF], [INF], class_name="main") == [("real", 1, True)]
    assert judged([1e30], [INF], class_name="main") == [("real", 1, True)]
    assert judged([NAN, INF], [NAN, INF], class_name="main") == []


def test_integers_are_equal_or_wrong() -> None:
    assert judged([1000001], [1000000], class_name="main", dtype="int64") == [("real", 1, True)]


def test_order_excuses_no_numbers() -> None:
    assert judged([1.0], [2.0], class_name="main", operations=("TopKV2",)) == [("real", 1, True)]


def test_subnormal_numbers_are_uncertain_only_if_tensorflow_disagrees_with_itself() -> None:
    assert judged([3e-3], [0.0], class_name="subnormal", jit=[1e-3]) == [("subnormal numbers", 1, False)]
    assert judged([3e-3], [1e-3], class_name="subnormal", jit=[1e-3]) == [("real", 1, True)]
    assert judged([3e-3], [1e-3], class_name="subnormal", flushed=[3e-3], jit=[1e-3]) == [("real", 1, True)]


def test_numbers_that_tensorflow_flushes_have_no_order() -> None:
    sorts = ("TopKV2",)
    found = judged([2], [0], class_name="subnormal", jit=[0], dtype="int32", operations=sorts)
    assert found == [("subnormal numbers", 1, False)]
    found = judged([2], [0], class_name="scaled", jit=[0], dtype="int32", operations=sorts)
    assert found == [("ties in sort order", 1, True)]
    assert judged([2], [0], class_name="subnormal", jit=[0], dtype="int32") == [("real", 1, True)]


def test_tensorflows_nan_for_angles_of_subnormal_numbers_is_not_the_answer() -> None:
    assert judged([0.5], [NAN], class_name="subnormal", jit=[NAN], operations=("Atan2",)) == [
        ("subnormal numbers", 1, False)
    ]
    assert judged([0.5], [0.6], class_name="subnormal", jit=[0.6], operations=("Atan2",)) == [("real", 1, True)]
    assert judged([0.5], [NAN], class_name="subnormal", jit=[NAN]) == [("real", 1, True)]


def test_huge_numbers_are_uncertain_only_if_tensorflow_disagrees_with_itself() -> None:
    """All distances of such points overflow, and no rule says which of them are the nearest."""
    assert judged([3e29], [0.0], class_name="huge", jit=[1e29]) == [("large argument", 1, False)]
    assert judged([3e29], [1e29], class_name="huge", jit=[1e29]) == [("real", 1, True)]
    assert judged([3e29], [0.0], class_name="large", jit=[1e29]) == [("real", 1, True)]
    rows = judged(
        [[3e29, 5.0], [3e29, 5.0]], [[0.0, 1.0], [1.0, 1.0]], class_name="huge", jit=[[1e29, 1.0], [1.0, 1.0]]
    )
    assert rows == [("large argument", 4, False)]  # that they agree on the second row is chance


def test_rows_sorted_by_nan_are_uncertain_only_if_tensorflow_disagrees_with_itself() -> None:
    ours, eager, jit = [[NAN, 5.0], [5.0, 4.0]], [[5.0, NAN], [4.0, 5.0]], [[5.0, 1.0], [4.0, 5.0]]
    found = judged(ours, eager, class_name="nonfinite", jit=jit, operations=("TopKV2",))
    assert found == [("NaN rule", 2, False), ("real", 2, True)]
    assert judged(ours, eager, class_name="nonfinite", jit=jit) == [("real", 4, True)]
    assert judged(ours, eager, class_name="main", jit=jit, operations=("TopKV2",)) == [("real", 4, True)]


def test_maxima_of_nothing_but_nan_may_be_finite_but_finite_ones_are_tensorflows_to_tell() -> None:
    """ReLU of such a maximum is 0 if TensorFlow's graph optimizer has moved it behind the pooling, else minus infinity."""
    pools = ("MaxPool",)
    assert judged([0.5], [NAN], class_name="nonfinite", jit=[NAN], operations=pools) == [("NaN rule", 1, False)]
    assert judged([NAN], [0.5], class_name="nonfinite", jit=[0.5], operations=pools) == [("real", 1, True)]
    assert judged([0.5], [NAN], class_name="nonfinite", jit=[NAN]) == [("real", 1, True)]
    assert judged([0.5], [NAN], class_name="large", jit=[NAN], operations=pools) == [("real", 1, True)]


def test_where_nan_is_in_a_window_decides_second_gradients_of_its_maximum() -> None:
    second = ("MaxPoolGradGrad",)
    assert judged([0.0], [2.0], class_name="nonfinite", jit=[1.0], operations=second) == [("NaN rule", 1, False)]
    assert judged([0.0], [2.0], class_name="large", jit=[1.0], operations=second) == [("real", 1, True)]
    assert judged([0.0], [2.0], class_name="nonfinite", jit=[1.0], operations=("MaxPoolGrad",)) == [("real", 1, True)]


def test_tensorflows_black_for_hues_near_a_full_turn_is_not_the_answer() -> None:
    hues = ("AdjustSaturation",)
    assert judged([1.0], [0.0], class_name="scaled", jit=[1.0], operations=hues) == [("rounding", 1, False)]
    assert judged([1.0], [0.0], class_name="scaled", jit=[0.5], operations=hues) == [("real", 1, True)]
    assert judged([1.0], [0.5], class_name="scaled", jit=[1.0], operations=hues) == [("real", 1, True)]
    assert judged([1.0], [0.0], class_name="scaled", jit=[1.0]) == [("real", 1, True)]
    assert judged([NAN], [0.2], class_name="nonfinite", jit=[0.1], operations=hues) == [("NaN rule", 1, False)]


def test_roundings_are_told_from_wrong_values_where_the_tolerance_is_nothing() -> None:
    assert judged([1.0, 8.0], [1.0000005, 8.0], class_name="main", spread=[0.0, 0.0], rtol=0) == [("rounding", 1, True)]
    assert judged([1.0, 8.0], [1.1, 8.0], class_name="main", spread=[0.0, 0.0], rtol=0) == [("real", 1, True)]


def test_integers_that_a_rounding_decides_are_ties_only_where_the_model_sorts() -> None:
    inf = [float("inf")]
    assert judged([0], [7], class_name="main", spread=inf, dtype="int64") == [("rounding", 1, True)]
    ties = judged([0], [7], class_name="main", spread=inf, dtype="int64", operations=("ArgMax",))
    assert ties == [("ties in sort order", 1, True)]


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
