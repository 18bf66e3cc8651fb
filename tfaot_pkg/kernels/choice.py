"""Which layers the kernel library computes, where no measurement says so: those that a model of costs has faster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfaot_pkg.kernels.calls import chains_of
from tfaot_pkg.kernels.costs import CALL, kernels_cost, xla_cost
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.targets import Target

_SMALL = 192 * 1024
"""Bytes of all parameters up to which each batch size may choose: the library may then hold weights in both forms."""
_REPRESENTATIVE = 4
"""The batch size for which larger ones are chosen, whatever the unit's."""
_DOUBT = 1.15
"""How much more than in the model small calls may cost: what is no clear gain is left to XLA."""


def estimated(layers: Iterable[Layer], batch_size: int, target: Target) -> frozenset[str]:
    """The names of the layers that pay at `batch_size` on `target`: all of a chain, or none.

    Where one part of a chain is a call and the next is XLA's, both lose: what is between them is copied, and XLA no
    longer makes one loop of it.
    """
    del target  # costs of both grow alike where vectors are narrower
    known = tuple(layers)
    small = sum(layer.parameters_size for layer in known) <= _SMALL
    size, doubt = (batch_size, _DOUBT) if small else (_REPRESENTATIVE, 1.0)
    chains = chains_of(known, frozenset(layer.name for layer in known))
    return frozenset(layer.name for chain in chains if _pays(chain, size, doubt) for layer in chain)


def _pays(chain: Sequence[Layer], batch_size: int, doubt: float) -> bool:
    """Whether `chain` costs less as a call, even if that costs `doubt` times as much as the model says."""
    call = CALL + sum(kernels_cost(layer, batch_size) for layer in chain)
    return doubt * call <= sum(xla_cost(layer, batch_size) for layer in chain)
