"""What callers give for inputs, as arrays: data frames of pandas and polars, and tensors of other libraries (DLPack).

None of these libraries is imported: a data frame is recognized by the package of its class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Tensor
from tfaot_pkg.ground.wording import counted

_FRAMES = ("pandas", "polars")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that a model of rows was trained with: their names, and the texts of each column of categories.

    `categories` are the values of columns that contain positions of texts, by the number of the column.
    """

    names: tuple[str, ...] = ()
    categories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def columns_of(library: Path) -> Columns:
    """What info.json of the package around `library` says; nothing if there is no package."""
    package = library.stem.removeprefix("lib")
    try:
        trees = json.loads((library.parent.parent / "share" / package / "info.json").read_text()).get("trees", {})
        categories = {
            int(each["column"]): tuple(map(str, each["values"]))
            for each in trees.get("categories", ())
            if each["given"] == "positions"
        }
        return Columns(names=tuple(map(str, trees.get("columns", ()))), categories=categories)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Columns()


def is_frame(value: object) -> bool:
    return type(value).__name__ == "DataFrame" and type(value).__module__.partition(".")[0] in _FRAMES


def by_names(model: str, tensors: Sequence[Tensor], frame: Any, columns: Columns) -> dict[str, Array]:
    """The inputs of a model that is called with a data frame alone. Raises RunError.

    An input for each column, or one input whose columns are those of the frame.
    """
    present = [str(each) for each in frame.columns]
    if all(tensor.name in present for tensor in tensors):
        return {tensor.name: _column(frame, tensor) for tensor in tensors}
    if len(tensors) == 1:
        return {tensors[0].name: of_frame(model, tensors[0], frame, columns)}
    missing = [tensor.name for tensor in tensors if tensor.name not in present]
    raise RunError(
        f"model {model}: the data frame has no columns {', '.join(missing)}",
        hint="name its columns as the model's inputs, or give arrays by name",
    )


def _column(frame: Any, tensor: Tensor) -> Array:
    found = np.asarray(frame[tensor.name].to_numpy())
    # [batch, 1] is what Keras has for a column.
    return found.reshape(-1, 1) if len(tensor.shape) == 2 and tensor.row_shape == (1,) else found


def of_frame(model: str, tensor: Tensor, frame: Any, columns: Columns) -> Array:
    """The columns of a data frame as an array [rows, columns]: by their names if the model knows them. Raises RunError.

    Columns of texts become positions in the model's lists; -1 for texts that these do not have, and NaN for none.
    """
    present = [str(each) for each in frame.columns]
    names = columns.names or tuple(present)
    if missing := [name for name in names if name not in present]:
        raise RunError(
            f"model {model}: the data frame has no columns {', '.join(missing)}",
            hint=f"the model's columns are: {', '.join(names)}",
        )
    width = tensor.row_shape[0] if len(tensor.row_shape) == 1 else None
    if width != len(names):
        raise RunError(
            f"model {model}: input {tensor} got a data frame of {counted(len(names), 'column')}",
            hint="choose its columns: frame[[NAME, ...]]",
        )
    place = {name: number for number, name in enumerate(present)}
    made = np.empty((len(frame), len(names)), tensor.dtype.value if tensor.dtype.is_inexact else "float64")
    for number, name in enumerate(names):
        values = _values_of(frame, place[name])
        texts = columns.categories.get(number)
        if texts is None and values.dtype.kind in "OUST":
            raise RunError(
                f"model {model}: the column {name} has texts, and the model has no list of categories for it",
                hint="give numbers, as in training",
            )
        made[:, number] = values.astype(made.dtype) if texts is None else _positions(values, texts)
    return made


def _values_of(frame: Any, number: int) -> Array:
    """A column as NumPy has it: categories by their values, missing numbers as NaN."""
    series = frame.iloc[:, number] if hasattr(frame, "iloc") else frame.to_series(number)
    if str(series.dtype).lower().startswith(("category", "categorical", "enum")):
        return np.asarray(series.to_numpy() if hasattr(series, "to_physical") else series.astype(object).to_numpy())
    if str(series.dtype) in ("Int8", "Int16", "Int32", "Int64", "boolean", "Float32", "Float64") and hasattr(
        series, "isna"
    ):
        return np.asarray(series.to_numpy("float64", na_value=np.nan))
    return np.asarray(series.to_numpy())


def _positions(values: Array, texts: Sequence[str]) -> Array:
    known = {text: float(place) for place, text in enumerate(texts)}
    return np.array([np.nan if _is_missing(each) else known.get(str(each), -1.0) for each in values.tolist()])


def _is_missing(value: object) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")  # noqa: PLR0124


def shared(model: str, name: str, value: object) -> object:
    """A tensor of another library as an array, without a copy if it is in the memory of the CPU. Raises RunError."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return value
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as first:
        # Types that DLPack does not have, and read-only arrays of older libraries.
        try:
            return np.asarray(value)
        except Exception as error:  # noqa: BLE001 (the other library's, which raises whatever it likes)
            hint = "model(tensor.detach())" if getattr(value, "requires_grad", False) else "move it to the CPU"
            raise RunError(f"model {model}: input {name!r} cannot be read: {error}", hint=hint) from first


def into(model: str, tensors: Sequence[Tensor], made: dict[str, Array], out: object) -> dict[str, Array]:
    """The answers `made`, copied into the caller's arrays. Raises RunError for arrays that do not fit."""
    given: Any = out if isinstance(out, Mapping) else {tensors[0].name: out} if len(tensors) == 1 else {}
    if not set(given) >= set(made):
        raise RunError(
            f"model {model}: out= takes arrays for {', '.join(made)}",
            hint="out={NAME: ARRAY, ...}, one for each output",
        )
    for name, values in made.items():
        target = given[name]
        if (
            not isinstance(target, np.ndarray)
            or (target.shape, target.dtype) != (values.shape, values.dtype)
            or not target.flags.writeable
        ):
            raise RunError(f"model {model}: out[{name!r}] must be a writable array of {values.dtype} {values.shape}")
        target[...] = values
    return {name: given[name] for name in made}
