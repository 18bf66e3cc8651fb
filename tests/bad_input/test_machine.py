"""Machines that lack something: a compiler, room on the disk, the right to write, memory; workers that die or hang."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine, left_in_cache, running, warm_up, write_spec

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def warm(
    dense_registry: Path, shared_home_folder: Path, models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    """A home in which `dense` is frozen and compiled but not linked, with its spec beside it."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "scratch").mkdir()
    warm_up(folder / "home", shared_home_folder)
    tfaot = CommandLine(home=folder / "home", scratch=folder / "scratch")
    write_spec(folder / "spec.yaml", models["dense"])
    tfaot.works("build", folder / "spec.yaml", "-o", folder / "prefix")
    for stage in ("native", "validation", "package"):
        shutil.rmtree(folder / "home" / "cache" / "builds" / stage)
    return tfaot


@pytest.fixture
def spec(warm: CommandLine) -> Path:
    return warm.home.parent / "spec.yaml"


# Compilers


FAILING = """#!/bin/sh
case "$*" in *--version*|*-dumpmachine*|*-print-prog-name*) exec g++ "$@";; esac
echo "internal compiler error: out of patience" >&2
exit 1
"""


def test_no_compiler_at_all(warm: CommandLine, spec: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    without = warm.with_(PATH=str(tmp_path / "empty"), CXX="")
    without.fails("build", spec, "-o", tmp_path / "prefix", code=14, says=["no C++ compiler"], hints="apt install g++")


@pytest.mark.parametrize(
    ("cxx", "says"),
    [
        ("nonsense", ["CXX", "does not exist: nonsense"]),
        ("false", ["false --version", "exit code 1"]),
        ("python3 -c 'unclosed", ["CXX"]),
    ],
)
def test_a_compiler_that_is_none(warm: CommandLine, spec: Path, tmp_path: Path, cxx: str, says: list[str]) -> None:
    error = warm.with_(CXX=cxx).fails("build", spec, "-o", tmp_path / "prefix", code=14, says=says, hints="CXX")
    assert error["kind"] == "compiler"


def test_a_compiler_that_fails_is_quoted_and_logged(warm: CommandLine, spec: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "bad g++"
    compiler.write_text(FAILING)
    compiler.chmod(0o755)
    failing = warm.with_(CXX=f"'{compiler}'")
    error = failing.fails("build", spec, "-o", tmp_path / "prefix", code=14, says=["bad g++", "out of patience"])
    assert f"$ '{compiler}' -std=c++17" in Path(error["log"]).read_text()
    assert left_in_cache(warm.home) == []
    assert not (tmp_path / "prefix").exists()


# Disks


def full_disk(place: Path, size: str) -> str:
    """A script that mounts a small empty file system on `place`."""
    return f"mkdir -p '{place}'; mount -t tmpfs -o size={size},nr_inodes=2000 none '{place}'"


@pytest.mark.sweep("200k", night=["4k"])
@pytest.mark.parametrize("size", ["4k", "64k", "200k", "600k"])
def test_no_room_for_the_cache(
    *, own: CommandLine, tmp_path: Path, models: Mapping[str, Path], in_namespace: Callable[[str], list[str]], size: str
) -> None:
    """Full at once, while it freezes, compiles, links."""
    spec = write_spec(tmp_path / "spec.yaml", models["dense"])
    builds = own.home / "cache" / "builds"
    script = (
        f"mv '{builds}/part' '{tmp_path}/part'; {full_disk(builds, size)}; mkdir '{builds}/part'; "
        f"mount --bind '{tmp_path}/part' '{builds}/part'"
    )
    tight = own.with_(wrapper=in_namespace(script))
    error = tight.fails("build", spec, "-o", tmp_path / "prefix", code=20, hints="free some space")
    assert re.search("No space left on device|No usable temporary directory", error["message"])
    assert not (tmp_path / "prefix").exists()


@pytest.mark.sweep(night=["4k"])
@pytest.mark.parametrize("size", ["4k", "16k", "100k"])
def test_no_room_in_the_registry_or_the_prefix(
    *,
    bare: CommandLine,
    dense_registry: Path,
    tmp_path: Path,
    in_namespace: Callable[[str], list[str]],
    size: str,
    tfaot: CommandLine,
    models: Mapping[str, Path],
) -> None:
    place = tmp_path / "place"
    wrapper = in_namespace(full_disk(place, size))
    # What is left is looked at inside the namespace: the file system goes with it.
    looking = ["sh", "-c", '"$@"; code=$?; cd "$0" && find . -type f | sort >&2; exit $code', str(place)]
    tight = bare.with_(wrapper=[*wrapper, *looking])
    done = tight.run("install", "dense", "--registry", dense_registry, "--prefix", place / "prefix", "--json")
    assert done.code == 20, done
    assert "No space left on device" in done.stdout
    assert "Traceback" not in done.stderr
    # The start of an installation may stand there, marked as such; nothing that a build system would find.
    assert "Config.cmake" not in done.stderr
    spec = write_spec(tmp_path / "spec.yaml", models["dense"], compilation={"batch_sizes": [1, 2]})
    tight = tfaot.with_(wrapper=[*wrapper, *looking])
    done = tight.run("publish", spec, "--registry", place / "registry", "--no-conan", "--json")
    assert done.code == 20, done
    assert "No space left on device" in done.stdout
    assert "index" not in done.stderr
    assert ".part" not in done.stderr


def read_only(place: Path) -> str:
    return f"mkdir -p '{place}'; mount --bind '{place}' '{place}'; mount -o remount,ro,bind '{place}'"


@pytest.mark.sweep("prefix", night=["registry"])
@pytest.mark.parametrize("place", ["home", "registry", "prefix"])
def test_a_folder_that_may_only_be_read(
    *,
    own: CommandLine,
    tfaot: CommandLine,
    dense_registry: Path,
    tmp_path: Path,
    models: Mapping[str, Path],
    in_namespace: Callable[[str], list[str]],
    place: str,
) -> None:
    spec = write_spec(tmp_path / "spec.yaml", models["dense"], compilation={"batch_sizes": [1, 2]})
    folder = own.home if place == "home" else tmp_path / place
    wrapper = in_namespace(read_only(folder))
    says = ["Read-only file system", str(folder)]
    if place == "home":
        own.with_(wrapper=wrapper).fails("build", spec, "-o", tmp_path / "out", code=20, says=says, hints="another")
        own.with_(wrapper=wrapper).fails("check", models["dense"], code=20, says=says, hints="another")
    elif place == "registry":
        confined = tfaot.with_(wrapper=wrapper)
        confined.fails("publish", spec, "--no-conan", "--registry", folder, code=20, says=says, hints="another")
    else:
        command = ("install", "dense", "--registry", str(dense_registry), "--prefix", str(folder))
        tfaot.with_(wrapper=wrapper).fails(*command, code=20, says=says, hints="another")


# Worker processes


@pytest.mark.nightly
@pytest.mark.parametrize("memory", ["0.2", "1"])
def test_a_worker_without_enough_memory(
    own: CommandLine, tmp_path: Path, models: Mapping[str, Path], memory: str
) -> None:
    starved = own.with_(TFAOT_WORKER_MEMORY=memory)
    says = ["out of memory", f"limit: {memory} GiB"]
    starved.fails("check", models["dense"], code=13, says=says, hints="TFAOT_WORKER_MEMORY")


@pytest.mark.sweep("9", night=["11"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP])
def test_a_worker_that_is_killed_or_hangs(
    *, own: CommandLine, tmp_path: Path, models: Mapping[str, Path], number: signal.Signals
) -> None:
    stopper = threading.Thread(target=signal_worker, args=(own.scratch, number))
    stopper.start()
    spec = write_spec(tmp_path / "spec.yaml", models["dense"])
    watched = replace(own, watched=True)
    patient = watched if number != signal.SIGSTOP else watched.with_(TFAOT_WORKER_TIMEOUT="4")
    error = patient.fails("build", spec, "-o", tmp_path / "prefix", code=13)
    stopper.join()
    said = {"SIGKILL": "was killed", "SIGSEGV": "killed by SIGSEGV", "SIGSTOP": "no answer within 4 s"}
    assert said[number.name] in error["message"]
    assert Path(error["log"]).exists()
    assert running(own.scratch) == []
    assert left_in_cache(own.home) == []


def signal_worker(scratch: Path, number: signal.Signals) -> None:
    """Wait for a worker and send it a signal."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for process, command in running(scratch):
            if "worker_program" in command and "bwrap" not in command.split()[0]:
                time.sleep(0.3)
                os.kill(process, number)
                return
        time.sleep(0.02)


@pytest.mark.nightly
def test_scratch_of_a_killed_run_is_collected_and_old_logs_go(
    *, own: CommandLine, tmp_path: Path, models: Mapping[str, Path]
) -> None:
    spec = write_spec(tmp_path / "spec.yaml", models["dense"])
    tool = subprocess.Popen(own.argv("check", spec), env=own.variables, stderr=subprocess.DEVNULL)
    signal_worker(own.scratch, signal.SIGSTOP)  # by itself it would not end
    tool.kill()
    tool.wait()
    while running(own.scratch):  # the worker ends with the tool; the test's time limit is the limit
        time.sleep(0.02)
    [left] = (own.home / "cache" / "builds").glob("worker.*")
    mine = left.with_name("worker.held")  # of a run that lives
    shutil.copytree(left, mine)
    young = left.with_name("worker.young")
    young.mkdir()
    logs = own.home / "cache" / "logs"
    for number in range(70):
        (logs / f"worker-1-{number}.log").write_text("")
        os.utime(logs / f"worker-1-{number}.log", (number, number))
    for folder in (left, mine):
        os.utime(folder, (1, 1))
    holder = subprocess.Popen(["flock", mine / ".in-use", "sleep", "600"], start_new_session=True)
    try:
        while not re.search(rf":{(mine / '.in-use').stat().st_ino} ", Path("/proc/locks").read_text()):
            time.sleep(0.02)
        own.works("check", spec)
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
    assert sorted(path.name for path in left.parent.glob("worker.*")) == ["worker.held", "worker.young"]
    names = {path.name for path in logs.glob("worker-*.log")}
    assert len(names) == 50
    assert "worker-1-69.log" in names
    assert "worker-1-0.log" not in names
