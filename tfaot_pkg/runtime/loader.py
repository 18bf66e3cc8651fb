"""Finds the library of a package, by name or path, and loads it (model.py)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.errors import RunError as RunError  # noqa: PLC0414 (callers of this module catch it)
from tfaot_pkg.package.name import package_meant_by, spellings
from tfaot_pkg.runtime.model import Model as Model  # noqa: PLC0414 (it is what `load` returns)
from tfaot_pkg.spec.rules import PACKAGE_PREFIX


def load(model: str | Path, *, prefix: str | Path | None = None, target: str | None = None, threads: int = 1) -> Model:
    """Load a model, running the code of `target` (default: the best for this CPU) on `threads` threads.

    `model` is the name of an installed package ("digits" or "tfaot-model-digits"), the path of a shared model library,
    or the path of a prefix that contains exactly one. A name is searched in `prefix`, otherwise in the prefixes that
    TFAOT_PREFIX and CMAKE_PREFIX_PATH list (separated by colons) and in that of the Python environment; if it is not
    installed there, a file or folder of this name is loaded. To prefer these to a package, write "./digits".
    `threads` is from 1 to 256; each call uses the calling thread and `threads - 1` others, which start at the first
    call and wait for the next one. Raises RunError: not found, not a model's library, a CPU below the lowest target,
    no number of threads.
    """
    if not isinstance(model, (str, os.PathLike)):
        raise RunError(
            f"load takes the name of a package or a path, got {type(model).__name__}",
            hint="tfaot_pkg.compile(MODEL) makes a package of a live model of a framework",
        )
    # Names first, so that a folder of the same name in the current folder does not hide a package.
    if isinstance(model, str) and _package_meant(model):
        return Model(_named(model, prefix), target, threads=threads)
    if prefix is not None:
        raise RunError(f"{model} is not a package's name", hint="prefix= is for names; load a file without it")
    return Model(_library_at(Path(model)), target, threads=threads)


def _named(name: str, prefix: str | Path | None) -> Path:
    """The library of an installed package, otherwise the library at a path of this name."""
    try:
        return _installed(package_meant_by(name), prefix)
    except RunError:
        if prefix is None and Path(name).exists():
            return _library_at(Path(name))
        raise


def _package_meant(text: str) -> str:
    """The package that `text` names; empty if it cannot be a name."""
    try:
        return package_meant_by(text)
    except RegistryError:
        return ""


def _installed(package: str, prefix: str | Path | None) -> Path:
    """The shared library of an installed package."""
    places = [Path(prefix)] if prefix is not None else _prefixes()
    library = f"lib{package}.so"
    for place in places:
        for name in spellings(package):
            if (place / "lib" / f"lib{name}.so").is_file():
                return (place / "lib" / f"lib{name}.so").absolute()
    looked = ", ".join(str(place / "lib") for place in places)
    others = sorted({path.stem.removeprefix("lib") for place in places for path in _libraries(place)})
    found = f"; installed there: {', '.join(others)}" if others else ""
    raise RunError(
        f"{package} is not installed: no {library} in {looked}{found}",
        hint="install it (tfaot-pkg install), and name its prefix: load(NAME, prefix=DIR), or set TFAOT_PREFIX",
    )


def _prefixes() -> list[Path]:
    listed = [os.environ.get(name, "").split(os.pathsep) for name in ("TFAOT_PREFIX", "CMAKE_PREFIX_PATH")]
    return [Path(place) for places in (*listed, [sys.prefix]) for place in dict.fromkeys(places) if place]


def _library_at(path: Path) -> Path:
    if not path.is_dir():
        if path.is_file():
            return path.absolute()
        raise RunError(
            f"there is no library {path}",
            hint="`tfaot-pkg list PREFIX` names what is installed: load(NAME, prefix=PREFIX)",
        )
    found = _libraries(path)
    if len(found) == 1:
        return found[0].absolute()
    listing = ", ".join(file.name for file in found) or "none"
    raise RunError(f"{path} must have exactly one model library below lib/, found: {listing}", hint="name the file")


def _libraries(prefix: Path) -> list[Path]:
    return sorted((prefix / "lib").glob(f"lib{PACKAGE_PREFIX}*.so"))
