"""Which layers the kernel library is to compute in each unit, by times of some choices. Nothing is measured here.

Every choice is compared with the cost model's, which stays if nothing is clearly faster. Layers of one operation
are a group: they are chosen together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tfaot_pkg.compiled.assignment import Unit
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.keys import canonical_json

# Both keep noise out, so that most units stay with the cost model's choice (docs/decisions/025): a gain must be at
# least 3 %, and two standard errors of the median ratio.
_LEAST_GAIN = 0.03
_SIGMAS = 2.0
_MAD_TO_SIGMA = 1.4826  # of a normal distribution
_MEDIAN_ERROR = math.sqrt(math.pi / 2)  # of a median's standard error over a mean's


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A time over another one, the median over rounds, and the standard error of that."""

    value: float
    error: float = 0.0

    @classmethod
    def of(cls, times: Sequence[float], base: Sequence[float]) -> Ratio:
        """Of times that were measured in the same rounds: noise that disturbs both cancels in their ratio.

        The error is that of a median of normal deviates, whose deviation follows from their median absolute deviation.
        """
        ratios = [one / other for one, other in zip(times, base, strict=True)]
        middle = median(ratios)
        sigma = _MAD_TO_SIGMA * median(abs(ratio - middle) for ratio in ratios)
        return cls(value=middle, error=_MEDIAN_ERROR * sigma / math.sqrt(len(ratios)))

    @property
    def is_gain(self) -> bool:
        """Whether the time is shorter by more than 3 %, beyond noise."""
        return self.value + _SIGMAS * self.error < 1 - _LEAST_GAIN


Chosen = frozenset[str]
"""Names of the layers that the kernel library computes."""

_MOST_GROUPS = 6  # each is one more library to build and to time
_LEAST_RATIO = 0.02  # a sum of gains cannot take all of the time away

# Weights that XLA and the kernel library both use are in the library twice, as they are and packed: at most these
# bytes, and this part of all weights, may be (docs/decisions/025).
_FREE_BYTES = 64 << 10
_FREE_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that are chosen together: products of one operation, with the layers without parameters behind them."""

    layers: tuple[Layer, ...]

    @property
    def names(self) -> Chosen:
        return frozenset(layer.name for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        return sum(layer.multiply_adds for layer in self.layers)

    def flipped(self, chosen: Chosen) -> Chosen:
        """`chosen` with the group on the other side."""
        return chosen - self.names if chosen & self.names else chosen | self.names


def groups_of(layers: Sequence[Layer]) -> tuple[Group, ...]:
    """The groups, those that compute most first; beyond a few of them, the rest is one group."""
    members: dict[bytes, list[Layer]] = {}
    operation_of: dict[str, bytes] = {}
    for layer in layers:
        own = canonical_json(dict(layer.operation))
        operation_of[layer.name] = own if layer.is_product else operation_of.get(layer.after, own)
        members.setdefault(operation_of[layer.name], []).append(layer)
    products = [Group(layers=tuple(each)) for each in members.values() if any(layer.is_product for layer in each)]
    ordered = sorted(products, key=lambda group: -group.multiply_adds)
    if len(ordered) <= _MOST_GROUPS:
        return tuple(ordered)
    rest = tuple(layer for group in ordered[_MOST_GROUPS - 1 :] for layer in group.layers)
    return (*ordered[: _MOST_GROUPS - 1], Group(layers=rest))


def variants_of(base: Chosen, groups: Sequence[Group]) -> tuple[Chosen, ...]:
    """The choices to measure for a unit, `base` first: all, none, and each group on the other side."""
    everything = frozenset(name for group in groups for name in group.names)
    return tuple(dict.fromkeys([base, base | everything, frozenset(), *(group.flipped(base) for group in groups)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The times of some choices for one unit, over that of `base`, the cost model's."""

    base: Chosen
    ratios: Mapping[Chosen, Ratio]

    def predicted(self, chosen: Chosen, groups: Sequence[Group]) -> float:
        """The time of any choice over that of `base`: as measured, else as if gains of groups added up."""
        if chosen in self.ratios:
            return self.ratios[chosen].value
        total = 1.0
        for group in groups:
            single = self.ratios.get(group.flipped(self.base))
            if single is not None and chosen & group.names != self.base & group.names:
                total += single.value - 1
        return max(total, _LEAST_RATIO)

    def best(self, groups: Sequence[Group]) -> Chosen:
        """The fastest of the choices that are clearly faster than `base`, and of all clear gains of groups together."""
        candidates = [chosen for chosen, ratio in self.ratios.items() if ratio.is_gain]
        together = self.base
        for group in groups:
            if group.flipped(self.base) in candidates:
                together = group.flipped(together)
        if candidates:
            candidates.append(together)
        return min(candidates, key=lambda chosen: self.predicted(chosen, groups), default=self.base)

    def confirmed(self, chosen: Chosen) -> Chosen:
        """`chosen`, which was measured again, if it is clearly faster than `base` again, else that."""
        return chosen if self.ratios[chosen].is_gain else self.base


def within(
    choices: Mapping[Unit, Chosen], measured: Mapping[Unit, Measured], groups: Sequence[Group], *, budget: int
) -> dict[Unit, Chosen]:
    """`choices`, changed so that at most `budget` bytes of weights are twice in a library.

    A layer is there twice if some units leave it to XLA, which needs plain weights, and others to the kernels, which
    need packed ones. The groups that gain most per byte keep such choices; the others get, for all units, the side
    that is faster on the whole.
    """
    decided = dict(choices)
    gains = []
    for index, group in enumerate(groups):
        if size := twice([group], choices.values()):
            now = _time(decided, measured, groups)
            sides = [_on_one_side(decided, group, ours=ours) for ours in (True, False)]
            side = min(sides, key=lambda each: _time(each, measured, groups))
            gains.append(((_time(side, measured, groups) - now) / size, size, index, side))
    left = budget
    for gain, size, index, side in sorted(gains, key=lambda item: (-item[0], item[2])):
        if gain > 0 and size <= left:
            left -= size
            continue
        ours = all(groups[index].names <= chosen for chosen in side.values())
        decided = _on_one_side(decided, groups[index], ours=ours)
    return decided


def twice(groups: Iterable[Group], choices: Iterable[Chosen]) -> int:
    """Bytes of the weights that both XLA and the kernel library need; layers with the same parameters count once."""
    all_choices = list(choices)
    sizes: dict[str, int] = {}
    sides: dict[str, set[bool]] = {}
    for layer in (layer for group in groups for layer in group.layers):
        if layer.parameters is not None:
            node = layer.parameters.node
            sizes[node] = layer.parameters_size
            sides.setdefault(node, set()).update(layer.name in chosen for chosen in all_choices)
    return sum(size for node, size in sizes.items() if len(sides[node]) == 2)


def budget_of(weights: int) -> int:
    """Bytes that may be in a library twice, for a model with `weights` bytes of weights."""
    return int(_FREE_SHARE * weights) + _FREE_BYTES


def _on_one_side(choices: Mapping[Unit, Chosen], group: Group, *, ours: bool) -> dict[Unit, Chosen]:
    return {unit: each | group.names if ours else each - group.names for unit, each in choices.items()}


def _time(choices: Mapping[Unit, Chosen], measured: Mapping[Unit, Measured], groups: Sequence[Group]) -> float:
    """The sum of the logarithms of the units' times over those of the cost model's choices."""
    return sum(math.log(measured[unit].predicted(chosen, groups)) for unit, chosen in choices.items())


def described(chosen: Chosen, everything: Chosen) -> str:
    """A choice in a few words."""
    if not chosen:
        return "none"
    return "all" if chosen == everything else f"{len(chosen)} of {len(everything)}"
