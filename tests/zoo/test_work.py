"""How much a model computes, as estimates of costs take it: by arithmetic, on both toolchains."""

from __future__ import annotations

import pytest

from tests.zoo.cases import BY_NAME, NEWEST_VERSION
from tests.zoo.conftest import Freeze
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.spec.types import Weights

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]

_KINDS: tuple[Weights, ...] = ("shared", "embedded")
_SOFTMAX = 5  # operations per element: maximum, difference, exponential, sum, quotient


@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, NEWEST_VERSION])
def test_products_count_two_operations_per_weight_and_row(freeze_only: Freeze, tensorflow: str) -> None:
    work = freeze_only(BY_NAME["dense"], tensorflow=tensorflow).work
    weights, biases, maxima = 20 * 64 + 64 * 3, 64 + 3, 64
    assert work.constant_bytes == 4 * (weights + biases)
    assert work.operations_per_row == 2 * weights + biases + maxima + 3 * _SOFTMAX
    assert work.operations_per_call == 0


def test_what_no_row_changes_counts_per_call(freeze_only: Freeze) -> None:
    work = freeze_only(BY_NAME["only_scalars"], tensorflow=DEFAULT_VERSION).work
    assert (work.operations_per_call, work.operations_per_row) == (1, 0)


def test_a_loop_counts_its_weights_once_per_row(freeze_only: Freeze) -> None:
    work = freeze_only(BY_NAME["while_loop"], tensorflow=DEFAULT_VERSION).work
    assert 2 * 20 * 20 <= work.operations_per_row <= 2 * 20 * 20 + 3 * 20


def test_embedded_weights_count_as_shared_ones(freeze_only: Freeze) -> None:
    shared, embedded = (freeze_only(BY_NAME["dense"], tensorflow=DEFAULT_VERSION, weights=kind).work for kind in _KINDS)
    assert shared == embedded
