"""Modules and functions of TensorFlow, as SavedModels."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.errors import ModelError
from tfaot_pkg.live.content import content_of
from tfaot_pkg.live.source import LiveSource, examples_by_name


def source_of(net: Any, example: Any, options: dict[str, Any]) -> LiveSource | None:
    import tensorflow as tf

    function = net.__call__ if isinstance(net, tf.Module) else net
    if not callable(function):
        return None
    names = _parameters(function)
    given = examples_by_name(example, names, "a function of TensorFlow")
    arrays = {name: np.asarray(value) for name, value in given.items()}
    signatures = [(name, value.shape, str(value.dtype)) for name, value in arrays.items()]
    return LiveSource(
        framework=f"TensorFlow {tf.__version__}",
        content=[content_of(net, [each.numpy() for each in getattr(net, "variables", ())], signatures)],
        write=partial(_written, function, arrays),
        order=tuple(given),
    )


def _parameters(function: Any) -> list[str]:
    function = getattr(function, "python_function", function)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in inspect.signature(function).parameters.values() if each.kind in kinds]
    return names[1:] if names[:1] == ["self"] else names


def _written(function: Any, arrays: dict[str, Any], folder: Path) -> Path:
    return save(function, arrays, folder / "saved_model")


def save(function: Any, example: Any, path: Path) -> Path:
    """Write a SavedModel of `function`, whose first axes are the batch."""
    import tensorflow as tf

    arrays = examples_by_name(example, _parameters(function), "a function of TensorFlow")
    specs = {
        name: tf.TensorSpec([None, *np.shape(value)[1:]] if np.ndim(value) else [], np.asarray(value).dtype, name)
        for name, value in arrays.items()
    }

    def called(*values: Any) -> Any:
        return function(*values)

    serve = tf.function(called, input_signature=list(specs.values()), autograph=False)
    holder = tf.Module()
    try:
        # A SavedModel has the variables that its root holds.
        holder.held, holder.function = list(serve.get_concrete_function().graph.variables), serve
        tf.saved_model.save(holder, str(path), signatures=serve)
    except (ValueError, TypeError) as error:
        raise ModelError(f"TensorFlow cannot save the model: {error}") from error
    return path
