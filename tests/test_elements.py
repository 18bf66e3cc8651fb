"""Elements of arrays in their three forms: held by libraries, as numbers, and as compiled code carries them."""

from __future__ import annotations

import numpy as np
import pytest

from tfaot_pkg.ground.signature import DType, Tensor
from tfaot_pkg.worker_program.messages.elements import carried, epsilon, held, held_type, largest, numbers


def test_bfloat16_are_the_nearest_numbers_with_ties_to_even() -> None:
    # Between 1 and 2 the distance of bfloat16 is 2**-7; 1 + 2**-8 is as near to 1 as to 1 + 2**-7.
    given = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1.5, 0.0, -0.0, 3.4e38], "float32")
    wanted = [1, 1, 1 + 2**-6, 1 + 2**-7, -1.5, 0.0, -0.0, np.inf]
    found = numbers(held(given, "bfloat16"), "bfloat16")
    np.testing.assert_array_equal(found, np.array(wanted, "float32"))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(given))


def test_every_bfloat16_is_held_as_its_bits() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = numbers(bits, "bfloat16")
    back = held(values, "bfloat16")
    is_nan = np.isnan(values)
    np.testing.assert_array_equal(back[~is_nan], bits[~is_nan])
    assert np.isnan(numbers(back[is_nan], "bfloat16")).all()
    assert largest("bfloat16") == values[np.isfinite(values)].max() and epsilon("bfloat16") == 2.0**-7


def test_complex_numbers_are_pairs_of_their_parts() -> None:
    array = np.array([[1 + 2j], [3 - 4j]], "complex64")
    np.testing.assert_array_equal(numbers(array, "complex64"), [[[1, 2]], [[3, -4]]])
    np.testing.assert_array_equal(held(numbers(array, "complex64"), "complex64"), array)
    assert carried(array, "complex64").tobytes() == array.tobytes()
    assert numbers(np.array(1 + 2j), "complex128").tolist() == [1, 2]
    assert held(np.array([1.0, 2.0]), "complex128") == 1 + 2j


def test_what_carries_float16_are_its_bits() -> None:
    array = np.array([1, 0.1, -2], "float16")
    assert carried(array, "float16").tolist() == [0x3C00, 0x2E66, 0xC000]


@pytest.mark.parametrize("dtype", list(DType))
def test_a_carrier_has_the_same_bytes(dtype: DType) -> None:
    tensor = Tensor(name="x", dtype=dtype, shape=(None, 3), axes=("", "n"))
    assert tensor.carried.nbytes_at(5) == tensor.nbytes_at(5)
    assert len(tensor.carried.axes) == len(tensor.carried.shape)
    zeros = np.zeros((5, 3), held_type(dtype.value))
    assert carried(zeros, dtype.value).shape == tensor.carried.shape_at(5)
    assert carried(zeros, dtype.value).dtype == held_type(tensor.carried.dtype.value)
