"""Runs the reference of an operation that the author of a model supplies: a Python function of NumPy arrays.

It runs only in workers, confined by the sandbox; the host takes only arrays from it.
"""

from __future__ import annotations

import importlib.util
import os
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from messages.elements import write_arrays
from messages.requests import ModelFault, Nothing, RunOperation, one_line

if TYPE_CHECKING:
    import numpy.typing as npt
    from framework_types import Array, Report


def run(request: RunOperation, report: Report) -> Nothing:
    """Write the reference's results for the arrays in `request.inputs`, by their positions."""
    function = Reference(request.file, request.operation, request.attributes)
    with np.load(request.inputs, allow_pickle=False) as file:
        inputs = [file[str(place)] for place in range(len(file.files))]
    found = function(*inputs)
    if any(each.dtype.kind not in "biuf" for each in found):
        raise ModelFault(f"{function.where} does not return numbers", _HINT)
    write_arrays(request.out, {str(place): values for place, values in enumerate(found)})
    return Nothing()


_HINT = "the reference is a Python function with the operation's name: it takes NumPy arrays, and returns one or more"


class Reference:
    """The function `name` of the Python file `file`. Any exception that it raises becomes a ModelFault."""

    def __init__(self, file: str, name: str, attributes: Mapping[str, tuple[float, ...]]) -> None:
        self._name, self._file = name, file
        self.where = f"the reference of the operation {name!r}"
        # A single number stays a number, as the model has it.
        self._attributes = {
            key: _number(values[0]) if len(values) == 1 else list(map(_number, values))
            for key, values in attributes.items()
        }
        spec = importlib.util.spec_from_file_location(f"reference_{name}", file)
        assert spec is not None and spec.loader is not None  # the host names it NAME.py
        module = importlib.util.module_from_spec(spec)
        self._guarded(spec.loader.exec_module, module)
        function = getattr(module, name, None)
        if not callable(function):
            raise ModelFault(f"{self.where} is missing: {os.path.basename(file)} defines no function {name}", _HINT)
        self._function = function

    def __call__(self, *inputs: npt.ArrayLike) -> tuple[Array, ...]:
        """Its results for `inputs`, all with the batch as their first axis."""
        # Copies: a reference that changes its inputs must not change them for others.
        with np.errstate(all="ignore"):
            found = self._guarded(self._function, *(np.array(each) for each in inputs), **self._attributes)
        return tuple(np.asarray(each) for each in (found if isinstance(found, tuple | list) else (found,)))

    def _guarded(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (Exception, SystemExit) as error:  # whatever the author's code raises
            text = f"{type(error).__name__}: {one_line(error)}"
            lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == self._file]
            place = f"{os.path.basename(self._file)}, line {lines[-1]}: " if lines else ""
            raise ModelFault(f"{self.where} fails: {place}{text}", _HINT) from error


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value
