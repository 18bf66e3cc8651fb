"""Which layers the kernel library computes, where no measurement says so: those that a model of costs has faster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfaot_pkg.kernels.calls import chains_of
from tfaot_pkg.kernels.costs import CALL, kernels_cost, xla_cost
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.targets import Target

VERSION = 2
"""Of the model: a part of keys."""

_REPRESENTATIVE = 4
"""The batch size for which large layers are chosen, whatever the unit's."""
_WHOLE = 1.08
"""How much more a chain of large layers may cost as a whole than in its best parts: a model that is one call needs
nothing of XLA.
"""
_SMALL = 192 * 1024
"""Bytes of all parameters up to which each batch size may choose: the library may then hold weights in both forms."""


def estimated(layers: Iterable[Layer], batch_size: int, target: Target) -> frozenset[str]:
    """The names of the layers that pay at `batch_size` on `target`.

    Of each chain of layers, those parts are chosen that make its cost least, a call's own cost included.
    """
    del target  # costs of both grow alike where vectors are narrower
    known = tuple(layers)
    small = sum(layer.parameters_size for layer in known) <= _SMALL
    size = batch_size if small else _REPRESENTATIVE
    margin = 1.0 if small else _WHOLE
    return frozenset(name for chain in chains_of(known) for name in _cheapest(chain, size, margin))


def _cheapest(chain: Sequence[Layer], batch_size: int, margin: float) -> tuple[str, ...]:
    """The names of the layers of `chain` that are calls where all of it costs least.

    All of them where that costs at most `margin` times as much.
    """
    outside: tuple[float, tuple[str, ...]] = (0.0, ())  # cost and names, the last layer being XLA's
    inside: tuple[float, tuple[str, ...]] = (CALL, ())  # and being in a call
    for layer in chain:
        before = min(outside, inside, key=lambda each: each[0])
        entered = min((outside[0] + CALL, outside[1]), inside, key=lambda each: each[0])
        outside = (before[0] + xla_cost(layer, batch_size), before[1])
        inside = (entered[0] + kernels_cost(layer, batch_size), (*entered[1], layer.name))
    whole = CALL + sum(kernels_cost(layer, batch_size) for layer in chain)
    least, names = min(inside, outside, key=lambda each: each[0])
    return tuple(layer.name for layer in chain) if whole <= margin * least else names
