"""Which layers are chosen: expected choices follow from times that are made up of each layer's own."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.tuning.selection import (
    Chosen,
    Group,
    Measured,
    Ratio,
    budget_of,
    described,
    groups_of,
    twice,
    variants_of,
    within,
)
from tfaot_pkg.worker_program.messages.graph import Weight


def _layer(name: str, operation: Mapping[str, Any], *, after: str = "", weights: int | None = None) -> Layer:
    """`weights` are the bytes of its parameters; by default those of the operation's sizes."""
    parameters = None
    if operation["kind"] in ("dense", "conv2d"):
        size = weights if weights is not None else 4 * operation["inputs"] * operation["outputs"]
        parameters = Weight(node=f"{name}/parameters", dtype="float32", shape=(size // 4,), offset=0)
    return Layer(
        name=name, operation=operation, reads=(f"{name}/in", 0), after=after, reads_input=False, gives_output=False,
        input_size=1, output_size=1, output_shape=(1,), parameters=parameters,
    )  # fmt: skip


def _dense(name: str, inputs: int, outputs: int, *, after: str = "", weights: int | None = None) -> Layer:
    operation = {"kind": "dense", "rows": 1, "inputs": inputs, "outputs": outputs, "activation": "relu"}
    return _layer(name, operation, after=after, weights=weights)


def _names(*names: str) -> Chosen:
    return frozenset(names)


A, B, C = _dense("a", 64, 256), _dense("b", 256, 256, after="a"), _dense("c", 256, 256, after="b")
SOFTMAX = _layer("p", {"kind": "softmax", "rows": 1, "size": 256}, after="c")
LAYERS = (A, B, C, SOFTMAX)
GROUPS = groups_of(LAYERS)
WIDE, FIRST = GROUPS


def test_layers_of_one_operation_are_a_group_with_what_follows_them_largest_first() -> None:
    assert [group.names for group in GROUPS] == [_names("b", "c", "p"), _names("a")]


def test_what_no_product_stands_before_is_in_no_group() -> None:
    alone = _layer("q", {"kind": "softmax", "rows": 1, "size": 4})
    assert groups_of([alone]) == () and groups_of([alone, A])[0].names == _names("a")


def test_beyond_a_few_groups_the_small_ones_are_one() -> None:
    groups = groups_of([_dense(f"d{size}", size, size) for size in range(1, 21)])
    assert len(groups) == 6 and [*groups[0].names] == ["d20"] and len(groups[-1].names) == 15
    assert sorted(name for group in groups for name in group.names) == sorted(f"d{size}" for size in range(1, 21))


def test_measured_are_the_base_all_none_and_each_group_on_the_other_side() -> None:
    everything, none = _names("a", "b", "c", "p"), _names()
    assert variants_of(everything, GROUPS) == (everything, none, _names("a"), _names("b", "c", "p"))
    assert variants_of(_names("a"), GROUPS) == (_names("a"), everything, none)
    assert variants_of(none, GROUPS) == (none, everything, _names("b", "c", "p"), _names("a"))


def _measured(base: Chosen, *groups: tuple[Group, float, float], noise: float = 0.0) -> Measured:
    """Of groups with the time that each takes in the kernel library, and as XLA's code."""

    def time(chosen: Chosen) -> float:
        return sum(ours if chosen & group.names else xla for group, ours, xla in groups)

    variants = variants_of(base, [group for group, _, _ in groups])
    return Measured(base=base, ratios={each: Ratio(value=time(each) / time(base), error=noise) for each in variants})


ALL = _names("a", "b", "c", "p")


@pytest.mark.parametrize("base", [ALL, _names(), _names("a")], ids=["all", "none", "a"])
@pytest.mark.parametrize("wide", [0.5, 1.6])
@pytest.mark.parametrize("first", [0.5, 1.6])
def test_the_best_choice_is_found_from_any_base(base: Chosen, wide: float, first: float) -> None:
    measured = _measured(base, (WIDE, wide, 1.0), (FIRST, first, 1.0))
    expected = (WIDE.names if wide < 1 else _names()) | (FIRST.names if first < 1 else _names())
    assert measured.best(GROUPS) == expected


def test_gains_that_are_small_or_noise_leave_the_base() -> None:
    small = _measured(ALL, (WIDE, 1.02, 1.0), (FIRST, 1.02, 1.0))
    noisy = _measured(ALL, (WIDE, 1.3, 1.0), (FIRST, 1.0, 1.0), noise=0.06)
    assert small.best(GROUPS) == noisy.best(GROUPS) == ALL


def test_several_groups_gain_together() -> None:
    third = groups_of([*LAYERS, _dense("d", 8, 8)])[-1]
    groups = [WIDE, FIRST, third]
    measured = _measured(ALL | {"d"}, (WIDE, 1.0, 9.0), (FIRST, 2.0, 1.0), (third, 2.0, 1.0))
    best = measured.best(groups)
    assert best == WIDE.names and best not in measured.ratios
    assert measured.predicted(best, groups) == pytest.approx(3 / 5)


def test_what_is_confirmed_stays_and_what_is_not_goes_back() -> None:
    measured = Measured(
        base=ALL, ratios={ALL: Ratio(value=1.0), _names(): Ratio(value=0.95), _names("a"): Ratio(value=0.99)}
    )
    assert measured.confirmed(_names()) == _names() and measured.confirmed(_names("a")) == ALL


def _units(choices: Sequence[Chosen]) -> dict[tuple[int, str], Chosen]:
    return {(size, "x86-64-v3"): chosen for size, chosen in zip((1, 4, 16), choices, strict=True)}


def test_weights_on_both_sides_count_once_and_shared_ones_too() -> None:
    size = WIDE.layers[0].parameters_size
    assert twice(GROUPS, [ALL, ALL]) == 0
    assert twice(GROUPS, [ALL, _names()]) == 2 * size + FIRST.layers[0].parameters_size
    assert twice(GROUPS, [ALL, _names("a", "b", "p")]) == size
    tied = Group(layers=(B, dataclasses.replace(C, parameters=B.parameters)))
    assert twice([tied], [tied.names, _names()]) == size


def test_choices_within_the_budget_stay() -> None:
    measured = dict.fromkeys(_units([ALL] * 3), _measured(ALL, (WIDE, 2.0, 1.0), (FIRST, 2.0, 1.0)))
    choices = _units([ALL, _names(), ALL])
    assert within(choices, measured, GROUPS, budget=twice(GROUPS, choices.values())) != _units([ALL] * 3)
    alike = _units([_names()] * 3)
    assert within(alike, measured, GROUPS, budget=0) == alike


def test_without_a_budget_each_group_is_on_the_side_that_is_faster_on_the_whole() -> None:
    """The kernel library takes half the time for the wide layers at two sizes, half as long again at the first one."""
    slow = _measured(ALL, (WIDE, 1.5, 1.0), (FIRST, 1.1, 1.0))
    fast = _measured(ALL, (WIDE, 0.5, 1.0), (FIRST, 1.0, 1.1))
    measured = dict(zip(_units([ALL] * 3), (slow, fast, fast), strict=True))
    choices = {unit: each.best(GROUPS) for unit, each in measured.items()}
    assert [*choices.values()] == [_names(), ALL, ALL]
    free = within(choices, measured, GROUPS, budget=1 << 30)
    assert free == choices
    decided = within(choices, measured, GROUPS, budget=0)
    assert twice(GROUPS, decided.values()) == 0
    assert all(WIDE.names <= chosen for chosen in decided.values())
    best = min(
        (_total(dict.fromkeys(choices, wide | first), measured), wide | first)
        for wide, first in itertools.product((WIDE.names, _names()), (FIRST.names, _names()))
    )
    assert set(decided.values()) == {best[1]}


def _total(choices: Mapping[tuple[int, str], Chosen], measured: Mapping[tuple[int, str], Measured]) -> float:
    return sum(math.log(measured[unit].predicted(chosen, GROUPS)) for unit, chosen in choices.items())


def test_a_small_group_keeps_its_choices_where_a_large_one_may_not() -> None:
    size = twice([FIRST], [ALL, _names()])
    other = _measured(ALL, (WIDE, 1.2, 1.0), (FIRST, 1.2, 1.0))
    same = _measured(ALL, (WIDE, 0.5, 1.0), (FIRST, 0.5, 1.0))
    measured = dict(zip(_units([ALL] * 3), (other, same, same), strict=True))
    decided = within(_units([_names(), ALL, ALL]), measured, GROUPS, budget=size)
    assert [*decided.values()] == [WIDE.names, ALL, ALL]


def test_the_group_that_gains_most_per_byte_has_the_budget() -> None:
    groups = groups_of([_dense("large", 100, 100, weights=4000), _dense("small", 50, 50, weights=4000)])
    large, small = groups
    everything, none = large.names | small.names, _names()
    other = _measured(everything, (large, 1.2, 1.0), (small, 1.6, 1.0))
    same = _measured(everything, (large, 0.5, 1.0), (small, 0.5, 1.0))
    measured = dict(zip(_units([everything] * 3), (other, same, same), strict=True))
    decided = within(_units([none, everything, everything]), measured, groups, budget=7999)
    assert [*decided.values()] == [large.names, everything, everything]


def test_the_budget_is_a_tenth_of_the_weights_and_a_little() -> None:
    assert budget_of(0) == 65536 and budget_of(10_000_000) == 1_065_536


def test_choices_in_words() -> None:
    assert [described(each, ALL) for each in (ALL, _names(), _names("a"))] == ["all", "none", "1 of 4"]
