"""What a call from Python costs over the same call in C: one row of float32, beside ONNX Runtime.

    .venv/bin/python benchmarks/python_call.py [--rounds 201] [--calls 500] [--json FILE]

Two networks: dense layers on 16 features, and the tagger of examples/from-onnx with its two inputs. The contenders take
turns: in each round every one of them makes `calls` calls, in an order that changes. A figure is the median of rounds,
nanoseconds of a call. "C" is the package's own entry, `compute`, in a loop of C that this program compiles; "over C" is
the median of differences within a round, which slow and fast minutes of the machine do not move. Times are those of the
thread on its CPU: what else runs there does not count. Each contender computes on the thread that calls. The program
runs itself in the environment that reads ONNX, which has ONNX Runtime.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import site
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TAGGER = ROOT / "examples" / "from-onnx" / "tagger.onnx"
_LOOP = """
#include <stddef.h>
#include <stdint.h>
#include <time.h>
typedef int32_t (*Compute)(const void*, int64_t, const void* const*, void* const*, void*, size_t, char*, size_t);
double loop(Compute compute, const void* code, const void* const* in, void* const* out, long calls) {
  char message[256];
  struct timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (long i = 0; i < calls; ++i)
    if (compute(code, 1, in, out, NULL, 0, message, sizeof message)) return -1;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / calls;
}
"""
Contender = Callable[[int], float]
"""Makes so many calls; the nanoseconds of one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.here:
        sys.exit(_in_the_environment(sys.argv[1:]))
    found = measured(given.rounds, given.calls)
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


def _in_the_environment(arguments: Sequence[str]) -> int:
    from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
    from tfaot_pkg.ground.progress import Silent
    from tfaot_pkg.ground.settings import Folders

    made = FrontendEnvironments(folders=Folders.of_user(), progress=Silent()).ensure(FRONTENDS["onnx"])
    packages = next(each for each in site.getsitepackages() if each.startswith(sys.prefix))
    # Behind those of the environment: what it has comes first.
    begin = "import runpy, site, sys; packages, program, *words = sys.argv[1:]; site.addsitedir(packages); "
    begin += "sys.argv = [program, *words]; runpy.run_path(program, run_name='__main__')"
    argv = [str(made.python), "-c", begin, packages, __file__, *arguments, "--here"]
    return subprocess.run(argv, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


def measured(rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """By network and contender: nanoseconds of a call, and of those of Python those over C."""
    with tempfile.TemporaryDirectory() as folder:
        _write_dense(Path(folder) / "dense.onnx")
        loop = _compiled(Path(folder))
        return {
            path.stem: _turns(_contenders(path, loop), rounds, calls) for path in (Path(folder) / "dense.onnx", TAGGER)
        }


def _write_dense(path: Path) -> None:
    """Layers of 16, 32, 32 and 1: what a selection of events evaluates for each."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    draw, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for number, (rows, columns) in enumerate([(16, 32), (32, 32), (32, 1)]):
        for name, size in (("w", (rows, columns)), ("b", (columns,))):
            values = (draw.normal(size=size) / rows**0.5).astype("float32")
            weights.append(numpy_helper.from_array(values, f"{name}{number}"))
        nodes.append(helper.make_node("Gemm", [last, f"w{number}", f"b{number}"], [f"g{number}"]))
        last = "y" if number == 2 else f"a{number}"
        nodes.append(helper.make_node("Sigmoid" if number == 2 else "Relu", [f"g{number}"], [last]))
    ends = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", k]) for n, k in (("x", 16), ("y", 1)))
    graph = helper.make_graph(nodes, "dense", [next(ends)], [next(ends)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _compiled(folder: Path) -> Any:
    source, library = folder / "loop.c", folder / "loop.so"
    source.write_text(_LOOP)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    loop = ctypes.CDLL(str(library)).loop
    loop.restype = ctypes.c_double
    return loop


def _contenders(path: Path, loop: Any) -> dict[str, Contender]:
    import numpy as np
    import onnxruntime

    import tfaot_pkg

    model = tfaot_pkg.compile(path, quiet=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(1)
    inputs = {each.name: draw.normal(size=(1, *each.row_shape)).astype("float32") for each in model.signature.inputs}
    answers = model(**inputs)
    (theirs,) = session.run(None, inputs)
    (ours,) = answers.values()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    (output,), arrays = answers, tuple(inputs.values())
    out = np.empty_like(ours)
    caller: Any = model._caller  # noqa: SLF001 (what a call is made of is measured here)
    compute, code = (ctypes.c_void_p(each) for each in caller.address())
    # As a program writes it: a dict of arguments would be made into names at each call.
    named = eval(f"lambda: model({', '.join(f'{name}={name}' for name in inputs)})", {"model": model, **inputs})
    pointers = (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))
    results = (ctypes.c_void_p * 1)(out.ctypes.data)
    return {
        "C": lambda calls: float(loop(compute, code, pointers, results, ctypes.c_long(calls))),
        "model(x)": _of_python(lambda: model(*arrays)),
        "model(name=x)": _of_python(named),
        "model(x, out=array)": _of_python(lambda: model(*arrays, out=out)),
        "ONNX Runtime": _of_python(lambda: session.run([output], inputs)),
    }


def _of_python(call: Callable[[], object]) -> Contender:
    def run(calls: int) -> float:
        begin = time.thread_time_ns()
        for _ in range(calls):
            call()
        return (time.thread_time_ns() - begin) / calls

    return run


def _turns(contenders: Mapping[str, Contender], rounds: int, calls: int) -> dict[str, float]:
    empty, order, draw = _of_python(lambda: None), list(contenders), random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for contender in contenders.values():
        contender(calls)
    for _ in range(rounds):
        draw.shuffle(order)
        # The loop of Python and its function are no part of a call.
        around = empty(calls)
        for name in order:
            times[name].append(contenders[name](calls) - (0 if name == "C" else around))
    found = {name: statistics.median(each) for name, each in times.items()}
    over = {
        f"{name}, over C": statistics.median(one - c for one, c in zip(each, times["C"], strict=True))
        for name, each in times.items()
        if name != "C"
    }
    return {**found, **over}


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """In Markdown, in microseconds."""
    names = [name for name in next(iter(found.values())) if not name.endswith(", over C")]
    lines = ["| one row, us a call | " + " | ".join(f"{each} | over C" for each in found) + " |"]
    lines.append("| --- |" + " --- | --- |" * len(found))
    for name in names:
        cells = [f"{each[name] / 1e3:.2f} | {each.get(f'{name}, over C', 0) / 1e3:.2f}" for each in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |".replace("| 0.00 |", "| |"))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
