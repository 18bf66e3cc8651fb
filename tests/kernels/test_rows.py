"""Rows whose last elements share a vector, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.library import Kernels

pytestmark = pytest.mark.slow  # compiles the kernels


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 12, 13, 15, 16, 17, 18, 20, 24, 33, 50])
def test_any_number_of_rows_has_what_numpy_computes(kernels: Kernels, size: int) -> None:
    random = np.random.default_rng(size)
    for rows in (*range(1, 19), 33):
        # Small integers: multiplication and addition may be fused or not.
        values, factors, added = (
            random.integers(-99, 100, sizes).astype(np.float32) for sizes in ((rows, size), rows, size)
        )
        for machine in (kernels, kernels.beside_start()):
            np.testing.assert_array_equal(machine.scale_rows(values, factors, added), values * factors[:, None] + added)
