"""The kernel library in parts: each is found by the names of its functions, and no other."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tfaot_pkg.frontends.toolchain.definition import KERNELS, OWN
from tfaot_pkg.frontends.toolchain.environment import own
from tfaot_pkg.frontends.toolchain.pinned import PythonEnvironment
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.native.xla_runtime import Parts
from tfaot_pkg.package.binary.elf import defined_symbols, undefined_symbols

pytestmark = [pytest.mark.slow, pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64")]

_TEMPLATES = {
    "activateBlock": "activations",
    "sumBlocks": "products",
    "sumInChains": "products",
    "convolveLines": "images",
    "convolveLineOfTaps": "images",
    "sumPlaces": "images",
    "interleave": "images",
}
"""Templates that the tables of programs name (reachable_functions.h), and their parts. Such symbols are weak."""


def _symbols(path: Path, kinds: str) -> set[str]:
    """The symbols of the library in `path` of these types (nm(1))."""
    lines = [line.split() for line in run(["nm", path]).stdout.splitlines()]
    return {line[-1] for line in lines if line[-2] in kinds and line[-1].startswith("_ZN13tfaot_kernels")}


def test_every_function_is_found_in_the_part_that_defines_it(tmp_path: Path) -> None:
    parts = Parts(
        environment=own(PythonEnvironment(python=tmp_path, site_packages=tmp_path, identity="0" * 64)),
        compiler=find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None),
        cache=BuildCache(root=tmp_path / "builds"),
    )
    target = TARGETS["x86-64-v2"]
    objects = {part: parts.compiled(part, target) for part in OWN.parts if part.source.startswith(KERNELS)}
    assert len(objects) == 4
    tables = ("kActivating", "kMultiplying", "kConvolving")  # nothing calls them
    for part, path in objects.items():
        strong = {name for name in _symbols(path, "TDBR") if not any(table in name for table in tables)}
        assert strong
        for name in strong | _symbols(path, "U"):
            found = parts.objects_for(target, [_needing(name, tmp_path)])
            assert (part in found) == (name in strong), name
            assert name in frozenset[str]().union(*map(defined_symbols, found.values())), name
    for name, source in _TEMPLATES.items():
        (part,) = (part for part in objects if part.source == f"{KERNELS}{source}.cc")
        symbol = next(symbol for symbol in sorted(_symbols(objects[part], "W")) if f"{len(name)}{name}I" in symbol)
        assert parts.objects_for(target, [_needing(symbol, tmp_path)]).keys() == {part}


def _needing(symbol: str, folder: Path) -> Path:
    """An object that needs `symbol`."""
    source, made = folder / "needs.s", folder / "needs.o"
    source.write_text(f".quad {symbol}\n")
    run(["as", "-o", made, source])
    assert undefined_symbols(made) == {symbol}
    return made
