"""Servers that one process keeps for those that it forks, one after the other. Their program is small, the sandbox real."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.conftest import running_below
from tfaot_pkg.frontends.toolchain.fork_servers import KeptServers
from tfaot_pkg.ground.process_tree import tree_of
from tfaot_pkg.ground.sandbox import Forked, ForkServer, Sandbox, may_fork

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

_PROGRAM = """
import os, sys, time
with os.fdopen(int(sys.argv[1]), "w") as answers:
    answers.write(os.environ["TMPDIR"] + "\\n")
    answers.flush()
    time.sleep(600 if "waits" in os.getcwd() else 0)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    if not may_fork():
        pytest.skip("this kernel has no Landlock")
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "preloading.py").write_text("def preload(): pass\n")
    (folder / "__main__.py").write_text(_PROGRAM)
    return folder


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[KeptServers]:
    (tmp_path / "folder").mkdir()
    with KeptServers(tmp_path / "folder", logs=tmp_path / "logs") as made:
        yield made


def _warm(servers: KeptServers, program: Path, number: int = 1) -> ForkServer:
    python, env = Path(sys.executable), {"NUMBER": str(number)}
    servers.warm(python, program, env)
    with servers.lent(python, program, env) as server:
        assert server is not None
        return server


def _begun(servers: KeptServers, server: ForkServer, name: str) -> Forked:
    """The program in a folder of its own, after it has said which."""
    folder = servers.folder / name
    folder.mkdir()
    read_end, write_end = os.pipe()
    with (servers.folder.parent / f"log-{name}").open("wb") as log:
        forked = server.fork(Sandbox(writable=(folder,)), log=log, answers=write_end)
    os.close(write_end)
    forked.process.stdin.close()
    with os.fdopen(read_end, "rb") as answers:
        assert answers.readline().decode() == f"{folder}\n"
    return forked


def test_one_is_lent_only_after_it_was_started_and_the_same_again(servers: KeptServers, program: Path) -> None:
    with servers.lent(Path(sys.executable), program, {"NUMBER": "1"}) as none:
        assert none is None
    first = _warm(servers, program)
    assert _warm(servers, program) is first
    assert _warm(servers, program, 2) is not first


def test_the_least_recently_used_one_ends_before_there_are_three(servers: KeptServers, program: Path) -> None:
    first, second = _warm(servers, program, 1), _warm(servers, program, 2)
    _warm(servers, program, 1)
    third = _warm(servers, program, 3)
    assert [one.ended for one in (first, second, third)] == [False, True, False]


def test_one_with_something_at_work_serves_no_other_build(servers: KeptServers, program: Path, tmp_path: Path) -> None:
    server = _warm(servers, program)
    _begun(servers, server, "waits")
    assert not server.is_idle
    other = _warm(servers, program)
    assert server.ended and other is not server and other.is_idle
    assert running_below(tmp_path / "folder" / "waits") == []


def test_one_whose_last_end_nobody_read_serves_no_other_build(servers: KeptServers, program: Path) -> None:
    """Else the next one would be told that end as its own."""
    server = _warm(servers, program)
    before = len(tree_of(os.getpid()))
    _begun(servers, server, "ends")
    end = time.monotonic() + 60
    while len(tree_of(os.getpid())) > before and time.monotonic() < end:
        time.sleep(0.01)
    assert _warm(servers, program) is not server


def test_a_forked_process_uses_it_and_leaves_it_to_the_next(servers: KeptServers, program: Path) -> None:
    server = _warm(servers, program)
    for number in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with servers.lent(Path(sys.executable), program, {"NUMBER": "1"}) as lent:
                    assert lent is server and not lent.ended
                    forked = _begun(servers, lent, f"waits{number}")
                    forked.end()
                    assert lent.is_idle
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert _warm(servers, program) is server


def test_a_forked_process_can_end_it(servers: KeptServers, program: Path) -> None:
    server = _warm(servers, program)
    child = os.fork()
    if child == 0:
        server.end()
        os._exit(0 if server.ended else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert server.ended and _warm(servers, program) is not server


def test_a_server_whose_imports_fail_is_tried_once(servers: KeptServers, program: Path, tmp_path: Path) -> None:
    (program / "preloading.py").write_text("raise ImportError('broken')\n")
    for _ in range(2):
        servers.warm(Path(sys.executable), program, {})
        with servers.lent(Path(sys.executable), program, {}) as none:
            assert none is None
    (log,) = (tmp_path / "logs").iterdir()
    assert "broken" in log.read_text()


def test_nothing_of_them_is_left(program: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with KeptServers(tmp_path / "folder", logs=tmp_path / "logs") as servers:
        server = _warm(servers, program)
        _begun(servers, server, "waits")
    assert server.ended and running_below(tmp_path / "folder") == []
