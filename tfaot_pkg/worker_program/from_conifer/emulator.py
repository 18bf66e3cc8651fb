"""The answers of conifer's C++ for Xilinx's tools: trees with AP types, which g++ compiles."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
from from_conifer.document import Ensemble, ensemble_of, opened
from from_conifer.reading import INPUT, OUTPUT
from messages import elements
from messages.requests import ModelFault, Reference, one_line

if TYPE_CHECKING:
    from framework_types import Array

_PROJECT = "trees"
_CALLED = """
#include "firmware/BDT.h"
#include "firmware/parameters.h"

extern "C" void decide(long rows, const double *x, double *scores) {
    constexpr int made = BDT::fn_classes(n_classes);
    for (long row = 0; row < rows; ++row) {
        input_arr_t given;
        score_t found[made];
        for (int i = 0; i < n_features; ++i) given[i] = (input_t)x[row * n_features + i];
        bdt.decision_function(given, found);
        for (int i = 0; i < made; ++i) scores[row * made + i] = (double)found[i];
    }
}
"""
"""What conifer's bridge.cpp does, without Python: its header and library would be one more condition."""
_loaded: dict[str, Any] = {}
"""The last trees that were requested, as in from_hls4ml.emulator."""


class ConiferModel:
    """The trees in `request.folder`, a file. All their numbers are integers: answers are steps."""

    is_continuous = False
    rejections: tuple[type[Exception], ...] = ()

    def __init__(self, request: Reference) -> None:
        from importlib.metadata import version

        self.version = version("conifer")
        if _loaded.get("file") != request.folder:
            document = opened(request.folder)
            ensemble = ensemble_of(document)
            _loaded.clear()
            _loaded.update(ensemble=ensemble, decide=_compiled(document, ensemble), file=request.folder)
        self._ensemble: Ensemble = _loaded["ensemble"]
        self._decide = _loaded["decide"]
        self._feeds, self._fetches = request.feeds, request.fetches
        self.dtypes = dict.fromkeys(self._feeds, "float32")
        self.operations = ["conifer.BDT"]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        names = {key: name for name, key in self._feeds.items()}
        given = np.ascontiguousarray(feeds[names[INPUT]], np.float64)
        made = np.zeros((len(given), self._ensemble.classes), np.float64)
        pointer = ctypes.POINTER(ctypes.c_double)
        self._decide(ctypes.c_long(len(given)), given.ctypes.data_as(pointer), made.ctypes.data_as(pointer))
        results = {OUTPUT: made.astype(np.float32)}
        return {name: elements.numbers(results[key], "float32") for name, key in self._fetches.items()}


def _compiled(document: dict[str, Any], ensemble: Ensemble) -> Any:
    """The function `decide` of a library. Raises ModelFault."""
    if shutil.which("g++") is None:
        raise ModelFault("conifer's C++, whose answers count, needs g++, which is not on the PATH", "install g++ (GCC)")
    folder = tempfile.mkdtemp(prefix="conifer.")
    try:
        _write(document, ensemble, folder)
    except Exception as error:  # conifer raises what Python does for values that it does not expect
        raise ModelFault(
            f"conifer cannot write its project: {type(error).__name__}: {one_line(error)}",
            "write the file again: model.save(FILE)",
        ) from error
    with open(os.path.join(folder, "called.cpp"), "w", encoding="utf-8") as file:
        file.write(_CALLED)
    library = os.path.join(folder, "trees.so")
    argv = ["g++", "-O1", "-shared", "-fPIC", "-std=c++14", "-I.", f"-I{headers()}"]
    sources = ["called.cpp", "firmware/BDT.cpp"]
    ended = subprocess.run([*argv, *sources, "-o", library], cwd=folder, stdout=sys.stderr, check=False)
    if ended.returncode:
        raise ModelFault(
            f"conifer's C++ cannot be compiled: g++ ended with {ended.returncode}", "the log has its messages"
        )
    return ctypes.CDLL(library).decide


def headers() -> str:
    """The AP types, which hls4ml has and conifer looks for."""
    import hls4ml

    return os.path.join(os.path.dirname(hls4ml.__file__), "templates", "vivado", "ap_types")


def _write(document: dict[str, Any], ensemble: Ensemble, folder: str) -> None:
    """The project, made of what was read alone. That of the backend cpp adds as a project that is not unrolled."""
    from conifer.backends.xilinxhls.writer import XilinxHLSModel

    names = ("n_classes", "n_features", "max_depth", "init_predict", "norm", "splitting_convention", "trees")
    known = {name: document[name] for name in names}
    config = {
        "output_dir": folder, "project_name": _PROJECT, "backend": "xilinxhls", "unroll": ensemble.is_unrolled,
        "xilinx_part": "xcvu9p-flgb2104-2L-e", "clock_period": 5,
        **{f"{name}_precision": text for name, text in ensemble.texts.items()},
    }  # fmt: skip
    library = {"library": "", "n_trees": len(ensemble.trees)}
    # Without metadata, conifer would ask for the user's name, which there is none of in the sandbox.
    model = XilinxHLSModel({**known, **library}, config, metadata={})
    os.makedirs(os.path.join(folder, "firmware"))
    model.write_bdt_h()
    model.write_parameters_h()
