"""The layers of a frozen graph that the kernel library (recipes/tfaot-kernels) can compute.

A layer reads one tensor and gives one; both are so many floats per row of the batch, row-major, so that reshaping
between layers is nothing. Biases and activations behind a product belong to its layer, and so do scales and offsets
(batch normalization) before and behind it:

    act((x * s + t) W + b)      =  act(x (diag(s) W) + (t W + b))
    act((x W + b) * s + t)      =  act(x (W diag(s)) + (b * s + t))

Such sums are made in float64 and rounded once.
"""

import math
from dataclasses import dataclass

import packing
from activations import activation_of
from affine import repeated
from folding import following, origin_of
from graph_view import data_inputs
from matrices import matrix_of
from windows import is_inside, window_of

PARAMETERS = "tfaot_parameters"
"""How the name of a layer's parameters ends."""

_POOLING = {"MaxPool": "max_pool", "AvgPool": "average_pool"}


@dataclass
class Layer:
    """`operation` says what the layer computes, in the words of tfaot_kernels/kernels.h; `parameters` is one array of
    its packed weights and its bias, in this order, None where it has none. `reads` and `gives` are tensors, `steps`
    those between `reads` and the layer's first operation.
    """

    name: str
    operation: dict
    reads: tuple
    gives: tuple
    steps: list
    parameters: object = None
    after: "Layer | None" = None
    """The layer that alone makes what this one reads, where nothing else uses it but a layer that `adds` this one."""
    adds: "Layer | None" = None
    """Of a sum: the layer before it in its chain whose input it adds to what it reads."""


def find(view) -> list:
    """All layers of a GraphView, each after those that it takes its values from.

    None where loops or branches are in the graph itself: the weights of layers could not simply be fed there.
    """
    found: list = []
    giving: dict = {}
    for node in view.ordered() if not view.has_frames else ():
        match = _MATCHES.get(node.op)
        layer = match(view, node, giving) if match and _is_usual(view, node) else None
        if layer is not None:
            if layer.reads in giving and _are_used_once(view, [layer.reads, *layer.steps]):
                layer.after = giving[layer.reads]
            found.append(layer)
            giving[layer.gives] = layer
    return found


def _are_used_once(view, tensors: list) -> bool:
    return all(view.only_consumer(tensor) is not None for tensor in tensors)


def _is_usual(view, node) -> bool:
    """Whether `node` gives and takes float32, so many elements per row, and not none."""
    tensors = ((node.name, 0), view.input(node, 0)) if data_inputs(node) else ()
    return bool(tensors) and all(view.dtype(each) == "float32" and view.row_size(each) for each in tensors)


def _dense(view, node, ends):
    """A product of rows with a constant matrix."""
    import numpy as np

    matrix = matrix_of(view, node)
    if matrix is None or not matrix.size:
        return None
    source, matrix = view.input(node, 0), np.asarray(matrix, np.float64)
    inputs, outputs = matrix.shape
    origin = origin_of(view, source, ends, inputs)
    bias = np.zeros(outputs)
    if origin.affine.offset is not None:
        bias = repeated(origin.affine.offset, inputs) @ matrix
    if origin.affine.scale is not None:
        matrix = matrix * repeated(origin.affine.scale, inputs)[:, None]
    operation = {"kind": "dense", "rows": view.row_size(source) // inputs, "inputs": inputs, "outputs": outputs}
    return _product(view, node, operation, origin, matrix, bias, packing.packed_dense)


def _convolution(view, node, ends):
    filters = view.constant(view.input(node, 1))
    window = window_of(view, node, () if filters is None else filters.shape[:2])
    if window is None:
        return None
    return _filtered(view, node, ends, window, filters, window["channels"] // filters.shape[2])


def _depthwise(view, node, ends):
    filters = view.constant(view.input(node, 1))
    window = window_of(view, node, () if filters is None else filters.shape[:2])
    if window is None:
        return None
    height, width, channels, multiplier = filters.shape
    separate = filters.reshape(height, width, 1, channels * multiplier)
    return _filtered(view, node, ends, window, separate, channels)


def _filtered(view, node, ends, window: dict, filters, groups: int):
    """A convolution with `filters` of shape (height, width, channels / groups, filters)."""
    import numpy as np

    channels, count = window["channels"], filters.shape[3]
    # Padding is zeros: behind a scale and offset it would not be.
    origin = origin_of(view, view.input(node, 0), ends, channels if is_inside(window) else 0)
    window = _with_zeros(view, origin, ends, window)
    matrix, bias = np.asarray(filters, np.float64), np.zeros(count)
    by_group = matrix.reshape(*matrix.shape[:3], groups, count // groups)  # each group has its own channels
    if origin.affine.offset is not None:
        offset = repeated(origin.affine.offset, channels).reshape(groups, -1)
        bias = np.einsum("gc,hwcgf->gf", offset, by_group).reshape(count)
    if origin.affine.scale is not None:
        scale = repeated(origin.affine.scale, channels).reshape(groups, -1)
        matrix = (by_group * scale.T[:, :, None]).reshape(matrix.shape)
    operation = {"kind": "conv2d", **window, "filters": count, "groups": groups}
    return _product(
        view, node, operation, origin, matrix, bias, lambda values: packing.packed_conv2d(values, groups=groups)
    )


def _product(view, node, operation: dict, origin, matrix, bias, pack):
    import numpy as np

    gives, affine, activation = following(view, (node.name, 0), bias.size)
    matrix, bias = affine.applied(matrix, bias)
    packed = pack(matrix.astype(np.float32))
    return Layer(
        name=gives[0],
        operation={**operation, **activation},
        reads=origin.tensor,
        gives=gives,
        steps=origin.steps,
        parameters=np.concatenate([packed.ravel(), bias]).astype(np.float32),
    )


def _with_zeros(view, origin, ends, window: dict) -> dict:
    """`window` over the image before it is surrounded by zeros, where that is how the tensor of `origin` is made.

    `origin` becomes that image.
    """
    node = view.node(origin.tensor)
    if node.op != "Pad" or origin.tensor in ends or origin.affine.offset is not None:
        return window
    source, zeros = view.input(node, 0), view.constant(view.input(node, 1))
    if zeros is None or zeros.shape != (4, 2) or zeros[[0, 3]].any() or view.row_shape(source) is None:
        return window
    origin.steps.append(origin.tensor)
    origin.tensor = source
    _, (height, width, _) = view.row_shape(source)
    return window | {
        "in_height": height,
        "in_width": width,
        "pad_top": window["pad_top"] + int(zeros[1, 0]),
        "pad_left": window["pad_left"] + int(zeros[2, 0]),
    }


def _pooling(view, node, ends):
    size = list(node.attr["ksize"].list.i)
    window = window_of(view, node, size[1:3] if len(size) == 4 and size[0] == size[3] == 1 else ())
    return None if window is None else _plain(view, node, ends, {"kind": _POOLING[node.op], **window})


def _mean(view, node, ends):
    """The mean over all places of an image, or of a line: average pooling of all at once."""
    source, axes = view.row_shape(view.input(node, 0)), view.constant(view.input(node, 1))
    if source is None or source[0] != 1 or axes is None or len(source[1]) not in (2, 3):
        return None
    places = len(source[1]) - 1
    if sorted(int(axis) % (places + 2) for axis in axes.reshape(-1)) != list(range(1, places + 1)):
        return None
    height, width = (*source[1][:-1], 1)[:2]
    window = {"in_height": height, "in_width": width, "out_height": 1, "out_width": 1, "height": height, "width": width}
    ones = dict.fromkeys(("stride_height", "stride_width", "dilation_height", "dilation_width"), 1)
    operation = {"kind": "average_pool", "channels": source[1][-1], **window, **ones, "pad_top": 0, "pad_left": 0}
    return _plain(view, node, ends, operation)


def _softmax(view, node, ends):
    shape = view.row_shape(view.input(node, 0))
    if shape is None or not shape[1]:
        return None
    rows = shape[0] * math.prod(shape[1][:-1])
    return _plain(view, node, ends, {"kind": "softmax", "rows": rows, "size": shape[1][-1]})


def _sum(view, node, ends):
    """A residual connection: the sum of what a layer gives and of what one before it in its chain reads."""
    for number in (0, 1):
        way, skip = (origin_of(view, view.input(node, index), ends) for index in (number, 1 - number))
        same = all(view.same_size(tensor, (node.name, 0)) for tensor in (way.tensor, skip.tensor))
        if not same or way.tensor not in ends or not _are_used_once(view, [way.tensor, *way.steps]):
            continue
        first = ends[way.tensor]
        while first is not None and first.reads != skip.tensor:
            first = first.after
        if first is not None:
            _join(view, ends, first, skip)
            return _added(view, node, way, first)
    return None


def _join(view, ends, first: Layer, skip) -> None:
    """Let `first` continue the chain of what it reads, where only it and a sum, by way of `skip`, use that."""
    tensor = skip.tensor
    users = len(view.consumers(tensor))
    if tensor in ends and tensor not in view.fetched and users == 2 and _are_used_once(view, first.steps + skip.steps):
        first.after = ends[tensor]


def _added(view, node, way, first: Layer):
    operation = {"kind": "add", "size": view.row_size((node.name, 0))}
    found = activation_of(view, view.reshaped((node.name, 0)))
    gives, activation = found or ((node.name, 0), {"activation": "none"})
    operation |= activation
    return Layer(name=gives[0], operation=operation, reads=way.tensor, gives=gives, steps=way.steps, adds=first)


def _plain(view, node, ends, operation: dict):
    """A layer without parameters."""
    origin = origin_of(view, view.input(node, 0), ends)
    return Layer(name=node.name, operation=operation, reads=origin.tensor, gives=(node.name, 0), steps=origin.steps)


_MATCHES = {
    "MatMul": _dense,
    "BatchMatMulV2": _dense,
    "Einsum": _dense,
    "Conv2D": _convolution,
    "DepthwiseConv2dNative": _depthwise,
    "MaxPool": _pooling,
    "AvgPool": _pooling,
    "Mean": _mean,
    "Softmax": _softmax,
    "Add": _sum,
    "AddV2": _sum,
}
