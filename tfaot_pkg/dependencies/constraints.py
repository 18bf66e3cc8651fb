"""What every package must be, beside its version: the CPUs that it has code for, the TensorFlow that compiled it."""

from __future__ import annotations

from dataclasses import dataclass, field

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.targets import TARGETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """`targets`: a package must carry code for all of them; `toolchain`: the versions of TensorFlow that will do."""

    targets: tuple[str, ...] = ()
    toolchain: SpecifierSet = field(default_factory=SpecifierSet)

    @classmethod
    def parse(cls, targets: tuple[str, ...] = (), toolchain: str = "") -> Constraints:
        """`toolchain` is a range (`>=2.17,<2.20`) or one version. Raises RegistryError."""
        unknown = sorted(set(targets) - TARGETS.keys())
        if unknown:
            raise RegistryError(f"{unknown[0]} is not a target", hint=f"targets are {', '.join(TARGETS)}")
        return cls(targets=tuple(sorted(set(targets))), toolchain=_specifier(toolchain.strip()))

    def rejection(self, entry: RegistryEntry) -> str:
        """Why `entry` will not do; empty where it will."""
        missing = [target for target in self.targets if target not in entry.targets]
        if missing:
            return f"has no code for {', '.join(missing)} (only {', '.join(entry.targets)})"
        if self.toolchain and not _accepts(self.toolchain, entry.toolchain):
            return f"was compiled by {entry.toolchain}, which is not {self.toolchain}"
        return ""


def _specifier(text: str) -> SpecifierSet:
    try:
        return SpecifierSet(f"=={Version(text)}")
    except InvalidVersion:
        pass
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise RegistryError(
            f"--toolchain {text}: not a range of TensorFlow's versions", hint="write '>=2.17,<2.20' or 2.17.1"
        ) from error


def _accepts(specifier: SpecifierSet, toolchain: str) -> bool:
    """`toolchain` is as entries have it: `tensorflow 2.17.1`."""
    try:
        return specifier.contains(Version(toolchain.rsplit(maxsplit=1)[-1]), prereleases=True)
    except (InvalidVersion, IndexError):
        return False
