"""References of operations, which a model's author wrote, run apart: they reach no other process and none of its files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.wording import reported
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.toolchain import references
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, toolchain
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment
from tfaot_pkg.frontends.toolchain.references import References
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.worker_program.messages.elements import write_arrays
from tfaot_pkg.worker_program.messages.requests import Ask, Told

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    """No toolchain, but this Python: it has NumPy, and references have nothing else."""
    python = Path(sys.executable)
    environment = ToolchainEnvironment(
        toolchain=toolchain(DEFAULT_VERSION), python=python, identity=Key("0" * 64), site_packages=python.parent
    )
    with WorkerPool(environment, scratch_root=tmp_path / "scratch", logs=tmp_path / "logs") as made:
        yield made


def _made(pool: WorkerPool, folder: Path, text: str) -> References:
    path = folder / "work.py"
    path.write_text(text)
    return References(pool, {"work": path})


def test_its_results_are_those_of_the_function(pool: WorkerPool, tmp_path: Path) -> None:
    made = _made(pool, tmp_path, "def work(x, slope):\n    return slope * x, x.sum(axis=1)\n")
    for slope in (2.0, 3.0):
        whole, sums = made.run("work", [ROWS], {"slope": (slope,)})
        assert np.array_equal(whole, slope * ROWS) and np.array_equal(sums, [1, 5, 9])


def test_the_users_limit_is_the_one_that_is_named(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFAOT_WORKER_TIMEOUT", "5")
    made = _made(pool, tmp_path, "def work(x):\n    while True:\n        pass\n")
    with pytest.raises(ModelError, match="did not end within 5 s"):
        made.run("work", [ROWS], {})


REACHES = """
import glob, os
def work(x):
    reached = []
    home = os.path.dirname(os.path.dirname(os.environ["TMPDIR"]))
    for place in (home, *glob.glob(home + "/**", recursive=True), "/tmp", {outside!r}):
        if place.startswith(os.environ["TMPDIR"]):
            continue
        try:
            with open(place + "/forged", "w"):
                reached.append("wrote " + place)
        except OSError:
            pass
        try:
            with open(place + "/secret") as file:
                reached.append("read " + place)
        except OSError:
            pass
    if reached:
        raise ValueError(", ".join(reached))
    return x
"""


def test_it_reaches_no_file_of_other_workers(pool: WorkerPool, tmp_path: Path) -> None:
    """Neither what is given to them, nor what they make, nor other files."""
    folders = [pool.given_folder("weights"), pool.new_folder("frozen"), tmp_path]
    for folder in folders:
        (folder / "secret").write_text("x")
    made = _made(pool, tmp_path, REACHES.format(outside=str(tmp_path)))
    assert np.array_equal(made.run("work", [ROWS], {})[0], ROWS)
    assert not list((tmp_path / "scratch").rglob("forged"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def work(x):\n    while True:\n        pass\n", id="no-end"),
        pytest.param("import os\ndef work(x):\n    os._exit(3)\n", id="exit"),
        pytest.param("import os\ndef work(x):\n    os.execv('/bin/sh', ['sh'])\n", id="program"),
        pytest.param("import socket\ndef work(x):\n    socket.create_connection(('127.0.0.1', 1))\n", id="connection"),
        pytest.param("def work(x):\n    return [bytes(1 << 40)]\n", id="memory"),
        pytest.param(
            "import sys\nimport run_operation\nrun_operation.write_arrays = lambda *_: None\ndef work(x):\n    return x\n",
            id="no-results",
        ),
        pytest.param(
            "import run_operation\nrun_operation.write_arrays = lambda path, _: open(path, 'w').write('x')\n"
            "def work(x):\n    return x\n",
            id="other-results",
        ),
        pytest.param(
            "import os\ndef work(x):\n    os.write(3, b'{}\\n' * 9)\n    os.write(5, b'{}\\n' * 9)\n    return x.tolist\n",
            id="noise",
        ),
    ],
)
def test_what_it_does_instead_is_a_fault_of_it(
    text: str, pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "SECONDS", 5.0)
    made = _made(pool, tmp_path, text)
    with reported(ModelError, varies=r"(?s)(?<=: ).*worker.*|\(exit.*"):
        made.run("work", [ROWS], {}, references.SECONDS)
    # The next one has a process of its own.
    (tmp_path / "work.py").write_text("def work(x):\n    return x\n")
    assert np.array_equal(References(pool, {"work": tmp_path / "work.py"}).run("work", [ROWS], {})[0], ROWS)


def test_a_worker_gets_arrays_or_the_fault(pool: WorkerPool, tmp_path: Path) -> None:
    made = _made(
        pool, tmp_path, "def work(x):\n    if x[0, 0] > 0:\n        raise ValueError('no')\n    return 2 * x\n"
    )
    asked = Ask(operation="work", inputs="asked.npz", attributes={})
    write_arrays(tmp_path / "asked.npz", {"0": ROWS})
    told = made._told(asked, tmp_path / "asked.npz", 60)
    with np.load(told.out) as file:
        assert np.array_equal(file["0"], 2 * ROWS)
    write_arrays(tmp_path / "asked.npz", {"0": ROWS + 1})
    told = made._told(asked, tmp_path / "asked.npz", 60)
    assert told == Told(out="", fault=told.fault) and told.fault is not None and "no" in told.fault.message
    for wrong in (Ask(operation="other", inputs="asked.npz", attributes={}), asked):
        (tmp_path / "asked.npz").write_text("no arrays")
        with pytest.raises(ValueError, match=r"operation|arrays"):
            made._told(wrong, tmp_path / "asked.npz", 60)
