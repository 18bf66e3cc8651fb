"""Write the SavedModel of a model in MLIR.

A StableHLO module becomes one operation, `XlaCallModule`; functions of TensorFlow's dialect become their operations.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import tensorflow as tf
from from_mlir import functions, graphs, modules
from messages.requests import ModelFault, Nothing, one_line
from messages.sources import BuildMlir
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

if TYPE_CHECKING:
    from framework_types import Report


def build(request: BuildMlir, report: Report) -> Nothing:
    """One signature, of the model's inputs and outputs by their names; large constants of a module are variables."""
    holder = tf.Module()
    found = functions.read(request.parts)
    if found is not None:
        holder.serve = graphs.function_of(request.parts, found)
    else:
        described = modules.read(request.parts)
        holder.constants = {
            each.name: _variable(request.parts, each) for each in described.arguments if each.is_constant
        }
        holder.serve = _call_of(request.parts, described, holder.constants)
    try:
        tf.saved_model.save(holder, request.out, signatures=holder.serve)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ModelFault(
            f"TensorFlow cannot take the model: {one_line(error)}",
            "choose a newer toolchain (compilation.tensorflow)",
        ) from error
    return Nothing()


def _call_of(
    folder: str, described: modules.Description, constants: dict[str, tf.Variable]
) -> Callable[..., dict[str, tf.Tensor]]:
    """A tf.function of the module: one operation."""
    inputs = [each for each in (*described.arguments, *described.unused) if not each.is_constant]
    with open(os.path.join(folder, modules.MODULE), "rb") as file:
        code = file.read()

    @tf.function(
        input_signature=[tf.TensorSpec(each.shape, each.dtype, name=each.name) for each in inputs], autograph=False
    )
    def serve(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        # By name: `unused` inputs belong to the signature, but the module does not take them.
        given = constants | dict(zip([each.name for each in inputs], values, strict=True))
        results = gen_xla_ops.xla_call_module(
            args=[given[each.name] for each in described.arguments],
            version=described.calling_convention,
            module=code,
            Sout=[tf.TensorShape(each.shape) for each in described.results],
            Tout=[tf.as_dtype(each.dtype) for each in described.results],
            platforms=["CPU"],
        )
        return {each.name: result for each, result in zip(described.results, results, strict=True)}

    return serve


def _variable(folder: str, constant: modules.Argument) -> tf.Variable:
    import numpy as np

    dtype = tf.as_dtype(constant.dtype).as_numpy_dtype
    values = np.fromfile(os.path.join(folder, constant.name), dtype)
    shape = tuple(size for size in constant.shape if size is not None)
    return tf.Variable(values.reshape(shape), trainable=False)
