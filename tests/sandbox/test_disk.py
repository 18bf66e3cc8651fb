"""Programs that fill the disk, at both levels of confinement: they are stopped, and what they left can be removed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deep import deepen
from tests.sandbox.conftest import Place, running_below
from tests.wording import reported
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, toolchain
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment
from tfaot_pkg.frontends.toolchain.worker import WorkerPool, worker
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.process import MOST_OUTPUT, CommandFailed
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.ground.sandbox import command as disk_module
from tfaot_pkg.ground.sandbox.command import Most, Watch
from tfaot_pkg.ground.walk import MOST_LEVELS, entries_below, remove_tree

pytestmark = pytest.mark.slow

Confined = Callable[..., subprocess.CompletedProcess[str]]
MIB = 1 << 20
LIMIT = 32 * MIB

# Each goes on for as long as it is let; what it holds is never more than some limits, so that a failure harms nobody.
ENDLESS = {
    "many files": "for n in range(64):\n    open(f'{n}', 'wb').write(piece)\n",
    "names without content": "for n in range(20_000):\n    open(f'{n}', 'wb').close()\n",
    "files in folders": "for n in range(64):\n    os.mkdir(f'{n}')\n    open(f'{n}/f', 'wb').write(piece)\n",
    "a file without a name": "files = []\nfor n in range(64):\n    files.append(open('f', 'w+b'))\n    os.remove('f')\n"
    "    files[-1].write(piece)\n    files[-1].flush()\n",
    "a map of a file without a name": "import mmap\nmaps = []\nfor n in range(64):\n    with open('f', 'w+b') as file:\n"
    "        file.write(piece)\n        file.flush()\n        maps.append(mmap.mmap(file.fileno(), 0))\n"
    "    os.remove('f')\n",
}
_PROGRAM = "import os, threading\npiece = bytes(1 << 20)\n{}threading.Event().wait()\n"


@pytest.mark.sweep("namespaces-*", "landlock-*file*")
@pytest.mark.parametrize("way", ENDLESS)
def test_what_fills_the_disk_is_stopped(confined: Confined, place: Place, tmp_path: Path, way: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(ENDLESS[way]))
    ended = confined("python", program, disk=LIMIT)
    assert "CommandFailed: wrote more than 0.03125 GiB (TFAOT_WORKER_DISK)" in ended.stdout, ended.stdout + ended.stderr
    assert running_below(place.scratch) == []


def test_a_single_file_is_stopped_by_the_kernel(confined: Confined, place: Place, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "with open('f', 'wb', buffering=0) as file:\n    while file.write(bytes(1 << 20)):\n        pass\n"
    )
    ended = confined("python", program, disk=LIMIT)
    assert ended.returncode == 1
    assert (place.scratch / "f").stat().st_size == LIMIT


def test_what_was_written_too_fast_for_a_look_is_refused_at_the_end(
    confined: Confined, place: Place, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text("for n in range(3):\n    open(f'{n}', 'wb').write(bytes(1 << 20))\n")
    assert "wrote more than" in confined("python", program, disk=2 * MIB).stdout
    assert confined("python", program, disk=4 * MIB).returncode == 0


def test_there_is_no_place_to_write_that_the_limit_does_not_count(confined: Confined, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os\n"
        "def file(path): open(path, 'wb').write(b'x')\n"
        "for attempt in (lambda: os.memfd_create('x'), lambda: file('/tmp/x'), lambda: file('/dev/shm/x'),\n"
        "                lambda: file('/x'), lambda: file('/run/x'), lambda: file('/var/tmp/x')):\n"
        "    try:\n        attempt()\n        print('written')\n    except OSError:\n        print('refused')\n"
    )
    assert confined("python", program).stdout.split() == ["refused"] * 6


def test_output_without_end_is_stopped(confined: Confined, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os\nwhile True:\n    os.write(1, b'x' * (1 << 16))\n")
    ended = confined("python", program)
    assert f"it printed more than {MOST_OUTPUT >> 20} MiB" in ended.stdout
    assert len(ended.stdout) < 1 << 16


@pytest.fixture
def environment() -> ToolchainEnvironment:
    """No toolchain, but a Python that runs: the programs of these tests stand for workers."""
    python = Path(sys.executable)
    return ToolchainEnvironment(
        toolchain=toolchain(DEFAULT_VERSION), python=python, identity=Key("0" * 64), site_packages=python.parent
    )


def test_a_worker_that_fills_its_scratch_is_stopped_with_a_clear_error(
    environment: ToolchainEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(ENDLESS["many files"]))
    monkeypatch.setattr("tfaot_pkg.frontends.toolchain.worker._PROGRAM", program)
    (tmp_path / "scratch").mkdir()
    with (
        reported(ToolchainError),
        worker(environment, log=tmp_path / "log", writable=[tmp_path / "scratch"], limits=Limits(disk=LIMIT)),
    ):
        pass


def test_a_worker_that_fills_its_log_is_stopped_and_the_log_is_cut(
    environment: ToolchainEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os\nwhile True:\n    os.write(2, b'x' * (1 << 12))\n")
    monkeypatch.setattr("tfaot_pkg.frontends.toolchain.worker._PROGRAM", program)
    monkeypatch.setattr(disk_module, "MOST_OF_LOG", MIB)
    with reported(ToolchainError), worker(environment, log=tmp_path / "log"):
        pass
    assert (tmp_path / "log").stat().st_size == MIB


def test_folders_without_end_are_refused_and_can_be_removed(confined: Confined, place: Place, tmp_path: Path) -> None:
    """Names of one letter: 3,000 levels are longer than a path can be, and deeper than Python's recursion."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os\nfor n in range(3000):\n    os.mkdir('d', 0o700)\n    os.chdir('d')\nos.mkdir('e', 0)\n"
    )
    ended = confined("python", program)
    assert f"folders are nested deeper than {MOST_LEVELS} levels" in ended.stdout
    with pytest.raises(OSError, match="nested deeper"):
        list(entries_below(place.scratch))
    remove_tree(place.scratch)
    assert not place.scratch.exists()
    place.scratch.mkdir()


def test_what_workers_made_is_taken_only_if_it_is_flat(environment: ToolchainEnvironment, tmp_path: Path) -> None:
    with WorkerPool(environment, scratch_root=tmp_path / "root", logs=tmp_path / "logs") as pool:
        made = pool.new_folder("made")
        (made / "a" / "b").mkdir(parents=True)
        (made / "a" / "b" / "file").write_text("x")
        pool.take(made, tmp_path)
        assert (tmp_path / "a" / "b" / "file").read_text() == "x"
        deepen(made, 1500)
        with pytest.raises(Exception, match="nested deeper") as error:
            pool.take(made, tmp_path)
        assert type(error.value).__name__ == "StorageError"
        with pytest.raises(Exception, match="nested deeper"):
            pool.give(made)
    assert list((tmp_path / "root").iterdir()) == []


def test_limits_of_the_user_have_one_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFAOT_WORKER_DISK", raising=False)
    assert Limits.of_user().disk == 16 << 30
    monkeypatch.setenv("TFAOT_WORKER_DISK", "0.5")
    assert Limits.of_user().disk == 1 << 29
    monkeypatch.setenv("TFAOT_WORKER_DISK", "much")
    with reported(ToolchainError):
        Limits.of_user()


def test_a_program_within_its_limit_ends_well(place: Place) -> None:
    program = place.scratch / "program.py"
    # It prints first, and has written nothing then: on a busy machine it is stopped before it ends.
    program.write_text("print('done', flush=True)\nopen('f', 'wb').write(bytes(1 << 20))\n")
    box = Sandbox(writable=(place.scratch,), limits=Limits(disk=2 * MIB))
    assert box.python(Path(sys.executable), program).run().stdout == "done\n"
    (place.scratch / "f").unlink()
    with reported(CommandFailed):
        Sandbox(writable=(place.scratch,), limits=Limits(disk=MIB)).python(Path(sys.executable), program).run()


def test_files_that_vanish_meanwhile_are_no_fault(tmp_path: Path) -> None:
    watch = Watch((tmp_path / "gone",), Most(disk=MIB))
    watch.end()
    assert watch.fault == ""
