"""tfaot-pkg: a package manager for compiled models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfaot_pkg._version import __version__

if TYPE_CHECKING:
    from tfaot_pkg.runtime import Model, load

__all__ = ["Model", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """`load` and `Model` on demand: they need NumPy, and the command line's start does not."""
    if name in ("Model", "load"):
        from tfaot_pkg import runtime

        return getattr(runtime, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
