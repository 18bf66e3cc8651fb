"""Flags of XLA that make a unit's code faster, where XLA computes products at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.compiled.assignment import Unit
from tfaot_pkg.compiled.model import CompiledModel, CompiledUnit
from tfaot_pkg.errors import CompilerError, ModelError, SpecError, TfaotError, ToolchainError
from tfaot_pkg.tuning.ratio import Ratio
from tfaot_pkg.tuning.selection import Chosen
from tfaot_pkg.tuning.variants import Variant, Workshop

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
"""Of the operations of a model: what XLA must compute, for its flags to matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsFound:
    """The flags that gain, by unit, and the time with them over that without; why others were not measured."""

    flags: Mapping[Unit, Flags]
    ratios: Mapping[Unit, Ratio]
    skipped: Mapping[str, str]


def left_to_xla(shop: Workshop, chosen: Chosen) -> float:
    """The share of the model's operations that the kernel library does not compute, where it computes `chosen`."""
    work = shop.frozen.work
    computed = shop.effective(chosen)
    ours = 2 * sum(layer.multiply_adds for layer in shop.frozen.layers if layer.name in computed)
    return max(0.0, 1 - ours / work.operations_per_row) if work.operations_per_row else 1.0


def choose_flags(
    shop: Workshop, choices: Mapping[Unit, Chosen], candidates: Sequence[Flags] = CANDIDATES
) -> FlagsFound:
    """The fastest of `candidates` for each unit, its layers as in `choices`, where one is clearly faster than none."""
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
        changed = [unit for unit in layers if after[unit] != before[unit]]
        if not changed:
            raise _NotUsable("changes no code")
        library = shop.library(variant)
    except (SpecError, ModelError, ToolchainError, CompilerError) as error:
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
