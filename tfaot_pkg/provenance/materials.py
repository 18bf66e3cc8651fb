"""What a package is made from, as both documents tell it: nothing here names a clock, a host, a user or a path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.sandbox import Level
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.native.compiled.program import Engine
from tfaot_pkg.native.cxx.compiler import ArchiveMember, Compiler
from tfaot_pkg.native.xla_runtime import LinkedPart
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.report import ValidationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One package of a toolchain's lock file; `marker` says for which Pythons ("" for all)."""

    name: str
    version: str
    marker: str

    @property
    def purl(self) -> str:
        """Package URL (purl-spec, type pypi)."""
        return f"pkg:pypi/{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainFacts:
    """The toolchain of a build. `lock` is the SHA-256 of its lock file, empty (as `pins`) for a user's interpreter."""

    toolchain: Toolchain
    identity: str
    lock: str
    pins: tuple[Pin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """All that went into a package.

    `key` is the package's, `keys` those of its stages by name, `source` the digest of the model's files,
    `validation_inputs` say what the inputs of the comparison with TensorFlow were (verify/validate.py), `confinement`
    the weakest level of the sandbox that the model or its library ran in.
    """

    spec: ModelSpec
    key: Key
    keys: dict[str, Key]
    source: str
    validation_inputs: dict[str, object]
    toolchain: ToolchainFacts
    compiler: Compiler
    confinement: Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What the build made of the materials, besides the files: for the SBOM."""

    signature: Signature
    engine: Engine
    parts: tuple[LinkedPart, ...]
    report: ValidationReport
    binaries: dict[str, str]
    """Path in the package to SHA-256."""
    archives: Mapping[str, tuple[ArchiveMember, ...]]
    """Path in the package to what was linked into it from archives: of the compiler's own library."""


def pins_of(lock: str) -> tuple[Pin, ...]:
    """The packages that a lock file (pip's format, as tools/lock_requirements.py writes it) pins, in its order."""
    found = []
    for line in lock.splitlines():
        # The other lines are comments, and the hashes of the pin before.
        requirement, _, marker = line.rstrip("\\ ").partition(";")
        name, pinned, version = requirement.strip().partition("==")
        if pinned and not name.startswith(("#", "-")):
            found.append(Pin(name=name, version=version.strip(), marker=marker.strip()))
    return tuple(found)
