"""The description of a module, which JAX's environment writes beside it and its constants, and TensorFlow's reads."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from messages import wire

MODULE, _DESCRIPTION = "module.mlirbc", "module.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of the module: the input `name`, or the constant in the file `name`, row-major.

    A size that each call determines is None.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    is_constant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """`arguments` and `results` are in the module's order; `unused` are inputs of the model that it does not take."""

    calling_convention: int
    arguments: tuple[Argument, ...]
    unused: tuple[Argument, ...]
    results: tuple[Argument, ...]


def write(folder: str, description: Description) -> None:
    with open(os.path.join(folder, _DESCRIPTION), "w") as file:
        file.write(wire.encoded(description))


def read(folder: str) -> Description:
    """Raises ValueError for a file of another form."""
    with open(os.path.join(folder, _DESCRIPTION)) as file:
        return wire.decoded(Description, json.load(file), _DESCRIPTION)
