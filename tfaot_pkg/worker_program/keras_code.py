"""What a Keras file names: classes and functions of Keras alone, decided before Keras reads the file.

Both Keras 2 and 3 import what a file names, and run code stored in it: marshalled functions of Lambda layers and of
wrappers of cells in an .h5 file in spite of safe mode (CVE-2025-9905), any function of Keras as a layer with arguments
that the file chooses (CVE-2025-1550). So everything that a file names must be in Keras's public tables.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import operations
import tensorflow as tf
from messages.requests import ModelFault
from tensorflow.core.framework import node_def_pb2

if TYPE_CHECKING:
    from framework_types import Keras


EXPORT = "load it where its code is, and export a SavedModel: model.export('saved_model')"

_SPACES = (
    *("layers", "layers.experimental", "layers.experimental.preprocessing", "models", "initializers", "regularizers"),
    *("constraints", "dtype_policies", "mixed_precision", "mixed_precision.experimental", "quantizers", "random"),
    *("optimizers", "optimizers.schedules", "losses", "metrics"),
)
_SPACES_OF_FUNCTIONS = ("activations", "initializers", "regularizers", "constraints", "losses", "metrics", "ops")
# Keras names its functions `builtins` too.
_MODULES_OF_FUNCTIONS = frozenset(
    {"builtins", *(f"{root}.{space}" for root in ("keras", "tf_keras") for space in _SPACES_OF_FUNCTIONS)}
)
_READERS = ("get", "serialize", "deserialize")
"""Functions in these modules that make objects of a configuration."""
_VALUES = (
    *("__tensor__", "__numpy__", "__complex__", "__bytes__", "__ellipsis__", "__slice__", "__tuple__"),
    *("__keras_tensor__", "TensorShape", "TypeSpec", "CompositeTensor"),
)
"""Names for values that are not objects of Keras."""
_CODE = ("Lambda", "__lambda__")
# They load a SavedModel, or call modules of other frameworks that the file brings along.
_FOREIGN = ("TFSMLayer", "JaxLayer", "FlaxLayer", "TorchModuleWrapper", "ModuleWrapper")
_CALLS = ("TFOpLambda", "SlicingOpLambda")
_RAGGED = ("ClassMethod", "InstanceMethod", "InstanceProperty")
"""Layers that Keras 2 makes of methods of ragged and sparse tensors."""

_COMPUTING = ("__operators__", "bitwise", "image", "linalg", "manip", "math", "nn", "random", "signal", "spectral")
"""Parts of TensorFlow's interface whose functions only compute."""
_COMPUTING_OF_KERAS = ("keras.activations", "keras.backend", "keras.losses", "keras.metrics")
_COMPUTING_MODULES = frozenset(
    f"tensorflow.python.ops.{name}"
    for name in (
        "array_ops array_ops_stack bincount_ops clip_ops confusion_matrix gen_array_ops gen_data_flow_ops "
        "gen_linalg_ops gen_math_ops gen_spectral_ops histogram_ops linalg_ops manip_ops math_ops random_ops sort_ops "
        "special_math_ops"
    ).split()
)
"""Modules of the functions that TensorFlow's interface has without such a part."""


class UnknownClass(Exception):
    """A class that this version of Keras does not have."""


def require_known_code(config: Any, keras: Keras) -> None:
    """Raise ModelFault or UnknownClass if the configuration names anything that is not of `keras`, the module.

    Nothing that the configuration names is imported.
    """
    classes, functions = _classes_of(keras), _functions_of(keras)
    for each in _objects(config):
        kind, inner = each["class_name"], each.get("config")
        name = inner.get("name", "") if isinstance(inner, dict) else ""
        if not isinstance(kind, str):
            raise ModelFault(f"the Keras model has an object whose class is no name: {kind!r:.100}", EXPORT)
        if kind in _CODE:
            raise ModelFault(
                f"the Keras model has Python code in a Lambda layer{_quoted(name)}, which is not run", EXPORT
            )
        # With a module such a name would be looked up there.
        if kind in _VALUES and "module" not in each and "registered_name" not in each:
            continue
        if kind == "function":
            _require_known_function(each, functions)
            continue
        _require_known_class(each, classes, name)
        if kind in _CALLS:
            _require_known_call(inner, name)
        elif kind == "TensorFlowOpLayer":
            _require_known_operation(inner, name)
        elif isinstance(inner, dict) and isinstance(inner.get("vocabulary"), str):
            raise ModelFault(
                f"the Keras model's layer{_quoted(name)} reads its vocabulary from another file, "
                f"{inner['vocabulary']!r:.200}",
                "give the layer the vocabulary itself (vocabulary=[...]), and save the model again",
            )


def _require_known_class(each: dict[str, Any], known: frozenset[str], name: str) -> None:
    kind, registered = each["class_name"], each.get("registered_name")
    # Keras looks for either name, and for parts of a name with dots.
    if not _is_of_keras(each.get("module")) or registered not in (None, "", kind) or ">" in kind:
        raise ModelFault(f"the Keras model has a class of its author's, {kind}{_quoted(name)}", EXPORT)
    if kind in _FOREIGN:
        raise ModelFault(f"the Keras model has a layer of code from elsewhere, {kind}{_quoted(name)}", EXPORT)
    if kind in _RAGGED:
        raise ModelFault(f"the Keras model uses ragged or sparse tensors ({kind}{_quoted(name)})", EXPORT)
    # TensorFlow 1 wrote names with the version of its interface.
    if kind not in known and re.sub("V[12]$", "", kind) not in known:
        raise UnknownClass(f"it has no class {kind:.100}{_quoted(name)}")


def _require_known_function(each: dict[str, Any], known: frozenset[str]) -> None:
    name, registered = each.get("config"), each.get("registered_name")
    is_known = isinstance(name, str) and name in known and each.get("module") in _MODULES_OF_FUNCTIONS
    if not is_known or registered not in (None, "", name):
        raise ModelFault(f"the Keras model has a function of its author's, {name!r:.100}", EXPORT)


def _require_known_call(inner: object, name: str) -> None:
    """Raise ModelFault unless the layer calls a function of TensorFlow that only computes."""
    symbol = inner.get("function") if isinstance(inner, dict) else None
    if not isinstance(symbol, str) or not _only_computes(symbol):
        raise ModelFault(
            f"the Keras model calls {symbol!r:.100} of TensorFlow in layer{_quoted(name)}, which is not only a "
            "computation on tensors",
            EXPORT,
        )


def _only_computes(symbol: str) -> bool:
    symbol = symbol.removeprefix("compat.v1.")
    space, _, last = symbol.rpartition(".")
    if not re.fullmatch(r"\w+(\.\w+)*", symbol) or last in _READERS or last.endswith("sampler"):  # some read files
        return False
    if space:
        return space.split(".")[0] in _COMPUTING or space in _COMPUTING_OF_KERAS
    found = getattr(tf, last, None) or getattr(tf.compat.v1, last, None)
    return getattr(found, "__module__", "") in _COMPUTING_MODULES


def _require_known_operation(inner: object, name: str) -> None:
    """Raise ModelFault unless the operation that the layer makes is one that a SavedModel may have."""
    node: Any = inner.get("node_def") if isinstance(inner, dict) else None
    try:
        operation = node["op"] if isinstance(node, dict) else node_def_pb2.NodeDef.FromString(node.encode()).op
        allowed = operations.is_allowed(operation)
    except Exception as error:  # whatever Protocol Buffers raise for damaged text
        raise ModelFault(f"the Keras model's layer{_quoted(name)} has no readable operation", EXPORT) from error
    if not allowed:
        raise ModelFault(f"the Keras model's layer{_quoted(name)} runs {operation}, which is not allowed", EXPORT)


def _is_of_keras(module: object) -> bool:
    return module is None or (isinstance(module, str) and bool(re.fullmatch(r"builtins|(tf_)?keras(\.\w+)*", module)))


def _classes_of(keras: Keras) -> frozenset[str]:
    """The names of Keras's classes that files may have."""
    spaces = [keras, *(space for path in _SPACES if (space := _space(keras, path)))]
    names = {name for space in spaces for name, value in vars(space).items() if isinstance(value, type)}
    if keras.__name__ == "keras":
        # Computations on tensors between layers; they have no public names.
        names |= {
            name
            for module, content in list(sys.modules.items())
            if module.startswith("keras.src.ops.") and content
            for name, value in vars(content).items()
            if isinstance(value, type) and issubclass(value, keras.Operation)
        }
    else:
        names |= {*_CALLS, "TensorFlowOpLayer", "AddLoss", "AddMetric"}
    return frozenset({*names, "Functional"})


def _functions_of(keras: Keras) -> frozenset[str]:
    """The names of Keras's activations, initializers and the like."""
    spaces = [space for path in _SPACES_OF_FUNCTIONS if (space := _space(keras, path))]
    names = {name for space in spaces for name, value in vars(space).items() if callable(value)}
    return frozenset(names.difference(_READERS))


def _space(keras: Keras, path: str) -> Any:
    """The module `path` of `keras`; None if this version does not have it."""
    found = keras
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _quoted(name: object) -> str:
    return f" {name!r:.100}" if name else ""


def _objects(config: Any) -> Iterator[dict[str, Any]]:
    """All objects in the configuration, at any depth, that name a class."""
    waiting = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "class_name" in value:
                yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
