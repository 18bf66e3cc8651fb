"""Rows for a model from files that people write by hand or export: CSV, JSON, .npz and .npy; and answers as text."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.wording import counted, shown
from tfaot_pkg.worker_program.messages.elements import held_type

_MOST_BYTES = 1 << 30
_HINT = "tfaot-pkg help use-a-package says how files with rows are written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The arrays of a file by the names of inputs, and the columns of it that the model does not take."""

    arrays: Mapping[str, Array]
    unused: tuple[str, ...] = ()


def read_rows(path: Path, signature: Signature) -> Rows:
    """The rows in the file at `path`, by its ending; of any other ending it is CSV. Raises RunError, StorageError."""
    with storage_errors(f"read {path}"):
        if path.stat().st_size > _MOST_BYTES:
            raise RunError(f"{path} is larger than {_MOST_BYTES >> 20} MiB", hint="give fewer rows")
        data = path.read_bytes()
    try:
        if path.suffix in (".npz", ".npy"):
            return Rows(arrays=_numpy(data, signature))
        return parse_rows(data.decode("utf-8-sig"), signature, is_json=path.suffix == ".json")
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: {error or 'it is nested too deeply'}", hint=_HINT) from error


def parse_rows(text: str, signature: Signature, *, is_json: bool) -> Rows:
    """The rows in a text. Raises ValueError, RecursionError."""
    return Rows(arrays=_json(text, signature)) if is_json else _csv(text, signature)


def _numpy(data: bytes, signature: Signature) -> dict[str, Array]:
    # Not a pickle, which would run code of whoever wrote the file.
    found = np.load(io.BytesIO(data), allow_pickle=False)
    return dict(found) if isinstance(found, np.lib.npyio.NpzFile) else {_only_input(signature).name: found}


def _json(text: str, signature: Signature) -> dict[str, Array]:
    document = read_json(text.encode())
    named = document if isinstance(document, dict) else {_only_input(signature).name: document}
    types = {tensor.name: held_type(tensor.dtype.value) for tensor in signature.inputs}
    # Other names are told by the model, with the names that it has.
    return {name: np.array(values, types.get(name)) for name, values in named.items()}


def _only_input(signature: Signature) -> Tensor:
    if len(signature.inputs) != 1:
        names = ", ".join(tensor.name for tensor in signature.inputs)
        raise ValueError(f"the model has several inputs: name the array of each ({names})")
    return signature.inputs[0]


# --- CSV ------------------------------------------------------------------------------------------------------------


def columns_of(tensors: Iterable[Tensor]) -> dict[str, tuple[str, int]]:
    """The columns of `tensors` in a table, each with its tensor and the place of its element in a row."""
    columns: dict[str, tuple[str, int]] = {}
    for tensor in tensors:
        size, name = math.prod(tensor.row_shape), tensor.name
        columns |= {name if size == 1 else f"{name}[{place}]": (name, place) for place in range(size)}
    return columns


def _csv(text: str, signature: Signature) -> Rows:
    for tensor in signature.inputs:
        if signature.symbols or not tensor.has_batch_axis:
            raise ValueError(f"input {tensor} is not a row of fixed length: write JSON, or .npz")
    lines = [line for line in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in line)]
    wanted = columns_of(signature.inputs)
    names = [] if not lines or all(map(_is_number, lines[0])) else [cell.strip() for cell in lines[0]]
    order = _order(names, wanted) if names else _counted(lines, wanted)
    body = lines[1:] if names else lines
    _require_even(body, len(names or wanted), first=2 if names else 1)
    arrays = {tensor.name: _column(tensor, body, order[tensor.name]) for tensor in signature.inputs}
    return Rows(arrays=arrays, unused=tuple(name for name in names if _plain(name, wanted) is None))


def _column(tensor: Tensor, body: Sequence[Sequence[str]], places: Sequence[int]) -> Array:
    cells = [
        [_value(line[place], tensor.dtype, f"row {number}, {tensor.name}") for place in places]
        for number, line in enumerate(body, 1)
    ]
    return np.array(cells, held_type(tensor.dtype.value)).reshape(len(body), *tensor.row_shape)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.strip().lower() in ("true", "false")
    return True


def _plain(name: str, wanted: Mapping[str, object]) -> str | None:
    """The column that `name` means, which may be written as `x[0]`, `x_0` or `x.0`; None if the model has no such."""
    if name in wanted:
        return name
    found = re.fullmatch(r"(.+)[_.](\d+)", name)
    other = f"{found[1]}[{int(found[2])}]" if found else ""
    return other if other in wanted else None


def _order(names: Sequence[str], wanted: Mapping[str, tuple[str, int]]) -> dict[str, list[int]]:
    """The places in a line of each input's elements, in the order of a row."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        column = _plain(name, wanted)
        if column is None:
            continue
        if column in places:
            raise ValueError(f"the column {column} is there twice")
        places[column] = place
    if missing := [name for name in wanted if name not in places]:
        more = f" and {counted(len(missing) - 3, 'other')}" if len(missing) > 3 else ""
        raise ValueError(f"it has no column {', '.join(missing[:3])}{more}, which the model takes")
    return {name: [places[column] for column in group] for name, group in _by_input(wanted)}


def _by_input(wanted: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, list[str]]]:
    for name, group in itertools.groupby(wanted, key=lambda column: wanted[column][0]):
        yield name, list(group)


def _counted(lines: Sequence[Sequence[str]], wanted: Mapping[str, tuple[str, int]]) -> dict[str, list[int]]:
    """The same of lines without names: the elements of all inputs, one after the other."""
    if not lines:
        raise ValueError("it has no rows")
    if len(lines[0]) != len(wanted):
        raise ValueError(
            f"its first line has {counted(len(lines[0]), 'number')}, a row of the model {len(wanted)}: "
            f"name the columns in a first line ({', '.join(list(wanted)[:3])}, ...), then others are left out"
        )
    places = itertools.count()
    return {name: [next(places) for _ in group] for name, group in _by_input(wanted)}


def _require_even(body: Sequence[Sequence[str]], width: int, first: int) -> None:
    for number, line in enumerate(body, first):
        if len(line) != width:
            raise ValueError(f"line {number} has {counted(len(line), 'cell')}, the first one {width}")


def _value(cell: str, dtype: DType, where: str) -> object:
    text = cell.strip()
    try:
        if dtype is DType.BOOL:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if not dtype.is_inexact:
            return int(text) if re.fullmatch(r"[+-]?\d+", text) else _whole(float(text))
        return complex(text) if dtype in (DType.COMPLEX64, DType.COMPLEX128) else float(text)
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"{where}: {shown(text)} is not a number of the type {dtype.value}") from None


def _whole(number: float) -> int:
    if number != int(number):
        raise ValueError
    return int(number)


# --- answers --------------------------------------------------------------------------------------------------------

_MOST_SHOWN = 8
"""Elements of a row of one output, and rows, that the text shows from the beginning and the end."""


def answers_text(outputs: Mapping[str, Array], signature: Signature) -> str:
    """Answers for people: a block for each row, the first and the last ones of many."""
    batched = [tensor for tensor in signature.outputs if tensor.has_batch_axis]
    lines = [f"{each.name}: {_numbers(outputs[each.name])}" for each in signature.outputs if not each.has_batch_axis]
    rows = len(outputs[batched[0].name]) if batched else 0
    for row in range(rows):
        if _MOST_SHOWN <= row < rows - 1:
            lines += [f"... {counted(rows - 1 - _MOST_SHOWN, 'more row')} (--json, or -o FILE, has all)"] * (
                row == _MOST_SHOWN
            )
            continue
        lines += [f"row {row}"] * (rows > 1)
        indent = "  " * (rows > 1)
        lines += [f"{indent}{each.name}: {_numbers(outputs[each.name][row])}" for each in batched]
    return "\n".join(lines)


def _numbers(values: Array) -> str:
    with np.printoptions(threshold=4 * _MOST_SHOWN, edgeitems=_MOST_SHOWN, linewidth=100, floatmode="unique"):
        return str(np.asarray(values)).replace("\n", "\n    ")


def answers_csv(outputs: Mapping[str, Array], signature: Signature) -> str:
    """Answers as a table with names of columns. Raises ValueError if an output is not a row of fixed length."""
    for tensor in signature.outputs:
        if not tensor.has_batch_axis or math.prod(outputs[tensor.name].shape[1:]) != math.prod(tensor.row_shape):
            raise ValueError(f"output {tensor} is not a row of fixed length: write .npz, or take --json")
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(columns_of(signature.outputs))
    flat = [outputs[tensor.name].reshape(len(outputs[tensor.name]), -1) for tensor in signature.outputs]
    writer.writerows([str(value) for array in row for value in array] for row in zip(*flat, strict=True))
    return made.getvalue()
