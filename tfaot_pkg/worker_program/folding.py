"""What an operation of TensorFlow gives for constants, computed by its own kernel."""

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context, execute


def run(op, arrays: list):
    """What the operation gives for `arrays`; None if it cannot run."""
    try:
        given = [
            tf.constant(np.asarray(array).astype(tensor.dtype.as_numpy_dtype), tensor.dtype)
            for array, tensor in zip(arrays, op.inputs, strict=True)
        ]
        attributes: list = []
        for attribute in op.op_def.attr:
            attributes += [attribute.name, _attribute(op.get_attr(attribute.name))]
        results = execute.execute(
            op.type, len(op.outputs), inputs=given, attrs=tuple(attributes), ctx=context.context()
        )
    except Exception:  # TensorFlow raises many types, for what XLA may accept
        return None
    return [each.numpy() for each in results if each.dtype.is_floating or each.dtype.is_integer or each.dtype.is_bool]


def _attribute(value):
    if isinstance(value, list):
        return [_attribute(each) for each in value]
    return value.as_datatype_enum if isinstance(value, tf.DType) else value
