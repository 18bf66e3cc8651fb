"""Activations (nnet_activation.h): tables are addressed by the bits of the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.worker_program.messages.fixed_network import INT, FixedType, converted, table_size

_SIDES: Mapping[str, int] = {"sigmoid": 8, "tanh": 4, "softplus": 8, "softsign": 8}
"""Functions with a table, and its range on each side of 0."""


def activated(call: Call, x: Fixed, name: str, wanted: FixedType) -> Fixed:
    """`x` after an activation, as a number of the type `wanted`."""
    if name in _SIDES:
        return _by_table(call, x, name, wanted)
    if name not in _FUNCTIONS:
        raise call.fault(
            f"the activation {name!r}", f"there are {', '.join(sorted((*_SIDES, *_FUNCTIONS)))}, and softmax"
        )
    return call.a.cast(_FUNCTIONS[name](call, x), wanted)


@layer("Activation", "HardActivation", "ParametrizedActivation", "PReLU", "TernaryTanh")
def _activation(call: Call) -> Fixed:
    return activated(call, call.x, call.text("activation", "linear"), call.output.type)


def _places(call: Call, x: Fixed, size: int, side: int) -> Fixed:
    """X * size / (2 * side), cut off towards zero, as an int of C."""
    a = call.a
    scaled = a.multiply(x, a.whole(size))
    # A power of two as divisor: both cuts towards zero are one.
    power = (2 * side).bit_length() - 1
    exact = Fixed(value=scaled.value, fraction=scaled.fraction + power, low=scaled.low, high=scaled.high)
    return a.cast(exact, INT)


def _bounded(call: Call, places: Fixed, size: int) -> Value:
    a = call.a
    return a.minimum(a.maximum(places, a.whole(0)), a.whole(size - 1)).value


def _by_table(call: Call, x: Fixed, name: str, wanted: FixedType) -> Fixed:
    a, side, type_ = call.a, _SIDES[name], call.type("table_t")
    table = call.array(f"{name}_table")
    size = table_size(call.layer)
    places = a.cast(a.add(_places(call, x, size, side), a.whole(side * size // (2 * side))), INT)
    # Numbers of the result's type: the conversion is that of the table.
    numbers = a.cast(a.constant(table, type_), wanted)
    assert numbers.value.numbers is not None
    return a.looked_up(numbers.value.numbers, numbers.fraction, _bounded(call, places, size))


# -- without tables ----------------------------------------------------------------------------------------------------


def _relu(call: Call, x: Fixed) -> Fixed:
    return call.a.maximum(x, call.a.whole(0))


def _up_to(most: int) -> Callable[[Call, Fixed], Fixed]:
    return lambda call, x: call.a.minimum(_relu(call, x), call.a.whole(most))


def _parameter(call: Call, name: str) -> Fixed:
    """A number of the layer, as its type has it."""
    type_ = call.type("param_t")
    return call.a.constant(converted(np.asarray(call.real(name, 1.0)), type_), type_)


def _above(call: Call, x: Fixed, limit: Fixed, other: Fixed) -> Fixed:
    return call.a.select(call.a.compare("GT", x, limit), x, other)


def _leaky_relu(call: Call, x: Fixed) -> Fixed:
    return _above(call, x, call.a.whole(0), call.a.multiply(_parameter(call, "activ_param"), x))


def _prelu(call: Call, x: Fixed) -> Fixed:
    return _above(call, x, call.a.whole(0), call.a.multiply(call.constant("param", *x.shape), x))


def _thresholded_relu(call: Call, x: Fixed) -> Fixed:
    return _above(call, x, _parameter(call, "activ_param"), call.a.whole(0))


def _hard_sigmoid(call: Call, x: Fixed) -> Fixed:
    a = call.a
    slope, shift = (
        a.constant(converted(np.asarray(call.real(name, default)), call.type(f"{name}_t")), call.type(f"{name}_t"))
        for name, default in (("slope", 0.2), ("shift", 0.5))
    )
    return a.minimum(a.maximum(a.add(a.multiply(slope, x), shift), a.whole(0)), a.whole(1))


def _hard_tanh(call: Call, x: Fixed) -> Fixed:
    a = call.a
    return a.subtract(a.multiply(a.whole(2), _hard_sigmoid(call, x)), a.whole(1))


def _binary_tanh(call: Call, x: Fixed) -> Fixed:
    a = call.a
    is_bit = call.output.type.width == call.output.type.integer == 1 and not call.output.type.signed
    return a.select(a.compare("GE", x, a.whole(0)), a.whole(1), a.whole(0 if is_bit else -1))


def _ternary_tanh(call: Call, x: Fixed) -> Fixed:
    a = call.a
    twice = a.cast(a.multiply(a.whole(2), x), call.given[0].type)
    lower = a.select(a.compare("GT", twice, a.whole(-1)), a.whole(0), a.whole(-1))
    return a.select(a.compare("GT", twice, a.whole(1)), a.whole(1), lower)


def _below_zero(call: Call, x: Fixed, name: str) -> Fixed:
    """The table of numbers below 0, from 0 to -8."""
    a, size = call.a, table_size(call.layer)
    places = _places(call, a.negate(x), size, 4)
    type_ = call.type("table_t")
    return a.looked_up(call.array(f"{name}_table"), type_.fraction, _bounded(call, places, size))


def _elu(call: Call, x: Fixed) -> Fixed:
    a = call.a
    alpha = _parameter(call, "activ_param") if "param_t" in call.layer.types else a.whole(1)
    return a.select(a.compare("GE", x, a.whole(0)), x, a.multiply(alpha, _below_zero(call, x, "elu")))


_LAMBDA = FixedType(width=16, integer=1, signed=False)


def _selu(call: Call, x: Fixed) -> Fixed:
    a = call.a
    scale = a.constant(converted(np.asarray(1.0507009873554805), _LAMBDA), _LAMBDA)
    return a.select(a.compare("GE", x, a.whole(0)), a.multiply(scale, x), _below_zero(call, x, "selu"))


_FUNCTIONS: Mapping[str, Callable[[Call, Fixed], Fixed]] = {
    "linear": lambda _, x: x,
    "relu": _relu,
    "relu6": _up_to(6),
    "relu1": _up_to(1),
    "leakyrelu": _leaky_relu,
    "leaky_relu": _leaky_relu,
    "prelu": _prelu,
    "thresholdedrelu": _thresholded_relu,
    "thresholded_relu": _thresholded_relu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_tanh": _hard_tanh,
    "binary_tanh": _binary_tanh,
    "ternary_tanh": _ternary_tanh,
    "elu": _elu,
    "selu": _selu,
}
"""Exact results, which are then converted."""


@layer("UnaryLUT")
def _unary_lut(call: Call) -> Fixed:
    """A table with an entry for each number of the input's type, addressed by its bits."""
    a, x, given = call.a, call.x, call.given[0].type
    table = call.array("table").reshape(-1)
    if len(table) != 1 << given.width:
        raise call.fault(f"a table of {len(table)} entries for {given.width} bits")
    address = x.value if not given.signed else _bits(call, x, given.width)
    numbers = a.cast(a.constant(table, call.type("table_t")), call.output.type)
    assert numbers.value.numbers is not None
    return a.looked_up(numbers.value.numbers, numbers.fraction, address)


def _bits(call: Call, x: Fixed, width: int) -> Value:
    b = call.a.builder
    return b.map("and", x.value, known(np.asarray((1 << width) - 1), x.value.dtype))
