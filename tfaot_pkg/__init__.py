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


_INSTEAD = {
    "tfaot_pkg.compile(MODEL) makes a package of a live model, a file or a spec, and returns what can be called (on "
    "the command line: tfaot-pkg build SPEC -o PREFIX)": (
        "build", "convert", "export", "package", "compile_model", "from_",
    ),
    "tfaot_pkg.load(NAME, prefix=DIR) returns an installed package, which is called with arrays (on the command line: "
    "tfaot-pkg run NAME)": ("run", "predict", "infer", "open", "load_model", "session", "inferencesession"),
    "publish what tfaot_pkg.compile(MODEL) returns: model.publish(REGISTRY) (on the command line: tfaot-pkg publish "
    "SPEC)": ("publish", "push", "upload"),
    "save what tfaot_pkg.compile(MODEL) returns: model.save(PREFIX)": ("save",),
    "measure what tfaot_pkg.compile(MODEL) returns: model.benchmark()": ("bench", "benchmark"),
    "run tfaot-pkg install NAME on the command line, then tfaot_pkg.load(NAME, prefix=DIR)": (
        "install", "pull", "download", "add", "get",
    ),
    "this is a command: tfaot-pkg {name}": (
        "check", "doctor", "help", "init", "inspect", "list", "sample", "search", "serve", "show", "uninstall",
        "version",
    ),
}  # fmt: skip
"""What to use in place of names that people try."""


def _instead_of(name: str) -> str:
    word = name.lower()
    for use, names in _INSTEAD.items():
        if word in names or (word.startswith("from_") and "from_" in names):
            return f": {use.format(name=name)}"
    return "" if name.startswith("_") else f"; it has {', '.join(each for each in __all__ if each != '__version__')}"


def __getattr__(name: str) -> Any:
    """Import on demand: NumPy and the pipeline would make every command start slower."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_instead_of(name)}")
    found = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
