"""Asks the host for what no process with a model computes: references by the model's author (decision 053)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from messages.elements import write_arrays
from messages.requests import Ask, ModelFault

if TYPE_CHECKING:
    import numpy.typing as npt
    from framework_types import Array
    from messages.requests import Told


_host: dict[str, Callable[[Ask], Told]] = {}
"""The function that sends an Ask and returns the host's Told."""


def connect(ask: Callable[[Ask], Told]) -> None:
    """Send questions with `ask` from now on."""
    _host["ask"] = ask


class Reference:
    """The reference of the operation `operation`, which runs elsewhere. What it raises becomes a ModelFault."""

    def __init__(self, operation: str, attributes: Mapping[str, Sequence[float]]) -> None:
        self._operation = operation
        self._attributes = {key: tuple(values) for key, values in attributes.items()}

    def __call__(self, *inputs: npt.ArrayLike) -> tuple[Array, ...]:
        """Its results for `inputs`, all with the batch as their first axis."""
        handle, path = tempfile.mkstemp(suffix=".npz")
        os.close(handle)
        try:
            write_arrays(path, {str(place): np.asarray(each) for place, each in enumerate(inputs)})
            ask = Ask(operation=self._operation, inputs=os.path.basename(path), attributes=self._attributes)
            told = _host["ask"](ask)
        finally:
            os.remove(path)
        if told.fault is not None:
            raise ModelFault(told.fault.message, told.fault.hint)
        with np.load(told.out, allow_pickle=False) as file:
            return tuple(file[str(place)] for place in range(len(file.files)))
