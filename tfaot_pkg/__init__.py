"""tfaot-pkg: a package manager for compiled models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfaot_pkg._version import __version__

if TYPE_CHECKING:
    from tfaot_pkg.runtime.loader import Model, RunError, load

__all__ = ["Model", "RunError", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Import the loader on demand: it needs NumPy, which would make every command start slower."""
    if name in ("Model", "RunError", "load"):
        from tfaot_pkg.runtime import loader

        return getattr(loader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
