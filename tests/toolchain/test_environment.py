"""Environments are made once, whole or not at all, from exactly the pinned files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import NetworkError, ToolchainError, TrustError
from tfaot_pkg.frontends.toolchain.environment import (
    ToolchainEnvironment,
    ensure_from,
    external,
    identity_of,
    remove,
)
from tfaot_pkg.frontends.toolchain.pinned import exclusive
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

from .conftest import Tiny, write_lock, write_wheel

pytestmark = pytest.mark.slow

_MAKER = """
import sys
from pathlib import Path
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.frontends.toolchain.definition import toolchain
from tfaot_pkg.frontends.toolchain.environment import ensure_from

class Telling(Silent):
    def step(self, name, **more):
        print("making", flush=True)
        return super().step(name, **more)

version, requirements, home, wheelhouse = sys.argv[1:]
folders = Folders(cache=Path(home) / "cache", data=Path(home) / "data")
made = ensure_from(toolchain(version), Path(requirements), folders=folders, progress=Telling(), wheelhouse=Path(wheelhouse))
print(made.python)
"""


def _folders(home: Path) -> Folders:
    return Folders(cache=home / "cache", data=home / "data")


def _start(tiny: Tiny, home: Path) -> subprocess.Popen[str]:
    """Another process that makes the tiny toolchain below `home`."""
    arguments = [tiny.toolchain.version, str(tiny.requirements), str(home), str(tiny.wheelhouse)]
    return subprocess.Popen([sys.executable, "-c", _MAKER, *arguments], stdout=subprocess.PIPE, text=True)


def _make(tiny: Tiny, home: Path) -> ToolchainEnvironment:
    return ensure_from(
        tiny.toolchain, tiny.requirements, folders=_folders(home), progress=Silent(), wheelhouse=tiny.wheelhouse
    )


def _environments(home: Path) -> list[Path]:
    return [path for path in (home / "cache" / "toolchains").glob("tensorflow-*") if path.is_dir()]


def _wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _has_tensorflow(made: ToolchainEnvironment) -> bool:
    found = "import importlib.util as u; print(u.find_spec('tensorflow').origin)"
    return run([made.python, "-I", "-c", found]).stdout.strip() == str(made.tensorflow_folder / "__init__.py")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a blank in its path."""
    return tmp_path_factory.mktemp("a home")


@pytest.fixture(scope="module")
def made(tiny: Tiny, home: Path) -> ToolchainEnvironment:
    """An environment that tests only look at."""
    return _make(tiny, home)


def test_it_is_made_from_the_wheelhouse_with_what_packages_need(made: ToolchainEnvironment) -> None:
    assert _has_tensorflow(made)
    assert [path.name for path in made.notices] == ["THIRD_PARTY_NOTICES.txt", "LICENSE"]
    assert (made.include / "LICENSE").is_file()


def test_its_folder_names_version_python_and_identity(tiny: Tiny, home: Path, made: ToolchainEnvironment) -> None:
    identity = identity_of(tiny.toolchain, tiny.requirements)
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert made.identity == identity
    assert made.python.parent.parent.name == f"tensorflow-2.17.1-py{minor}-{identity[:12]}"


def test_one_that_is_there_is_used_without_installing_anything(
    tiny: Tiny, home: Path, made: ToolchainEnvironment, tmp_path: Path
) -> None:
    nothing = replace(tiny, wheelhouse=tmp_path / "missing")
    before = {path: path.stat().st_mtime_ns for path in made.python.parent.parent.rglob("*")}
    assert _make(nothing, home) == made
    assert {path: path.stat().st_mtime_ns for path in made.python.parent.parent.rglob("*")} == before


def test_other_requirements_make_another_environment(tiny: Tiny, tmp_path: Path, made: ToolchainEnvironment) -> None:
    other = tmp_path / "lock.txt"
    other.write_text(tiny.requirements.read_text() + "# changed\n")
    assert identity_of(tiny.toolchain, other) != made.identity


@pytest.mark.nightly
def test_two_builds_at_once_make_it_once(tiny: Tiny, tmp_path: Path) -> None:
    makers = [_start(tiny, tmp_path) for _ in range(2)]
    outputs = [maker.communicate(timeout=100)[0].split("\n") for maker in makers]
    assert sorted(output[0] == "making" for output in outputs) == [False, True]
    assert outputs[0][-2] == outputs[1][-2] == str(_environments(tmp_path)[0] / "bin" / "python")
    assert _has_tensorflow(_make(tiny, tmp_path))


@pytest.mark.sweep("packages")
@pytest.mark.parametrize("progress", ["pyvenv.cfg", pytest.param("lib/*/site-packages/tensorflow", id="packages")])
def test_what_a_killed_build_left_is_repaired_by_the_next(tiny: Tiny, tmp_path: Path, progress: str) -> None:
    maker = _start(tiny, tmp_path)
    _wait_until(lambda: any(any(folder.glob(progress)) for folder in _environments(tmp_path)))
    maker.kill()
    maker.communicate()
    (folder,) = _environments(tmp_path)
    assert not (folder / ".complete").exists()
    stray = folder / "stray"
    stray.touch()
    assert _has_tensorflow(_make(tiny, tmp_path))
    assert not stray.exists()


_KILLED_WITH_A_WRITER = """
import os, subprocess, sys
from pathlib import Path
from tfaot_pkg.frontends.toolchain.pinned import exclusive

folder = Path(sys.argv[1])
with exclusive(folder) as lock:
    writer = ["sh", "-c", 'echo ready; sleep 1; touch "$0/last"', folder]
    print(subprocess.Popen(writer, pass_fds=[lock], stdout=subprocess.PIPE).stdout.readline(), flush=True)
    os._exit(9)
"""


def test_the_next_build_waits_for_the_programs_that_a_killed_one_left_running(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED_WITH_A_WRITER, str(tmp_path)], check=False, stdout=subprocess.DEVNULL)
    assert not (tmp_path / "last").exists()
    with exclusive(tmp_path):
        assert (tmp_path / "last").exists()


def test_ctrl_c_leaves_nothing(tiny: Tiny, tmp_path: Path) -> None:
    maker = _start(tiny, tmp_path)
    _wait_until(lambda: any((folder / "bin").exists() for folder in _environments(tmp_path)))
    maker.send_signal(signal.SIGINT)
    maker.communicate(timeout=60)
    assert maker.returncode != 0
    assert _environments(tmp_path) == []


@pytest.mark.nightly
def test_a_package_with_another_hash_is_refused_and_named(tiny: Tiny, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "wheels", "tensorflow_cpu", tiny.toolchain.version, {"tensorflow/__init__.py": "#"})
    evil = Tiny(toolchain=tiny.toolchain, requirements=tiny.requirements, wheelhouse=wheel.parent)
    with reported(TrustError) as caught:
        _make(evil, tmp_path)
    assert caught.value.log is not None and "HASHES" in caught.value.log.read_text()
    assert _environments(tmp_path) == []


@pytest.mark.nightly
def test_an_index_that_cannot_be_reached_is_a_network_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Tiny
) -> None:
    absent = write_lock(tmp_path / "lock.txt", [write_wheel(tmp_path, "tfaot_absent", "1.0", {})])
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with reported(NetworkError) as caught:
        ensure_from(tiny.toolchain, absent, folders=_folders(tmp_path), progress=Silent())
    assert caught.value.log is not None and "127.0.0.1" in caught.value.log.read_text()
    assert _environments(tmp_path) == []


def test_a_wheelhouse_that_is_no_folder_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    missing = Tiny(toolchain=tiny.toolchain, requirements=tiny.requirements, wheelhouse=tmp_path / "none")
    with reported(ToolchainError):
        _make(missing, tmp_path)


def test_removing_takes_incomplete_ones_too_and_a_second_time_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "toolchains" / "tensorflow-2.17.1-py3.11-0123"
    (folder / "bin").mkdir(parents=True)
    assert remove("2.17.1", folders=_folders(tmp_path)) == [folder]
    assert not folder.exists()
    with reported(ToolchainError):
        remove("2.17.1", folders=_folders(tmp_path))


def test_a_named_interpreter_is_known_by_its_tensorflow_without_importing_it(
    made: ToolchainEnvironment, tmp_path: Path
) -> None:
    named = external(made.python, folders=_folders(tmp_path))
    assert named.toolchain.version == "2.17.1"
    assert named.python == made.python
    assert named.tensorflow_folder == made.tensorflow_folder
    assert named.identity != made.identity


def test_a_named_interpreter_is_asked_again_only_after_a_change(made: ToolchainEnvironment, tmp_path: Path) -> None:
    python = tmp_path / "python"
    asked = tmp_path / "asked"
    python.write_text(f"#!/bin/sh\necho >> '{asked}'\nexec '{made.python}' \"$@\"\n")
    python.chmod(0o755)
    first = external(python, folders=_folders(tmp_path))
    assert external(python, folders=_folders(tmp_path)) == first
    assert asked.read_text() == "\n"
    os.utime(made.site_packages, ns=(1, 1))
    assert external(python, folders=_folders(tmp_path)) == first
    assert asked.read_text() == "\n\n"


@pytest.mark.parametrize("name", ["nothing", "folder"])
def test_a_named_interpreter_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with reported(ToolchainError):
        external(tmp_path / name, folders=_folders(tmp_path))


def test_a_named_interpreter_without_tensorflow_is_refused(tmp_path: Path) -> None:
    with reported(ToolchainError):
        external(Path(sys.executable), folders=_folders(tmp_path))
