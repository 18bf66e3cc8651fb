"""The pinned inputs are those that the module's text defines."""

from __future__ import annotations

import math
import struct

import numpy as np
import numpy.typing as npt
import pytest

from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.verify.corpus import SIZES, corpus, sizes_of

_64 = (1 << 64) - 1
COLUMNS = 64


def signature(*inputs: Tensor, outputs: tuple[Tensor, ...] = ()) -> Signature:
    return Signature(inputs=inputs, outputs=outputs)


def tensor(dtype: DType, *shape: int | None, name: str = "x") -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape)


def word(number: int, element: int) -> int:
    z = ((element + 1) * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1342543DE82EF95) & _64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _64
    return z ^ (z >> 31)


def expected(dtype: DType, z: int, row: int) -> bytes:
    """The bytes of an element in Python's integers and floats, after the text."""
    kind, turn, size = row % 5, row // 5, dtype.itemsize
    if dtype is DType.BOOL:
        return bytes([(z >> 40) % 2])
    if dtype in (DType.FLOAT16, DType.BFLOAT16):
        (single,) = struct.unpack("<f", expected(DType.FLOAT32, z, row))
        with np.errstate(over="ignore"):
            rounded = np.array(single, "float32").astype("float16") if dtype is DType.FLOAT16 else _brain(single)
        return bytes(rounded.tobytes())
    if dtype not in (DType.FLOAT32, DType.FLOAT64):
        least = -(1 << (8 * size - 1)) if dtype.value.startswith("int") else 0
        most = least + (1 << 8 * size) - 1
        numbers = (0, 1, most, least, -1 if least else most - 1)
        value = ((z >> 40) % 4, (z >> 40) % 128, z >> 1, numbers[(z >> 8) % 5], (z >> 40) % 4)[kind]
        return (value & _64).to_bytes(8, "little")[:size]
    form = "<f" if size == 4 else "<d"
    largest = (2 - 2.0 ** (-23 if size == 4 else -52)) * 2.0 ** (127 if size == 4 else 1023)
    tiny = 2.0 ** (-126 if size == 4 else -1022)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        largest,
        -largest,
        tiny,
        -tiny,
        *([math.nan, math.inf, -math.inf] if turn % 2 else []),
    ]
    plain, share = (z >> 40) / 2**22 - 2, z % 256
    real = (plain, 16 * plain, 2.0 ** (24 * (1 + turn % 5)) * plain, plain, plain)[kind]
    if kind == 3 and share < 64:
        real = special[(z >> 8) % len(special)]
    if kind == 4 and share < 128:
        real = (-1) ** (z % 2) * ((z >> 8) % 2**23) * (2.0**-149 if size == 4 else 2.0**-1074)
    return struct.pack(form, real)


def _brain(single: float) -> npt.NDArray[np.uint16]:
    """The bits of the nearest bfloat16, by a search among neighbours."""
    bits = int(np.float32(single).view(np.uint32))
    if math.isnan(single):
        return np.array(bits >> 16 | 0x40, np.uint16)
    near = [bits >> 16, (bits >> 16) + 1]
    values = [float(np.uint32(each << 16).view(np.float32)) for each in near]
    if math.isinf(values[1]):  # rounded up as if the range went on
        values[1] = math.copysign(2.0**128, single)
    off = [abs(single - value) for value in values]
    first = math.isinf(single) or (off[0], near[0] % 2) <= (off[1], near[1] % 2)
    return np.array(near[0] if first else near[1], np.uint16)


@pytest.mark.parametrize("dtype", [each for each in DType if each not in (DType.COMPLEX64, DType.COMPLEX128)])
def test_inputs_are_those_of_the_text(dtype: DType) -> None:
    found = corpus(signature(tensor(DType.INT8, name="other"), tensor(dtype, None, COLUMNS)), SIZES)["x"]
    wanted = [expected(dtype, word(1, row * COLUMNS + i), row) for row in range(37) for i in range(COLUMNS)]
    held = "uint16" if dtype is DType.BFLOAT16 else dtype.value
    assert (found.dtype.name, found.shape) == (held, (37, COLUMNS))
    assert found.tobytes() == b"".join(wanted)


@pytest.mark.parametrize(("dtype", "part"), [(DType.COMPLEX64, DType.FLOAT32), (DType.COMPLEX128, DType.FLOAT64)])
def test_the_parts_of_complex_numbers_are_elements_of_their_own(dtype: DType, part: DType) -> None:
    found = corpus(signature(tensor(dtype, None, 7)), SIZES)["x"]
    assert found.dtype.name == dtype.value
    assert found.tobytes() == corpus(signature(tensor(part, None, 14)), SIZES)["x"].tobytes()


def test_inputs_of_format_1_never_change() -> None:
    """Packages hold hashes of the answers to them: another text needs another number of the format."""
    given = signature(*(tensor(dtype, None, 5, name=dtype.value) for dtype in list(DType)[:11]))
    found = b"".join(array.tobytes() for array in corpus(given, SIZES).values())
    assert sha256_bytes(found) == "1fd680a15cc34a767f2640b86a0c175b6c672f976d6129d881fdc735ee1c89ca"


def test_fewer_rows_are_the_first_ones() -> None:
    given = signature(tensor(DType.FLOAT32, None, 3))
    assert corpus(given, (1, 3))["x"].tobytes() == corpus(given, SIZES)["x"][:3].tobytes()


def test_all_kinds_of_numbers_are_among_the_first_eight_rows() -> None:
    rows = corpus(signature(tensor(DType.FLOAT32, None, 200)), SIZES)["x"][:9]
    assert np.isnan(rows).any() and np.isinf(rows).any()
    assert (np.abs(rows[np.isfinite(rows)]) > 1e38).any()
    assert ((rows != 0) & (np.abs(rows) < np.finfo("float32").smallest_normal)).any()


@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_an_input_without_a_batch_axis_has_one_row(shape: tuple[int, ...]) -> None:
    given = signature(tensor(DType.FLOAT32, *shape))
    assert corpus(given, sizes_of(given))["x"].shape == shape
    assert sizes_of(given) == (1,)


def test_a_model_without_inputs_has_one_batch() -> None:
    assert (sizes_of(signature()), corpus(signature(), (1,))) == ((1,), {})


def test_rows_without_elements_are_possible() -> None:
    assert corpus(signature(tensor(DType.INT32, None, 0)), SIZES)["x"].shape == (37, 0)


@pytest.mark.parametrize(
    ("elements", "sizes"), [(1, SIZES), (1 << 19, (1, 3, 16)), (1 << 22, (1, 3)), (1 << 24, (1,)), ((1 << 24) + 1, ())]
)
def test_large_rows_have_fewer_or_no_batches(elements: int, sizes: tuple[int, ...]) -> None:
    assert sizes_of(signature(tensor(DType.FLOAT32, None, elements))) == sizes
    assert sizes_of(signature(tensor(DType.BOOL, None), outputs=(tensor(DType.FLOAT32, None, elements),))) in (
        sizes,
        sizes_of(signature(tensor(DType.FLOAT32, None, elements + 1))),
    )


def test_a_model_with_much_work_has_fewer_batches_but_one_row_at_least() -> None:
    given = signature(tensor(DType.FLOAT32, None, 4))
    assert [sizes_of(given, work) for work in (1e8, 3e8, 6e8, 1e12)] == [SIZES, (1, 3, 16), (1, 3), (1,)]
