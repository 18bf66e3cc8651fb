"""Layers and flags weighed together: what was chosen one after the other, against XLA's code with flags of its own.

Layers are chosen without flags, and flags for the layers that XLA has then. Where the kernel library was not much
faster than XLA's code, that code with flags may be faster than both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tfaot_pkg.compiled.assignment import Unit
from tfaot_pkg.tuning.flags import Flags, FlagsFound, choose_flags
from tfaot_pkg.tuning.kernels import LayersFound
from tfaot_pkg.tuning.ratio import Ratio
from tfaot_pkg.tuning.selection import Chosen, twice
from tfaot_pkg.tuning.variants import Variant, Workshop

_NONE: Chosen = frozenset()
_MOST = 2.5
"""How many times as long XLA's code may take without flags, for its flags to be tried: they gain a factor of two."""

_Found = tuple[Mapping[Unit, LayersFound], FlagsFound]


def choose_together(shop: Workshop, layers: Mapping[Unit, LayersFound]) -> _Found:
    """Flags for units with `layers`; and XLA's code with flags of its own in place of both where it is faster."""
    flags = choose_flags(shop, {unit: found.chosen for unit, found in layers.items()})
    rivals = [
        unit
        for unit, found in layers.items()
        if shop.effective(found.chosen) and found.xla < _MOST * found.tuned * _gained(flags, unit)
    ]
    return settled(shop, layers, flags, choose_flags(shop, dict.fromkeys(rivals, _NONE))) if rivals else (layers, flags)


def choose_beside(
    shop: Workshop, layers: Mapping[Unit, LayersFound], known: Mapping[Unit, Flags]
) -> Mapping[Unit, LayersFound]:
    """`layers`, but XLA's code where that is faster with the flags that stay as they are `known`."""
    flags = {unit: each for unit, each in known.items() if shop.effective(layers[unit].chosen)}
    kept = FlagsFound(flags=flags, ratios=dict.fromkeys(flags, Ratio(value=1.0)), skipped={})
    return settled(shop, layers, kept, kept)[0]


def settled(shop: Workshop, layers: Mapping[Unit, LayersFound], flags: FlagsFound, alone: FlagsFound) -> _Found:
    """`layers` and `flags`, or the flags `alone` for XLA's code alone where they are clearly faster than both.

    Where weights would be twice in the library beyond the budget, the units that gain least stay as they are.
    """
    compared = _compared(shop, layers, flags, alone)
    moved = sorted((unit for unit, ratio in compared.items() if ratio.is_gain), key=lambda unit: compared[unit].value)
    while moved and twice(shop.groups, (_NONE if u in moved else layers[u].chosen for u in layers)) > shop.budget:
        moved.pop()
    if not moved:
        return layers, flags
    none = {
        unit: replace(layers[unit], chosen=_NONE, words="none, for flags", tuned=layers[unit].xla) for unit in moved
    }
    found = FlagsFound(
        flags={**flags.flags, **{unit: alone.flags[unit] for unit in moved}},
        ratios={**flags.ratios, **{unit: alone.ratios[unit] for unit in moved}},
        skipped=alone.skipped,
    )
    return {**layers, **none}, found


def _compared(
    shop: Workshop, layers: Mapping[Unit, LayersFound], flags: FlagsFound, alone: FlagsFound
) -> dict[Unit, Ratio]:
    """The time of XLA's code with its flags over that of what was chosen."""
    units = list(alone.flags)
    if not units:
        return {}
    before = Variant(
        layers={unit: layers[unit].chosen for unit in units},
        flags={unit: flags.flags[unit] for unit in units if unit in flags.flags},
    )
    libraries = [
        shop.library(variant) for variant in (before, Variant(layers=dict.fromkeys(units, _NONE), flags=alone.flags))
    ]
    times = shop.times(dict.fromkeys(units, libraries))
    return {unit: Ratio.of(rival, chosen) for unit, (chosen, rival) in times.items()}


def _gained(flags: FlagsFound, unit: Unit) -> float:
    return flags.ratios[unit].value if unit in flags.ratios else 1.0
