"""Targets: the kinds of CPU for which a library contains code."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One microarchitecture level.

    `cpu` is LLVM's name of it (for tfcompile), `flags` are GCC's and Clang's for the same level, `level` orders the
    targets of one architecture, `features` are Linux's names (/proc/cpuinfo) of the required CPU features.
    Levels: x86-64 psABI, "Micro-Architecture Levels".
    """

    name: str
    architecture: str
    triple: str
    cpu: str
    flags: tuple[str, ...]
    level: int
    features: frozenset[str]

    @property
    def identifier(self) -> str:
        """The name as part of a C identifier."""
        return self.name.replace("-", "_")

    @property
    def has_fma(self) -> bool:
        """Whether it has a fused multiply-add: every CPU of AArch64 does."""
        return "fma" in self.features or self.architecture == "aarch64"

    @property
    def may_have_tiles(self) -> bool:
        """Whether some of its CPUs have AMX, which code for it asks them for at run time."""
        return "avx512bw" in self.features


_V1 = frozenset({"fpu", "mmx", "sse", "sse2", "fxsr", "cx8", "cmov"})
_V2 = _V1 | {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
# abm is Linux's name for LZCNT.
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def _x86_64(name: str, level: int, features: frozenset[str]) -> Target:
    return Target(
        name=name,
        architecture="x86_64",
        triple="x86_64-unknown-linux-gnu",
        cpu=name,
        flags=(f"-march={name}",),
        level=level,
        features=features,
    )


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _x86_64("x86-64", 1, _V1),
        _x86_64("x86-64-v2", 2, _V2),
        _x86_64("x86-64-v3", 3, _V3),
        _x86_64("x86-64-v4", 4, _V4),
        Target(
            name="aarch64",
            architecture="aarch64",
            triple="aarch64-unknown-linux-gnu",
            cpu="generic",
            flags=("-march=armv8-a",),
            level=1,
            features=frozenset({"fp", "asimd"}),
        ),
    )
}

ARCHITECTURES = tuple(dict.fromkeys(target.architecture for target in TARGETS.values()))
"""As `uname -m` prints them."""

DEFAULT_TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""All targets share the weights, and code is small: by default, a package uses AVX-512 if a CPU has it."""

UNVERIFIED_DEFAULTS = ("x86-64-v4",)
"""The default targets that are published without validation if the machine cannot run them: no emulator can, and most
build machines have no AVX-512."""


def lowest(architecture: str) -> Target:
    """The target that all CPUs of `architecture` can run, for code that runs before the CPU is known."""
    return min((t for t in TARGETS.values() if t.architecture == architecture), key=lambda t: t.level)


def host_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The features of this machine's CPU, by Linux's names."""
    for line in cpuinfo.read_text().splitlines():
        name, _, value = line.partition(":")
        # x86-64 and aarch64 have different names for the same line.
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def runs_here(target: Target) -> bool:
    """Whether this machine can run code for `target`."""
    return target.architecture == platform.machine() and target.features <= host_features()
