"""What an operation of TensorFlow gives for constants, computed by its own kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context, execute

if TYPE_CHECKING:
    from framework_types import Array


def run(op: tf.Operation, arrays: list[Array]) -> list[Array] | None:
    """What the operation gives for `arrays`; None if it cannot run."""
    try:
        given = [
            tf.constant(np.asarray(array).astype(tensor.dtype.as_numpy_dtype), tensor.dtype)
            for array, tensor in zip(arrays, op.inputs, strict=True)
        ]
        attributes: list[Any] = []
        for attribute in op.op_def.attr:
            attributes += [attribute.name, _attribute(op.get_attr(attribute.name))]
        results = execute.execute(
            op.type, len(op.outputs), inputs=given, attrs=tuple(attributes), ctx=context.context()
        )
    except Exception:  # TensorFlow raises many types, for what XLA may accept
        return None
    return [each.numpy() for each in results if each.dtype.is_floating or each.dtype.is_integer or each.dtype.is_bool]


def _attribute(value: Any) -> Any:
    if isinstance(value, list):
        return [_attribute(each) for each in value]
    return value.as_datatype_enum if isinstance(value, tf.DType) else value
