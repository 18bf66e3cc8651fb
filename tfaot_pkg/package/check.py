"""Check the files of a package: it may hold only its own paths and its own name, and binaries that pass the rules.

Builds, publishers, installations and `registry verify` all use this check. It runs and compiles nothing of a package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.package.binary.elf import MalformedElf, opened
from tfaot_pkg.package.binary.findings import (
    Rules,
    above_floor,
    is_binary,
    object_findings,
    program_findings,
    shared_library_findings,
    static_library_findings,
)
from tfaot_pkg.package.listing import Tree, foreign_paths
from tfaot_pkg.package.name import shared_library_name, spellings

_UID = re.compile(r"[0-9a-f]{1,64}")
_LOOKS = {".so": shared_library_findings, ".a": static_library_findings, ".o": object_findings}
_MAX_DOCUMENT = 64 << 20
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Name, version and key of a package as its index or its build states them, not as its files do."""

    package: str
    version: str
    key: str

    def __str__(self) -> str:
        return f"{self.package}@{self.version}"


def require_sound(root: Path, tree: Tree, identity: Identity) -> None:
    """Raise TrustError, with every fault, if the package in `root` is not one that `identity` may have; OSError."""
    faults = package_faults(root, tree, identity)
    if faults:
        shown = [*faults[:_SHOWN], *([f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else [])]
        raise TrustError(
            f"{identity} is rejected:\n  " + "\n  ".join(shown),
            hint="do not use it; report it to the registry's maintainer: tfaot-pkg makes no such packages",
        )


def package_faults(root: Path, tree: Tree, identity: Identity) -> tuple[str, ...]:
    """What is wrong with the package in `root`, whose files are `tree`. Raises OSError."""
    # Paths first: what follows opens files by name.
    foreign = foreign_paths(identity.package, (member.path for member in tree.members))
    if foreign:
        return foreign
    try:
        info = _info(root, tree, identity)
        return (*_identity_faults(root, tree, identity, info), *_binary_faults(root, tree, info))
    except _Fault as fault:
        return (str(fault),)


class _Fault(Exception):
    """A fault after which the rest of a package cannot be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Info:
    """The parts of info.json that are checked."""

    package: str
    version: str
    uid: str
    symbol: str
    targets: tuple[str, ...]
    glibc: str | None

    @property
    def rules(self) -> Rules:
        architectures = {TARGETS[name].architecture for name in self.targets if name in TARGETS}
        return Rules(
            architecture=architectures.pop() if len(architectures) == 1 else "",
            symbol=self.symbol,
            soname=shared_library_name(self.package, self.uid),
            # Packages of earlier versions state no glibc; they carry GCC's runtime and its constructors (decision 033).
            carries_runtime=self.glibc is None,
        )


def _info(root: Path, tree: Tree, identity: Identity) -> _Info:
    paths = sorted(path for stem in spellings(identity.package) if (path := f"share/{stem}/info.json") in tree.files)
    if len(paths) != 1:
        raise _Fault("it has no info.json" if not paths else "it has more than one info.json")
    document = _document(root / paths[0], paths[0])
    texts = {name: document.get(name) for name in ("package", "version", "uid", "symbol")}
    targets = document.get("targets")
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(targets, list):
        raise _Fault(f"{paths[0]} lacks package, version, uid, symbol or targets")
    # The uid becomes part of file names and of a regular expression.
    if not _UID.fullmatch(str(texts["uid"])):
        raise _Fault(f"{paths[0]}: the uid is {texts['uid']!r}, not 1 to 64 hexadecimal digits")
    glibc = document.get("glibc")
    if glibc is not None and not (isinstance(glibc, str) and re.fullmatch(r"|[0-9]{1,4}(\.[0-9]{1,4})+", glibc)):
        raise _Fault(f"{paths[0]}: glibc is {glibc!r}, which is not a version")
    return _Info(targets=tuple(map(str, targets)), glibc=glibc, **texts)  # type: ignore[arg-type]


def _document(path: Path, name: str) -> Mapping[str, Any]:
    try:
        # A document of a hostile package must not fill the memory.
        if path.stat().st_size > _MAX_DOCUMENT:
            raise _Fault(f"{name} is too long")
        document = read_json(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _Fault(f"{name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _Fault(f"{name} is not a JSON object")
    return document


def _identity_faults(root: Path, tree: Tree, identity: Identity, info: _Info) -> Iterator[str]:
    if info.package not in spellings(identity.package) or info.version != identity.version:
        yield f"info.json says that it is {info.package}@{info.version}"
    symbol = f"{identity.package.replace('-', '_')}_{info.uid}"
    if info.symbol != symbol:
        yield f"info.json says that its entry function is {info.symbol}, not {symbol}"
    for path, target in tree.links.items():
        # The one link of a package: the name by which the loader finds the library (decision 020).
        if path != f"lib/{shared_library_name(info.package, info.uid)}" or target != f"lib{info.package}.so":
            yield f"{path} is a link to {target}"
    for path in tree.files:
        if path.startswith("lib/") and re.search(r"\.so\.[^/]*$", path):
            yield f"{path} is a file, not a link to the library"
    header = f"include/{info.package}/entry.h"
    if header in tree.files and not re.search(rf"\b{symbol}\b", (root / header).read_text(errors="replace")):
        yield f"{header} is not the header of {symbol}"
    yield from _provenance_faults(root, tree, identity, info)


def _provenance_faults(root: Path, tree: Tree, identity: Identity, info: _Info) -> Iterator[str]:
    path = f"share/{info.package}/provenance.json"
    if path not in tree.files:
        return
    document = _document(root / path, path)
    try:
        name = document["subject"][0]["name"]
        key = document["predicate"]["buildDefinition"]["internalParameters"]["key"]
    except (KeyError, IndexError, TypeError):
        yield f"{path} does not say which package it is about"
        return
    if name not in {f"{stem}@{identity.version}" for stem in spellings(identity.package)}:
        yield f"{path} is about {name}"
    if key != identity.key:
        yield f"{path} is about another build (key {str(key)[:12]}, not {identity.key[:12]})"


def _binary_faults(root: Path, tree: Tree, info: _Info) -> Iterator[str]:
    for path in tree.files:
        with opened(root / path) as data:
            if path.startswith("bin/"):
                findings = (*program_findings(data, info.rules), *_floor_findings(data, info))
            elif path.startswith("lib/") and Path(path).suffix in _LOOKS:
                findings = _LOOKS[Path(path).suffix](data, info.rules)
                findings += _floor_findings(data, info) if path.endswith(".so") else ()
            else:
                # A linker or loader could be pointed to it, and no rule has checked it.
                findings = ("compiled code is not allowed in this folder",) if is_binary(data) else ()
        yield from (f"{path}: {finding}" for finding in findings)


def _floor_findings(data: memoryview, info: _Info) -> tuple[str, ...]:
    """A finding if a library or program needs a newer C library than the package states; none if it states none."""
    if not info.glibc:
        return ()
    try:
        needed = above_floor(data, info.glibc)
    except MalformedElf:
        return ()  # reported by the other findings
    return (f"it needs {', '.join(needed)}, and info.json states glibc {info.glibc}",) if needed else ()
