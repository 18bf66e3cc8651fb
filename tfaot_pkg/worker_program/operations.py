"""Which operations XLA can compile, by asking the toolchain itself."""

import allowlist
from faults import ModelFault

_DEVICE = "XLA_CPU_JIT"
_STRUCTURAL = frozenset("Placeholder PlaceholderWithDefault _Arg _Retval NoOp Const VarHandleOp ReadVariableOp".split())
"""Fed, folded or frozen away before XLA sees the graph."""
CONTROL_FLOW = frozenset("If StatelessIf While StatelessWhile Case StatelessCase".split())
LOOPS = frozenset("Switch RefSwitch Merge Enter RefEnter Exit NextIteration LoopCond ControlTrigger _SwitchN".split())
"""Control flow of TensorFlow 1: tfcompile turns it into functions first."""


def nodes_of(graph_def):
    """All nodes of a GraphDef, those inside of functions too."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def compilable() -> dict:
    """Operation name -> list of dtype constraints per kernel, e.g. {"T": ["float", "half"]}.

    The kernels for XLA's device are registered at the first XLA compilation of a process.
    """
    from tensorflow.python.framework import dtypes, kernels

    _compile_something()
    found: dict = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type != _DEVICE:
            continue
        constraints = {
            constraint.name: sorted(dtypes.as_dtype(value).name for value in constraint.allowed_values.list.type)
            for constraint in kernel.constraint
        }
        found.setdefault(kernel.op, []).append(constraints)
    return found


def _compile_something() -> None:
    import tensorflow as tf

    tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1.0))


def read_flags(args: dict, report) -> dict:
    """Make TensorFlow and XLA read their flags, which ends the process where they do not take them."""
    _compile_something()
    return {}


def supported(args: dict, report) -> dict:
    """The table of what a model may hold: {"operations": {op: [{attribute: [dtype, ...]}, ...]}}."""
    return {"operations": {name: kernels for name, kernels in compilable().items() if allowlist.is_allowed(name)}}


def unsupported_nodes(graph_def) -> list:
    """[(operation, node name, why)] of a frozen graph, sorted; functions of the graph count as operations."""
    table = compilable()
    functions = {function.signature.name for function in graph_def.library.function}
    faults = []
    for node in nodes_of(graph_def):
        if node.op in _STRUCTURAL or node.op in LOOPS or node.op in functions:
            continue
        if node.op not in table:
            faults.append((node.op, node.name, "XLA has no kernel for it"))
        elif not any(_fits(node, constraints) for constraints in table[node.op]):
            faults.append((node.op, node.name, f"XLA has no kernel for its dtypes ({_dtypes(node)})"))
    return sorted(faults)


def require_compilable(graph_def) -> None:
    """ModelFault naming every operation that XLA cannot compile."""
    require_none(unsupported_nodes(graph_def))


def require_none(faults: list) -> None:
    """ModelFault naming the operations of `faults`, [(operation, node name, why)], unless there are none."""
    if faults:
        raise ModelFault(
            f"the model holds operations that cannot be compiled:\n{allowlist.listing(faults)}",
            "move them out of the model (into the program that calls it), or replace them; "
            "`tfaot-pkg check --table` lists what this toolchain can compile",
        )


def _fits(node, constraints: dict) -> bool:
    from tensorflow.python.framework import dtypes

    for name, allowed in constraints.items():
        attribute = node.attr.get(name)
        if attribute is None:
            continue
        values = [attribute.type] if attribute.type else list(attribute.list.type)
        if any(dtypes.as_dtype(value).name not in allowed for value in values):
            return False
    return True


def _dtypes(node) -> str:
    from tensorflow.python.framework import dtypes

    return ", ".join(f"{k}={dtypes.as_dtype(v.type).name}" for k, v in sorted(node.attr.items()) if v.type)
