"""Functions of the TensorFlow dialect as data, which JAX's environment writes and TensorFlow's reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from messages import wire

_FILE = "functions.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A tensor's type. `shape` is None if the rank is not known; an unknown size is None."""

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A constant: `file` contains its values, row-major, or only the one value of all elements if `is_splat`."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    is_splat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A string of bytes that are not UTF-8, as hexadecimal digits."""

    digits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The name of a function."""

    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DType:
    """A type as an attribute."""

    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A shape as an attribute."""

    sizes: tuple[int | None, ...] | None


Item = bool | int | float | str | Raw | Values | Reference | DType | Shape
Attribute = bool | int | float | str | Raw | Values | Reference | DType | Shape | tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`operands` and `results` are numbers of values. A function's arguments have the first numbers."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[Type, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """Its arguments are the values 0, 1 and so on; it returns the values `returned`."""

    arguments: tuple[Type, ...]
    operations: tuple[Operation, ...]
    returned: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """`main` is the model, with names for its arguments and results; all others are called by name."""

    main: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    functions: Mapping[str, Function]


def write(folder: str, functions: Functions) -> None:
    with open(os.path.join(folder, _FILE), "w") as file:
        file.write(wire.encoded(functions))


def read(folder: str) -> Functions | None:
    """None if the folder has no functions. Raises ValueError for a file of another form."""
    path = os.path.join(folder, _FILE)
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return wire.decoded(Functions, json.load(file), _FILE)
