"""tfaot-pkg: a package manager for compiled models.

    model = tfaot_pkg.compile(net, example)            a live model of any framework -> verified, compiled, loaded
    model = tfaot_pkg.load("digits", prefix="external")   an installed package, or the file of a library

    model(rows)["score"]                               arrays or data frames in, a dict of arrays out
    model.save("prefix"), model.publish("registry")    the package, for C++ and for others

Errors are of the type TfaotError; those of loading and calling are RunErrors. All other modules of this package are
internal. The command line is `tfaot-pkg`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfaot_pkg._version import __version__

if TYPE_CHECKING:
    from tfaot_pkg.errors import TfaotError
    from tfaot_pkg.live.compiling import compile  # noqa: A004
    from tfaot_pkg.live.model import CompiledModel
    from tfaot_pkg.live.report import Report
    from tfaot_pkg.runtime.loader import RunError, load
    from tfaot_pkg.runtime.model import Model

__all__ = ["CompiledModel", "Model", "Report", "RunError", "TfaotError", "__version__", "compile", "load"]

_PLACES = {
    "CompiledModel": "live.model", "Model": "runtime.model", "Report": "live.report", "RunError": "errors",
    "TfaotError": "errors", "compile": "live.compiling", "load": "runtime.loader",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on demand: NumPy and the pipeline would make every command start slower."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
