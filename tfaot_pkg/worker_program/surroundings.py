"""What stands around a product in a graph, and can be made a part of it: reshaping, scales, offsets, activations."""

from dataclasses import dataclass, field

from affine import Affine, affine_of
from graph_view import data_inputs

_ACTIVATIONS = {
    "Relu": "relu",
    "Elu": "elu",
    "Selu": "selu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
}
_RESHAPING = frozenset("Reshape Squeeze ExpandDims".split())


@dataclass
class Origin:
    """Where an input comes from: `tensor`, the tensors between it and the input, and what is done to it on the way."""

    tensor: tuple
    steps: list = field(default_factory=list)
    affine: Affine = field(default_factory=Affine)


def origin_of(view, tensor: tuple, channels: int = 0) -> Origin:
    """Back from `tensor` through what only reshapes and, with `channels`, scales and moves each of so many channels.

    What adds before it scales (input normalization) ends the way: a difference is exact where the product is not.
    """
    origin = Origin(tensor)
    while True:
        node = view.node(origin.tensor)
        source = view.input(node, 0) if data_inputs(node) else None
        if node.op in _RESHAPING and view.same_size(source, origin.tensor):
            before = source
        elif channels and (step := _affine_before(view, node, channels, origin.affine)):
            before, origin.affine = step
        else:
            return origin
        origin.steps.append(origin.tensor)
        origin.tensor = before


def _affine_before(view, node, channels: int, known: Affine):
    """(what `node` scales or moves, that and then `known`), None where it does something else."""
    source, scale, offset = affine_of(view, node) or (None, None, None)
    if source is None or any(value is not None and channels % value.size for value in (scale, offset)):
        return None
    if offset is not None and known.scale is not None:
        return None
    return source, Affine(scale, offset).then(known.scale, known.offset)


def following(view, tensor: tuple, columns: int) -> tuple:
    """(the last tensor, an affine map, an activation) of what follows a product `tensor` with `columns` columns."""
    affine = Affine()
    while (node := view.only_consumer(tensor)) is not None:
        if node.op in _ACTIVATIONS:
            return (node.name, 0), affine, _ACTIVATIONS[node.op]
        source, scale, offset = affine_of(view, node) or (None, None, None)
        if source != tensor or any(value is not None and columns % value.size for value in (scale, offset)):
            break
        affine = affine.then(scale, offset)
        tensor = (node.name, 0)
    gated = _swish(view, tensor)
    return (gated, affine, "swish") if gated else (tensor, affine, "none")


def _swish(view, tensor: tuple):
    """What x * sigmoid(x) of x = `tensor` is; None where something else is done to it."""
    users = view.consumers(tensor)
    gate = next((node for node in users if node.op == "Sigmoid"), None)
    product = next((node for node in users if node.op == "Mul"), None)
    if gate is None or product is None or len(users) != 2 or tensor in view.fetched:
        return None
    factors = {view.input(product, index) for index in (0, 1)}
    if factors != {tensor, (gate.name, 0)} or view.only_consumer((gate.name, 0)) is None:
        return None
    return (product.name, 0)
