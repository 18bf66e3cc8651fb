"""One build from outside: its limits, its environment, and what its end means. The programs are small, the kernel real."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.nightly.nights import ends, stub_decision
from tfaot_pkg.ground.process_tree import children_of, memory_of, own_memory, tree_of
from tfaot_pkg.nightly import hosts, supervise
from tfaot_pkg.nightly.build_task import Order
from tfaot_pkg.nightly.hosts import BuildHosts
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.supervise import environment_of_builds, perform
from tfaot_pkg.nightly.types import Policy

pytestmark = pytest.mark.slow

Perform = Callable[..., Attempt]

_STARTS_TWO = """
import subprocess, sys, time
child = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); kept = b'x' * int(sys.argv[2]); time.sleep(600)"
for number in (1, 2):
    subprocess.Popen([sys.executable, "-c", child, f"{folder}/child{number}", "%d"], start_new_session=number == 2)
time.sleep(600)
"""


@pytest.fixture
def running() -> Iterator[BuildHosts]:
    with BuildHosts() as made:
        yield made


@pytest.fixture
def build(tmp_path: Path, running: BuildHosts) -> Perform:
    """`build(text)`: perform a request whose build is the Python program `text`; `folder` in it is the test's own."""

    def run(text: str, policy: Policy | None = None, name: str = "model", program: tuple[str, ...] = ()) -> Attempt:
        file = tmp_path / "program.py"
        file.write_text(f"folder = {str(tmp_path)!r}\n{text}")
        request = Request(
            decision=stub_decision(name),
            night="2026-11-21.1",
            state=tmp_path / "state",
            log=tmp_path / "log",
            cache=tmp_path / "cache",
            policy=policy or Policy(timeout=60),
            program=program or (sys.executable, str(file)),
        )
        return perform(request, running)

    return run


def test_a_build_imports_nothing_from_the_coordinator_s_folder(
    build: Perform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "json.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    monkeypatch.chdir(specs)
    build("")
    assert not (tmp_path / "mark").exists()


def children(tmp_path: Path) -> list[int]:
    return [int((tmp_path / f"child{number}").read_text()) for number in (1, 2)]


def test_a_build_that_hangs_is_killed_with_all_that_it_started(
    build: Perform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(root: int) -> int:
        """Nothing is killed before all is there: a busy machine may take long to start programs."""
        deadline = time.monotonic() + 60
        while not all(map(has_written, files)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return memory_of(root)

    def has_written(file: Path) -> bool:
        return file.exists() and file.stat().st_size > 0

    files = [tmp_path / f"child{number}" for number in (1, 2)]

    monkeypatch.setattr(hosts, "memory_of", look)
    attempt = build(_STARTS_TWO % 1, Policy(timeout=1))
    assert (attempt.kind, attempt.error_class) == ("timed out", "timed out")
    assert attempt.error == "no end after 1 s (policy.timeout)"
    assert all(map(ends, children(tmp_path)))
    assert not list((tmp_path / "state" / "scratch").iterdir())


def test_memory_counts_for_all_processes_of_a_build_together(build: Perform, tmp_path: Path) -> None:
    attempt = build(_STARTS_TWO % (150 << 20), Policy(timeout=60, memory=250 << 20))
    assert attempt.kind == "out of memory"
    assert attempt.memory > 250 << 20
    assert attempt.error.endswith("limit 250 MiB") and "policy.memory" in attempt.error
    assert all(map(ends, children(tmp_path)))


def test_memory_that_is_mapped_but_not_touched_does_not_count(
    build: Perform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(root: int) -> int:
        mapped = (tmp_path / "mapped").exists()
        found = memory_of(root)
        if mapped:
            (tmp_path / "seen").touch()
        return found

    monkeypatch.setattr(hosts, "memory_of", look)
    text = """
import mmap, os, sys, time
kept = mmap.mmap(-1, 8 << 30)
open(f"{folder}/mapped", "w").close()
while not os.path.exists(f"{folder}/seen"):
    time.sleep(0.01)
sys.exit(70)
"""
    attempt = build(text, Policy(timeout=60, memory=250 << 20))
    assert attempt.kind == "infrastructure failed"
    assert 0 < attempt.memory < 100 << 20


def test_memory_of_this_process_is_what_the_kernel_says() -> None:
    before = memory_of(os.getpid())
    kept = bytearray(os.urandom(1 << 20)) * 64
    assert 60 << 20 < memory_of(os.getpid()) - before < 80 << 20
    assert len(kept) == 64 << 20
    assert os.getpid() in tree_of(os.getppid())


def test_a_killed_build_is_a_fault_of_the_machine_unless_the_machine_had_no_memory(
    build: Perform, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    attempt = build(killed)
    assert (attempt.kind, attempt.error_class) == ("infrastructure failed", "build process: killed by SIGKILL")
    counts = iter((3, 4))  # what the kernel has killed for want of memory, before and after
    monkeypatch.setattr(supervise, "oom_kills", lambda: next(counts))
    assert build(killed).kind == "out of memory"


def test_what_a_build_tells_is_its_outcome_and_its_fault_is_remembered(build: Perform, tmp_path: Path) -> None:
    told = {"kind": "validation failed", "error": "they differ", "error_class": "differ", "cause": ""}
    text = f"""
import pathlib, sys
pathlib.Path(sys.argv[1]).with_name("answer.json").write_text('''{json.dumps(told)}''')
pathlib.Path(folder, "ran").open("a").write("x")
sys.exit(15)
"""
    first = build(text)
    assert (first.kind, first.error, first.error_class) == ("validation failed", "they differ", "differ")
    assert build(text) == first
    assert (tmp_path / "ran").read_text() == "x"


def test_a_file_beyond_the_limit_ends_the_build(build: Perform) -> None:
    text = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as compilers have it
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
open(f"{folder}/large", "wb", buffering=0).write(bytes(2000))
open(f"{folder}/large", "ab", buffering=0).write(bytes(2000))
"""
    attempt = build(text, Policy(output=1000))
    assert (attempt.kind, attempt.error_class) == ("build failed", "output too large")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("raise SystemExit(70)", "internal error"),
        ("pass", "the build succeeded, but left no result"),
        ("raise SystemExit(3)", "the build ended without an answer (exit code 3)"),
    ],
)
def test_an_end_without_an_answer_is_a_fault_of_the_machine(build: Perform, text: str, error: str) -> None:
    attempt = build(text)
    assert attempt.kind == "infrastructure failed"
    assert error in attempt.error


def test_a_program_that_is_not_there_is_a_fault_of_the_machine(tmp_path: Path, running: BuildHosts) -> None:
    request = Request(
        decision=stub_decision("model"), night="n", state=tmp_path / "state", log=tmp_path / "log",
        cache=tmp_path, policy=Policy(), program=("/no/such/program",),
    )  # fmt: skip
    assert perform(request, running).kind == "infrastructure failed"


@pytest.mark.parametrize("variable", ["CONAN_PASSWORD_OURS", "TFAOT_REGISTRY_PASSPHRASE", "AWS_SECRET_ACCESS_KEY"])
def test_builds_get_variables_by_name_only(tmp_path: Path, variable: str) -> None:
    given = {"PATH": "/bin", variable: "secret", "https_proxy": "http://me:secret@proxy", "http_proxy": "http://proxy"}
    kept = environment_of_builds(given, tmp_path)
    assert "secret" not in str(kept)
    assert (kept["PATH"], kept["http_proxy"]) == ("/bin", "http://proxy")
    assert all(kept[name].startswith(str(tmp_path)) for name in ("TFAOT_HOME", "CONAN_HOME", "TMPDIR"))


@pytest.mark.parametrize("victim", ["starter", "host"])
def test_a_build_does_not_outlive_the_process_that_started_it(tmp_path: Path, victim: str) -> None:
    """The real host and build, which waits for a file that never comes (a named pipe for its request)."""
    pipe = tmp_path / "request.json"
    os.mkfifo(pipe)
    order = {
        "request": str(pipe), "folder": str(tmp_path), "environment": _environment(), "log": str(tmp_path / "log"),
        "program": (), "cache": str(tmp_path / "cache"), "tensorflow": "",
    }  # fmt: skip
    starter = (
        "from tfaot_pkg.nightly.build_task import Order\nfrom tfaot_pkg.nightly.hosts import BuildHosts\n"
        f"BuildHosts().run(Order(**{order!r}), env={_environment()!r}, timeout=600, memory=1 << 40)"
    )
    parent = os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, "-c", starter], _environment())
    writer = os.open(pipe, os.O_WRONLY)  # opens when the build has come to reading, which is after its first step
    below = tree_of(parent)
    assert len(below) == 3, "the starter, the host, and the build"
    handles = [os.pidfd_open(one) for one in below[1:]]
    os.kill(below[("starter", "host").index(victim)], signal.SIGKILL)
    os.waitpid(parent, 0)
    for handle in handles:
        assert select.select([handle], [], [], 60)[0], "a host or a build still runs"
        os.close(handle)
    os.close(writer)


_PROCESSES = "import os, pathlib\npathlib.Path(folder, 'seen').open('a').write(f'{os.getppid()} {os.getpid()}\\n')\n"


@pytest.mark.parametrize("signal_of_crash", ["SIGKILL", "SIGSEGV"])
def test_builds_have_one_host_until_one_of_them_crashes(
    build: Perform, tmp_path: Path, running: BuildHosts, signal_of_crash: str
) -> None:
    crashes = f"import signal\nos.kill(os.getpid(), signal.{signal_of_crash})"
    for text in ("", "raise SystemExit(3)", crashes, ""):
        build(_PROCESSES + text)
    parents, builds = zip(*(line.split() for line in (tmp_path / "seen").read_text().splitlines()), strict=True)
    assert parents[0] == parents[1] == parents[2] != parents[3]
    assert len(set(builds)) == 4
    running.end()
    assert all(ends(int(one)) for one in parents)


_LEAVES_TWO = """
import os, pathlib, subprocess, sys
child = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
for number in (1, 2):
    subprocess.Popen([sys.executable, "-c", child, f"{folder}/child{number}"], start_new_session=number == 2)
while not all(os.path.exists(path) and os.path.getsize(path) for path in (f"{folder}/child1", f"{folder}/child2")):
    pass
"""


@pytest.mark.parametrize("end", ["", "os._exit(3)", "os.kill(os.getpid(), 11)"])
def test_what_a_build_left_at_work_ends_with_it(build: Perform, tmp_path: Path, running: BuildHosts, end: str) -> None:
    """In its session, and in one of its own."""
    build(_LEAVES_TWO + end)
    assert all(map(ends, children(tmp_path)))
    build(_PROCESSES)
    host = int((tmp_path / "seen").read_text().split()[0])
    assert children_of(host) == []


def test_a_host_needs_no_more_memory_after_many_builds(build: Perform, tmp_path: Path, running: BuildHosts) -> None:
    sizes = []
    for _ in range(3):
        for _ in range(20):
            assert running.run(_order(tmp_path, ""), **_LIMITS).code == 0
        build(_PROCESSES)
        host = int((tmp_path / "seen").read_text().splitlines()[-1].split()[0])
        sizes.append(own_memory(host))
    assert sizes[2] - sizes[0] < 1 << 20


def test_a_host_whose_code_was_changed_is_replaced(
    tmp_path: Path, running: BuildHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a build that is started has the code that is there."""
    shutil.copytree(hosts._CODE / "tfaot_pkg", tmp_path / "code" / "tfaot_pkg")
    monkeypatch.setattr(hosts, "_CODE", tmp_path / "code")
    limits = {**_LIMITS, "env": {**os.environ, "PYTHONPATH": str(tmp_path / "code")}}
    text = _PROCESSES.replace("folder", repr(str(tmp_path)))
    for changed in (None, "worker_program/main.py", None):
        if changed:
            (tmp_path / "code" / "tfaot_pkg" / changed).touch()
        assert running.run(_order(tmp_path, text), **limits).code == 0
    first, second, third = (line.split()[0] for line in (tmp_path / "seen").read_text().splitlines())
    assert first != second == third


def test_builds_at_a_time_have_hosts_of_their_own(tmp_path: Path, running: BuildHosts) -> None:
    """Each waits for the other."""
    text = _PROCESSES.replace("folder", repr(str(tmp_path)))
    text += f"import time\nwhile len(open({str(tmp_path / 'seen')!r}).readlines()) < 2:\n    time.sleep(0.01)"
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: running.run(_order(tmp_path, text), **_LIMITS), range(2)))
    parents = {line.split()[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert [one.code for one in found] == [0, 0] and len(parents) == 2


_LIMITS: dict[str, Any] = {"env": dict(os.environ), "timeout": 60, "memory": 1 << 40}


def _order(folder: Path, text: str) -> Order:
    return Order(
        request="request", folder=str(folder), environment=dict(os.environ), log=str(folder / "log"),
        program=(sys.executable, "-c", text), cache=str(folder / "cache"), tensorflow="",
    )  # fmt: skip


def test_a_host_that_has_ended_is_replaced(tmp_path: Path, running: BuildHosts) -> None:
    text = _PROCESSES.replace("folder", repr(str(tmp_path)))
    for number in (signal.SIGKILL, signal.SIGTERM):
        assert running.run(_order(tmp_path, text), **_LIMITS).code == 0
        host = int((tmp_path / "seen").read_text().splitlines()[-1].split()[0])
        os.kill(host, number)
        assert ends(host)
    assert running.run(_order(tmp_path, text), **_LIMITS).code == 0


def test_one_build_sees_nothing_of_what_another_did_to_its_process(build: Perform, tmp_path: Path) -> None:
    seen = "import os, pathlib\nout = pathlib.Path(folder, 'seen')\nout.open('a').write(f\"{os.getcwd()} {os.environ['TMPDIR']} {os.environ.get('LEFT')} {os.environ.get('OPENBLAS_NUM_THREADS')} {sorted(os.listdir('/proc/self/fd'))}\\n\")\n"
    for _ in range(2):
        build(seen + "os.environ['LEFT'] = '1'; os.chdir('/'); os.umask(0); os.nice(1)")
    first, second = ((*line.split(None, 2),) for line in (tmp_path / "seen").read_text().splitlines())
    assert first[0] != second[0] and first[1] != second[1] and first[2:] == second[2:]
    assert first[2].startswith("None None "), "a variable of the host"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
