"""Operations on variables as operations on tensors: the value read, and the variable's next value.

The formulas are those of TensorFlow's documentation of each operation (tf.raw_ops).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import tensorflow as tf
from messages.requests import ModelFault
from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.python.framework import op_def_registry
from wiring import control_inputs, free

if TYPE_CHECKING:
    import numpy.typing as npt
    from framework_types import NodeDef


@dataclass(frozen=True)
class Variable:
    """A variable of the graph: the node `key`, shown to users as `name`. It stays a variable unless `is_lifted`."""

    key: str
    name: str
    dtype: int
    shape: Sequence[int | None]
    is_lifted: bool = True


@dataclass
class Nodes:
    """New nodes, for `target` (nodes of a graph or of a function); names begin with `hint`."""

    target: list[NodeDef]
    taken: set[str]
    in_function: bool
    hint: str = ""

    def copy(self, node: NodeDef) -> NodeDef:
        """A copy of `node` among the new nodes."""
        made = self._node()
        made.CopyFrom(node)
        self.target.append(made)
        return made

    def waiting(self, node: NodeDef) -> None:
        """Keep the name of `node`, whose result others compute, as a NoOp: control edges to it stay valid."""
        made = self._node()
        made.name, made.op = node.name, "NoOp"
        made.input.extend(control_inputs(node))
        self.target.append(made)

    def add(self, op: str, *inputs: str, **attributes: int) -> str:
        """Add a node and return its first result. Attributes: types as DataType, integers as `int`, flags as `bool`."""
        made = self._node()
        made.name, made.op = self.free(f"{self.hint}/{op}"), op
        made.input.extend(inputs)
        for key, value in attributes.items():
            if isinstance(value, bool):
                made.attr[key].b = value
            elif key in _COUNTS:
                made.attr[key].i = value
            else:
                made.attr[key].type = value
        self.target.append(made)
        return self.result(made.name, str(op_def_registry.get(op).output_arg[0].name))

    def result(self, name: str, output: str, index: int = 0, position: int = 0) -> str:
        """A result of a node: in functions element `index` of its `output`, in graphs the result at `position`."""
        return f"{name}:{output}:{index}" if self.in_function else f"{name}:{position}"

    def constant(self, value: npt.ArrayLike, dtype: int) -> str:
        made = self._node()
        made.name, made.op = self.free(f"{self.hint}/Const"), "Const"
        made.attr["dtype"].type = dtype
        made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.as_dtype(dtype)))
        self.target.append(made)
        return self.result(made.name, "output")

    def free(self, wanted: str) -> str:
        """A name that no node has yet; later calls do not return it again."""
        return free(wanted, self.taken)

    @staticmethod
    def _node() -> NodeDef:
        return node_def_pb2.NodeDef()


_COUNTS = frozenset({"batch_dims", "N"})


class Arithmetic:
    """Arithmetic on tensors of one type."""

    def __init__(self, nodes: Nodes, dtype: int) -> None:
        self._nodes, self._dtype = nodes, dtype

    def __call__(self, op: str, *operands: str) -> str:
        return self._nodes.add(op, *operands, T=self._dtype)

    def one(self) -> str:
        return self._nodes.constant(1, self._dtype)

    def plus(self, x: str, y: str) -> str:
        return self("AddV2", x, y)

    def minus(self, x: str, y: str) -> str:
        return self("Sub", x, y)

    def times(self, x: str, y: str) -> str:
        return self("Mul", x, y)

    def over(self, x: str, y: str) -> str:
        return self("RealDiv", x, y)


def _read(nodes: Nodes, node: NodeDef, inputs: list[str], variable: Variable) -> str:
    return inputs[0]


def _is_initialized(nodes: Nodes, node: NodeDef, inputs: list[str], variable: Variable) -> str:
    # State always has a value: callers begin with the trained one.
    return nodes.constant(True, types_pb2.DT_BOOL)


def _read_shape(nodes: Nodes, node: NodeDef, inputs: list[str], variable: Variable) -> str:
    return nodes.add("Shape", inputs[0], T=variable.dtype, out_type=node.attr["out_type"].type or types_pb2.DT_INT32)


def _gather(nodes: Nodes, node: NodeDef, inputs: list[str], variable: Variable) -> str:
    behind = node.attr["batch_dims"].i
    return nodes.add(
        # ResourceGather takes slices along the first axis after the batch; GatherV2 has that axis as an input.
        "GatherV2", *inputs[:2], nodes.constant(behind, types_pb2.DT_INT32),
        Tparams=variable.dtype, Tindices=node.attr["Tindices"].type, Taxis=types_pb2.DT_INT32, batch_dims=behind,
    )  # fmt: skip


def _gather_nd(nodes: Nodes, node: NodeDef, inputs: list[str], variable: Variable) -> str:
    return nodes.add("GatherNd", *inputs[:2], Tparams=variable.dtype, Tindices=node.attr["Tindices"].type)


_READERS: dict[str, Callable[[Nodes, NodeDef, list[str], Variable], str]] = {
    "ReadVariableOp": _read,
    "VarIsInitializedOp": _is_initialized,
    "VariableShape": _read_shape,
    "ResourceGather": _gather,
    "ResourceGatherNd": _gather_nd,
}
READ = frozenset(_READERS)
"""Operations that only read the variable that is their first input."""


def read(nodes: Nodes, node: NodeDef, inputs: list[str], variable: Variable) -> str:
    """The value that `node`, one of READ, reads of `variable`; `inputs` are tensors, the first the variable's value."""
    return _READERS[node.op](nodes, node, inputs, variable)


def written(nodes: Nodes, node: NodeDef, inputs: list[str], variable: Variable) -> dict[int, str]:
    """The next values of the variables that `node`, one of WRITTEN, changes.

    `inputs` are tensors, with a variable's value in its place; `variable` is the first variable among them.
    """
    # Philox has a counter of two words and a key; the state of ThreeFry has two words in all.
    if node.op in GIVES_FORMER and variable.shape != (_COUNTERS + 1,):
        raise ModelFault(
            f"{node.op} (node {node.name}) draws from {variable.name!r}, whose generator is not Philox",
            "make it with tf.random.Generator.from_seed(seed, alg='philox'), which is what TensorFlow has on CPUs",
        )
    return _WRITERS[node.op](nodes, node, inputs, variable.dtype)


Writer: TypeAlias = Callable[["Nodes", "NodeDef", list[str], int], dict[int, str]]
"""The next values of variables, by their places among the inputs."""


def _assign(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    return {0: inputs[1]}


def _assign_add(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    return {0: nodes.add("AddV2", *inputs[:2], T=dtype)}


def _assign_sub(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    return {0: nodes.add("Sub", *inputs[:2], T=dtype)}


def _scatter(operation: str) -> Writer:
    def write(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
        kind = node.attr["Tindices"].type
        # Updates by row are scattered with index vectors of one element.
        last = nodes.constant(-1, types_pb2.DT_INT32)
        rows = nodes.add("ExpandDims", inputs[1], last, T=kind, Tdim=types_pb2.DT_INT32)
        return {0: nodes.add(operation, inputs[0], rows, inputs[2], T=dtype, Tindices=kind)}

    return write


def _scatter_nd(operation: str) -> Writer:
    def write(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
        return {0: nodes.add(operation, *inputs[:3], T=dtype, Tindices=node.attr["Tindices"].type)}

    return write


def _slice_assign(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    begin, end, strides, value = inputs[1:5]
    text = nodes.add(
        "TensorStridedSliceUpdate", inputs[0], begin, end, strides, value, T=dtype, Index=node.attr["Index"].type
    )
    # The operation on tensors has the same attributes as the one on variables.
    for mask in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        nodes.target[-1].attr[mask].i = node.attr[mask].i
    return {0: text}


def _gradient_descent(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    variable, rate, gradient = inputs[:3]
    on = Arithmetic(nodes, dtype)
    return {0: on.minus(variable, on.times(rate, gradient))}


def _momentum(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    variable, kept, rate, gradient, momentum = inputs[:5]
    on = Arithmetic(nodes, dtype)
    kept = on.plus(on.times(kept, momentum), gradient)
    step = on.times(kept, rate)
    if node.attr["use_nesterov"].b:
        step = on.plus(on.times(gradient, rate), on.times(step, momentum))
    return {0: on.minus(variable, step), 1: kept}


def _keras_momentum(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    variable, kept, rate, gradient, momentum = inputs[:5]
    on = Arithmetic(nodes, dtype)
    # Unlike in _momentum, the kept sum contains the learning rate.
    slope = on.times(gradient, rate)
    kept = on.minus(on.times(kept, momentum), slope)
    step = on.minus(on.times(kept, momentum), slope) if node.attr["use_nesterov"].b else kept
    return {0: on.plus(variable, step), 1: kept}


def _adam(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    variable, first, second, power1, power2, rate, beta1, beta2, epsilon, gradient = inputs[:10]
    on = Arithmetic(nodes, dtype)
    one = on.one()
    # epsilon is the paper's "epsilon hat" (Kingma and Ba, 2015): the bias corrections are in the rate instead.
    rate = on.over(on.times(rate, on("Sqrt", on.minus(one, power2))), on.minus(one, power1))
    first = on.plus(first, on.times(on.minus(gradient, first), on.minus(one, beta1)))
    second = on.plus(second, on.times(on.minus(on("Square", gradient), second), on.minus(one, beta2)))
    step = first
    if node.attr["use_nesterov"].b:
        step = on.plus(on.times(gradient, on.minus(one, beta1)), on.times(beta1, first))
    step = on.over(on.times(step, rate), on.plus(epsilon, on("Sqrt", second)))
    return {0: on.minus(variable, step), 1: first, 2: second}


def _rms_prop(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    variable, squares, kept, rate, decay, momentum, epsilon, gradient = inputs[:8]
    on = Arithmetic(nodes, dtype)
    squares = on.plus(squares, on.times(on.minus(on("Square", gradient), squares), on.minus(on.one(), decay)))
    # epsilon is added before the root is taken, unlike in Adam.
    step = on.times(on.times(gradient, rate), on("Rsqrt", on.plus(squares, epsilon)))
    kept = on.plus(on.times(kept, momentum), step)
    return {0: on.minus(variable, kept), 1: squares, 2: kept}


def _skip(nodes: Nodes, node: NodeDef, inputs: list[str], dtype: int) -> dict[int, str]:
    """The generator's state after the draw: its counter of 128 bits, plus 256 for each number."""
    unsigned, index = types_pb2.DT_UINT64, types_pb2.DT_INT32
    # Unsigned: the counter wraps around, and `Less` below must compare all 64 bits.
    bits = nodes.add("Bitcast", inputs[0], T=dtype, type=unsigned)
    one = nodes.constant([1], index)
    low, high, key = (
        nodes.add("Slice", bits, nodes.constant([place], index), one, T=unsigned, Index=index)
        for place in range(_COUNTERS + 1)
    )
    on = Arithmetic(nodes, unsigned)
    # The factor of TensorFlow's kernel (stateful_random_ops_cpu_gpu.h); its documentation leaves it open.
    moved = on.plus(low, on.times(inputs[2], nodes.constant(256, unsigned)))
    # A sum that is less than one of its terms has wrapped around: carry into the upper word.
    carried = nodes.add("Cast", on("Less", moved, low), SrcT=types_pb2.DT_BOOL, DstT=unsigned)
    joined = nodes.add(
        "ConcatV2", moved, on.plus(high, carried), key, nodes.constant(0, index), T=unsigned, N=3, Tidx=index
    )
    return {0: nodes.add("Bitcast", joined, T=unsigned, type=dtype)}


_COUNTERS = 2
"""Words of the counter in the state of tf.random.Generator; the key follows them."""

_WRITERS: dict[str, Writer] = {
    "AssignVariableOp": _assign,
    "AssignAddVariableOp": _assign_add,
    "AssignSubVariableOp": _assign_sub,
    "ResourceScatterUpdate": _scatter("TensorScatterUpdate"),
    "ResourceScatterAdd": _scatter("TensorScatterAdd"),
    "ResourceScatterSub": _scatter("TensorScatterSub"),
    "ResourceScatterMin": _scatter("TensorScatterMin"),
    "ResourceScatterMax": _scatter("TensorScatterMax"),
    "ResourceScatterNdUpdate": _scatter_nd("TensorScatterUpdate"),
    "ResourceScatterNdAdd": _scatter_nd("TensorScatterAdd"),
    "ResourceScatterNdSub": _scatter_nd("TensorScatterSub"),
    "ResourceStridedSliceAssign": _slice_assign,
    "ResourceApplyGradientDescent": _gradient_descent,
    "ResourceApplyMomentum": _momentum,
    "ResourceApplyKerasMomentum": _keras_momentum,
    "ResourceApplyAdam": _adam,
    "ResourceApplyRMSProp": _rms_prop,
    "RngReadAndSkip": _skip,
}

GIVES_FORMER = frozenset({"RngReadAndSkip"})
"""Assignments whose result is the variable's former value."""


WRITTEN: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_WRITERS, (0,)),
    **dict.fromkeys(("ResourceApplyMomentum", "ResourceApplyKerasMomentum"), (0, 1)),
    **dict.fromkeys(("ResourceApplyAdam", "ResourceApplyRMSProp"), (0, 1, 2)),
}
"""Assignments, with the inputs whose variables they change."""


def refuse(node: NodeDef, variable: Variable) -> NoReturn:
    """Raise ModelFault: `node` uses a variable neither to read it nor in a known assignment."""
    raise ModelFault(
        f"{node.op} (node {node.name}) uses the variable {variable.name!r} in a way that cannot be compiled with state",
        f"known are reading and these assignments: {', '.join(sorted(_WRITERS))}",
    )
