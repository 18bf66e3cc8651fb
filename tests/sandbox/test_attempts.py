"""What hostile programs try inside of a sandbox, at both levels of confinement."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.attempts import ALLOWED, REFUSED
from tests.sandbox.conftest import Place, running_below

pytestmark = pytest.mark.slow

Confined = Callable[..., subprocess.CompletedProcess[str]]

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "attempts.py"
NATIVE_ALLOWED = {"read the model", "write scratch", "start a thread"}


def test_a_python_program_can_do_its_work_and_nothing_else(confined: Confined, place: Place) -> None:
    ended = confined("python", PROGRAM, *place.arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert set(found) == {*ALLOWED, *REFUSED}
    assert {name: found[name] for name in ALLOWED if found[name]} == {}
    assert [name for name in REFUSED if not found[name]] == []


def test_outside_of_a_sandbox_most_of_it_works(place: Place) -> None:
    """Else the test above would show nothing."""

    done = subprocess.run(
        [sys.executable, "-c", _HARMLESS, *place.arguments],
        cwd=place.scratch, env={"PYTHONPATH": str(HERE), "TFAOT_TEST_SECRET": "1"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == []


_HARMLESS = """
import json, attempts
names = [*attempts.ALLOWED, "read a secret", "read it through a link", "read /etc/passwd", "list the home folder",
    "make a link", "make a hard link", "make a pipe", "start a shell", "fork", "vfork", "see a process",
    "connect", "make a Unix socket", "share memory", "read environments", "read the environment",
    *attempts.OTHERS, "memory that is a file"]
every = {**attempts.ALLOWED, **attempts.REFUSED}
print(json.dumps([name for name in names if attempts.outcome(every[name])]))
"""


_FILTER_ALONE = """
import ctypes, json, sys
import attempts
from tfaot_pkg.ground.sandbox import enter, seccomp
code = seccomp.filter_of(starts_programs=False, is_program=False, sees_others=True)
enter._restrict_calls(ctypes.CDLL(None, use_errno=True), enter._own(code, seccomp.OWN_PROCESS))
names = [*attempts.OTHERS, "signal a process", "signal itself", "raise", "start a thread"]
every = {**attempts.ALLOWED, **attempts.REFUSED}
print(json.dumps({name: attempts.outcome(every[name]) for name in names}))
"""


def test_other_processes_are_out_of_reach_though_landlock_does_not_know_of_signals(place: Place) -> None:
    """Kernels before Linux 6.12: the filter of system calls stands alone."""
    done = subprocess.run(
        [sys.executable, "-c", _FILTER_ALONE, *place.arguments],
        env={"PYTHONPATH": f"{HERE}:{HERE.parents[1]}"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert {name for name in found if not found[name]} == {"signal itself", "raise", "start a thread"}
    assert {found[name] for name in found if found[name]} == {"PermissionError: [Errno 1] Operation not permitted"}


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory, require_program: Callable[[str], str]) -> Path:
    program = tmp_path_factory.mktemp("native") / "attempts"
    subprocess.run([require_program("g++"), "-std=c++17", "-pthread", HERE / "attempts.cpp", "-o", program], check=True)
    return program


def test_a_native_program_can_do_its_work_and_nothing_else(confined: Confined, place: Place, native: Path) -> None:
    ended = confined("native", native, *place.arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = dict(line.split(": ", 1) for line in ended.stdout.splitlines())
    assert found.keys() > NATIVE_ALLOWED
    assert {name for name, result in found.items() if result == "done"} == NATIVE_ALLOWED


def test_a_program_that_may_start_others_starts_what_it_can_read_and_has_no_network(
    confined: Confined, place: Place, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("import subprocess, socket, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'], check=True)\n"
                      "try:\n    socket.socket()\nexcept PermissionError:\n    print('no socket')\n")  # fmt: skip
    ended = confined("python", script, starts_programs=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.split("\n")[:2] == ["1", "no socket"]


@pytest.mark.parametrize("kind", ["python", "native"])
def test_nothing_of_it_outlives_its_time(confined: Confined, place: Place, tmp_path: Path, kind: str) -> None:
    if kind == "python":
        program, arguments = tmp_path / "wait.py", []
        program.write_text("import threading\nthreading.Thread(target=threading.Event().wait).start()\n")
    else:
        program, arguments = Path("sleep"), [f"{600 + place.port / 100_000}"]
    ended = confined(kind, program, *arguments, timeout=1)
    assert ended.returncode == 1
    assert "no end after 1 s" in ended.stdout
    assert running_below(place.scratch) == []


def test_what_a_crash_was_is_told(confined: Confined, place: Place, tmp_path: Path) -> None:
    program = tmp_path / "crash.py"
    program.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    ended = confined("python", program)
    assert ended.stdout.startswith("CommandFailed: killed by SIGSEGV: ")
    assert str(program) in ended.stdout and "enter.py" not in ended.stdout


def test_libraries_on_the_users_path_of_libraries_are_found(
    confined: Confined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require_program: Callable[[str], str]
) -> None:
    (tmp_path / "libraries").mkdir()
    library = tmp_path / "libraries" / "libtfaot-own.so"
    subprocess.run([require_program("gcc"), "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{library.parent}:{tmp_path / 'home'}:")
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, os\nctypes.CDLL('libtfaot-own.so')\nprint(os.listdir(os.environ['LD_LIBRARY_PATH'].split(':')[0]))"
    )
    ended = confined("python", program)
    assert ended.stdout == "['libtfaot-own.so']\n", ended.stdout


def test_a_python_behind_links_is_found(confined: Confined, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(Path(sys.executable).parent.parent)
    program = tmp_path / "program.py"
    program.write_text("import sys, numpy\nprint(sys.executable)")
    python = tmp_path / "link" / "bin" / Path(sys.executable).name
    assert confined("python", program, python=str(python)).stdout == f"{python}\n"
