"""Runs SavedModels as TensorFlow runs them, without any of our rewrites.

Except that `top_k(sorted=False)` gives its elements in order: TensorFlow allows any, and this is the one that XLA has.
"""

import operations
import signatures
import tensorflow as tf
from lowerings import rename_output
from messages import elements
from messages.requests import Reference
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

_SPECIAL = frozenset("Betainc Digamma Igamma IgammaGradA Igammac Lgamma Polygamma Zeta".split())
"""Their series lose digits in float32, as XLA's do: igamma(a, a + 1) is off by 5e-3 at a = 5,000, by 0.1 at 1e5.

So they are computed in float64 too, which tells how far off TensorFlow's own answers are."""

_loaded: dict = {}
"""The last model that was requested, and its other functions: one validation asks for it many times."""


class TensorFlowModel:
    """The signature, compiled by XLA first if the request asks for it."""

    def __init__(self, request: Reference) -> None:
        self.version = tf.__version__
        self.rejections = (tf.errors.OpError, ValueError, TypeError)
        wanted = (request.folder, request.tags, request.signature)
        if _loaded.get("wanted") != wanted:
            _loaded.clear()
            signature = signatures.load_signature(*wanted, change=_in_order)
            _loaded["signature"] = signature
            # By position: names of tensors need not be valid in Python.
            compiled = tf.function(signature.function, jit_compile=True)
            _loaded["jit"] = lambda **feeds: dict(
                zip(signature.outputs, compiled(*[feeds[name] for name in signature.inputs]), strict=True)
            )
            _loaded["wanted"] = wanted
        self._function = _loaded["jit" if request.jit else "signature"]
        signature = _loaded["signature"]
        # The inputs are followed by the function's captures: its variables.
        types = (tensor.dtype.name for tensor in signature.function.inputs)
        self.dtypes = dict(zip(signature.inputs, types, strict=False))

    @property
    def operations(self) -> list:
        """The kinds of operations in the graph."""
        graph = _loaded["signature"].function.graph
        return sorted({node.op for node in operations.nodes_of(graph.as_graph_def())})

    def run(self, feeds: dict) -> dict:
        return _run(self._function, feeds, self.dtypes)

    def exactly(self):
        """`run` with special functions in float64; None if the model has none."""
        if "exact" not in _loaded:
            _loaded["exact"] = signatures.load_signature(*_loaded["wanted"], change=_in_order_and_double)
        exact = _loaded["exact"]
        return None if exact is None else lambda feeds: _run(exact, feeds, self.dtypes)


def _run(function, feeds: dict, dtypes: dict) -> dict:
    """The answers as numbers."""
    given = {name: tensor_of(values, dtypes[name]) for name, values in feeds.items()}
    return {name: elements.numbers(tensor.numpy(), tensor.dtype.name) for name, tensor in function(**given).items()}


def tensor_of(held, dtype: str):
    # bfloat16 is held as uint16, which has its bits (messages/elements.py).
    made = tf.constant(held)
    return made if made.dtype == dtype else tf.bitcast(made, dtype)


def _in_order(graph_def) -> bool:
    for node in operations.nodes_of(graph_def):
        if node.op in ("TopK", "TopKV2") and "sorted" in node.attr:
            node.attr["sorted"].b = True
    return True


def _in_order_and_double(graph_def) -> bool:
    return _in_order(graph_def) and _in_double(graph_def)


def _in_double(graph_def) -> bool:
    """Compute the special functions of float32 in `graph_def` in float64; return whether there were any."""
    found = False
    for nodes, function in [(graph_def.node, None), *((f.node_def, f) for f in graph_def.library.function)]:
        for node in [node for node in nodes if node.op in _SPECIAL and node.attr["T"].type == types_pb2.DT_FLOAT]:
            found = True
            _compute_in_double(nodes, node, function)
    return found


def _compute_in_double(nodes, node, function) -> None:
    """Make `node` a cast to float32 of its result in float64."""
    made = nodes.add(name=f"{node.name}/in_double", op=node.op)
    made.attr["T"].type = types_pb2.DT_DOUBLE
    for index, text in enumerate(node.input):
        if text.startswith("^"):
            made.input.append(text)
            continue
        given = nodes.add(name=f"{node.name}/double_{index}")
        _become_cast(given, text, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE)
        made.input.append(f"{given.name}:y:0" if function is not None else given.name)
    output = op_def_registry.get(node.op).output_arg[0].name
    result = f"{made.name}:{output}:0" if function is not None else made.name
    _become_cast(node, result, types_pb2.DT_DOUBLE, types_pb2.DT_FLOAT)
    if function is not None:
        rename_output(function, node.name, "y")


def _become_cast(node, text: str, source: int, target: int) -> None:
    node.op = "Cast"
    node.input[:] = [text]
    node.attr.clear()
    node.attr["SrcT"].type = source
    node.attr["DstT"].type = target
