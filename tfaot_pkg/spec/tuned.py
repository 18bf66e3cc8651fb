"""What a tuning file says of how a model's code is made: who computes which layer, and flags of XLA."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChoice:
    """Some of a model's layers: those that are `named`, or all but those where `others` says so."""

    named: tuple[str, ...] = ()
    others: bool = False

    @classmethod
    def of(cls, chosen: Collection[str], names: Collection[str]) -> LayerChoice:
        """`chosen` out of all `names`, by the shorter list."""
        left = [name for name in names if name not in chosen]
        if len(left) < len(chosen):
            return cls(named=tuple(sorted(left)), others=True)
        return cls(named=tuple(sorted(chosen)))

    def among(self, names: Collection[str]) -> frozenset[str]:
        """The chosen ones of `names`."""
        return frozenset(name for name in names if (name in self.named) != self.others)

    def missing(self, names: Collection[str]) -> tuple[str, ...]:
        """What is named, and not there."""
        return tuple(name for name in self.named if name not in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedCode:
    """By target and batch size: the layers that the kernel library computes, and flags of XLA beside the spec's.

    Where nothing is said the cost model chooses the layers (kernels/choice.py), and there are no other flags.
    """

    kernels: Mapping[str, Mapping[int, LayerChoice]] = field(default_factory=dict)
    xla_flags: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)

    def layers(self, target: str, batch_size: int) -> LayerChoice | None:
        return self.kernels.get(target, {}).get(batch_size)

    def flags(self, target: str, batch_size: int) -> tuple[str, ...]:
        return self.xla_flags.get(target, {}).get(batch_size, ())
