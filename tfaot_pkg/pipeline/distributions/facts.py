"""What a wheel or a conda package says of the model: from the package's own info.json and libraries. No I/O of its own.

Authors and publishers wrote the texts: here they become one line of characters that print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import PrefixError, RegistryError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.package.binary.elf import MalformedElf, dynamic_of, read_elf
from tfaot_pkg.package.name import current_name, model_of

_MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine, by the names that `uname -m` has
_SYSTEM = re.compile(r"(libc\.so\.6|libm\.so\.6|libdl\.so\.2|librt\.so\.1|libpthread\.so\.0|ld-linux-.*\.so\.[12])")
"""The libraries of glibc: those of the lists of manylinux that libraries of models may need."""
_VERSION = re.compile(r"GLIBC_2\.(\d{1,3})(?:\.\d+)*")
_RELATIVE_RELOCATIONS = ("GLIBC_ABI_DT_RELR", 36)
_LONGEST = 2_000
_PLAIN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""Indexes of Python take `a--b` and `a-b` for one name (PEP 503), and vcpkg and Spack have rules like that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Where compiled files run: `glibc` is N of the oldest glibc 2.N, None if they need more than glibc."""

    architecture: str
    glibc: int | None

    @classmethod
    def of(cls, files: Iterable[bytes], what: str) -> Platform:
        """What all of `files` need, which are shared libraries and programs. Raises RegistryError."""
        machines: set[int] = set()
        needs: list[int | None] = [0]
        for data in files:
            try:
                machine, need = _needs(data)
            except MalformedElf as error:
                raise RegistryError(f"{what}: a library cannot be read: {error}") from error
            machines.add(machine)
            needs.append(need)
        if len(machines) != 1 or not machines <= _MACHINES.keys():
            raise RegistryError(f"{what} has no library for exactly one known architecture")
        known = [need for need in needs if need is not None]
        return cls(architecture=_MACHINES[machines.pop()], glibc=max(known) if len(known) == len(needs) else None)


def _needs(data: bytes) -> tuple[int, int | None]:
    """The machine of an ELF file, and N of the glibc 2.N that it needs. Raises MalformedElf."""
    elf = read_elf(memoryview(data))
    dynamic = dynamic_of(elf)
    if dynamic is None:
        return elf.machine, 0
    if not all(_SYSTEM.fullmatch(library) for library in dynamic.needed):
        return elf.machine, None
    found = [_minor(version) for _, version in dynamic.versions]
    known = [minor for minor in found if minor is not None]
    return elf.machine, max(known, default=0) if len(known) == len(found) else None


def _minor(version: str) -> int | None:
    if version == _RELATIVE_RELOCATIONS[0]:
        return _RELATIVE_RELOCATIONS[1]
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A model and its package; texts are one line each, or empty."""

    package: str
    model: str
    version: Version
    description: str
    author: str
    license: str
    homepage: str
    targets: tuple[str, ...]
    platform: Platform

    def require_plain_name(self, what: str) -> None:
        """Raise RegistryError if `what` ("a wheel") can have no such name, or takes it for another model's."""
        if not _PLAIN.fullmatch(self.package):
            raise RegistryError(
                f"{self.package} cannot be {what}: names with several - in a row are taken for others there",
                hint="build the model under a name without __ and without _ at its end",
            )

    @property
    def spdx(self) -> str:
        """The licence if it is an SPDX expression; else empty."""
        try:
            return canonicalize_license_expression(self.license) if self.license else ""
        except InvalidLicenseExpression:
            return ""

    @classmethod
    def of(cls, name: str, version: str, info: bytes, platform: Platform) -> Facts:
        """Of the package `name` with this info.json. Raises RegistryError, PrefixError."""
        try:
            document = read_json(info)
        except (ValueError, RecursionError) as error:
            raise PrefixError(f"info.json of {name} is damaged: {error}") from error
        if not isinstance(document, dict):
            raise PrefixError(f"info.json of {name} is damaged: it is not an object")
        homepage = one_line(document.get("homepage"))
        return cls(
            package=current_name(name),
            model=model_of(name),
            version=parsed(name, version),
            description=one_line(document.get("description")),
            author=one_line(document.get("author")),
            license=one_line(document.get("license")),
            homepage=homepage if re.fullmatch(r"https?://\S+", homepage) else "",
            targets=_targets(document),
            platform=platform,
        )


def _targets(document: Mapping[str, Any]) -> tuple[str, ...]:
    found = document.get("targets")
    return tuple(map(one_line, found)) if isinstance(found, list) else ()


def parsed(name: str, version: str) -> Version:
    """`version` as Python's indexes order it (PEP 440). Raises PrefixError."""
    try:
        return Version(version)
    except InvalidVersion:
        raise PrefixError(f"the version of {name} is {version!r}, which is none of Python's versions") from None


def one_line(text: object) -> str:
    """`text` on one line that can be written as UTF-8; empty for what is no text."""
    if not isinstance(text, str):
        return ""
    words = " ".join(text.split())[:_LONGEST]
    return "".join(letter if letter.isprintable() else "?" for letter in words)
