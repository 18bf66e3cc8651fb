"""Read functions of the TensorFlow dialect (`"tf.AddV2"(%a, %b)`), as text in its functional form.

MLIR without TensorFlow knows none of these operations, but it reads the generic form of any operation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from from_mlir import functions, loading
from messages.requests import ModelFault, one_line
from messages.sources import SourceModel, SourceTensor

if TYPE_CHECKING:
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects.func import FuncOp


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPERATION = re.compile(r'"tf\.[A-Z]')
_TENSOR = re.compile(r"tensor<((?:[?\d]+x)*|\*x)([^x].*)>")
_SHAPE = re.compile(r"#tf_type\.shape<(.*)>")
_TYPES = {"!tf_type.string": "string", "!tf_type.resource": "resource", "!tf_type.variant": "variant"}


def is_dialect(text: str) -> bool:
    """Whether the text contains operations of TensorFlow's dialect."""
    return _OPERATION.search(text) is not None


def read(path: str, text: str, out: str) -> SourceModel:
    """Write the functions to the folder `out`; ModelFault if the text contains anything else."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    context = mlir.make_ir_context()
    # Otherwise MLIR rejects every operation of `tf`.
    context.allow_unregistered_dialects = True
    with context:
        try:
            module = ir.Module.parse(_with_attributes(text))
        except Exception as error:  # MLIR raises several kinds
            raise ModelFault(
                f"{path} is not MLIR of functions that can be read: {one_line(error)}",
                "write functions of TensorFlow's dialect, without graphs and islands of tf_executor",
            ) from error
        main = loading.main_of(module)
        reader = _Reader(out)
        found = {each.attributes["sym_name"].value: reader.function(each) for each in loading.functions_of(module)}
        inputs, outputs = _names(main, text)
    name = main.attributes["sym_name"].value
    read_functions = functions.Functions(main=name, inputs=inputs, outputs=outputs, functions=found)
    if out:
        functions.write(out, read_functions)
    return _source(path, read_functions)


def _with_attributes(text: str) -> str:
    """`text` with properties (`<{...}>`) as attributes: MLIR hides those of operations that it does not know."""
    end = 0
    parts: list[str] = []
    for quoted in _STRING.finditer(text):
        parts += [_merged(text[end : quoted.start()]), quoted[0]]
        end = quoted.end()
    return "".join([*parts, _merged(text[end:])])


def _merged(text: str) -> str:
    # Outside of strings, which may contain anything. `<{a}> {b}` becomes `{a, b}`.
    return text.replace("<{", "{").replace("}> {}", "}").replace("}> {", ", ").replace("}>", "}")


class _Reader:
    """Reads functions; values of constants become files in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0

    def function(self, function: FuncOp) -> functions.Function:
        if len(function.regions[0].blocks) != 1:
            raise ModelFault("a function of the module has no body, or branches between blocks")
        block = function.regions[0].blocks[0]
        numbers = {argument: place for place, argument in enumerate(block.arguments)}
        operations: list[functions.Operation] = []
        returned: tuple[int, ...] = ()
        for each in block.operations:
            operation = each.operation
            operands = tuple(numbers[value] for value in operation.operands)
            if operation.name == "func.return":
                returned = operands
                continue
            for result in operation.results:
                numbers[result] = len(numbers)
            operations.append(self._operation(operation, operands, tuple(numbers[each] for each in operation.results)))
        arguments = tuple(_type(argument.type) for argument in block.arguments)
        return functions.Function(arguments=arguments, operations=tuple(operations), returned=returned)

    def _operation(
        self, operation: ir.Operation, operands: tuple[int, ...], results: tuple[int, ...]
    ) -> functions.Operation:
        dialect, _, name = operation.name.partition(".")
        if dialect != "tf" or len(operation.regions):
            what = "has regions" if dialect == "tf" else "is not one of TensorFlow's dialect"
            raise ModelFault(
                f"the operation {operation.name} {what}",
                "write the module in one dialect, its branches and loops as functions (tf.If, tf.While)",
            )
        attributes = {name: self._attribute(value) for name, value in _pairs(operation.attributes)}
        return functions.Operation(
            name=name,
            operands=operands,
            results=results,
            types=tuple(_type(each.type) for each in operation.results),
            attributes={name: value for name, value in attributes.items() if value is not None},
        )

    def _attribute(self, value: ir.Attribute) -> Any:
        """`value` as plain data; None for kinds of attributes that TensorFlow's operations do not have."""
        from jax._src.lib.mlir import ir

        if isinstance(value, ir.ArrayAttr):
            return tuple(each for each in map(self._attribute, value) if each is not None)
        if isinstance(value, ir.StringAttr):
            return _text(value.value_bytes)
        for kind in (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr):
            if isinstance(value, kind):
                return value.value
        if isinstance(value, ir.FlatSymbolRefAttr):
            return functions.Reference(function=value.value)
        if isinstance(value, ir.TypeAttr):
            return functions.DType(dtype=_dtype(str(value.value)))
        if isinstance(value, ir.UnitAttr):
            return True
        if isinstance(value, (ir.DenseElementsAttr, ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)):
            return self._values(value)
        if found := _SHAPE.fullmatch(str(value)):
            return functions.Shape(sizes=_sizes(found[1]))
        return None

    def _values(self, value: ir.Attribute) -> functions.Values:
        from jax._src.lib.mlir import ir

        kind = ir.RankedTensorType(value.type)
        is_splat = value.is_splat
        # A splat, one number for all elements, stays one number: it may have millions of elements.
        array = np.asarray(value.get_splat_value().value) if is_splat else loading.values_of(value)
        dtype = loading.dtype_of(kind.element_type)
        name = f"values_{self._count}.bin"
        self._count += 1
        if self._folder:
            loading.write_values(os.path.join(self._folder, name), array, dtype)
        return functions.Values(file=name, dtype=dtype, shape=tuple(kind.shape), is_splat=is_splat)


def _text(value: bytes) -> str | functions.Raw:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return functions.Raw(digits=value.hex())


def _pairs(attributes: Any) -> list[tuple[str, ir.Attribute]]:
    """Names and values of attributes: some versions of MLIR iterate over names, others over named attributes."""
    return [(each, attributes[each]) if isinstance(each, str) else (each.name, each.attr) for each in attributes]


def _type(kind: ir.Type) -> functions.Type:
    found = _TENSOR.fullmatch(str(kind))
    if found is None:
        raise ModelFault(f"the type {kind} is not a tensor")
    return functions.Type(dtype=_dtype(found[2]), shape=None if found[1] == "*x" else _sizes(found[1].rstrip("x")))


def _dtype(text: str) -> str:
    plain = re.sub("^(!.*?)<.*", r"\1", text)
    dtype = _TYPES.get(plain, loading.dtype_of(text))
    if dtype == text:
        raise ModelFault(f"the type {text} is not one of TensorFlow's")
    return dtype


def _sizes(text: str) -> tuple[int | None, ...] | None:
    if text == "*":
        return None
    return tuple(None if size == "?" else int(size) for size in text.split("x") if size)


def _names(main: FuncOp, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the arguments and results of `main`: from tf.entry_function, else from the text, else numbered."""
    kind = main.attributes["function_type"].value
    inputs, outputs = [""] * len(kind.inputs), [""] * len(kind.results)
    if "tf.entry_function" in main.attributes:
        entry = main.attributes["tf.entry_function"]
        inputs = _split(entry, "inputs", inputs)
        outputs = _split(entry, "outputs", outputs)
    elif len(written := loading.written_names(text)) == len(inputs):
        inputs = written
    return (
        tuple(loading.unique([name or f"input_{place}" for place, name in enumerate(inputs)])),
        tuple(loading.unique([name or f"output_{place}" for place, name in enumerate(outputs)])),
    )


def _split(entry: ir.Attribute, key: str, default: list[str]) -> list[str]:
    names = entry[key].value.split(",") if key in entry else []
    return [name.strip() for name in names] if len(names) == len(default) else default


def _source(path: str, found: functions.Functions) -> SourceModel:
    main = found.functions[found.main]
    types = {number: kind for each in main.operations for number, kind in zip(each.results, each.types, strict=True)}
    types |= dict(enumerate(main.arguments))
    results = [types[number] for number in main.returned]

    def tensors(names: Iterable[str], kinds: Iterable[functions.Type]) -> tuple[SourceTensor, ...]:
        return tuple(
            SourceTensor(name=name, key=name, dtype=kind.dtype, shape=kind.shape)
            for name, kind in zip(names, kinds, strict=True)
        )

    return SourceModel(
        file=path, origin="TensorFlow dialect", inputs=tensors(found.inputs, main.arguments),
        outputs=tensors(found.outputs, results), by_row=False, has_answers=False,
    )  # fmt: skip
