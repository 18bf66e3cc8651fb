"""Who computes which layer, XLA or the kernel library: measured in whole models, for each batch size and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tfaot_pkg.compiled.assignment import Unit, chosen_layers
from tfaot_pkg.spec.types import TunedCode
from tfaot_pkg.tuning.selection import (
    Chosen,
    Group,
    Measured,
    Ratio,
    described,
    variants_of,
    within,
)
from tfaot_pkg.tuning.variants import Variant, Workshop
from tfaot_pkg.wording import counted

_NONE: Chosen = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersFound:
    """What was found for a unit: the layers `chosen`, `words` for them, and nanoseconds of one run with XLA's code
    alone, with the cost model's choice, and with this one.
    """

    chosen: Chosen
    words: str
    xla: float
    estimated: float
    tuned: float


_Times = Mapping[Chosen, float]
_Compared = tuple[dict[Unit, Measured], dict[Unit, _Times]]


def choose_layers(shop: Workshop, units: Sequence[Unit]) -> dict[Unit, LayersFound]:
    """The choice for each of `units`, measured in two passes.

    The first one times all layers, none, and each group of layers on the other side than the cost model has it. What
    gains is put together, and the second pass times that beside the cost model's choice: it stays where it gains again.
    """
    groups = shop.groups
    measured, times = _first_pass(shop, units, groups)
    choices = within({unit: each.best(groups) for unit, each in measured.items()}, measured, groups, budget=shop.budget)
    if any(choices[unit] != each.base for unit, each in measured.items()):
        measured, times = _second_pass(shop, choices, measured)
        stays = {unit: each.confirmed(choices[unit]) for unit, each in measured.items()}
        choices = within(stays, measured, groups, budget=shop.budget)
    return {unit: _found(shop, choices[unit], measured[unit], times[unit]) for unit in units}


def _found(shop: Workshop, chosen: Chosen, measured: Measured, times: _Times) -> LayersFound:
    estimated = times[measured.base]
    return LayersFound(
        chosen=chosen,
        words=described(shop.effective(chosen), shop.effective(shop.everything)),
        xla=times[_NONE],
        estimated=estimated,
        tuned=times.get(chosen, estimated * measured.predicted(chosen, shop.groups)),
    )


def _first_pass(shop: Workshop, units: Sequence[Unit], groups: Sequence[Group]) -> _Compared:
    bases = {unit: chosen_layers(TunedCode(), shop.frozen.layers, unit) for unit in units}
    return _compared(shop, {unit: variants_of(base, groups) for unit, base in bases.items()})


def _second_pass(shop: Workshop, choices: Mapping[Unit, Chosen], before: Mapping[Unit, Measured]) -> _Compared:
    """What was measured now stands above what was measured `before`."""
    again = {unit: tuple(dict.fromkeys((before[unit].base, _NONE, chosen))) for unit, chosen in choices.items()}
    measured, times = _compared(shop, again)
    known = {unit: replace(now, ratios={**before[unit].ratios, **now.ratios}) for unit, now in measured.items()}
    return known, times


def _compared(shop: Workshop, variants: Mapping[Unit, Sequence[Chosen]]) -> _Compared:
    """Each unit's variants against the first of them, and their median times. Those of the same code are one."""
    codes = {unit: [shop.effective(chosen) for chosen in each] for unit, each in variants.items()}
    distinct = {unit: tuple(dict.fromkeys(each)) for unit, each in codes.items()}
    measured: dict[Unit, Measured] = {}
    times: dict[Unit, _Times] = {}
    for unit, rounds in shop.times(_built(shop, distinct)).items():
        of_code = dict(zip(distinct[unit], rounds, strict=True))
        of_variant = {chosen: of_code[code] for chosen, code in zip(variants[unit], codes[unit], strict=True)}
        ratios = {chosen: Ratio.of(each, rounds[0]) for chosen, each in of_variant.items()}
        measured[unit] = Measured(base=variants[unit][0], ratios=ratios)
        times[unit] = {chosen: median(each) for chosen, each in of_variant.items()}
    return measured, times


def _built(shop: Workshop, variants: Mapping[Unit, Sequence[Chosen]]) -> dict[Unit, list[Path]]:
    """The libraries that have the variants of each unit: the first variant of all units is one library, and so on."""
    paths: dict[Unit, list[Path]] = {unit: [] for unit in variants}
    count = max(map(len, variants.values()))
    with shop.progress.step("build", total=count, unit="variants") as step:
        for index in range(count):
            layers = {unit: each[index] for unit, each in variants.items() if index < len(each)}
            path = shop.library(Variant(layers=layers))
            for unit in layers:
                paths[unit].append(path)
            step.advance(note=f"of {counted(len(layers), 'unit')}")
    return paths
