"""Models of single operations and layers (tests/models/operations.py): interpreter and code give TensorFlow's answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import WORKER_PROGRAM, Network, compiled_together, read_network
from tests.coverage import Cell, Row, record
from tests.kept import REPOSITORY, kept
from tests.toolchains import VERSIONS
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.reroll import rolled
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.keys import files_below, sha256_file, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

MODELS = REPOSITORY / "tests" / "models"
MADE_TOGETHER = (
    ("types",),
    ("floats", "orders", "places", "pools"),
    ("activations", "attention", "convolutions", "normalizations", "numbers", "products"),
    ("control", "cumulative", "recurrent", "reductions", "sizes"),
)
"""Families whose models one process makes: TensorFlow takes seconds to import. `make test` needs the first part."""
FAMILIES = sorted(family for families in MADE_TOGETHER for family in families)

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]  # the first makes the models


def models_of(home: Path, version: str, family: str) -> dict[str, Network]:
    folders = Folders(cache=home / "cache", data=home / "data")
    python = ensure(version, folders=folders, progress=Silent()).python
    worker = sha256_tree(WORKER_PROGRAM, [path for path in files_below(WORKER_PROGRAM) if path.suffix == ".py"])
    makers = [sha256_file(MODELS / name) for name in ("answered.py", "operations.py")]
    (together,) = (families for families in MADE_TOGETHER if family in families)
    parts = {"makers": makers, "python": str(python), "worker": worker, "families": together}
    command: list[str | Path] = [python, "-I", MODELS / "operations.py"]
    folder = kept(home, "operations", parts, lambda made: run([*command, made, WORKER_PROGRAM, *together], timeout=900))
    found = {path.name: read_network(path) for path in sorted((folder / family).iterdir())}
    assert len(found) > 1
    return found


@pytest.mark.coverage
@pytest.mark.sweep(
    "types-2.17.1",
    night=[*(f"{family}-2.21.0" for family in MADE_TOGETHER[1]), *(f"{family}-2.17.1" for family in MADE_TOGETHER[3])],
)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_operations_give_tensorflows_answers(
    shared_home_folder: Path, kernels: Path, family: str, version: str
) -> None:
    models = models_of(shared_home_folder, version, family)
    programs, seconds = {}, {}
    for name, model in models.items():
        start = time.perf_counter()
        programs[name] = recognize(rolled(simplify(model.program)))
        seconds[name] = time.perf_counter() - start
    codes = compiled_together(programs, kernels, block=3)
    faults = []
    for name, model in models.items():
        start = time.perf_counter()
        verify(programs[name])
        rows = len(model.inputs[0])
        try:
            _same(interpret.run(model.program, rows, model.inputs), model.outputs, f"interpreter: {name}")
            _same(codes[name](*model.inputs), model.outputs, f"code: {name}")
        except AssertionError as error:
            faults.append(str(error))
            continue
        cell = Cell(outcome="verified", seconds=round(seconds[name] + time.perf_counter() - start, 2))
        record(Row(construct=f"{family}: {name}", version=version, engine="program", cell=cell))
    assert not faults, "\n".join(faults)


def _same(given: Sequence[Array], wanted: Sequence[Array], name: str) -> None:
    for one, other in zip(given, wanted, strict=True):
        assert one.dtype == other.dtype, name
        if one.dtype.kind != "f":
            np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            np.testing.assert_allclose(one, other, rtol=5e-5, atol=5e-6, err_msg=name)
