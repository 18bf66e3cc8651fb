"""What precedes the first request: settings of the interpreter, and the imports of a fork server (ground/sandbox)."""

from __future__ import annotations

import gc
import importlib
import sys

_USUAL = ("branches", "compile_units", "freeze", "reference", "run_operation", "stateful_reference")
"""Modules of the requests that packages are made and checked with; they import TensorFlow."""


def prepare_import() -> None:
    """Save CPU time of TensorFlow's import, which most requests wait for (decision 001)."""
    # TensorFlow imports Keras if it finds it, for its loader of models; only keras_file.py uses it.
    sys.modules["keras"] = None  # type: ignore[assignment]
    # What an import allocates stays alive: collecting garbage while it runs takes time and frees nothing.
    gc.set_threshold(100_000, 50, 100)


def preload() -> None:
    """Import what processes that are forked from this one would import."""
    prepare_import()
    for name in _USUAL:
        importlib.import_module(name)
    # Else the first collection in each forked process would touch, and so copy, all that was imported.
    gc.freeze()
