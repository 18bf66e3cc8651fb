"""Who computes each layer, XLA or the kernel library, and with which of XLA's flags: measured in whole models.

Layers are chosen without flags, for each batch size and target, and flags for the layers that XLA then has. So both are
compared once more with XLA's code for the whole model with flags of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tfaot_pkg.compiled.assignment import Unit, chosen_layers
from tfaot_pkg.compiled.model import CompiledModel, CompiledUnit
from tfaot_pkg.errors import CompilerError, ModelError, SpecError, TfaotError, ToolchainError
from tfaot_pkg.spec.types import TunedCode
from tfaot_pkg.tuning.selection import (
    Chosen,
    Group,
    Measured,
    Ratio,
    described,
    twice,
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

    The first one times all layers, none, and the cost model's choice with each group of layers moved to the other side.
    The moves that gain are put together, and the second pass times them beside the cost model's choice: they stay if
    they gain again.
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
    # Without a file's choices, these are the cost model's.
    bases = {unit: chosen_layers(TunedCode(), shop.frozen.layers, unit) for unit in units}
    return _compared(shop, {unit: variants_of(base, groups) for unit, base in bases.items()})


def _second_pass(shop: Workshop, choices: Mapping[Unit, Chosen], before: Mapping[Unit, Measured]) -> _Compared:
    """What is measured now replaces what was measured `before`."""
    again = {unit: tuple(dict.fromkeys((before[unit].base, _NONE, chosen))) for unit, chosen in choices.items()}
    measured, times = _compared(shop, again)
    known = {unit: replace(now, ratios={**before[unit].ratios, **now.ratios}) for unit, now in measured.items()}
    return known, times


def _compared(shop: Workshop, variants: Mapping[Unit, Sequence[Chosen]]) -> _Compared:
    """Each unit's variants against the first of them, and their median times. Variants of equal code are timed once."""
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


Flags = tuple[str, ...]

_GEMM = "--xla_backend_extra_options=xla_force_enable_experimental_llvm_ir_gemm,xla_llvm_ir_gemm_tile_size="
CANDIDATES: tuple[Flags, ...] = (
    # Products as LLVM's code in tiles of rows, inner dimension and columns, instead of calls of Eigen. Without
    # "*vectwidth" XLA aborts.
    (f"{_GEMM}4:8:2*vectwidth",),
    (f"{_GEMM}2:16:4*vectwidth",),
    ("--xla_cpu_prefer_vector_width=512",),
)

_LEAST_SHARE = 0.1
"""Share of a model's operations that XLA must compute for its flags to matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsFound:
    """The flags that gain, by unit, with the ratio of the times with and without; why others were not measured."""

    flags: Mapping[Unit, Flags]
    ratios: Mapping[Unit, Ratio]
    skipped: Mapping[str, str]


def left_to_xla(shop: Workshop, chosen: Chosen) -> float:
    """The share of the model's operations that the kernel library does not compute, if it computes `chosen`."""
    work = shop.frozen.work
    computed = shop.effective(chosen)
    ours = 2 * sum(layer.multiply_adds for layer in shop.frozen.layers if layer.name in computed)
    return max(0.0, 1 - ours / work.operations_per_row) if work.operations_per_row else 1.0


def choose_flags(
    shop: Workshop, choices: Mapping[Unit, Chosen], candidates: Sequence[Flags] = CANDIDATES
) -> FlagsFound:
    """The fastest of `candidates` for each unit, its layers as in `choices`, if one is clearly faster than none."""
    layers = {unit: chosen for unit, chosen in choices.items() if left_to_xla(shop, chosen) >= _LEAST_SHARE}
    if not layers:
        return FlagsFound(flags={}, ratios={}, skipped={"all": "the kernel library computes all products"})
    built: dict[Unit, dict[Flags, Path]] = {unit: {} for unit in layers}
    skipped = {}
    with shop.progress.step("flags", total=len(candidates), unit="sets of flags") as step:
        plain = shop.compiled(Variant(layers=layers))
        for flags in candidates:
            try:
                units = _changed(shop, layers, flags, plain)
            except _NotUsable as reason:
                skipped[" ".join(flags)] = str(reason)
            else:
                for unit, library in units.items():
                    built[unit][flags] = library
            step.advance(note=" ".join(flags))
    return _fastest(shop, layers, built, skipped)


class _NotUsable(Exception):
    """A set of flags cannot be used, or does nothing."""


def _changed(shop: Workshop, layers: Mapping[Unit, Chosen], flags: Flags, plain: CompiledModel) -> dict[Unit, Path]:
    """The library with `flags`, by the units whose code they change."""
    given = {flag.partition("=")[0] for flag in shop.spec.compilation.xla_flags}
    if given & {flag.partition("=")[0] for flag in flags}:
        raise _NotUsable("the spec sets it")
    variant = Variant(layers=layers, flags=dict.fromkeys(layers, flags))
    try:
        compiled = shop.compiled(variant)
        before = {(unit.batch_size, unit.target.name): _code(unit) for unit in plain.units}
        after = {(unit.batch_size, unit.target.name): _code(unit) for unit in compiled.units}
        # Flags that change no byte of a unit need not be timed (docs/decisions/025).
        changed = [unit for unit in layers if after[unit] != before[unit]]
        if not changed:
            raise _NotUsable("changes no code")
        library = shop.library(variant)
    except (SpecError, ModelError, ToolchainError, CompilerError) as error:
        # Flags come and go with TensorFlow's releases (docs/decisions/025): a set that is rejected is only skipped.
        raise _NotUsable(_reason(error)) from error
    return dict.fromkeys(changed, library)


def _code(unit: CompiledUnit) -> list[bytes]:
    return [path.read_bytes() for path in unit.objects]


def _reason(error: TfaotError) -> str:
    line = next(iter(str(error).splitlines()), "")
    return f"not available: {line.removeprefix('compilation.xla_flags: ')}"


def _fastest(
    shop: Workshop,
    layers: Mapping[Unit, Chosen],
    built: Mapping[Unit, Mapping[Flags, Path]],
    skipped: Mapping[str, str],
) -> FlagsFound:
    """Time the libraries of each unit beside the one without flags."""
    libraries = {unit: each for unit, each in built.items() if each}
    found: dict[Unit, Flags] = {}
    ratios: dict[Unit, Ratio] = {}
    if libraries:
        plain = shop.library(Variant(layers=layers))
        rounds = shop.times({unit: [plain, *each.values()] for unit, each in libraries.items()})
        for unit, (base, *others) in rounds.items():
            measured = {flags: Ratio.of(times, base) for flags, times in zip(libraries[unit], others, strict=True)}
            best = min(measured, key=lambda flags: measured[flags].value)
            if measured[best].is_gain:
                found[unit], ratios[unit] = best, measured[best]
    return FlagsFound(flags=found, ratios=ratios, skipped=skipped)


_MOST = 2.5
"""How many times as long XLA's code may take without flags, for its flags to be tried: they gain a factor of two."""

_Found = tuple[Mapping[Unit, LayersFound], FlagsFound]


def choose_together(shop: Workshop, layers: Mapping[Unit, LayersFound]) -> _Found:
    """Flags for units with `layers`; and XLA's code with flags of its own in place of both if it is faster."""
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
    """`layers`, or XLA's code alone if it is faster with its `known` flags, which stay."""
    flags = {unit: each for unit, each in known.items() if shop.effective(layers[unit].chosen)}
    kept = FlagsFound(flags=flags, ratios=dict.fromkeys(flags, Ratio(value=1.0)), skipped={})
    return settled(shop, layers, kept, kept)[0]


def settled(shop: Workshop, layers: Mapping[Unit, LayersFound], flags: FlagsFound, alone: FlagsFound) -> _Found:
    """`layers` and `flags`, or the flags `alone` for XLA's code alone if they are clearly faster than both.

    If more weights than the budget would be in the library twice, the units that gain least stay as they are.
    """
    compared = _rivals_compared(shop, layers, flags, alone)
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


def _rivals_compared(
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
