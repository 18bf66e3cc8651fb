"""Tables of activations, as hls4ml's emulator makes them (nnet_activation.h): floats of the C library, as fixed point.

The functions are those of the C library here, because the emulator runs here too.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from messages.fixed_network import FixedType, converted

if TYPE_CHECKING:
    from framework_types import Array


@cache
def _function(name: str, kind: type[ctypes.c_float] | type[ctypes.c_double]) -> Callable[[float], float]:
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6"), name)
    function.argtypes, function.restype = [kind], kind
    found: Callable[[float], float] = function
    return found


def _float(value: float) -> float:
    return float(np.float32(value))


def _exp(x: float) -> float:
    return _function("expf", ctypes.c_float)(x)


def _sigmoid(x: float) -> float:
    return _float(1.0 / _float(1 + _exp(-x)))


def _softplus(x: float) -> float:
    return _float(_function("log", ctypes.c_double)(_exp(x) + 1.0))


def _softsign(x: float) -> float:
    return _float(x / (abs(x) + 1.0))


def _elu(x: float) -> float:
    return _float(_exp(x) - 1.0)


def _selu(x: float) -> float:
    return _float(1.0507009873554804934193349852946 * (1.6732632423543772848170429916717 * (_exp(x) - 1.0)))


def _tanh(x: float) -> float:
    return _function("tanhf", ctypes.c_float)(x)


_RANGES: Mapping[str, tuple[Callable[[float], float], float, bool]] = {
    "sigmoid": (_sigmoid, 8.0, False),
    "tanh": (_tanh, 4.0, False),
    "softplus": (_softplus, 8.0, False),
    "softsign": (_softsign, 8.0, False),
    "elu": (_elu, 8.0, True),
    "selu": (_selu, 8.0, True),
}
"""The function, its range on each side of 0, and whether it has numbers below 0 alone."""


def has_table(activation: str) -> bool:
    return activation in _RANGES


def activation(name: str, size: int, wanted: FixedType) -> Array:
    """The table of an activation, by the place of x in its range."""
    function, side, is_negative = _RANGES[name]
    if is_negative:
        inputs = [_float(-side * place / _float(size)) for place in range(size)]
    else:
        inputs = [_float(2 * side * (place - _float(size) / 2.0) / _float(size)) for place in range(size)]
    return converted(np.array([function(_float(x)) for x in inputs]), wanted)


def inverse_roots(size: int, wanted: FixedType, *, epsilon_power: int, range_power: int) -> Array:
    """Of numbers from 10**-epsilon_power on, in `size` equal steps of a range of 2**-range_power."""
    first, step = _float(10.0**-epsilon_power), _float(math.ldexp(1.0, -range_power) / size)
    inputs = [_float(first + _float(step * place)) for place in range(size)]
    return converted(np.array([1.0 / _float(math.sqrt(x)) for x in inputs]), wanted)


def _of_index(place: int, size: int, given: FixedType) -> float:
    """The number whose upper bits are an index of the table."""
    bits = address_bits(size)
    whole = place << (given.width - bits)
    if given.signed and whole >> (given.width - 1):
        whole -= 1 << given.width
    return _float(math.ldexp(whole, -given.fraction))


def address_bits(size: int) -> int:
    """`ceillog2` of hls4ml, which has at least one bit."""
    return 1 if size <= 2 else 1 + address_bits((size + 1) // 2)


def exponentials(size: int, given: FixedType, wanted: FixedType, *, scale: float, negative: bool) -> Array:
    made = []
    for place in range(size):
        x = _float(_of_index(place, size, given) * _float(scale))
        made.append(_exp(-x if negative else x))
    return converted(np.array(made), wanted)


def inverses(size: int, given: FixedType, wanted: FixedType) -> Array:
    made = []
    with np.errstate(divide="ignore"):
        for place in range(size):
            made.append(float(np.float32(1) / np.float32(_of_index(place, size, given))))
    return converted(np.array(made), wanted)
