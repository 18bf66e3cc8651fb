"""What stands around a product in a graph, and can be made a part of it: reshaping, scales, offsets, activations."""

from dataclasses import dataclass, field

from activations import activation_of
from affine import Affine, affine_of
from graph_view import data_inputs

_RESHAPING = frozenset("Reshape Squeeze ExpandDims".split())
_ROUNDED = frozenset(
    "MatMul BatchMatMulV2 Conv2D DepthwiseConv2dNative Add AddV2 BiasAdd Mul RealDiv Sum Mean AvgPool "
    "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 Elu Selu Tanh Sigmoid Softplus".split()
)
_PICKING = _RESHAPING | {"Relu", "MaxPool"}
"""Operations that give some of the values that they take."""


@dataclass
class Origin:
    """Where an input comes from: `tensor`, the tensors between it and the input, and what is done to it on the way."""

    tensor: tuple
    steps: list = field(default_factory=list)
    affine: Affine = field(default_factory=Affine)


def origin_of(view, tensor: tuple, ends, channels: int = 0) -> Origin:
    """Back from `tensor` through what only reshapes and, with `channels`, scales and moves each of so many channels.

    The way ends at `ends`, what other layers give, and where a difference may be exact that would not be as a part of a
    product: of inputs of the model from their mean.
    """
    origin = Origin(tensor)
    while origin.tensor not in ends:
        node = view.node(origin.tensor)
        source = view.input(node, 0) if data_inputs(node) else None
        if node.op in _RESHAPING and view.same_size(source, origin.tensor):
            before = source
        elif channels and (step := _affine_before(view, node, channels, origin.affine)):
            before, origin.affine = step
        else:
            break
        origin.steps.append(origin.tensor)
        origin.tensor = before
    return origin


def _affine_before(view, node, channels: int, known: Affine):
    """(what `node` scales or moves, that and then `known`), None where it does something else."""
    source, scale, offset = affine_of(view, node) or (None, None, None)
    if source is None or any(value is not None and channels % value.size for value in (scale, offset)):
        return None
    if offset is not None and not _is_rounded(view, source):
        return None
    return source, Affine(scale, offset).then(known.scale, known.offset)


def _keeps_columns(view, node, tensor: tuple) -> bool:
    """Whether `node` reshapes `tensor` and leaves its last axis: what follows is done to the same columns."""
    if node.op not in _RESHAPING or view.input(node, 0) != tensor or not view.same_size(tensor, (node.name, 0)):
        return False
    (_, before), (_, behind) = view.row_shape(tensor), view.row_shape((node.name, 0))
    return before[-1:] == behind[-1:] != ()


def _is_rounded(view, tensor: tuple) -> bool:
    """Whether `tensor` has errors of its own, so that a sum with it need not be exact."""
    node = view.node(tensor)
    while node.op in _PICKING:
        node = view.node(view.input(node, 0))
    return node.op in _ROUNDED


def following(view, tensor: tuple, columns: int) -> tuple:
    """(the last tensor, an affine map, an activation) of what follows a product `tensor` with `columns` columns."""
    affine = Affine()
    while True:
        if activation := activation_of(view, tensor):
            return activation[0], affine, activation[1]
        node = view.only_consumer(tensor)
        if node is not None and _keeps_columns(view, node, tensor):
            tensor = (node.name, 0)
            continue
        known = affine_of(view, node) if node is not None and view.gives_one(node) else None
        source, scale, offset = known or (None, None, None)
        if source != tensor or any(value is not None and columns % value.size for value in (scale, offset)):
            return tensor, affine, "none"
        affine = affine.then(scale, offset)
        tensor = (node.name, 0)
