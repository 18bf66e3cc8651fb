"""Which operations a model may contain, and which of them XLA can compile.

Operations of operations.txt that XLA compiles are allowed, and a few that only structure a graph. The file has a
line for every operation of every toolchain (tools/classify_operations.py maintains it); an operation without a line is
rejected. The toolchain tells which operations XLA can compile, and for which dtypes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import replacements
from messages.requests import ListOperations, ModelFault, Nothing, OperationTable, ReadFlags

if TYPE_CHECKING:
    from framework_types import GraphDef, NodeDef, Report, TensorProto


_DEVICE = "XLA_CPU_JIT"
_STRUCTURAL = frozenset("Placeholder PlaceholderWithDefault _Arg _Retval NoOp Const VarHandleOp ReadVariableOp".split())
"""Fed, folded or frozen before XLA sees the graph."""
CONTROL_FLOW = frozenset("If StatelessIf While StatelessWhile Case StatelessCase".split())
OLD_CONTROL_FLOW = frozenset(
    "Switch RefSwitch Merge Enter RefEnter Exit NextIteration LoopCond ControlTrigger _SwitchN".split()
)
"""Control flow of TensorFlow 1: tfcompile turns it into functions first."""
_CLASSES_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "operations.txt")
ALLOWED = frozenset("compiled structural inspected rewritten".split())
"""Classes of operations that are imported; `inspected` ones only after their content was checked (modules.py)."""

OUTSIDE = {
    "code": "calls code by its name",
    "datasets": "reads data sets",
    "debugging": "writes what a debugger reads",
    "devices": "talks to other devices or processes",
    "files": "reads or writes files",
    "internal": "is TensorFlow's own, and never in an exported model",
    "network": "opens connections",
    "printing": "prints",
    "python": "runs Python",
    "restoring": "reads or writes the checkpoint",
    "summaries": "writes event files",
}
"""Families of rejected operations, which reach outside of the model."""

TABLES_ADVICE = "lookup tables cannot be compiled, except those of numbers with constant content (StaticHashTable)"
_UNCOMPILED = {
    "queues": "XLA has no kernel for it: queues keep state between calls",
    "tables": TABLES_ADVICE,
    "text": "XLA has no kernel for it: text cannot be compiled",
    "training": "XLA has no kernel for it: it changes variables",
    "unclassified": "no operation that this version of the tool knows",
}
_PLACEHOLDERS = frozenset("Placeholder PlaceholderV2".split())
VARIABLES = frozenset("VarHandleOp VariableV2 Variable".split())
TABLES = frozenset({"HashTableV2"})
_WRITES = {"TensorListSetItem": "resize_if_index_out_of_bounds", "TensorArrayV3": "dynamic_size"}
"""Operation -> the attribute that lets an array grow."""
_SIZE_OF_ARRAY = {"TensorListReserve": 1, "TensorArrayV3": 0}
"""Operation that creates an array -> which of its inputs is the number of elements."""
_MOST_SHOWN = 20


Fault: TypeAlias = tuple[str, str, str]
"""(operation, name of the node, why it cannot be compiled)."""


@functools.cache
def classes() -> dict[str, tuple[str, str]]:
    """Operation -> (class, family); the family is empty except for `refused`."""
    found = {}
    with open(_CLASSES_FILE, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, kind, *family = line.split()
                found[name] = (kind, family[0] if family else "")
    return found


def is_allowed(operation: str) -> bool:
    return classes().get(operation, ("unclassified", ""))[0] in ALLOWED


def faults_of(signature: str, placed: Iterable[tuple[NodeDef, str]], functions: Collection[str]) -> list[Fault]:
    """[(operation, node, why)], sorted, for those of the `placed` nodes ([(node, function)]) that cannot be compiled.

    Raises ModelFault if one reaches outside of the model, or if a function has the name of a TensorFlow operation.
    """
    _refuse_hidden(functions)
    outside: list[Fault] = []
    uncompiled: list[Fault] = []
    for node, function in placed:
        # An operation of a newer TensorFlow has no line: it is rejected until a maintainer has classified it.
        kind, family = classes().get(node.op, ("refused", "unclassified"))
        # A call in the form of TensorFlow 1; the nodes of the function are in the list themselves.
        if node.op in functions:
            continue
        if kind not in ALLOWED:
            # Classes without a family, such as `restoring`, have one of the same name (OUTSIDE, _UNCOMPILED).
            family = family or kind
            why = replacements.no_kernel(node.op) if family == "kernel" else OUTSIDE.get(family) or _UNCOMPILED[family]
            fault = (node.op, _shown(node, family), why)
            (outside if family in OUTSIDE else uncompiled).append(fault)
        elif why := _misplaced(node, function):
            uncompiled.append((node.op, node.name, why))
    if outside:
        raise ModelFault(
            f"the signature {signature!r} runs operations that reach out of the model:\n{listing(sorted(outside))}",
            "such a model is not loaded; export it without them",
        )
    return sorted(uncompiled)


def _misplaced(node: NodeDef, function: str) -> str:
    """Why an operation that is allowed elsewhere is rejected here; "" if it is allowed here too."""
    if node.op in _PLACEHOLDERS:
        return "no input feeds it: name it in model.inputs, or give it a value in model.constants"
    if function and node.op in TABLES:
        return "a table that a function makes for itself has no content in the file"
    if function and node.op in VARIABLES:
        return "a variable that a function makes for itself has no value in the checkpoint"
    return ""


def _refuse_hidden(functions: Iterable[str]) -> None:
    # A node of such a name would pass the check as a call of the function, while TensorFlow may run the operation.
    hidden = sorted(set(functions) & set(classes()))
    if hidden:
        raise ModelFault(
            f"the model's function {hidden[0]!r} has the name of an operation of TensorFlow's",
            "such a model is not loaded; export it again",
        )


def _shown(node: NodeDef, family: str) -> str:
    shared = node.attr["shared_name"].s.decode("utf-8", "replace") if "shared_name" in node.attr else ""
    return f"{node.name}, table {shared!r}" if family == "tables" and shared else node.name


def listing(faults: list[Fault]) -> str:
    """One line per fault, up to a limit."""
    lines = [f"  {operation} (node {node}): {why}" for operation, node, why in faults[:_MOST_SHOWN]]
    more = [f"  and {len(faults) - _MOST_SHOWN} more"] if len(faults) > _MOST_SHOWN else []
    return "\n".join([*lines, *more])


def nodes_of(graph_def: GraphDef) -> Iterator[NodeDef]:
    """All nodes of a GraphDef, including those in functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


@functools.cache  # hundreds of operations: reading them takes a tenth of the build time of a small model
def compilable() -> dict[str, tuple[dict[str, tuple[str, ...]], ...]]:
    """Operation name -> dtype constraints per kernel, e.g. {"T": ("float", "half")}.

    TensorFlow registers the kernels for XLA's device at the first XLA compilation of a process.
    """
    from tensorflow.python.framework import dtypes, kernels

    _compile_something()
    found: dict[str, list[dict[str, tuple[str, ...]]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type != _DEVICE:
            continue
        constraints = {
            constraint.name: tuple(sorted(dtypes.as_dtype(value).name for value in constraint.allowed_values.list.type))
            for constraint in kernel.constraint
        }
        found.setdefault(kernel.op, []).append(constraints)
    return {name: tuple(kernels) for name, kernels in found.items()}


def _compile_something() -> None:
    import tensorflow as tf

    tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1.0))


def read_flags(request: ReadFlags, report: Report) -> Nothing:
    """Make TensorFlow and XLA read their flags, which ends the process if one is unknown."""
    _compile_something()
    return Nothing()


def supported(request: ListOperations, report: Report) -> OperationTable:
    """The table of operations that a model may contain."""
    found = {name: kernels for name, kernels in compilable().items() if is_allowed(name)}
    return OperationTable(
        operations={**found, **{name: () for name, (kind, _) in classes().items() if kind == "rewritten"}}
    )


def unsupported_nodes(graph_def: GraphDef) -> list[Fault]:
    """[(operation, node name, why)] of a frozen graph, sorted; functions of the graph count as operations."""
    table = compilable()
    functions = {function.signature.name for function in graph_def.library.function}
    faults = _growing(graph_def)
    for node in nodes_of(graph_def):
        if node.op in _STRUCTURAL or node.op in OLD_CONTROL_FLOW or node.op in functions:
            continue
        if node.op not in table:
            faults.append((node.op, node.name, replacements.no_kernel(node.op)))
        elif not any(_fits(node, constraints) for constraints in table[node.op]):
            faults.append((node.op, node.name, f"XLA has no kernel for its dtypes ({_dtypes(node)})"))
    return sorted(faults)


def _growing(graph_def: GraphDef) -> list[Fault]:
    """The same for arrays that begin empty and grow: XLA drops elements written past an array's end."""
    if not any(node.op in _WRITES and node.attr[_WRITES[node.op]].b for node in nodes_of(graph_def)):
        return []
    why = "XLA's arrays cannot grow: give tf.TensorArray its size (size=n), and no dynamic_size"
    faults = []
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        empty = {node.name for node in nodes if node.op == "Const" and _is_zero(node.attr["value"].tensor)}
        for node in nodes:
            place = _SIZE_OF_ARRAY.get(node.op)
            if place is not None and node.input[place].split(":")[0] in empty:
                faults.append((node.op, node.name, why))
    return faults


def _is_zero(tensor: TensorProto) -> bool:
    import tensorflow as tf

    return not tensor.tensor_shape.dim and tensor.dtype == tf.int32.as_datatype_enum and not tf.make_ndarray(tensor)


def require_compilable(graph_def: GraphDef) -> None:
    """Raise ModelFault that names every operation that XLA cannot compile."""
    require_none(unsupported_nodes(graph_def))


def require_none(faults: list[Fault]) -> None:
    """Raise ModelFault that names the operations of `faults`, [(operation, node name, why)], if there are any."""
    if faults:
        raise ModelFault(
            f"the model has operations that cannot be compiled:\n{listing(faults)}",
            "move them out of the model (into the program that calls it), or replace them; "
            "`tfaot-pkg check --table` lists what this toolchain can compile",
        )


def _fits(node: NodeDef, constraints: Mapping[str, tuple[str, ...]]) -> bool:
    from tensorflow.python.framework import dtypes

    for name, allowed in constraints.items():
        attribute = node.attr.get(name)
        if attribute is None:
            continue
        values = [attribute.type] if attribute.type else list(attribute.list.type)
        if any(dtypes.as_dtype(value).name not in allowed for value in values):
            return False
    return True


def _dtypes(node: NodeDef) -> str:
    from tensorflow.python.framework import dtypes

    return ", ".join(f"{k}={dtypes.as_dtype(v.type).name}" for k, v in sorted(node.attr.items()) if v.type)
