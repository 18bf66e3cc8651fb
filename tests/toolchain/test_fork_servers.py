"""Workers that a fork server forked: the same results as others, and a machine or a server without forks costs nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tfaot_pkg.frontends.toolchain import fork_servers
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment, ensure
from tfaot_pkg.frontends.toolchain.fork_servers import ForkServers
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.messages.graph import Chosen, Freeze, Frozen, Inspect, Inspected

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(300)]


@pytest.fixture
def environment(shared_home_folder: Path) -> ToolchainEnvironment:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    return ensure(DEFAULT_VERSION, folders=folders, progress=Silent())


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[ForkServers]:
    with ForkServers(logs=tmp_path / "logs") as made:
        yield made


def _frozen(pool: WorkerPool, model: Path) -> dict[str, bytes]:
    """The files that freezing `model` makes."""
    made = pool.new_folder("frozen")
    chosen = Chosen(
        folder=str(pool.give(model)), tags=("serve",), signature="serving_default", shapes={}, inputs=(), outputs=()
    )
    pool.get().call(Freeze(model=chosen, weights="shared", threshold=1, out=str(made)), Frozen)
    return {path.name: path.read_bytes() for path in made.iterdir()}


def test_results_are_the_same_bytes_and_tensorflow_is_imported_once(
    environment: ToolchainEnvironment, servers: ForkServers, models: Mapping[str, Path], tmp_path: Path
) -> None:
    with WorkerPool(environment, scratch_root=tmp_path / "scratch", logs=tmp_path / "logs") as pool:
        expected = {name: _frozen(pool, models[name]) for name in ("dense", "two_inputs")}
    found = {}
    for name in ("dense", "two_inputs"):
        with WorkerPool(environment, scratch_root=servers.folder, logs=tmp_path / "logs", servers=servers) as pool:
            found[name] = _frozen(pool, models[name])
    assert expected["dense"].keys() >= {"graph.pb", "weights.bin"}
    assert found == expected and len(servers.started) == 1


def _inspected(pool: WorkerPool, model: Path) -> list[str]:
    request = Inspect(folder=str(pool.give(model)), tags=("serve",))
    return sorted(pool.get().call(request, Inspected).signatures)


def test_a_server_that_was_killed_is_replaced(
    environment: ToolchainEnvironment, servers: ForkServers, models: Mapping[str, Path], tmp_path: Path
) -> None:
    for number in (1, 2):
        with WorkerPool(environment, scratch_root=servers.folder, logs=tmp_path / "logs", servers=servers) as pool:
            assert "serving_default" in _inspected(pool, models["dense"])
        assert len(servers.started) == number
        servers.started[-1].end()


def test_two_workers_at_a_time_have_servers_of_their_own_which_outlive_their_threads(
    environment: ToolchainEnvironment, servers: ForkServers, models: Mapping[str, Path], tmp_path: Path
) -> None:
    both, found = threading.Barrier(2, timeout=100), []

    def inspect() -> None:
        with WorkerPool(environment, scratch_root=servers.folder, logs=tmp_path / "logs", servers=servers) as pool:
            found.append(_inspected(pool, models["dense"]))
            both.wait()

    for _ in range(2):
        threads = [threading.Thread(target=inspect) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len(found) == 4 and all("serving_default" in each for each in found)
    assert len(servers.started) == 2


def test_what_cannot_be_forked_is_started(
    environment: ToolchainEnvironment, servers: ForkServers, models: Mapping[str, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """On kernels without Landlock, and where the imports of the server fail."""
    for name, value in (("may_fork", lambda: False), ("_PRELOAD", "preloading:missing")):
        with monkeypatch.context() as changed:
            changed.setattr(fork_servers, name, value)
            with WorkerPool(environment, scratch_root=servers.folder, logs=tmp_path / "logs", servers=servers) as pool:
                assert "serving_default" in _inspected(pool, models["dense"])
    assert servers.started == []
    (log,) = (tmp_path / "logs").glob("fork-server-*")
    assert "has no attribute 'missing'" in log.read_text()


def test_nothing_of_them_is_left(environment: ToolchainEnvironment, models: Mapping[str, Path], tmp_path: Path) -> None:
    with ForkServers(logs=tmp_path / "logs") as servers:
        with WorkerPool(environment, scratch_root=servers.folder, logs=tmp_path / "logs", servers=servers) as pool:
            _inspected(pool, models["dense"])
            worker = pool.get()
        (server,), folder = servers.started, servers.folder
        for number in range(60):
            (tmp_path / "logs" / f"fork-server-0-{number}.log").touch()
        assert (worker.ended, server.ended, folder.exists()) == (True, False, True)
    assert (server.ended, folder.exists()) == (True, False)
    assert len([*(tmp_path / "logs").glob("fork-server-*")]) == 50
