"""Choose XLA's flags for each unit by measuring whole models, and tell a gain from noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tfaot_pkg.errors import CompilerError, ModelError, SpecError, TfaotError, ToolchainError
from tfaot_pkg.measure.tuning.variants import Variant, Workshop
from tfaot_pkg.native.compiled.flags import Unit
from tfaot_pkg.native.compiled.model import CompiledModel, CompiledUnit
from tfaot_pkg.verify.latency import MAD_TO_SIGMA

Flags = tuple[str, ...]

_GEMM = "--xla_backend_extra_options=xla_force_enable_experimental_llvm_ir_gemm,xla_llvm_ir_gemm_tile_size="
CANDIDATES: tuple[Flags, ...] = (
    # Products as LLVM code in tiles of rows, inner dimension and columns, instead of calls of Eigen. Without
    # "*vectwidth" XLA aborts.
    (f"{_GEMM}4:8:2*vectwidth",),
    (f"{_GEMM}2:16:4*vectwidth",),
    ("--xla_cpu_prefer_vector_width=512",),
)
# Both exclude noise, so that most units get no flags (docs/decisions/025): a gain must be at
# least 3 %, and two standard errors of the median ratio.
_LEAST_GAIN = 0.03
_SIGMAS = 2.0
_MEDIAN_ERROR = math.sqrt(math.pi / 2)  # a median's standard error over a mean's, for normal deviates


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of two times: the median over rounds, and its standard error."""

    value: float
    error: float = 0.0

    @classmethod
    def of(cls, times: Sequence[float], base: Sequence[float]) -> Ratio:
        """The ratio of times that were measured in the same rounds: noise that disturbs both cancels.

        The error is that of a median of normal deviates, whose standard deviation is estimated from their median
        absolute deviation.
        """
        ratios = [one / other for one, other in zip(times, base, strict=True)]
        middle = median(ratios)
        sigma = MAD_TO_SIGMA * median(abs(ratio - middle) for ratio in ratios)
        return cls(value=middle, error=_MEDIAN_ERROR * sigma / math.sqrt(len(ratios)))

    @property
    def is_gain(self) -> bool:
        """Whether the time is shorter by more than 3 %, beyond noise."""
        return self.value + _SIGMAS * self.error < 1 - _LEAST_GAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsFound:
    """The flags that gain, by unit, with the ratio of the times with and without them; why others were skipped."""

    flags: Mapping[Unit, Flags]
    ratios: Mapping[Unit, Ratio]
    skipped: Mapping[str, str]


def choose_flags(shop: Workshop, units: Sequence[Unit], candidates: Sequence[Flags] = CANDIDATES) -> FlagsFound:
    """The fastest of `candidates` for each of `units`, if one is clearly faster than none."""
    built: dict[Unit, dict[Flags, Path]] = {unit: {} for unit in units}
    skipped = {}
    with shop.progress.step("flags", total=len(candidates), unit="sets of flags") as step:
        plain = shop.compiled(Variant(flags=dict.fromkeys(units, ())))
        for flags in candidates:
            try:
                changed = _changed(shop, units, flags, plain)
            except _NotUsable as reason:
                skipped[" ".join(flags)] = str(reason)
            else:
                for unit, library in changed.items():
                    built[unit][flags] = library
            step.advance(note=" ".join(flags))
    return _fastest(shop, built, skipped)


class _NotUsable(Exception):
    """A set of flags cannot be used, or does nothing."""


def _changed(shop: Workshop, units: Sequence[Unit], flags: Flags, plain: CompiledModel) -> dict[Unit, Path]:
    """The library with `flags`, by the units whose code they change."""
    given = {flag.partition("=")[0] for flag in shop.spec.compilation.xla_flags}
    if given & {flag.partition("=")[0] for flag in flags}:
        raise _NotUsable("the spec sets it")
    variant = Variant(flags=dict.fromkeys(units, flags))
    try:
        compiled = shop.compiled(variant)
        before = {(unit.batch_size, unit.target.name): _code(unit) for unit in plain.units}
        after = {(unit.batch_size, unit.target.name): _code(unit) for unit in compiled.units}
        # Flags that change no byte of a unit need not be timed (docs/decisions/025).
        changed = [unit for unit in units if after[unit] != before[unit]]
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


def _fastest(shop: Workshop, built: Mapping[Unit, Mapping[Flags, Path]], skipped: Mapping[str, str]) -> FlagsFound:
    """Time the libraries of each unit together with the one without flags."""
    libraries = {unit: each for unit, each in built.items() if each}
    found: dict[Unit, Flags] = {}
    ratios: dict[Unit, Ratio] = {}
    if libraries:
        plain = shop.library(Variant(flags=dict.fromkeys(built, ())))
        rounds = shop.times({unit: [plain, *each.values()] for unit, each in libraries.items()})
        for unit, (base, *others) in rounds.items():
            measured = {flags: Ratio.of(times, base) for flags, times in zip(libraries[unit], others, strict=True)}
            # The best of several is biased towards noise, which the thresholds of `is_gain` must exclude.
            best = min(measured, key=lambda flags: measured[flags].value)
            if measured[best].is_gain:
                found[unit], ratios[unit] = best, measured[best]
    return FlagsFound(flags=found, ratios=ratios, skipped=skipped)
