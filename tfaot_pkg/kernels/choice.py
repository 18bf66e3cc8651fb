"""Which layers the kernel library computes, where no measurement says so: a cost model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfaot_pkg.kernels.calls import Call, calls_of
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.spec.types import Compilation
from tfaot_pkg.targets import TARGETS, Target

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


def calls_of_units(
    compilation: Compilation, layers: Sequence[Layer], *, custom_calls: bool
) -> dict[tuple[int, str], tuple[Call, ...]]:
    """The calls of each unit, by batch size and target; `custom_calls` says whether the toolchain has such."""
    usable = custom_calls and compilation.kernels == "auto" and compilation.weights == "shared"
    return {
        (size, target): calls_of(layers, estimated(layers, size, TARGETS[target])) if usable else ()
        for target in compilation.targets
        for size in compilation.batch_sizes
    }
