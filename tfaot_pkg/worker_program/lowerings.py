"""Operations that a toolchain's XLA computes wrongly for some arguments, replaced by correct ones (decision 030).

Our toolchain table says which of them a toolchain needs (`Toolchain.lowerings`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tensorflow.python.framework import dtypes, tensor_util

if TYPE_CHECKING:
    from framework_types import FunctionDef, GraphDef, NodeDef, Nodes


_ERF_SATURATED = 3.8325069
_TANH_SATURATED = 9.0109138
"""For larger x, the float nearest to the function of x is 1."""


def lower(graph_def: GraphDef, wanted: Collection[str]) -> bool:
    """Replace the operations `wanted` (names of _LOWERINGS) in `graph_def`; return whether there were any."""
    found = False
    for nodes, function in [(graph_def.node, None), *((f.node_def, f) for f in graph_def.library.function)]:
        for node in [node for node in nodes if node.op in wanted]:
            # XLA has other polynomials for doubles, which are correct.
            if dtypes.as_dtype(node.attr["T"].type) in (dtypes.float32, dtypes.float16, dtypes.bfloat16):
                found = True
                output = _LOWERINGS[node.op](_Nodes(nodes, in_function=function is not None), node)
                if function is not None:
                    rename_output(function, node.name, output)
    return found


class _Nodes:
    """Adds nodes beside a replaced one; a function's body also names outputs (`node:output:0`)."""

    def __init__(self, nodes: Nodes, in_function: bool) -> None:
        self._nodes, self._in_function = nodes, in_function

    def add(self, op: str, name: str, dtype: int, *inputs: str, output: str) -> str:
        node = self._nodes.add(name=name, op=op)
        node.input.extend(inputs)
        node.attr["T"].type = dtype
        return self.reference(name, output)

    def number(self, name: str, dtype: int, value: float) -> str:
        import numpy as np

        node = self._nodes.add(name=name, op="Const")
        number = np.array(value, dtypes.as_dtype(dtype).as_numpy_dtype)
        node.attr["dtype"].type = dtype
        node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(number))
        return self.reference(name, "output")

    def reference(self, name: str, output: str) -> str:
        return f"{name}:{output}:0" if self._in_function else name


def _lower_erf(nodes: _Nodes, node: NodeDef) -> str:
    """XLA's polynomial ends at 1 - 3 * 2**-24 in fusions of 2.21; GELU, x * (1 + erf(x)), multiplies the error by x."""
    return _saturated(nodes, node, _ERF_SATURATED)


def _lower_tanh(nodes: _Nodes, node: NodeDef) -> str:
    """XLA's tanh has the same error in 2.17, on targets without FMA; the other form of GELU uses it."""
    return _saturated(nodes, node, _TANH_SATURATED)


def _saturated(nodes: _Nodes, node: NodeDef, saturated: float) -> str:
    """|x| > saturated ? sign(x) : f(x), instead of f(x). Returns the name of the output."""
    x, dtype, name = node.input[0], node.attr["T"].type, node.name
    size = nodes.add("Abs", f"{name}/size", dtype, x, output="y")
    limit = nodes.number(f"{name}/limit", dtype, saturated)
    # False for NaN, which the function itself keeps.
    beyond = nodes.add("Greater", f"{name}/beyond", dtype, size, limit, output="z")
    sign = nodes.add("Sign", f"{name}/sign", dtype, x, output="y")
    inside = nodes.add(node.op, f"{name}/inside", dtype, x, output="y")
    waits = node.input[1:]
    node.op = "SelectV2"
    node.input[:] = [beyond, sign, inside, *waits]
    node.attr.clear()
    node.attr["T"].type = dtype
    return "output"


_LOWERINGS = {"Erf": _lower_erf, "Tanh": _lower_tanh}


def rename_output(function: FunctionDef, name: str, output: str) -> None:
    """Make all users in `function` read `output` of the node `name`, which had another name for it."""

    def renamed(text: str) -> str:
        parts = text.split(":")
        return f"{name}:{output}:{parts[2]}" if parts[0] == name and len(parts) == 3 else text

    for node in function.node_def:
        node.input[:] = [renamed(text) for text in node.input]
    for key, text in list(function.ret.items()):
        function.ret[key] = renamed(text)
