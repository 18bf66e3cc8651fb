"""How many multiply-adds a product takes: for the table of operations (operations.py), and for work.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tfaot_pkg.compiler.attributes import Conv2d, Convolution, Dot, TransposedConv2d, parts_of
from tfaot_pkg.compiler.bfloat16 import PRODUCTS
from tfaot_pkg.compiler.program import Binding, Operation, Shape

Cost = Callable[[Operation, Sequence[Shape], Binding], float]


def of_dense(operation: Operation, operands: Sequence[Shape], sizes: Binding) -> float:
    return float(_elements(operation.shape, sizes) * sizes.number(operands[0].sizes[-1]))


def of_quantized(operation: Operation, operands: Sequence[Shape], sizes: Binding) -> float:
    return float(_elements(operation.shape, sizes) * math.prod(sizes.numbers(operands[1].sizes[:-1])))


def of_dot(operation: Operation, operands: Sequence[Shape], sizes: Binding) -> float:
    first = sizes.numbers(operands[0].sizes)
    return float(
        _elements(operation.shape, sizes) * math.prod(first[axis] for axis in Dot.of(operation).contracting[0])
    )


def of_images(operation: Operation, operands: Sequence[Shape], sizes: Binding) -> float:
    height, width = sizes.numbers(Conv2d.of(operation).window[3:5])
    return float(sizes.number(operands[0].sizes[0]) * height * width * _elements(operands[1], sizes))


def in_parts(cost: Cost) -> Cost:
    """Of a layer of bfloat16: `cost` for each product of parts."""

    def of_parts(operation: Operation, operands: Sequence[Shape], sizes: Binding) -> float:
        return cost(operation, operands, sizes) * sum(map(len, PRODUCTS[parts_of(operation)]))

    return of_parts


def of_transposed(operation: Operation, operands: Sequence[Shape], sizes: Binding) -> float:
    """Of a transposed convolution: zeros between the elements of the image count as nothing."""
    spread = math.prod(side[5] for side in TransposedConv2d.of(operation).sides)
    return float(math.prod(sizes.numbers(operation.shape.sizes[:3])) * _elements(operands[1], sizes) / spread)


def of_convolution(operation: Operation, operands: Sequence[Shape], sizes: Binding) -> float:
    attributes, kernel = Convolution.of(operation), sizes.numbers(operands[1].sizes)
    # Zeros between the elements of a dilated array count as nothing.
    spread = math.prod(dilation for *_, dilation in attributes.window)
    return float(_elements(operation.shape, sizes) * math.prod(kernel) / kernel[attributes.kernel[0]] / spread)


def _elements(shape: Shape, sizes: Binding) -> int:
    return math.prod(sizes.numbers(shape.sizes))
