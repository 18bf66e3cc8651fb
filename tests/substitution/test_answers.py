"""Models with layers in calls give TensorFlow's answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tests.substitution.conftest import USUAL_TARGETS, Answers, Model
from tfaot_pkg.loader import load
from tfaot_pkg.targets import TARGETS, runs_here

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

MODELS = ("dense", "items", "images", "structure")
RUNNABLE = tuple(name for name in USUAL_TARGETS if runs_here(TARGETS[name]))
USUAL = ("rows1", "rows3", "rows5")  # 3 is not compiled: it is composed of others
UNSTABLE = {"apart", "norm_before_stride"}  # the sine of a large number depends on its last bit
CENTRED = {"dense": ("input_normalized", "input_centred"), "images": ("norm_of_input",)}
ERROR = 2e-5
ERRORS = {"half": 2e-3}


def _compare(model: Model, target: str, batch: str, outputs: set[str]) -> None:
    inputs = model.answers[f"{batch}/in"]
    results = load(model.library.shared, target=target)(x=inputs, unused=np.zeros((len(inputs), 2), "float32"))
    for name in sorted(outputs):
        assert_answer(name, results[name], model.answers[f"{batch}/out/{name}"], (batch, target))


def assert_answer(
    name: str, result: npt.NDArray[np.float32], expected: npt.NDArray[np.float32], where: tuple[object, ...]
) -> None:
    """Errors are relative to the largest finite number of a row: sums have errors of their largest terms.

    `where` is what else a failure tells.
    """
    assert result.shape == expected.shape
    scale = _largest(expected) * ERRORS.get(name, ERROR)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(result - expected) <= scale
    same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    assert np.all(close | same), (name, *where)


def _largest(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Of each row, with its axes, and at least 1e-3."""
    axes = tuple(range(1, values.ndim))
    finite = np.where(np.isfinite(values), np.abs(values), 0)
    largest: npt.NDArray[np.float32] = np.maximum(finite.max(axis=axes, keepdims=True, initial=0), 1e-3)
    return largest


def outputs_of(answers: Answers) -> set[str]:
    return {name.rpartition("/")[2] for name in answers if "/out/" in name}


@pytest.mark.sweep("*-dense")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", RUNNABLE)
def test_answers_are_tensorflows_at_each_batch_size(name: str, target: str, build: Callable[..., Model]) -> None:
    model = build(name)
    for batch in USUAL:
        _compare(model, target, batch, outputs_of(model.answers))


@pytest.mark.sweep("*-dense")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", RUNNABLE)
def test_what_is_not_finite_spreads_as_in_tensorflow(name: str, target: str, build: Callable[..., Model]) -> None:
    model = build(name)
    _compare(model, target, "broken", outputs_of(model.answers) - UNSTABLE)


@pytest.mark.sweep("*-dense")
@pytest.mark.parametrize("name", CENTRED)
@pytest.mark.parametrize("target", RUNNABLE)
def test_inputs_far_from_zero_are_centred_first(name: str, target: str, build: Callable[..., Model]) -> None:
    model = build(name)
    _compare(model, target, "far", set(CENTRED[name]))


def test_units_may_choose_apart(build: Callable[..., Model]) -> None:
    """The weights of both units are fed to each, in the form that it takes and in the other one."""
    model = build("structure", targets=("x86-64-v3",), only_first=True)
    assert [bool(unit.calls) for unit in model.compiled.units] == [True, False]
    for batch in ("rows1", "rows5"):
        _compare(model, "x86-64-v3", batch, outputs_of(model.answers))


@pytest.mark.sweep("kernels")
@pytest.mark.parametrize("option", [{"kernels": "none"}, {"weights": "embedded"}], ids=["kernels", "weights"])
def test_calls_are_made_only_where_the_spec_lets_them(option: dict[str, str], build: Callable[..., Model]) -> None:
    model = build("structure", targets=("x86-64-v3",), **option)
    assert not any(unit.calls for unit in model.compiled.units)
    _compare(model, "x86-64-v3", "rows5", outputs_of(model.answers))
