"""What layers cost in the kernel library and in XLA's code (ns): a model, and the choice that follows from it.

Fitted to chains of dense layers of 1 to 2000 inputs and outputs at batch sizes 1 to 64, on one core with AVX2
(benchmarks/substitution.py shows what comes of it). Only ratios matter, and these change less from machine to machine
than times do. Both compute a product in vectors of 8 columns, XLA in as many as there are, the kernels in pairs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from tfaot_pkg.kernels.calls import chains_of
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.targets import Target

CALL = 45.0
"""Of a call out of XLA's code."""

_LAYER = 10.0  # of a layer in a call
_PANEL = 16  # columns that the kernels compute together
_NARROW = 32  # columns up to which they handle rows one by one
_NARROW_START, _NARROW_INPUT = 9.5, 0.22  # of a panel of a row, and of each input of it
_WIDE_START, _WIDE_INPUT = 2.3, 0.25
_WIDE_ROWS = {1: 1.85, 2: 1.3, 3: 1.13, 64: 1.0}  # how much longer than with many rows it takes with so many and more

_VECTOR = 8  # columns that XLA computes together
_XLA_INPUT, _XLA_START = 0.165, 0.3  # of a vector of a row
_XLA_ROWS = {2: 1.9, 3: 1.6, 4: 1.35, 8: 1.08, 16: 1.0}
# Of one row: in all, per input, and per input and vector of its weights.
_XLA_ROW_START, _XLA_ROW_INPUT, _XLA_ROW_WEIGHTS = 4.0, 0.3, 0.24
_XLA_ROW_REST = 1.5  # of one row: per input, where half a vector of columns or more is left at the end
_XLA_DOT = 0.025  # of one column, per input

# Of the kernels, of XLA's code.
_POOLING = (0.1, 0.5)  # per value that a window sees
# Per value:
_ACTIVATIONS = {
    "none": (0.0, 0.0),
    "relu": (0.0, 0.0),
    "leaky_relu": (0.05, 0.05),
    "clip": (0.05, 0.05),
    "hard_swish": (0.1, 0.1),
    "tanh": (0.35, 0.3),
    "sigmoid": (0.35, 0.3),
    "swish": (0.35, 0.35),
    "elu": (0.3, 0.5),
    "selu": (0.3, 0.5),
    "softplus": (0.45, 1.8),
    "gelu_erf": (1.1, 0.6),
    "gelu_tanh": (0.75, 0.6),
}


def kernels_cost(layer: Layer, batch_size: int) -> float:
    """Of `layer` as a part of a call."""
    if layer.kind != "dense":
        # Sums and softmax have no windows and cost nothing; convolutions always pay, because XLA's cost is infinite.
        return _POOLING[0] * _seen(layer, batch_size)
    rows, inputs, outputs = _shape(layer, batch_size)
    panels = -(-outputs // _PANEL)
    if outputs <= _NARROW:
        product = rows * panels * (_NARROW_START + _NARROW_INPUT * inputs)
    else:
        product = rows * panels * (_WIDE_START + _WIDE_INPUT * inputs) * _of_rows(_WIDE_ROWS, rows)
    return _LAYER + product + rows * outputs * _ACTIVATIONS[layer.operation["activation"]][0]


def xla_cost(layer: Layer, batch_size: int) -> float:
    """Of `layer` in XLA's code. Convolutions have no figure: they take several times as long as the kernels do."""
    if layer.kind == "conv2d":
        return float("inf")
    if layer.kind != "dense":
        return _POOLING[_windows(layer) > 1] * _seen(layer, batch_size)  # of a whole image it is a sum as any other
    rows, inputs, outputs = _shape(layer, batch_size)
    vectors = -(-outputs // _VECTOR)
    if rows == 1:
        rest = _XLA_ROW_REST if outputs % _VECTOR >= _VECTOR // 2 else 0.0
        product = _XLA_ROW_START + inputs * (_XLA_ROW_INPUT + _XLA_ROW_WEIGHTS * vectors + rest)
    elif outputs == 1:
        product = rows * inputs * _XLA_DOT
    else:
        product = rows * vectors * (_XLA_START + _XLA_INPUT * inputs) * _of_rows(_XLA_ROWS, rows)
    return product + rows * outputs * _ACTIVATIONS[layer.operation["activation"]][1]


def _seen(layer: Layer, batch_size: int) -> int:
    """Values that the windows of a pooling see, each counted as often as it is seen; 0 for other layers."""
    if "height" not in layer.operation:
        return 0
    return int(batch_size * layer.output_size * layer.operation["height"] * layer.operation["width"])


def _windows(layer: Layer) -> int:
    return int(layer.operation.get("out_height", 1) * layer.operation.get("out_width", 1))


def _shape(layer: Layer, batch_size: int) -> tuple[int, int, int]:
    operation = layer.operation
    return operation["rows"] * batch_size, operation["inputs"], operation["outputs"]


def _of_rows(table: dict[int, float], rows: int) -> float:
    """The value of the largest number of rows in `table` that is not above `rows`."""
    return table[sorted(table)[bisect_right(sorted(table), rows) - 1]]


_SMALL = 192 * 1024
"""Bytes of all parameters up to which each batch size may choose: the library may then hold weights in both forms."""
_REPRESENTATIVE = 4
"""The batch size for which larger ones are chosen, whatever the unit's."""
_DOUBT = 1.15
"""How much more than in the model small calls may cost: what is no clear gain is left to XLA."""


def estimated(layers: Iterable[Layer], batch_size: int, target: Target) -> frozenset[str]:
    """The names of the layers that pay at `batch_size` on `target`: all of a chain, or none.

    If one part of a chain is a call and the next is XLA's, both lose: the values between them are copied, and XLA no
    longer makes one loop of it.
    """
    del target  # costs of both grow alike if vectors are narrower
    known = tuple(layers)
    small = sum(layer.parameters_size for layer in known) <= _SMALL
    size, doubt = (batch_size, _DOUBT) if small else (_REPRESENTATIVE, 1.0)
    chains = chains_of(known, frozenset(layer.name for layer in known))
    return frozenset(layer.name for chain in chains if _pays(chain, size, doubt) for layer in chain)


def _pays(chain: Sequence[Layer], batch_size: int, doubt: float) -> bool:
    """Whether `chain` costs less as a call, even if that costs `doubt` times as much as the model says."""
    call = CALL + sum(kernels_cost(layer, batch_size) for layer in chain)
    return doubt * call <= sum(xla_cost(layer, batch_size) for layer in chain)
