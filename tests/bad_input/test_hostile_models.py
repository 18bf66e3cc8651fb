"""SavedModels that try to reach outside: refused before anything of them runs, and confined where something does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.toolchain.environment import external
from tfaot_pkg.toolchain.worker import Worker, WorkerLimits, worker

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

HOSTILE = {
    "hostile_signature": "WriteFile",
    "hostile_initializer": "WriteFile",
    "hostile_restore": "WriteFile (node evil)",
    "hostile_saver": "SaveV2",
    "hostile_saver_function": "SaveV2",
    "hostile_python": "PyFunc",
}
WRITING = ("hostile_signature", "hostile_initializer", "hostile_restore", "hostile_saver", "hostile_saver_function")


@pytest.fixture
def canaries(models: Mapping[str, Path]) -> Iterator[Path]:
    """The folder that hostile models write into; empty before and after."""
    folder = models["dense"].parent / "canaries"
    _empty(folder)
    yield folder
    _empty(folder)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_is_refused_by_name_of_what_it_would_do(
    *,
    tfaot: CommandLine,
    tmp_path: Path,
    models: Mapping[str, Path],
    spec_of: Callable[..., Path],
    name: str,
    canaries: Path,
) -> None:
    spec = spec_of(models[name])
    tfaot.fails(
        "publish", spec, "--registry", tmp_path / "registry", code=12, says=["read or write files", HOSTILE[name]]
    )
    assert list(canaries.iterdir()) == []


# Without user namespaces nobody is confined: hardened kernels, containers.
NO_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces"


@pytest.mark.parametrize("name", ["hostile_initializer", "hostile_restore"])
def test_it_is_refused_where_the_machine_cannot_confine_it(
    tfaot: CommandLine, models: Mapping[str, Path], in_namespace: Callable[[str], list[str]], name: str, canaries: Path
) -> None:
    unconfined = tfaot.with_(wrapper=in_namespace(NO_NAMESPACES))
    assert (
        subprocess.run([*unconfined.wrapper, "unshare", "-r", "true"], capture_output=True, check=False).returncode != 0
    )
    unconfined.fails("check", models[name], code=12, says=["read or write files", HOSTILE[name]])
    assert list(canaries.iterdir()) == []


def run_hostile_ones(process: Worker, models: Mapping[str, Path], folder: Path) -> None:
    """Make `process` load and run all of them, as nothing in the tool does before it has looked at a model."""
    np.savez(folder / "in.npz", x=np.zeros((1, 4), np.float32))
    for name in WRITING:
        arguments = {
            "folder": str(models[name]),
            "tags": ["serve"],
            "signature": "serving_default",
            "inputs": str(folder / "in.npz"),
            "out": str(folder / "out.npz"),
            "batch_sizes": [1],
            "batched": ["x"],
            "stacked": ["y"],
        }
        try:
            process.call("reference", arguments)
        except TfaotError:
            continue  # what it tried failed, as it should where it is confined


@pytest.mark.parametrize("confine", [True, False])
def test_confinement_keeps_even_a_running_one_from_writing(
    *, toolchain_python: Path, models: Mapping[str, Path], tmp_path: Path, confine: bool, canaries: Path
) -> None:
    writable = tmp_path / "writable"
    writable.mkdir()
    limits = WorkerLimits(confine=confine)
    log = tmp_path / "worker.log"
    with worker(external(toolchain_python), log=log, writable=[writable], limits=limits) as process:
        if confine and process.confined != "yes":
            pytest.skip(f"this machine cannot confine: {process.confined}")
        run_hostile_ones(process, models, writable)
    written = {path.name.partition(".")[0] for path in canaries.iterdir()}
    assert written == (set() if confine else set(WRITING)), "unconfined, they show that they are hostile"
