"""Shapes that TensorFlow cannot infer, written into graphs: of arrays in lists, and of what loops and branches give."""

from wiring import LOOPS, tensor_name

_LEARNING = LOOPS | frozenset(
    "If StatelessIf Case StatelessCase TensorListGetItem TensorListStack "
    "BroadcastTo Fill Range Reshape Slice Tile".split()
)
_MARK = "tfaot_shape"


def is_new(graph, tensor) -> bool:
    """Whether TensorFlow would not infer the shape of `tensor`, and does not have it from here."""
    if tensor.op.type not in _LEARNING:
        return False
    try:
        graph.get_operation_by_name(_shaped(tensor.name))
    except KeyError:
        return True
    return False


def write(graph_def, shapes: dict) -> None:
    """Let the users of each tensor in `shapes`, by name, take it with this shape and type."""
    for node in graph_def.node:
        for place, text in enumerate(node.input):
            if text[:1] != "^" and tensor_name(text) in shapes:
                node.input[place] = _shaped(tensor_name(text))
    for name, (shape, dtype) in shapes.items():
        made = graph_def.node.add(name=_shaped(name), op="EnsureShape", input=[name])
        made.attr["shape"].shape.CopyFrom(shape.as_proto())
        made.attr["T"].type = dtype.as_datatype_enum


def _shaped(name: str) -> str:
    return f"{_MARK}/{name.replace(':', '/')}"
