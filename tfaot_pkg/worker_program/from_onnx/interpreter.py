"""Runs ONNX files node by node with the reference implementation of the ONNX package, also in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import defined_results
import numpy as np
from from_onnx.graphs import QONNX
from from_onnx.operators import operators
from from_onnx.quantized_operators import quantized_operators
from messages import open_results

if TYPE_CHECKING:
    from framework_types import Array
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


class CannotWalk(Exception):
    """A file that the reference implementation does not run."""


_DTYPES = ("dtype", "to", "output_dtype", "stash_type")
"""Attributes that hold a type."""


class Walk:
    """A model whose operators have no functions of their own; `more` are classes of those of other domains."""

    def __init__(self, model: ModelProto, more: Sequence[type] = ()) -> None:
        # Shapes are not checked, and types change.
        del model.graph.value_info[:]
        self._models = {False: model, True: doubled(model)}
        self._more = more
        self._evaluators: dict[tuple[bool, bool], Any] = {}

    def run(
        self,
        wanted: list[str],
        given: dict[str, Array],
        *,
        double: bool,
        observe: Callable[[open_results.Node], None] | None,
    ) -> list[Array]:
        """The outputs `wanted` for the arrays `given`; if nobody is to `observe` it, with defined_results.py.

        Raises CannotWalk.
        """
        try:
            evaluator = self._evaluator(double, defines=observe is None)
            feeds = {name: _widened(values) for name, values in given.items()} if double else given
            known = evaluator.run(None, feeds, intermediate=True)
            if observe is not None:
                for node in evaluator.rt_nodes_:
                    _observed(observe, node, known)
            return [np.asarray(known[name]) for name in wanted]
        # The reference implementation has no exception of its own, and not every operator with every type.
        except Exception as error:
            raise CannotWalk(str(error)) from error

    def _evaluator(self, double: bool, *, defines: bool) -> Any:
        from onnx.reference import ReferenceEvaluator

        if (double, defines) not in self._evaluators:
            opset = min((each.version for each in self._models[double].opset_import if not each.domain), default=19)
            own = [*self._more, *operators(opset), *quantized_operators(opset), *([_conversion()] if defines else [])]
            self._evaluators[double, defines] = ReferenceEvaluator(self._models[double], new_ops=own)
        return self._evaluators[double, defines]


def _conversion() -> type:
    """`Cast` as compiled code has it. NumPy's shifts by too many bits are those of compiled code already."""
    from onnx.helper import tensor_dtype_to_np_dtype
    from onnx.reference.op_run import OpRun

    class Cast(OpRun):  # type: ignore[misc]  # its class has no types in tools/stubs
        op_domain = ""

        def _run(self, x: Array, to: int = 0, **_: Any) -> tuple[Array]:
            return (defined_results.converted(x, np.dtype(tensor_dtype_to_np_dtype(to))),)

    return Cast


def _observed(observe: Callable[[open_results.Node], None], node: Any, known: dict[str, Array]) -> None:
    name = f"{'qonnx' if node.onnx_node.domain == QONNX else 'ai.onnx'}.{node.op_type}"
    if not open_results.watched(name):
        return
    operands = tuple(np.asarray(known[each]) for each in node.input if each)
    attributes = {each.name: each.i or each.f for each in node.onnx_node.attribute if each.type in (1, 2)}
    modes = [each.s.decode("utf-8", "replace").upper() for each in node.onnx_node.attribute if each.name == _MODE]
    if any(mode in _AT_WHOLE for mode in modes):
        attributes["at_whole"] = 1
    to = np.asarray(known[node.output[0]]).dtype if node.op_type == "Cast" else None
    observe(
        open_results.Node(
            name=node.output[0], operation=name, operands=operands, to=to,
            attributes={"axis": 0, **attributes} if node.op_type in ("ArgMax", "ArgMin") else attributes,
        )
    )  # fmt: skip


_MODE, _AT_WHOLE = "rounding_mode", frozenset("CEIL DOWN FLOOR UP".split())
"""QONNX's attribute, and those of its values by which results jump at whole numbers; by others they do in between."""


def _widened(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype == np.float32 else values


def doubled(model: ModelProto) -> ModelProto:
    """A copy of `model` with float64 in place of float32."""
    from onnx import ModelProto

    copy = ModelProto()
    copy.CopyFrom(model)
    _double_graph(copy.graph)
    for function in copy.functions:
        for node in function.node:
            _double_node(node)
    return copy


def _double_graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _double_tensor(tensor)
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type
        kind.elem_type = _double(kind.elem_type)
    for node in graph.node:
        _double_node(node)


def _double_node(node: NodeProto) -> None:
    from onnx import AttributeProto, numpy_helper

    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            _double_tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _double_graph(attribute.g)
        elif attribute.type == AttributeProto.INT and attribute.name in _DTYPES:
            attribute.i = _double(attribute.i)
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            values = np.asarray(attribute.f if attribute.name == "value_float" else list(attribute.floats), np.float64)
            attribute.Clear()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(numpy_helper.from_array(values))


def _double_tensor(tensor: TensorProto) -> None:
    from onnx import numpy_helper

    if tensor.data_type != _double(tensor.data_type):
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def _double(dtype: int) -> int:
    from onnx import TensorProto

    return TensorProto.DOUBLE if dtype == TensorProto.FLOAT else dtype
