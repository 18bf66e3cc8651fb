"""Operations around a product that can become a part of it: reshaping, scales, offsets, activations."""

from dataclasses import dataclass, field

from activations import activation_of
from affine import Affine, affine_of

_ROUNDED = frozenset(
    "MatMul BatchMatMulV2 Einsum Conv2D DepthwiseConv2dNative Add AddV2 BiasAdd Mul RealDiv Sum Mean AvgPool "
    "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 Elu Selu Tanh Sigmoid Softplus".split()
)
_PICKING = frozenset("Reshape Squeeze ExpandDims Transpose Relu Relu6 LeakyRelu MaxPool".split())
"""Operations that give some of the values that they take."""
_LARGEST = 3e38
"""About the largest number of float32: generated code holds bounds in that type."""


@dataclass
class Origin:
    """Where an input comes from: `tensor`, the tensors between it and the input, and what is done to it on the way."""

    tensor: tuple
    steps: list = field(default_factory=list)
    affine: Affine = field(default_factory=Affine)


def origin_of(view, tensor: tuple, ends, channels: int = 0) -> Origin:
    """Back from `tensor` through what only reshapes and, with `channels`, scales and moves each of so many channels.

    It ends at `ends`, the outputs of other layers, and before an offset from exact values, such as inputs minus their
    mean: that difference may be exact, and would not be as a part of a product.
    """
    origin = Origin(tensor)
    while origin.tensor not in ends:
        node = view.node(origin.tensor)
        if view.keeps_order(node):
            before = view.input(node, 0)
        elif channels and (step := _affine_before(view, node, channels, origin.affine)):
            before, origin.affine = step
        else:
            break
        origin.steps.append(origin.tensor)
        origin.tensor = before
    return origin


def _affine_before(view, node, channels: int, known: Affine):
    """(what `node` scales or moves, that and then `known`), None if it does something else."""
    source, scale, offset = affine_of(view, node) or (None, None, None)
    if source is None or any(value is not None and channels % value.size for value in (scale, offset)):
        return None
    if offset is not None and not _is_rounded(view, source):
        return None
    return source, Affine(scale, offset).then(known.scale, known.offset)


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
        here = view.reshaped(tensor)
        if found := activation_of(view, here):
            tensor, activation = found
            return _scaled_bounds(view, tensor, affine, activation)
        node = view.only_consumer(here)
        known = affine_of(view, node) if node is not None and view.gives_one(node) else None
        source, scale, offset = known or (None, None, None)
        if source != here or any(value is not None and columns % value.size for value in (scale, offset)):
            return tensor, affine, {"activation": "none"}
        affine = affine.then(scale, offset)
        tensor = (node.name, 0)


def _scaled_bounds(view, tensor: tuple, affine: Affine, activation: dict) -> tuple:
    """clip(x, low, high) * s + t is clip(x * s + t, low * s + t, high * s + t) for numbers s > 0 and t."""
    while activation["activation"] == "clip" and (node := view.only_consumer(tensor)) is not None:
        source, scale, offset = affine_of(view, node) or (None, None, None)
        if source != tensor or any(value is not None and value.size > 1 for value in (scale, offset)):
            break
        factor, term = (1.0 if scale is None else scale[0]), (0.0 if offset is None else offset[0])
        bounds = {name: float(activation[name] * factor + term) for name in ("low", "high")}
        if factor <= 0 or max(map(abs, bounds.values())) > _LARGEST or not view.gives_one(node):
            break
        affine = affine.then(scale, offset)
        activation = activation | bounds
        tensor = (node.name, 0)
    return tensor, affine, activation
