"""Write the SavedModel of functions of the TensorFlow dialect: their operations, one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sized
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from from_mlir import functions
from messages.requests import ModelFault, one_line
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_registry, ops

if TYPE_CHECKING:
    from framework_types import Array, AttrValue, ConcreteFunction, NameAttrList, OpDef


def function_of(folder: str, found: functions.Functions) -> Callable[..., dict[str, tf.Tensor]]:
    """A tf.function of the model: its arguments by the names of inputs, its results by those of outputs."""
    builder = _Builder(folder, found)
    main = found.functions[found.main]
    specs = [
        tf.TensorSpec(kind.shape, kind.dtype, name=name)
        for name, kind in zip(found.inputs, main.arguments, strict=True)
    ]

    @tf.function(input_signature=specs, autograph=False)
    def serve(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        results = builder.results(main, values, ())
        return {name: tf.identity(result) for name, result in zip(found.outputs, results, strict=True)}

    return serve


class _Builder:
    """Adds operations of functions to TensorFlow's graphs."""

    def __init__(self, folder: str, found: functions.Functions) -> None:
        self._folder, self._found = folder, found
        self._concrete: dict[str, ConcreteFunction] = {}

    def results(
        self, function: functions.Function, arguments: Iterable[tf.Tensor], callers: tuple[str, ...]
    ) -> list[tf.Tensor]:
        """The results of `function` for `arguments`, in the default graph; `callers` are the functions around it."""
        values = list(arguments)
        for operation in function.operations:
            values += self._outputs(operation, [values[number] for number in operation.operands], callers)
        return [values[number] for number in function.returned]

    def _outputs(
        self, operation: functions.Operation, operands: list[tf.Tensor], callers: tuple[str, ...]
    ) -> list[tf.Tensor]:
        definition = op_def_registry.get(_graph_name(operation))
        if definition is None:
            raise ModelFault(f"TensorFlow {tf.__version__} has no operation {operation.name}", "correct its name")
        _require_number(definition.input_arg, operands, f"operands of tf.{operation.name}")
        _require_number(definition.output_arg, operation.types, f"results of tf.{operation.name}")
        types = [tf.as_dtype(each.dtype) for each in operation.types]
        attributes = _inferred(definition, operands, types)
        for attribute in definition.attr:
            if attribute.name in operation.attributes:
                value = operation.attributes[attribute.name]
                attributes[attribute.name] = self._attribute(attribute.type, value, callers)
        try:
            made: tf.Operation = ops.get_default_graph().create_op(
                definition.name, operands, types, name=operation.name, attrs=attributes, op_def=definition
            )
        except (ValueError, TypeError, tf.errors.OpError) as error:
            raise ModelFault(
                f"the operation tf.{operation.name} is not valid: {one_line(error)}",
                "correct it; docs of tf.raw_ops list what each operation takes",
            ) from error
        outputs: list[tf.Tensor] = made.outputs
        return outputs

    def _attribute(self, kind: str, value: functions.Attribute, callers: tuple[str, ...]) -> AttrValue:
        """`value` as the protobuf of a node's attribute; `kind` is its type in the operation's definition."""
        made = attr_value_pb2.AttrValue()
        if kind.startswith("list("):
            items = value if isinstance(value, tuple) else (value,)
            for item in items:
                self._set(made.list, kind[5:-1], item, callers, is_list=True)
            # An empty list must be set as well: without it the attribute would have no value.
            made.list.SetInParent()
            return made
        self._set(made, kind, value, callers, is_list=False)
        return made

    def _set(self, holder: Any, kind: str, value: Any, callers: tuple[str, ...], *, is_list: bool) -> None:
        forms: dict[str, tuple[str, Callable[[], Any]]] = {
            "int": ("i", lambda: int(value)),
            "float": ("f", lambda: float(value)),
            "bool": ("b", lambda: bool(value)),
            "string": ("s", lambda: value.encode() if isinstance(value, str) else bytes.fromhex(value.digits)),
            "type": ("type", lambda: tf.as_dtype(value.dtype).as_datatype_enum),
            "shape": ("shape", lambda: tf.TensorShape(value.sizes).as_proto()),
            "tensor": ("tensor", lambda: tf.make_tensor_proto(values_of(self._folder, value))),
            "func": ("func", lambda: self._called(value.function, callers)),
        }
        field, plain = forms[kind]
        try:
            content = plain()
        except (AttributeError, TypeError, ValueError) as error:
            raise ModelFault(f"an attribute of type {kind} has the value {str(value)[:100]}", "correct it") from error
        if is_list and field in ("i", "f", "b", "s", "type"):
            getattr(holder, field).append(content)
        elif is_list:
            getattr(holder, field).add().CopyFrom(content)
        elif field in ("i", "f", "b", "s", "type"):
            setattr(holder, field, content)
        else:
            getattr(holder, field).CopyFrom(content)

    def _called(self, name: str, callers: tuple[str, ...]) -> NameAttrList:
        """The function as TensorFlow refers to it; it is added to the default graph."""
        if name not in self._found.functions or name in callers:
            raise ModelFault(f"the function @{name} is not in the module, or calls itself")
        if name not in self._concrete:
            function = self._found.functions[name]
            specs = [tf.TensorSpec(kind.shape, kind.dtype) for kind in function.arguments]

            def body(*values: tf.Tensor) -> list[tf.Tensor]:
                return [tf.identity(each) for each in self.results(function, values, (*callers, name))]

            self._concrete[name] = tf.function(body, input_signature=specs, autograph=False).get_concrete_function()
        concrete = self._concrete[name]
        concrete.add_to_graph(ops.get_default_graph())
        return attr_value_pb2.NameAttrList(name=concrete.name)


def _graph_name(operation: functions.Operation) -> str:
    """The operation's name in graphs, where If, While and Case have forms of their own without state."""
    if operation.name in ("If", "While", "Case") and operation.attributes.get("is_stateless"):
        return f"Stateless{operation.name}"
    return operation.name


def _require_number(arguments: Collection[OpDef.ArgDef], given: Sized, what: str) -> None:
    """Raise ModelFault unless an operation can have as many values as `given`; a list argument takes any number."""
    lists = sum(bool(each.number_attr or each.type_list_attr) for each in arguments)
    least = len(arguments) - lists
    if len(given) < least or (not lists and len(given) > least):
        raise ModelFault(f"{what}: {len(given)} are given, it has {least}{' or more' if lists else ''}", "correct them")


def _inferred(definition: OpDef, operands: list[tf.Tensor], types: list[tf.DType]) -> dict[str, AttrValue]:
    """The attributes that types and numbers of operands and results determine."""
    given = [operand.dtype.base_dtype.as_datatype_enum for operand in operands]
    results = [each.as_datatype_enum for each in types]
    return _of_border(definition.output_arg, results) | _of_border(definition.input_arg, given)


def _of_border(arguments: Collection[OpDef.ArgDef], kinds: list[int]) -> dict[str, AttrValue]:
    """As `_inferred`, from the definitions of inputs or outputs and the `kinds` of all of them."""
    found: dict[str, AttrValue] = {}
    start = 0
    for place, argument in enumerate(arguments):
        is_list = argument.number_attr or argument.type_list_attr
        end = len(kinds) - (len(arguments) - place - 1) if is_list else start + 1
        taken, start = kinds[start:end], end
        if argument.number_attr:
            found.setdefault(argument.number_attr, attr_value_pb2.AttrValue(i=len(taken)))
        if argument.type_list_attr:
            listed = attr_value_pb2.AttrValue.ListValue(type=taken)
            found.setdefault(argument.type_list_attr, attr_value_pb2.AttrValue(list=listed))
        if argument.type_attr and taken:
            found.setdefault(argument.type_attr, attr_value_pb2.AttrValue(type=taken[0]))
    return found


def values_of(folder: str, values: functions.Values) -> Array:
    """The constant as an array."""
    import numpy as np

    array = np.fromfile(os.path.join(folder, values.file), tf.as_dtype(values.dtype).as_numpy_dtype)
    return np.broadcast_to(array.reshape(()), values.shape) if values.is_splat else array.reshape(values.shape)
