"""Elements of arrays: NumPy has types for float16 and complex numbers, but none for bfloat16.

An array has one of three forms, each of the same elements:

- *held*: the form in libraries' interfaces and in .npz files. bfloat16 are their bits, in uint16.
- *numbers*: the form that is drawn and compared. bfloat16 are float32; complex numbers are pairs of floats, real part
  first, along a last axis of 2.
- *carried*: the form in compiled code. float16 and bfloat16 are their bits, complex numbers are such pairs.

All other types are the same in all forms. Types are given by their names. Workers and the host both use this module,
and exchange arrays in files (`write_arrays`).
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .carriers import PARTS

if TYPE_CHECKING:
    from .conversions import Values


_EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10}  # their fractions have 7 and 10 bits
_LARGEST = {"bfloat16": float.fromhex("0x1.fep+127")}


def held_type(dtype: str) -> np.dtype:
    """NumPy's type of held arrays."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def numbers_type(dtype: str) -> np.dtype:
    """NumPy's type of arrays of numbers."""
    return np.dtype("float32" if dtype == "bfloat16" else PARTS.get(dtype, dtype))


def epsilon(dtype: str) -> float:
    """The distance of 1 to the next number of a type of floats, or of the parts of a complex one."""
    return _EPSILON.get(dtype) or float(np.finfo(numbers_type(dtype)).eps)


def largest(dtype: str) -> float:
    """The largest number of such a type."""
    return _LARGEST.get(dtype) or float(np.finfo(numbers_type(dtype)).max)


def numbers(held: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers of a held array."""
    if dtype == "bfloat16":
        return (np.asarray(held, order="C").view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return _parts(held, dtype)


def padded(array: np.ndarray, rows: int) -> np.ndarray:
    """`array` with zeros after its rows, `rows` in all."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])


def held(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """The held array of `numbers`, rounded to the nearest ones of its type, ties to even."""
    if dtype == "bfloat16":
        return _rounded(np.asarray(numbers, np.float32))
    with np.errstate(over="ignore"):
        made = np.asarray(numbers, numbers_type(dtype), order="C")
    return made.view(dtype)[..., 0] if dtype in PARTS else made


def given(values: Values, dtype: str) -> np.ndarray:
    """The held array of a constant of a spec (messages.conversions.Values)."""
    return held(np.array(values.values).reshape(values.shape), dtype)


def carried(held: np.ndarray, dtype: str) -> np.ndarray:
    """The form of a held array in compiled code."""
    return np.asarray(held).view(np.uint16) if dtype == "float16" else _parts(held, dtype)


def _parts(held: np.ndarray, dtype: str) -> np.ndarray:
    if dtype not in PARTS:
        return held
    made = np.asarray(held, dtype, order="C")
    return made.reshape(*np.shape(held), 1).view(PARTS[dtype])


def _rounded(values: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16, which are the upper half of a float's."""
    bits = np.asarray(values, order="C").view(np.uint32)
    with np.errstate(over="ignore"):
        # Half of the last bit that stays, less one if that bit is 0: so ties go to the even number.
        nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    # A NaN whose set bits are all in the lower half would become an infinity.
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, nearest).astype(np.uint16).reshape(np.shape(values))


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Write `arrays`, a mapping, to `path`, which exists only once it is complete: its reader may wait for it.

    `numpy.savez` would confuse names of arrays with its own parameters, such as `file`.
    """
    unfinished = f"{path}.part"
    with zipfile.ZipFile(unfinished, "w") as archive:
        for name, array in arrays.items():
            # The size is not known before: without this, members above 2 GiB fail.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)
    os.replace(unfinished, path)


_KEPT = 8


def features(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Features of a drawn output that are compared: some of its elements, the differences of these, and the mean."""
    flat = np.asarray(array, np.float64).ravel()
    if not flat.size:
        return np.zeros(0)
    chosen = flat[np.unique(np.linspace(0, flat.size - 1, _KEPT).astype(np.int64))]
    return np.concatenate([chosen, np.diff(chosen), [flat.mean()]])
