"""Calls from Python: the quick way gives what the other one gives, and answers go into the caller's arrays."""

from __future__ import annotations

import inspect
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.test_loader import NAMES, _library, _rows
from tests.wording import reported
from tfaot_pkg.ground.signature import DType
from tfaot_pkg.runtime import quick
from tfaot_pkg.runtime.loader import Model, RunError, load

BIAS = np.array([0, 10, 20], "float32")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake")
    _library(folder / "lib", "affine", "fake_model.cpp", "the_table", **NAMES)
    return folder


@pytest.fixture
def model(prefix: Path) -> Model:
    return load(prefix)


def _only_quick(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_: object) -> None:
        raise AssertionError("the loader's own way was taken")

    monkeypatch.setattr(Model, "_called", called)


def test_arrays_that_fit_take_the_quick_way(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model._called((BIAS, _rows(2)), {})
    _only_quick(model, monkeypatch)
    for found in (model(BIAS, _rows(2)), model(BIAS, x=_rows(2)), model(**{"x": _rows(2), "bias-in": BIAS})):
        assert list(found) == list(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, strict=True)


@pytest.mark.parametrize(
    "arrays",
    [
        (BIAS, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        (BIAS, _rows(2).astype("float64")),
        (BIAS, np.asfortranarray(_rows(2))),
        (BIAS, _rows(4)[::2]),
        (BIAS, _rows(3)),  # composed of 2 and 2
        (BIAS, _rows(2).view(np.ma.MaskedArray)),
        (BIAS.newbyteorder() if hasattr(BIAS, "newbyteorder") else BIAS.astype(">f4"), _rows(2)),
    ],
)
def test_all_others_are_converted_as_before(model: Model, arrays: tuple[object, ...]) -> None:
    found, expected = model(*arrays), model._called(arrays, {})
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_wrong_calls_are_rejected_as_before(model: Model) -> None:
    for wrong in ((BIAS,), (BIAS, _rows(2), BIAS), (BIAS, np.zeros((2, 4), "float32"))):
        with pytest.raises(RunError):
            model(*wrong)
    with pytest.raises(RunError):
        model(BIAS, x=_rows(2), y=_rows(2))
    with pytest.raises(RunError):
        model(_rows(2), **{"bias-in": BIAS})


def test_without_a_compiler_calls_take_the_loaders_own_way(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfaot_pkg.runtime.quick._module", lambda: None)
    assert model._quick is None
    np.testing.assert_array_equal(model(BIAS, _rows(2))["y"], 2 * _rows(2) + BIAS)


def test_answers_go_into_the_callers_arrays(model: Model) -> None:
    out = {"y": np.zeros((2, 3), "float32"), "label": np.zeros(2, "int64")}
    for arrays in ((BIAS, _rows(2)), (BIAS.tolist(), _rows(2).tolist())):
        out["y"][:] = 0
        found = model(*arrays, out=out)
        assert found["y"] is out["y"] and found["label"] is out["label"]
        np.testing.assert_array_equal(out["y"], 2 * _rows(2) + BIAS)
    # An output in the memory of an input: computed apart, and copied.
    rows = _rows(2)
    expected = 2 * rows + BIAS
    model(BIAS, rows, out={**out, "y": rows})
    np.testing.assert_array_equal(rows, expected)


def test_arrays_for_answers_that_do_not_fit_are_rejected(model: Model) -> None:
    good = {"y": np.zeros((2, 3), "float32"), "label": np.zeros(2, "int64")}
    for wrong in ({**good, "y": np.zeros((2, 3))}, {**good, "y": np.zeros((3, 3), "float32")}):
        with reported(RunError):
            model(BIAS, _rows(2), out=wrong)
    with reported(RunError):
        model(BIAS, _rows(2), out=good["y"])
    good["y"].flags.writeable = False
    with pytest.raises(RunError):
        model(BIAS, _rows(2), out=good)


def test_the_method_keeps_its_signature_and_its_documentation(model: Model, prefix: Path) -> None:
    model(BIAS, _rows(2))
    assert type(Model.__call__).__module__ == "tfaot_call", "from the second call on no function of Python"
    assert list(inspect.signature(model).parameters) == ["arrays", "out", "named"]
    assert (Model.__call__.__doc__ or "").startswith("The model's outputs")
    np.testing.assert_array_equal(model.__call__(BIAS, _rows(2))["y"], 2 * _rows(2) + BIAS)

    class Derived(Model):
        pass

    derived = Derived(model.path, None)
    np.testing.assert_array_equal(derived(BIAS, x=_rows(2).tolist())["y"], 2 * _rows(2) + BIAS)
    with pytest.raises(TypeError):
        Model.__call__()  # type: ignore[call-arg]


def test_threads_call_one_model_the_quick_way(model: Model) -> None:
    found: list[bool] = []

    def work() -> None:
        for _ in range(200):
            found.append(bool((model(BIAS, _rows(2))["y"] == 2 * _rows(2) + BIAS).all()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(found) and len(found) == 800


def test_long_calls_let_other_threads_run() -> None:
    assert quick._release_at({1: 1000.0, 100: 50_000.0}) == 20  # 1 us a row
    assert quick._release_at({1: 30_000.0}) == 1
    assert quick._release_at({}) == 1


def test_dtypes_are_types_for_numpy(model: Model) -> None:
    assert [np.zeros(2, tensor.dtype).dtype for tensor in model.signature.inputs] == [np.dtype("float32")] * 2
    assert np.dtype(DType.BFLOAT16) == np.dtype("uint16")


def test_a_notebook_shows_signature_and_sizes(model: Model) -> None:
    page = model._repr_html_()
    for part in ("affine 1.2.0", "<td>bias-in</td><td>float32</td><td>[3]</td>", "[N, 3]", "rows: 2, 4"):
        assert part in page
