"""What libraries give for arguments that are rare: huge, infinite, no number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.zoo.cases import NEWEST_VERSION, Case
from tests.zoo.conftest import Build
from tfaot_pkg.loader import load
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]

VERSIONS = [DEFAULT_VERSION, NEWEST_VERSION]
X = np.array([[-1e4, -1e30, -3.4e38, 1e30, -7.0, -4.0, 0.5, math.nan]], np.float32)


@pytest.mark.sweep("gelu-2.17.1")
@pytest.mark.parametrize("tensorflow", VERSIONS)
@pytest.mark.parametrize("name", ["gelu", "gelu_in_a_loop"])
def test_gelu_of_large_negative_numbers_is_zero(name: str, tensorflow: str, build: Build) -> None:
    model = load(build(Case(name=name), tensorflow=tensorflow).library.shared)
    (answers,) = model.run(1, {"x": X})["y"]
    assert np.abs(answers[:3]).max() == 0
    assert answers[3] == X[0, 3] and abs(answers[4]) < 1e-5 and math.isnan(answers[7])


@pytest.mark.nightly
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_loops_that_small_kernels_compute_give_their_results(tensorflow: str, build: Build) -> None:
    x = np.full((3, 8), 5.0, np.float32)
    one = load(build(Case(name="halving_loop"), tensorflow=tensorflow).library.shared).run(3, {"x": x})
    assert np.array_equal(one["y"], np.full_like(x, 0.625))
    more = load(build(Case(name="halving_loop_and_more"), tensorflow=tensorflow).library.shared).run(3, {"x": x})
    assert [more[name][0, 0] for name in "abc"] == [0.625, 13.75, 6.0]
