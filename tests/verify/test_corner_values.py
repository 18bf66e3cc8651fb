"""What libraries give for arguments that are rare: huge, infinite, no number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.zoo.cases import NEWEST_VERSION, Case
from tests.zoo.conftest import Build
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.runtime.loader import load

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]

VERSIONS = [DEFAULT_VERSION, NEWEST_VERSION]
X = np.array([[-1e4, -1e30, -3.4e38, 1e30, -7.0, -4.0, 0.5, math.nan]], np.float32)


@pytest.mark.sweep("gelu-2.17.1", night=["gelu_in_a_loop-2.21.0"])
@pytest.mark.parametrize("tensorflow", VERSIONS)
@pytest.mark.parametrize("name", ["gelu", "gelu_in_a_loop"])
def test_gelu_of_large_negative_numbers_is_zero(name: str, tensorflow: str, build: Build) -> None:
    model = load(build(Case(name=name), tensorflow=tensorflow).library.shared)
    (answers,) = model.run(1, {"x": X})["y"]
    assert np.abs(answers[:3]).max() == 0
    assert answers[3] == X[0, 3] and abs(answers[4]) < 1e-5 and math.isnan(answers[7])


@pytest.mark.sweep("program-2.17.1", night=["xla-2.17.1"])
@pytest.mark.parametrize("tensorflow", VERSIONS)
@pytest.mark.parametrize("engine", ["program", "xla"])
def test_zeros_of_both_signs_are_equal_and_the_lower_index_comes_first(
    engine: str, tensorflow: str, build: Build
) -> None:
    """As TensorFlow documents it: XLA sorts -0.0 below 0.0. Masks make such zeros (`scores * mask`)."""
    built = build(Case(name="in_order"), tensorflow=tensorflow, engine=engine, batch_sizes=(1, 4))
    model = load(built.library.shared)
    x = np.array(
        [[-0.0, 2, -0.0, 0, 4, -0.0, 0, -1], [0, -0.0] * 4, [-0.0, 0] * 4, [-1e-3, 0, -0.0, 1, -0.0, 0, 1, -1]]
    )
    down, up = np.argsort(-x, kind="stable"), np.argsort(x, kind="stable")
    for rows in (x.astype(np.float32)[:1], x.astype(np.float32)):
        answers = model(rows)
        count = len(rows)
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            assert answers[f"best_{dtype}"].tolist() == down[:count, :3].tolist()
            assert answers[f"one_{dtype}"].tolist() == down[:count, :1].tolist()
            assert answers[f"down_{dtype}"].tolist() == down[:count].tolist()
            assert answers[f"up_{dtype}"].tolist() == up[:count].tolist()
            np.testing.assert_allclose(answers[f"values_{dtype}"], np.sort(x[:count]), rtol=4e-3)
        np.testing.assert_array_equal(answers["unsorted"], -np.sort(-rows)[:, :3])
    if engine == "program":  # of equal elements each keeps its sign
        np.testing.assert_array_equal(
            np.signbit(model(rows)["values_float32"]), np.signbit(np.sort(rows, kind="stable"))
        )


@pytest.mark.sweep("2.17.1", night=[])
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_boxes_with_zeros_of_both_signs_as_scores_come_in_their_order(tensorflow: str, build: Build) -> None:
    model = load(build(Case(name="boxes"), tensorflow=tensorflow).library.shared)
    x = np.array([[-0.0, 0, -0.0, 3, 0, -0.0, 0, 4]], np.float32)
    assert model(x)["y"].tolist() == [7, 3, 0, 1, 2]


@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_loops_that_small_kernels_compute_give_their_results(tensorflow: str, build: Build) -> None:
    x = np.full((3, 8), 5.0, np.float32)
    one = load(build(Case(name="halving_loop"), tensorflow=tensorflow).library.shared).run(3, {"x": x})
    assert np.array_equal(one["y"], np.full_like(x, 0.625))
    more = load(build(Case(name="halving_loop_and_more"), tensorflow=tensorflow).library.shared).run(3, {"x": x})
    assert [more[name][0, 0] for name in "abc"] == [0.625, 13.75, 6.0]


def test_a_note_says_that_fake_quantization_computes_in_floats(build: Build) -> None:
    built = build(Case(name="quantized"), tensorflow="2.17.1")
    (note,) = (each for each in built.frozen.warnings if "FakeQuant" in each)
    assert note.startswith("FakeQuantWithMinMaxArgs: rounds floats") and "float32" in note
