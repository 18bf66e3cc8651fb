"""Where the files that belong to the tool but are not Python lie.

In a checkout at its top, in a wheel inside the package.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent
_BUNDLED = _PACKAGE / "_bundled"


def _resource(relative: str) -> Path:
    bundled = _BUNDLED / relative
    return bundled if bundled.exists() else _CHECKOUT / relative


def templates() -> Path:
    """Templates of generated files."""
    return _resource("templates")


def headers() -> Path:
    """The include folder with `tfaot/*.h`."""
    return _resource("recipes/tfaot/all/include")


def base_recipe() -> Path:
    """The folder of `conanfile.py` that every model's recipe builds on."""
    return _BUNDLED if _BUNDLED.exists() else _CHECKOUT


def licence() -> Path:
    """The project's licence, which also covers our code inside of packages."""
    return _resource("LICENSE")


def cmake_package() -> Path:
    """The folder with the CMake package `tfaot-pkg`."""
    return _PACKAGE / "cmake"
