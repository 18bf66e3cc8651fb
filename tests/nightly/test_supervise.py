"""One build from outside: its limits, its environment, and what its end means. The programs are small, the kernel real."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.nightly.nights import ends, stub_decision
from tfaot_pkg.ground import process
from tfaot_pkg.ground.process_tree import memory_of, tree_of
from tfaot_pkg.nightly import supervise
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
def build(tmp_path: Path) -> Perform:
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
        return perform(request)

    return run


def test_a_build_imports_nothing_from_the_coordinator_s_folder(
    build: Perform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / "json.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    monkeypatch.chdir(specs)
    # As the program of a build, `python -m MODULE`.
    build("", program=(sys.executable, "-m", "tfaot_pkg.nightly.build_task"))
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

    monkeypatch.setattr(process, "memory_of", look)
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

    monkeypatch.setattr(process, "memory_of", look)
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


def test_a_program_that_is_not_there_is_a_fault_of_the_machine(tmp_path: Path) -> None:
    request = Request(
        decision=stub_decision("model"), night="n", state=tmp_path / "state", log=tmp_path / "log",
        cache=tmp_path, policy=Policy(), program=("/no/such/program",),
    )  # fmt: skip
    assert perform(request).kind == "infrastructure failed"


@pytest.mark.parametrize("variable", ["CONAN_PASSWORD_OURS", "TFAOT_REGISTRY_PASSPHRASE", "AWS_SECRET_ACCESS_KEY"])
def test_builds_get_variables_by_name_only(tmp_path: Path, variable: str) -> None:
    given = {"PATH": "/bin", variable: "secret", "https_proxy": "http://me:secret@proxy", "http_proxy": "http://proxy"}
    kept = environment_of_builds(given, tmp_path)
    assert "secret" not in str(kept)
    assert (kept["PATH"], kept["http_proxy"]) == ("/bin", "http://proxy")
    assert all(kept[name].startswith(str(tmp_path)) for name in ("TFAOT_HOME", "CONAN_HOME", "TMPDIR"))


def test_a_build_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    """The real program, which waits for a file that never comes (a named pipe for its request)."""
    pipe = tmp_path / "request.json"
    os.mkfifo(pipe)
    starter = f"import subprocess, sys; subprocess.Popen([sys.executable, '-m', 'tfaot_pkg.nightly.build_task', {str(pipe)!r}])"
    starter += ".wait()"
    parent = os.spawnve(os.P_NOWAIT, sys.executable, [sys.executable, "-c", starter], _environment())
    writer = os.open(pipe, os.O_WRONLY)  # opens when the build has come to reading, which is after its first step
    build = next(
        one
        for one in tree_of(parent)
        if b"nightly.build_task" in Path(f"/proc/{one}/cmdline").read_bytes() and one != parent
    )
    handle = os.pidfd_open(build)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)

    assert select.select([handle], [], [], 60)[0], "the build still runs"
    os.close(handle)
    os.close(writer)


def _environment() -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
