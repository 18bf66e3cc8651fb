"""The files that engines read and write."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.measure.bench.measure import difference, write_inputs
from tfaot_pkg.measure.bench.results import Difference
from tfaot_pkg.spec.types import Bars, Validation

SIGNATURE = Signature(
    inputs=(
        Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3)),
        Tensor(name="steps", dtype=DType.INT64, shape=(2,)),
    ),
    outputs=(
        Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2)),
        Tensor(name="count", dtype=DType.INT32, shape=()),
    ),
)


def test_inputs_stand_in_one_file_at_multiples_of_64_bytes_and_in_one_each(tmp_path: Path) -> None:
    values = {"x": np.arange(30, dtype=np.float32).reshape(10, 3), "steps": np.array([7, 8])}
    made = write_inputs(values, SIGNATURE, 4, tmp_path)
    content = made.file.read_bytes()
    assert np.array_equal(np.frombuffer(content[:48], np.float32).reshape(4, 3), values["x"][:4])
    assert np.array_equal(np.frombuffer(content[64:80], np.int64), [7, 8]) and len(content) == 128
    assert np.array_equal(np.fromfile(made.files["x"], np.float32), values["x"][:4].ravel())
    assert made.rows == 4


def _difference(folder: Path, ours: list[float], count: int, theirs: list[float]) -> Difference:
    file = folder / "answers.bin"
    file.write_bytes(np.array(ours, np.float32).tobytes() + np.array(count, np.int32).tobytes())
    reference = {"2/y": np.array(theirs, np.float32).reshape(2, 2), "2/count": np.array(5, np.int32)}
    return difference(file, 2, SIGNATURE.outputs, reference, Validation(rtol=0.1, atol=0.1))


def _errors(*arguments: Any) -> tuple[float, float]:
    found = _difference(*arguments)
    return found.max_absolute, found.max_relative


def test_the_largest_error_is_absolute_and_relative_to_the_outputs_largest_value(tmp_path: Path) -> None:
    assert _errors(tmp_path, [1, 2, 3, 4], 5, [1, 2, 3, 4]) == (0.0, 0.0)
    assert _errors(tmp_path, [1, 2.5, 3, 4], 5, [1, 2, 3, 4]) == (0.5, 0.125)
    assert _errors(tmp_path, [1, 2, 3, 4], 6, [1, 2, 3, 4]) == (1.0, 0.2)


def test_of_two_columns_and_one_the_second_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "answers.bin"
    file.write_bytes(np.array([0.75, 0.25, 0.5, 0.5], np.float32).tobytes())
    theirs = {"2/y": np.array([[0.25], [0.25]])}
    found = difference(file, 2, SIGNATURE.outputs[:1], theirs, Validation(rtol=0.1, atol=0.1))
    assert found.max_absolute == 0.25 and found.failures == 1


def test_what_is_no_number_on_both_sides_agrees_and_on_one_side_does_not(tmp_path: Path) -> None:
    nan = math.nan
    assert _errors(tmp_path, [1, nan, 3, math.inf], 5, [1, nan, 3, math.inf]) == (0.0, 0.0)
    assert _errors(tmp_path, [1, nan, 3, 4], 5, [1, 2, 3, 4]) == (math.inf, math.inf)
    assert _errors(tmp_path, [1, 2, 3, 4], 5, [1, 2, 3, nan])[0] == math.inf


@pytest.mark.parametrize("length", [0, 7])
def test_too_few_values_are_an_error(tmp_path: Path, length: int) -> None:
    (tmp_path / "answers.bin").write_bytes(bytes(length))
    with pytest.raises(ValueError):
        difference(tmp_path / "answers.bin", 2, SIGNATURE.outputs, {}, Validation())


def test_values_beyond_the_tolerance_are_counted_and_integers_have_none(tmp_path: Path) -> None:
    assert _difference(tmp_path, [1, 2.1, 3.5, 40], 5, [1, 2, 3, 4]).failures == 2  # 3.5 and 40: more than 0.1 + 10 %
    assert _difference(tmp_path, [1, 2, 3, math.nan], 6, [1, 2, 3, 4]).failures == 2


def test_bars_stand_for_the_tolerance_of_reduced_precision(tmp_path: Path) -> None:
    file = tmp_path / "answers.bin"
    file.write_bytes(np.array([1, 2.5, 3, 4], np.float32).tobytes() + np.array(5, np.int32).tobytes())
    theirs = {"2/y": np.array([[1, 2], [3, 4]], np.float32), "2/count": np.array(5, np.int32)}

    def failures(bars: Bars) -> int:
        validation = Validation(rtol=0, atol=0, accuracy={"all": bars})
        return difference(file, 2, SIGNATURE.outputs, theirs, validation, has_bars=True).failures

    assert failures(Bars(largest=0.5, mean=0.125)) == 0
    assert failures(Bars(largest=0.4)) == 1 and failures(Bars(largest=0.4, mean=0.1)) == 2
    theirs["2/y"][0, 0] = np.nan
    assert failures(Bars(largest=0.5)) == 1
