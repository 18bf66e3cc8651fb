"""The state of a loaded model: its variables as NumPy arrays, which steps carry over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.runtime.c_interface import initial_state, restore_state, saved_state
from tfaot_pkg.worker_program.messages.elements import held_type


class _Model(Protocol):
    name: str
    signature: Signature

    def __call__(self, /, **named: npt.ArrayLike) -> dict[str, Array]: ...


class State:
    """The variables of a model, made by `Model.state`. One object for each stream, and for one thread at a time.

        state = tfaot_pkg.load("tracker").state()
        for frame in frames:
            outputs = state.step(frame)
        state.tensors["hidden"][:] = 0
        content = state.save()

    A step that fails leaves the state as it was.
    """

    def __init__(self, model: _Model, table: Any) -> None:
        self._model, self._table = model, table
        self._tensors: dict[str, Array] = {}
        self.init()

    @property
    def tensors(self) -> Mapping[str, Array]:
        """The values of the variables by name. Change them in place: `state.tensors["hidden"][:] = 0`."""
        return dict(self._tensors)

    def init(self) -> None:
        """Set the trained values."""
        tensors = {tensor.name: tensor for tensor in self._model.signature.inputs}
        for number, each in enumerate(self._model.signature.state):
            tensor = tensors[each.input]
            values = (
                initial_state(self._table.info.contents, number)
                .view(held_type(tensor.dtype.value))
                .reshape(tensor.row_shape)
            )
            self._set(each.name, values)

    def _set(self, name: str, values: Array) -> None:
        if name in self._tensors:
            self._tensors[name][...] = values  # in place, so that arrays that callers hold remain those of the state
        else:
            self._tensors[name] = np.array(values, order="C")

    def step(self, *arrays: npt.ArrayLike, **named: npt.ArrayLike) -> dict[str, Array]:
        """The outputs of one step, by name; inputs are given by name, or by position. Raises RunError."""
        signature = self._model.signature
        names = [tensor.name for tensor in signature.step_inputs]
        if len(arrays) > len(names):
            raise RunError(
                f"model {self._model.name} takes {counted(len(names), 'input')} in a step, "
                f"got {counted(len(arrays), 'array')}"
            )
        given = {**dict(zip(names, arrays, strict=False)), **named}
        if foreign := sorted(set(given) - set(names)):
            raise RunError(
                f"model {self._model.name}: {', '.join(foreign)} is not an input of a step: it takes {', '.join(names)}"
            )
        outputs = self._model(**given, **{each.input: self._tensors[each.name] for each in signature.state})
        for each in signature.state:
            if each.output:
                self._set(each.name, outputs.pop(each.output))
        return outputs

    def save(self) -> bytes:
        """The state as bytes, the same on every machine."""
        return saved_state(self._table, list(self._tensors.values()))

    def restore(self, content: bytes) -> None:
        """Set a saved state. Raises RunError for other bytes, and leaves the state as it was."""
        restore_state(self._table, bytes(content), list(self._tensors.values()))
