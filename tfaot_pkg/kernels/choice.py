"""Which layers the kernel library computes, where no measurement says so: a cost model."""

from __future__ import annotations

from collections.abc import Iterable

from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.targets import Target

VERSION = 1
"""Of the model: a part of keys."""

_LEAST_MULTIPLY_ADDS = 256
"""Per row: smaller products XLA makes part of what is around them."""


def estimated(layers: Iterable[Layer], batch_size: int, target: Target) -> frozenset[str]:
    """The names of the layers that pay at `batch_size` on `target`."""
    del batch_size, target
    return frozenset(
        layer.name for layer in layers if not layer.is_product or layer.multiply_adds >= _LEAST_MULTIPLY_ADDS
    )
