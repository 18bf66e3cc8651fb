"""Batches of sizes that are not in the spec: which they are, and which differences of their rows are told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.verify.sizes import other_sizes, repeated, unlike

SIGNATURE = Signature(
    inputs=(
        Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 2)),
        Tensor(name="shift", dtype=DType.FLOAT32, shape=(2,)),
    ),
    outputs=(
        Tensor(name="y", dtype=DType.FLOAT32, shape=(None,)),
        Tensor(name="n", dtype=DType.INT64, shape=(None,)),
        Tensor(name="whole", dtype=DType.FLOAT64, shape=()),
    ),
)


def test_one_row_a_part_of_a_block_and_several_blocks_are_tried() -> None:
    assert other_sizes(64, (4, 16)) == (1, 63, 255)
    assert other_sizes(64, (1, 63)) == (2, 64, 255)
    assert other_sizes(1, (1,)) == (2, 3, 4)


@given(st.integers(1, 4096), st.sets(st.integers(1, 300), min_size=1))
def test_sizes_are_new_and_ascending(block: int, known: set[int]) -> None:
    sizes = other_sizes(block, sorted(known))
    assert not known & set(sizes)
    assert len(set(sizes)) == 3 and max(sizes) > 3 * block


def test_rows_that_have_answers_are_repeated() -> None:
    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    made = repeated({"x": x, "shift": x[0]}, SIGNATURE, (4, 3), (1, 8))  # two batches of 3, one of 4: rows 0 to 5
    assert made["x"][:, 0].tolist() == [0, 2, 4, 6, 8, 10, 0, 2]
    assert made["shift"].tolist() == [0, 1]


def known() -> dict[str, Array]:
    y = np.array([0.5, np.nan, -0.0, 3.0], np.float32)
    n = np.arange(4)
    whole = np.full((), 2.5)
    return {"3/y": y[:3], "3/n": n[:3], "3/whole": whole, "4/y": y, "4/n": n, "4/whole": whole}


def at_size_9() -> dict[str, Array]:
    order = np.arange(9) % 4
    return {"9/y": known()["4/y"][order], "9/n": known()["4/n"][order], "9/whole": known()["4/whole"].copy()}


def test_the_same_bits_are_no_difference_and_nan_is_nan() -> None:
    ours = at_size_9()
    ours["9/y"][1] = -np.float32(np.nan)
    assert list(unlike(ours, known(), target="x86-64-v3", signature=SIGNATURE)) == []


@pytest.mark.parametrize(
    ("output", "row", "value", "largest"),
    [
        ("y", 8, np.nextafter(np.float32(0.5), np.float32(1)), 2.0**-24),
        ("y", 2, 0.0, 0.0),  # -0.0
        ("n", 5, 2, 1.0),
        ("whole", (), 2.75, 0.25),
    ],
)
def test_other_bits_are_a_fault(output: str, row: int, value: float, largest: float) -> None:
    ours = at_size_9()
    ours[f"9/{output}"][row] = value
    (found,) = unlike(ours, known(), target="x86-64-v3", signature=SIGNATURE)
    assert (found.output, found.batch_size, found.kind, found.elements) == (output, 9, "other bits", 1)
    assert found.is_fault and found.max_absolute == pytest.approx(largest, rel=1e-6)
