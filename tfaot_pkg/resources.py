"""Where the files that belong to the tool but are not Python lie.

In a checkout at its top, in a wheel inside the package.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tfaot_pkg.keys import files_below, sha256_file, sha256_tree

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent
_BUNDLED = _PACKAGE / "_bundled"


@cache
def _resource(relative: str) -> Path:
    bundled = _BUNDLED / relative
    return bundled if bundled.exists() else _CHECKOUT / relative


@cache
def digest(path: Path) -> str:
    """SHA-256 of one of these files, or of all names and contents below one of these folders.

    It is taken once: they do not change while the tool runs.
    """
    return sha256_tree(path, files_below(path)) if path.is_dir() else sha256_file(path)


def templates() -> Path:
    """Templates of generated files."""
    return _resource("templates")


def headers() -> Path:
    """The include folder with `tfaot/*.h`."""
    return _resource("recipes/tfaot/all/include")


def kernels() -> Path:
    """The folder of the kernel library: `include/` and `src/`."""
    return _resource("recipes/tfaot-kernels/all")


def base_recipe() -> Path:
    """The folder of `conanfile.py` that every model's recipe builds on."""
    return _BUNDLED if _BUNDLED.exists() else _CHECKOUT


def licence() -> Path:
    """The project's licence, which also covers our code inside of packages."""
    return _resource("LICENSE")


def cmake_package() -> Path:
    """The folder with the CMake package `tfaot-pkg`."""
    return _PACKAGE / "cmake"
