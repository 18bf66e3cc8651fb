"""Programs that take threads, memory, output and time without end, at both levels: limits that need no setting stop them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.conftest import Place, running_below
from tests.wording import reported
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.ground.process_tree import memory_here, threads_of
from tfaot_pkg.ground.sandbox import Limits, Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

Confined = Callable[..., subprocess.CompletedProcess[str]]
GIB = 1 << 30
MOST = 300

# What they take without limits is bounded, so that a failure harms nobody.
PYTHON = {
    "threads": "import threading\nfor n in range(4000):\n    threading.Thread(target=threading.Event().wait).start()\n",
    "memory": "pieces = [bytes(1) * (1 << 20) for n in range(3000)]\nimport threading\nthreading.Event().wait()\n",
    "shared memory": "import mmap, threading\npieces = []\nfor n in range(1500):\n    pieces.append(mmap.mmap(-1, 1 << 21))\n"
    "    pieces[-1].write(b'x' * (1 << 21))\nthreading.Event().wait()\n",
    "a loop": "while True:\n    pass\n",
    "sleep": "import threading\nthreading.Event().wait()\n",
    "output": "import os\nwhile True:\n    os.write(1, b'x' * (1 << 16))\n",
}
NATIVE = {
    "threads": "void* wait_(void*) { for (;;) pause(); }\nint main() {\n  pthread_attr_t small;\n  pthread_attr_init(&small);\n"
    "  pthread_attr_setstacksize(&small, 1 << 16);\n  pthread_t made;\n"
    "  for (int n = 0; n < 12000; ++n) pthread_create(&made, &small, wait_, nullptr);\n  wait_(nullptr);\n}\n",
    "memory": "int main() { for (int n = 0; n < 3000; ++n) memset(malloc(1 << 20), n, 1 << 20); for (;;) pause(); }\n",
    "a loop": "int main() { for (volatile int n = 0;; ++n) {} }\n",
    "sleep": "int main() { for (;;) pause(); }\n",
    "output": 'int main() { for (;;) printf("%070000d", 1); }\n',
}
SAID = {
    "threads": "started more than 300 threads and processes (TFAOT_WORKER_THREADS)",
    "memory": "took more than 1 GiB of memory (TFAOT_WORKER_MEMORY)",
    "shared memory": "took more than 1 GiB of memory (TFAOT_WORKER_MEMORY)",
    "a loop": "no end after 3 s",
    "sleep": "no end after 3 s",
    "output": "it printed more than 64 MiB",
}
LIMITS = {"a loop": {"timeout": 3}, "sleep": {"timeout": 3}, "threads": {"threads": MOST}}


@pytest.mark.sweep(
    "namespaces-threads",
    "landlock-memory",
    night=["namespaces-a loop", "landlock-sleep", "namespaces-output", "landlock-shared memory"],
)
@pytest.mark.parametrize("what", PYTHON)
def test_a_python_program_is_stopped(confined: Confined, place: Place, tmp_path: Path, what: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PYTHON[what])
    _is_stopped(confined("python", program, **_limits(what)), what, place)


@pytest.mark.sweep(
    "landlock-threads", "namespaces-memory", night=["landlock-a loop", "namespaces-sleep", "landlock-output"]
)
@pytest.mark.parametrize("what", NATIVE)
def test_a_native_program_is_stopped(confined: Confined, place: Place, tmp_path: Path, what: str) -> None:
    headers = "".join(f"#include <{name}>\n" for name in ("cstdio", "cstdlib", "cstring", "pthread.h", "unistd.h"))
    (tmp_path / "program.cc").write_text(headers + NATIVE[what])
    program = tmp_path / "program"
    subprocess.run(["g++", "-O1", "-pthread", tmp_path / "program.cc", "-o", program], check=True)
    _is_stopped(confined("native", program, **_limits(what)), what, place)


def _limits(what: str) -> dict[str, object]:
    # `in_use`: the limit of memory that is watched, as a default is, and not that of addresses, which fails at once.
    return {"in_use": GIB, **LIMITS.get(what, {})}


def _is_stopped(ended: subprocess.CompletedProcess[str], what: str, place: Place) -> None:
    assert ended.returncode == 1
    assert SAID[what] in ended.stdout, ended.stdout[-2000:] + ended.stderr
    assert running_below(place.scratch) == []


def test_no_process_maps_far_more_than_the_machine_has(confined: Confined, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import mmap\nbefore = []\n"
        "try:\n    for n in range(200):\n        before.append(mmap.mmap(-1, 4 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
        "except OSError as error:\n    print('refused', len(before) * 4)\n"
    )
    ended = confined("python", program, memory=0)
    assert ended.stdout.startswith("refused"), ended.stdout + ended.stderr
    assert int(ended.stdout.split()[1]) * GIB <= memory_here() + (64 << 30)


def test_children_are_denied_and_count(confined: Confined, tmp_path: Path) -> None:
    """A program that starts no other one cannot fork at all; one that may is counted with its children."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, time\ntry:\n    for n in range(400):\n        if os.fork() == 0:\n            time.sleep(100)\n"
        "except PermissionError:\n    print('denied')\n    raise SystemExit\nexcept OSError:\n    pass\ntime.sleep(100)\n"
    )
    assert confined("python", program).stdout == "denied\n"
    ended = confined("python", program, starts_programs=True, threads=100)
    assert "started more than 100 threads and processes" in ended.stdout


def test_settings_of_the_user_hold_for_every_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Limits.of_user()
    assert usual == Limits() and usual.threads == 2048 and usual.in_use <= memory_here()
    for name, value in {"TIMEOUT": "7", "MEMORY": "2", "DISK": "3", "THREADS": "55"}.items():
        monkeypatch.setenv(f"TFAOT_WORKER_{name}", value)
    wanted = Limits(timeout=7, memory=2 * GIB, disk=3 * GIB, threads=55)
    # Nobody needs to name the limits: a sandbox has them.
    assert Sandbox().limits == wanted and wanted.in_use == wanted.addresses == 2 * GIB
    assert wanted.within(Limits(timeout=120, memory=4 * GIB, disk=GIB)) == Limits(
        timeout=7, memory=2 * GIB, disk=GIB, threads=55
    )
    assert Limits().within(Limits(memory=4 * GIB)).memory == 4 * GIB
    for wrong in ("0", "many", "nan", "-1"):
        monkeypatch.setenv("TFAOT_WORKER_THREADS", wrong)
        with reported(ToolchainError):
            Limits.of_user()


def test_threads_of_a_process_are_counted() -> None:
    process = subprocess.Popen([sys.executable, "-c", PYTHON["threads"].replace("4000", "9")])
    try:
        end = time.monotonic() + 30
        while threads_of(process.pid) != 10 and time.monotonic() < end:
            time.sleep(0.05)
        assert threads_of(process.pid) == 10
    finally:
        process.kill()
        process.wait()
    assert threads_of(process.pid) == 0
