"""Validation inputs: drawn from a seed, or from a file that must fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.spec.types import Validation
from tfaot_pkg.verify.inputs import drawn, validation_inputs
from tfaot_pkg.verify.limits import Drawing
from tfaot_pkg.worker_program.messages.elements import held_type
from tfaot_pkg.worker_program.messages.sources import CategoryColumn

X = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3))
TABLE = Tensor(name="table", dtype=DType.FLOAT64, shape=(2, 2))
SCALAR = Tensor(name="s", dtype=DType.FLOAT32, shape=())
Y = Tensor(name="y", dtype=DType.FLOAT32, shape=(None,))


def _signature(*inputs: Tensor) -> Signature:
    return Signature(inputs=inputs, outputs=(Y,))


def _file(folder: Path, **arrays: object) -> Validation:
    path = folder / "inputs.npz"
    np.savez(path, **{name: np.asarray(values) for name, values in arrays.items()})  # type: ignore[arg-type]
    return Validation(inputs=path)


def test_a_seed_always_draws_the_same_inputs_and_another_seed_draws_others() -> None:
    first, again, other = (validation_inputs(Validation(seed=seed), _signature(X), 1)["x"] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_drawn_inputs_have_as_many_rows_as_asked_for_and_fill_the_largest_batch() -> None:
    assert validation_inputs(Validation(samples=10), _signature(X), 4)["x"].shape == (10, 3)
    assert validation_inputs(Validation(samples=10), _signature(X), 16)["x"].shape == (16, 3)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_is_drawn_as_itself(dtype: DType) -> None:
    values = validation_inputs(Validation(samples=100), _signature(Tensor(name="x", dtype=dtype, shape=(None, 2))), 1)[
        "x"
    ]
    assert values.dtype == held_type(dtype.value) and values.shape == (100, 2)
    assert len(np.unique(values)) > 130 if dtype.is_inexact else len(np.unique(values)) == 2


def test_arrays_of_ml_dtypes_are_taken_for_bfloat16(tmp_path: Path) -> None:
    given = np.array([[0x3F80], [0xC000]], "uint16")  # 1 and -2
    x = Tensor(name="x", dtype=DType.BFLOAT16, shape=(None, 1))
    # What numpy.savez stores of a type that it does not know.
    for stored in (given, given.view("V2")):
        np.testing.assert_array_equal(validation_inputs(_file(tmp_path, x=stored), _signature(x), 1)["x"], given)
    with pytest.raises(SpecError, match="float32") as caught:
        validation_inputs(_file(tmp_path, x=np.ones((2, 1), "float32")), _signature(x), 1)
    assert "uint16" in caught.value.hint


def test_inputs_without_batch_axis_keep_their_shape() -> None:
    drawn = validation_inputs(Validation(samples=7), _signature(SCALAR, TABLE, X), 1)
    assert {name: values.shape for name, values in drawn.items()} == {"s": (), "table": (2, 2), "x": (7, 3)}


def test_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    x = np.arange(12, dtype="float32").reshape(4, 3)
    table = np.eye(2)
    taken = validation_inputs(_file(tmp_path, x=x, table=table), _signature(TABLE, X), 4)
    assert np.array_equal(taken["x"], x) and np.array_equal(taken["table"], table)


@pytest.mark.parametrize(
    "arrays",
    [
        {"y": np.zeros((4, 3), "float32")},
        {},
        {"x": np.zeros((4, 3), "float64")},
        {"x": np.zeros((4, 2), "float32")},
        {"x": np.zeros((4,), "float32")},
        {"x": np.float32(1)},
        {"x": np.zeros((3, 3), "float32")},
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path: Path, arrays: dict[str, object]) -> None:
    with reported(SpecError):
        validation_inputs(_file(tmp_path, **arrays), _signature(X), 4)


def test_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    other = Tensor(name="z", dtype=DType.FLOAT32, shape=(None,))
    file = _file(tmp_path, x=np.zeros((4, 3), "float32"), z=np.zeros(5, "float32"))
    with reported(SpecError):
        validation_inputs(file, _signature(X, other), 1)


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04cut"])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "inputs.npz"
    path.write_bytes(content)
    with reported(SpecError):
        validation_inputs(Validation(inputs=path), _signature(X), 1)


def test_pickled_objects_in_a_file_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with reported(SpecError):
        validation_inputs(Validation(inputs=path), _signature(X), 1)


def test_columns_of_categories_get_known_categories_in_every_class() -> None:
    x = Tensor(name="x", dtype=DType.FLOAT64, shape=(None, 3))
    columns = (
        CategoryColumn(column=0, name="charge", given="values", values=(-1, 0.5, 211)),
        CategoryColumn(column=2, name="detector", given="positions", values=("barrel", "endcap")),
        CategoryColumn(column=1, name="number", given="codes", values=()),
    )
    signature, drawing = Signature(inputs=(x,), outputs=(x,)), Drawing(categories=columns)
    for found in (
        validation_inputs(Validation(samples=200), signature, 1, drawing=drawing),
        drawn("huge", signature, seed=0, rows=200, drawing=drawing),
        drawn("nonfinite", signature, seed=0, rows=200, drawing=drawing),
    ):
        assert set(found["x"][:, 0]) == {-1, 0.5, 211}
        assert set(found["x"][:, 2]) == {0, 1}
        assert len(np.unique(found["x"][:, 1])) > 100
