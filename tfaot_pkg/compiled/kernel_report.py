"""Which layers of a model the kernel library computes, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.compiled.assignment import Unit, choices_of, chosen_layers, tuned_code, units_of
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.toolchain.definition import Toolchain
from tfaot_pkg.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShare:
    """A layer that the kernel library knows: the `units` in which it computes it, and the `reasons` for the others."""

    name: str
    kind: str
    is_product: bool
    units: tuple[Unit, ...]
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "kind": self.kind,
            "units": [{"batch_size": size, "target": target} for size, target in self.units],
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelShare:
    """All layers of a model that the kernel library knows, in the graph's order, and the units of the model."""

    layers: tuple[LayerShare, ...]
    units: tuple[Unit, ...]

    @property
    def products(self) -> tuple[LayerShare, ...]:
        """The layers with weights: products of matrices and convolutions."""
        return tuple(layer for layer in self.layers if layer.is_product)

    def as_dict(self) -> dict[str, object]:
        return {
            "products": len(self.products),
            "computed": [
                {"batch_size": size, "target": target, "products": self._computed((size, target))}
                for size, target in self.units
            ],
            "layers": list(self.layers),
        }

    def __str__(self) -> str:
        if not self.products:
            return "kernels: none, because the graph has no product that they know"
        each = [self._computed(unit) for unit in self.units]
        least, most = min(each), max(each)
        number = f"{most}" if least == most else f"{least} to {most}, by batch size and target,"
        reasons = dict.fromkeys(reason for layer in self.products for reason in layer.reasons)
        why = f" (others: {'; '.join(reasons)})" if reasons else ""
        return f"kernels: {number} of {counted(len(self.products), 'product')}{why}"

    def _computed(self, unit: Unit) -> int:
        return sum(unit in layer.units for layer in self.products)


def kernel_share(spec: ModelSpec, layers: Sequence[Layer], toolchain: Toolchain) -> KernelShare:
    """What the kernel library computes in a build of `spec`; `layers` are those of its frozen graph that it knows."""
    units, calls = units_of(spec.compilation), choices_of(spec, layers, toolchain).calls
    computed = {unit: {layer.name for call in calls[unit] for layer in call.layers} for unit in units}
    return KernelShare(
        layers=tuple(
            LayerShare(
                name=layer.name,
                kind=layer.kind,
                is_product=layer.is_product,
                units=tuple(unit for unit in units if layer.name in computed[unit]),
                reasons=tuple(
                    dict.fromkeys(
                        _reason(spec, layers, toolchain, layer, unit)
                        for unit in units
                        if layer.name not in computed[unit]
                    )
                ),
            )
            for layer in layers
        ),
        units=units,
    )


def _reason(spec: ModelSpec, layers: Sequence[Layer], toolchain: Toolchain, layer: Layer, unit: Unit) -> str:
    """Why the kernel library does not compute `layer` in `unit`."""
    compilation, tuned = spec.compilation, tuned_code(spec, toolchain)
    if compilation.kernels == "none":
        return "compilation.kernels is none"
    if compilation.weights != "shared":
        return f"compilation.weights is {compilation.weights}"
    if layer.name in chosen_layers(tuned, layers, unit):
        if not toolchain.custom_calls:
            return "this toolchain has no calls for parts of a model"
        return "where they stand in the graph they cannot be calls"
    size, target = unit
    if tuned.layers(target, size) is None:
        return "XLA's code is estimated to be as fast"
    return "XLA's code was measured to be as fast"
