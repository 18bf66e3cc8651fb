"""Write a network of an FPGA for benchmarks/fpga.py, with the answers of its author's emulator, which stays there.

    FRONTEND/bin/python fpga_emulators.py WORKER_PROGRAM MAKERS KIND FOLDER NAME ROWS

MAKERS is the script with the network NAME (tests/hls4ml_lowering/hls4ml_networks.py and its like), and KIND hls4ml,
conifer or qonnx. FOLDER/NAME gets what the script writes: the file, and rows.npz. Printed is a JSON object: the library
of the emulator in C++ and its function of one row, if there is one, and nanoseconds per row as Python calls it.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ONE_ROW = """
#include "firmware/BDT.h"
#include "firmware/parameters.h"

extern "C" void one_row(float *x, float *scores) {
    input_arr_t given;
    score_t found[BDT::fn_classes(n_classes)];
    for (int i = 0; i < n_features; ++i) given[i] = (input_t)x[i];
    bdt.decision_function(given, found);
    for (int i = 0; i < BDT::fn_classes(n_classes); ++i) scores[i] = (float)found[i];
}
"""
"""As conifer's bridge calls its trees, for one row."""
CALLS, AT_ONCE = 5, 1000


def _module(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("makers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _hls4ml(makers: Any, name: str, place: str, rows: int) -> dict[str, object]:
    from from_hls4ml import emulator  # type: ignore[import-not-found]

    if name in makers.MAKERS:
        makers.write(makers.MAKERS[name](), name, place, rows)
    else:
        file = os.path.join(place, f"{name}.fml")
        with open(os.path.join(makers.ARTIFACTS, f"{name}.fml"), "rb") as source, open(file, "wb") as copy:
            copy.write(source.read())
        makers.answer(file, place, rows)
    model = emulator.loaded["model"]
    x = np.load(os.path.join(place, "rows.npz"))["in/x"][:AT_ONCE]
    return {
        "library": model._top_function_lib._name,  # noqa: SLF001
        "symbol": f"{model.config.get_project_name()}_float",
        "python": _nanoseconds(lambda: model.predict(x), len(x)),
    }


def _conifer(makers: Any, name: str, place: str, rows: int) -> dict[str, object]:
    from from_conifer import emulator  # type: ignore[import-not-found]

    makers.write(name, place, rows)
    (folder,) = glob.glob(os.path.join(place, "conifer.*"))
    with open(os.path.join(folder, "one_row.cpp"), "w", encoding="utf-8") as file:
        file.write(ONE_ROW)
    flags = ["-O3", "-shared", "-fPIC", "-std=c++14", "-I.", f"-I{emulator.headers()}"]
    library = os.path.join(folder, "one_row.so")
    subprocess.run(["g++", *flags, "one_row.cpp", "firmware/BDT.cpp", "-o", library], cwd=folder, check=True)
    return {"library": library, "symbol": "one_row", "python": None}


def _qonnx(makers: Any, name: str, place: str, rows: int) -> dict[str, object]:
    import onnx
    from from_onnx import executed  # type: ignore[import-not-found]

    file = os.path.join(place, f"{name}.onnx")
    if name in makers.MAKERS:
        onnx.save(makers.MAKERS[name](), file)
    else:
        artifacts = os.path.join(os.path.dirname(makers.__file__), "artifacts")
        onnx.save(onnx.load(os.path.join(artifacts, f"{name}.onnx")), file)
    makers.write(file, place, rows)
    model = executed.loaded["model"]
    given = {model.graph.input[0].name: np.load(os.path.join(place, "rows.npz"))["in/x"][:AT_ONCE]}
    wanted = [each.name for each in model.graph.output]
    return {"library": "", "symbol": "", "python": _nanoseconds(lambda: executed.answers_of(wanted, given), AT_ONCE)}


def _nanoseconds(call: Callable[[], object], rows: int) -> float:
    call()
    found = []
    for _ in range(CALLS):
        start = time.perf_counter_ns()
        call()
        found.append((time.perf_counter_ns() - start) / rows)
    return min(found)


def main() -> None:
    program, makers, kind, folder, name, rows = sys.argv[1:]
    sys.path.insert(0, program)
    place = os.path.join(folder, name)
    os.makedirs(place)
    # The emulator reads its weights from the folder of its project when it is called first.
    tempfile.tempdir = place
    found = {"hls4ml": _hls4ml, "conifer": _conifer, "qonnx": _qonnx}[kind](_module(makers), name, place, int(rows))
    with open(os.path.join(place, "emulator.json"), "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
