"""Builds of real models in processes of one host, with TensorFlow's workers forked by a server that the host keeps."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.bad_input.conftest import write_spec
from tests.nightly.nights import ends, home_of, task_of, to_build
from tests.sandbox.conftest import running_below
from tfaot_pkg.ground.process_tree import children_of, threads_of, tree_of
from tfaot_pkg.ground.sandbox import may_fork
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.nightly.hosts import BuildHosts
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.supervise import perform
from tfaot_pkg.nightly.types import Policy

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

_STARTED = "import sys; from pathlib import Path; from tfaot_pkg.nightly.build_task import main; sys.exit(main(Path(sys.argv[1])))"
"""A build whose workers are all started."""
Perform = Callable[..., Attempt]


@pytest.fixture(autouse=True)
def _forks() -> None:
    if not may_fork():
        pytest.skip("this kernel has no Landlock")


@pytest.fixture
def home(tmp_path: Path, shared_home_folder: Path, toolchain_python: Path) -> Folders:
    """An empty build cache, except for the parts that all models share."""
    folders, shared = home_of(tmp_path / "home"), home_of(shared_home_folder)
    folders.builds.mkdir(parents=True)
    folders.toolchains.symlink_to(shared.toolchains)
    for name in ("part", "common"):
        if (shared.builds / name).exists():
            shutil.copytree(shared.builds / name, folders.builds / name)
    return folders


@pytest.fixture
def hosts() -> Iterator[BuildHosts]:
    with BuildHosts() as made:
        yield made


@pytest.fixture
def build(tmp_path: Path, home: Folders, models: Mapping[str, Path], hosts: BuildHosts) -> Perform:
    """`build(SAVED_MODEL, STATE)`: perform its build, with the results in the state folder of this name."""

    def run(name: str, state: str = "state", policy: Policy | None = None, program: tuple[str, ...] = ()) -> Attempt:
        spec = write_spec(tmp_path / "specs" / name / "spec.yaml", models[name], model={"name": name})
        request = Request(
            decision=to_build(task_of(spec, name), home), night="2026-11-21.1", state=tmp_path / state,
            log=tmp_path / f"{state}.log", cache=home.cache, policy=policy or Policy(timeout=600), program=program,
        )  # fmt: skip
        return perform(request, hosts)

    return run


def _trees(state: Path) -> dict[str, str]:
    results = Results(root=state)
    releases = [results.release(path.name) for path in sorted((state / "results").glob("*/*"))]  # type: ignore[arg-type]
    return {one.entry.model: one.entry.tree for one in releases}


def test_packages_are_the_same_bytes_memory_is_the_same_and_tensorflow_is_imported_once(
    build: Perform, home: Folders, tmp_path: Path
) -> None:
    names = ("dense", "two_inputs")
    forked = {name: build(name) for name in names}
    assert {one.kind for one in forked.values()} == {"verified"}, (tmp_path / "state.log").read_text()
    assert len([*home.logs.glob("fork-server-*")]) == 1
    # Without compilers, which need more than all others.
    _uncached(home)
    again = build("dense", "again")
    _uncached(home)
    started = build("dense", "started", program=(sys.executable, "-c", _STARTED))
    assert _trees(tmp_path / "started").items() < _trees(tmp_path / "state").items()
    assert 0.7 < again.memory / started.memory < 1.4, (again, started)
    _uncached(home)
    (host,) = hosts_below(os.getpid())
    assert threads_of(host) == 1, "a forked process would lack the others"
    few = build("dense", "few", Policy(timeout=600, memory=started.memory // 2))
    assert few.kind == "out of memory"
    assert running_below(home.builds) == []


def test_hosts_leave_no_files_and_no_processes(build: Perform, home: Folders, hosts: BuildHosts) -> None:
    assert build("dense").kind == "verified"
    assert len([*home.builds.glob("worker.*")]) == 1
    at_work = [os.pidfd_open(one) for one in tree_of(os.getpid())[1:]]
    assert len(at_work) > 1, "the host and its server"
    hosts.end()
    assert [*home.builds.glob("worker.*")] == []
    assert select.select(at_work, [], [], 60)[0] == at_work
    for one in at_work:
        os.close(one)


def hosts_below(process: int) -> list[int]:
    return [one for one in children_of(process) if b"tfaot_pkg.nightly.build_task" in _command(one)]


def _uncached(home: Folders) -> None:
    """Let the next build freeze and validate."""
    for name in ("frozen", "validation"):
        shutil.rmtree(home.builds / name, ignore_errors=True)


def _forked_worker(host: int) -> tuple[int, int, int, int] | None:
    """`host`, the build, the server and what it forked, below the process `host`; None if no worker is at work."""
    parents = {one: _parent(one) for one in tree_of(host)}
    below = [one for one in parents if parents[one] == host]
    servers = [one for one in parents if _serves(one)]
    for worker in servers:
        if parents.get(worker) in servers:
            build = next(one for one in below if b"build_task" in _command(one))
            return host, build, parents[worker], worker
    return None


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _serves(process: int) -> bool:
    """Whether it is a fork server, or was forked by one."""
    words = _command(process).split(b"\0")
    return not words[0].endswith(b"bwrap") and any(
        b'"serves": ' in one and b'"serves": null' not in one for one in words
    )


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


_AT_WORK = ("host", "build", "server", "worker")


@pytest.mark.parametrize("victim", _AT_WORK)
def test_whatever_is_killed_the_next_build_is_sound(build: Perform, home: Folders, tmp_path: Path, victim: str) -> None:
    """All that was at work is gone, and it is no fault of the model."""
    found: list[Attempt] = []
    thread = threading.Thread(target=lambda: found.append(build("dense")))
    thread.start()
    at_work = None
    while at_work is None and thread.is_alive():
        host = next(iter(hosts_below(os.getpid())), None)
        # Once the build has begun: a server starts other programs while it imports.
        begun = any(home.builds.glob("worker.*/worker.*/made"))
        at_work = _forked_worker(host) if host is not None and begun else None
        time.sleep(0.005)
    assert at_work is not None, (tmp_path / "state.log").read_text()
    os.kill(dict(zip(_AT_WORK, at_work, strict=True))[victim], signal.SIGKILL)
    thread.join()
    (attempt,) = found
    # A worker that waits for its next request is replaced by the build itself.
    may_succeed = victim in ("server", "worker")
    assert attempt.kind == "infrastructure failed" or (may_succeed and attempt.kind == "verified"), attempt
    assert ends(at_work[3])
    assert ends(at_work[1])
    _uncached(home)
    again = build("dense", "again")
    assert again.kind == "verified", again
    # A worker that was killed costs nothing else: its server serves on.
    assert len([*home.logs.glob("fork-server-*")]) == (1 if victim == "worker" else 2)


def test_two_builds_at_a_time_have_servers_of_their_own(build: Perform, home: Folders) -> None:
    found: dict[str, Attempt] = {}

    def run(name: str) -> None:
        found[name] = build(name, f"state-{name}")

    threads = [threading.Thread(target=run, args=(name,)) for name in ("dense", "two_inputs")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {name: one.kind for name, one in found.items()} == {"dense": "verified", "two_inputs": "verified"}
    assert len([*home.logs.glob("fork-server-*")]) == 2
