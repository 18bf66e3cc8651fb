"""A signature compiled by XLA, except for the operations that XLA has no kernels of: TensorFlow runs these alone.

One such operation would leave all of the model without the answers of compiled code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

if TYPE_CHECKING:
    from framework_types import ConcreteFunction
    from signatures import LoadedSignature


_NO_KERNEL = "Detected unsupported operations when trying to compile"
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
"""A node in TensorFlow's message."""


class CompiledSignature:
    """`signature`, called as it is: the outputs by name.

    Raises what TensorFlow raises, also for an operation without a kernel that is part of a loop or a branch.
    """

    def __init__(self, signature: LoadedSignature) -> None:
        self._signature = signature
        # By position: names of tensors need not be valid in Python.
        self._function = tf.function(signature.function, jit_compile=True)
        self._parts: _Parts | None = None

    def __call__(self, /, **feeds: tf.Tensor) -> dict[str, tf.Tensor]:
        given = [feeds[name] for name in self._signature.inputs]
        return dict(zip(self._signature.outputs, self._run(given), strict=True))

    def _run(self, given: list[tf.Tensor]) -> list[tf.Tensor]:
        while True:
            try:
                return list(self._function(*given) if self._parts is None else self._parts.run(given))
            except tf.errors.InvalidArgumentError as error:
                if _NO_KERNEL not in str(error):
                    raise
                if self._parts is None:
                    # Its nodes are those of the message: no functions are left that the graph calls.
                    self._parts = _Parts(convert_variables_to_constants_v2(self._signature.function, False))
                elif not self._parts.cut_at(set(_NODE.findall(str(error)))):
                    raise


class _Parts:
    """`function` without some nodes, whose results are given to the rest."""

    def __init__(self, function: ConcreteFunction) -> None:
        self._whole = function
        self._inputs = list(function.inputs)
        self._cut: list[Any] = []
        self._results: ConcreteFunction = None
        self._rest = tf.function(function, jit_compile=True)

    def run(self, given: list[tf.Tensor]) -> list[tf.Tensor]:
        # What two parts share is computed twice, in the same way.
        return list(self._rest(*given, *(self._results(*given) if self._cut else ())))

    def cut_at(self, names: set[str]) -> bool:
        """Whether there are nodes of these names that were not cut before."""
        found = [each for each in self._whole.graph.get_operations() if each.name in names]
        new = [tensor for each in found for tensor in each.outputs]
        if not new or any(tensor is each for tensor in new for each in self._cut):
            return False
        self._cut += new
        self._results = self._whole.prune(self._inputs, self._cut)
        self._rest = tf.function(self._whole.prune([*self._inputs, *self._cut], self._whole.outputs), jit_compile=True)
        return True
