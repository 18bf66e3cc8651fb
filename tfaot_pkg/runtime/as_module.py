"""A model as a Python module, which needs NumPy only:

    from tfaot_model_digits import model
    model(image=images)["probability"]

`load(target=..., threads=...)` gives further ones. C++ finds the package in the prefix `PREFIX`, whose path
`python -m tfaot_model_digits --prefix` prints.
"""
# This is the `__init__` of the packages that `tfaot-pkg export --wheel` writes.

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfaot_pkg.errors import RunError
    from tfaot_pkg.runtime.model import Model

    model: Model
    __version__: str

__all__ = ["PREFIX", "Model", "RunError", "__version__", "load", "model"]

PREFIX = Path(__file__).resolve().parent / "prefix"
"""Headers, libraries and build files: a prefix as `tfaot-pkg install` makes it."""


def load(*, target: str | None = None, threads: int = 1) -> Model:
    """The model, running the code of `target` (default: the best for this CPU) on `threads` threads (1 to 256).

    Raises RunError.
    """
    from tfaot_pkg.runtime.model import Model

    return Model(next((PREFIX / "lib").glob("lib*.so")), target, threads=threads)


def __getattr__(name: str) -> Any:
    """Made on demand: who asks for the prefix alone needs no NumPy."""
    if name == "model":
        found: Any = load()
    elif name == "Model":
        from tfaot_pkg.runtime.model import Model

        found = Model
    elif name == "RunError":
        from tfaot_pkg.errors import RunError

        found = RunError
    elif name == "__version__":
        found = version(__name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
