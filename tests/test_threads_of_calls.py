"""Calls that several threads compute together (`load(..., threads=N)`), over a model of the test's whose rows take time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.native.conftest import HERE
from tests.native.test_shared_code import FLAGS, NATIVE
from tfaot_pkg.ground.process import run
from tfaot_pkg.runtime.loader import Model, RunError, load

ROWS = 24
X = np.arange(ROWS, dtype="float32")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counted") / "libtfaot-model-counted.so"
    sources = [
        HERE / "cpp" / "counted.cc",
        *(NATIVE / f"{each}.cc" for each in "library runtime state thread_pool".split()),
    ]
    run(["g++", *FLAGS, "-D_GNU_SOURCE", "-shared", "-fPIC", "-fno-exceptions", *sources, "-o", path])
    return path


def threads_of(model: Model) -> int:
    """How many threads computed rows of a call, whose answers are right."""
    made = model(X)
    assert made["y"].tobytes() == (3 * X + 1).tobytes()
    return len(set(made["thread"].tolist()))


def most_threads(model: Model) -> int:
    """Of a hundred calls, in which others may hold up threads."""
    return max(threads_of(model) for _ in range(100))


def own_threads() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if each.name.startswith("tfaot-"))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_share_a_call(library: Path, threads: int) -> None:
    model = load(library, threads=threads)
    assert model.threads == threads and own_threads() == [], "they start at the first call"
    assert most_threads(model) == threads
    assert own_threads() == [f"tfaot-{i}" for i in range(1, threads)]
    time.sleep(0.05)  # until they sleep
    assert most_threads(model) == threads
    del model
    gc.collect()
    assert own_threads() == [], "they end with the model"


def test_threads_are_started_once(library: Path) -> None:
    model = load(library, threads=3)
    threads_of(model)
    before = [each.ident for each in threading.enumerate()]
    for _ in range(50):
        threads_of(model)
    assert [each.ident for each in threading.enumerate()] == before


@pytest.mark.parametrize("threads", [0, -1, 257, 10**30, True, 1.5, "2", None, np.float64(2)])
def test_another_number_of_threads_is_rejected(library: Path, threads: Any) -> None:
    with pytest.raises(RunError, match="threads must be a whole number from 1 to 256, got"):
        load(library, threads=threads)


def test_scratch_memory_of_the_caller_is_for_all_threads(library: Path) -> None:
    model = load(library, threads=3)
    size = model.scratch_bytes(ROWS)
    assert size > load(library).scratch_bytes(ROWS)
    made = model.run(ROWS, {"x": X}, np.zeros(size, np.uint8))
    assert np.array_equal(made["y"], 3 * X + 1)
    with pytest.raises(RunError, match="scratch memory for 24 rows has"):
        model.run(ROWS, {"x": X}, np.zeros(size - 1, np.uint8))


def test_several_threads_call_at_the_same_time(library: Path) -> None:
    model = load(library, threads=2)
    with ThreadPoolExecutor(6) as callers:
        found = [*callers.map(lambda _: threads_of(model), range(200))]
    assert set(found) <= {1, 2} and 2 in found


def test_the_interpreter_runs_while_threads_compute(library: Path) -> None:
    model = load(library, threads=2)
    turns = 0
    with ThreadPoolExecutor(1) as callers:
        call = callers.submit(lambda: model(np.zeros(2000, "float32")))
        while not call.done():
            turns += 1
            time.sleep(0.001)
    assert turns > 20, "a call of 0.2 seconds"


def in_child(work: Callable[[], bool]) -> None:
    """`work` returns True in the child of a fork, which ends."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if work() else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_child_of_a_fork_has_threads_of_its_own(library: Path) -> None:
    model, other = load(library, threads=3), load(library, threads=2)
    in_child(lambda: most_threads(model) == 3)  # before threads run in the parent
    assert most_threads(model) == 3
    in_child(lambda: own_threads() == [] and most_threads(model) == 3 and most_threads(other) == 2)
    with ThreadPoolExecutor(2) as callers:  # a fork during calls
        calls = [callers.submit(threads_of, model) for _ in range(400)]
        for _ in range(5):
            in_child(lambda: most_threads(model) == 3)
        assert all(call.result() <= 3 for call in calls)
    assert most_threads(model) == 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_get_a_model_with_its_threads(library: Path, method: str) -> None:
    model = load(library, threads=2)
    assert most_threads(model) == 2
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(most_threads, [model] * 4) == [2] * 4
    assert pickle.loads(pickle.dumps(model)).threads == 2


@pytest.mark.parametrize(
    "end",
    [
        "",
        "raise SystemExit(0)",
        "import time; time.sleep(0.1)",
        "threading.Thread(target=lambda: [model(x) for _ in range(9)]).start()",
        "threading.Thread(target=lambda: [model(x) for _ in range(10000)], daemon=True).start()",
        "os.fork(); model(x)",
        "os.fork(); raise SystemExit(0)",
    ],
)
def test_the_interpreter_ends_while_threads_wait(library: Path, end: str) -> None:
    program = (
        "import os, sys, threading, numpy, tfaot_pkg\n"
        "x = numpy.ones(20, 'float32')\n"
        "model = tfaot_pkg.load(sys.argv[1], threads=3)\n"
        f"model(x)\n{end}\n"
    )
    argv = [sys.executable, "-W", "ignore", "-c", program, str(library)]
    finished = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_a_library_without_threads_computes_on_the_calling_thread(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfaot_pkg.runtime import model as module
    from tfaot_pkg.runtime.c_interface import CModel, table_of

    def former(path: Path) -> Any:
        table = CModel.from_buffer_copy(table_of(path))
        table.struct_size = CModel.team_scratch_bytes.offset
        return table

    monkeypatch.setattr(module, "table_of", former)
    model = load(library, threads=2)
    assert model.threads == 1 and most_threads(model) == 1
