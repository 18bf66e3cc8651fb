"""Searching an unsigned registry on a server: its shards are asked for several at a time, and read in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remote.conftest import Cli
from tests.remote.faulty import FaultyServer, Request, always, faulty_server, reset
from tfaot_pkg.ground.http.connection import AT_ONCE
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry.index import SHARDS, shard_path
from tfaot_pkg.registry.remote.files import Ahead

pytestmark = pytest.mark.slow

SHARD = "/search/.*"
DIGITS = f"/{shard_path('tfaot-model-digits')}"


@pytest.fixture
def root(cli: Cli, make_unsigned: Callable[[], Path]) -> Path:
    made = make_unsigned()
    assert [path.name for path in (made / "search").iterdir()] == [DIGITS.rpartition("/")[2]]
    return made


def add(cli: Cli, server: FaultyServer) -> None:
    done = cli("registry", "add", "u", server.url, "--unsigned")
    assert done.code == 0, done.err
    server.seen.clear()


def test_several_shards_are_asked_for_at_once_but_never_more_than_eight(cli: Cli, root: Path) -> None:
    together, lock = threading.Barrier(8, timeout=20), threading.Lock()
    running, most = 0, 0

    def wait_for_the_others(request: Request) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait()
        with lock:
            running -= 1
        together.wait()
        server.serve(request)

    with faulty_server(root) as server:
        add(cli, server)
        server.faults[SHARD] = wait_for_the_others
        done = cli("search", "digits", "--registry", "u")
        assert done.code == 0, done.err
        assert "tfaot-model-digits@1.0" in done.out
        assert most == 8
        assert sorted(path for path in server.paths() if path.startswith("/search/")) == [f"/{one}" for one in SHARDS]


def test_a_second_search_asks_only_whether_shards_have_changed(cli: Cli, root: Path) -> None:
    with faulty_server(root) as server:
        add(cli, server)
        assert cli("search", "digits", "--registry", "u").code == 0
        server.seen.clear()
        assert "tfaot-model-digits@1.0" in cli("search", "digits", "--registry", "u").out
        (asked,) = [seen for seen in server.seen if seen.path == DIGITS]
        assert asked.headers["If-None-Match"]


@pytest.mark.parametrize(
    ("wrong", "code", "said"), [(always(500), 17, "500"), (always(200, b"{}\n"), 0, "damaged search shard")]
)
def test_a_fault_of_one_shard_is_told_of_that_one(
    cli: Cli, root: Path, wrong: Callable[[Request], None], code: int, said: str
) -> None:
    with faulty_server(root) as server:
        add(cli, server)
        server.faults["/search/80.jsonl"] = wrong
        done = cli("search", "digits", "--registry", "u")
        assert done.code == code, done.err
        assert said in done.out + done.err and "search/80.jsonl" in done.out + done.err
        assert ("tfaot-model-digits@1.0" in done.out) == (code == 0)


def test_a_damaged_shard_takes_the_place_of_no_right_one(cli: Cli, root: Path) -> None:
    with faulty_server(root) as server:
        add(cli, server)
        assert cli("search", "digits", "--registry", "u").code == 0
        server.faults[DIGITS] = always(200, b"{}\n", ETag='"new"')
        done = cli("search", "digits", "--registry", "u")
        assert (done.code, "damaged search shard" in done.out) == (0, True), done.err
    assert "tfaot-model-digits@1.0" in cli("search", "digits", "--registry", "u", "--offline").out


def test_where_the_server_goes_away_in_the_middle_its_last_answers_do(cli: Cli, root: Path) -> None:
    with faulty_server(root) as server:
        add(cli, server)
        assert cli("search", "digits", "--registry", "u").code == 0
        server.faults["/search/[4-9a-f].*"] = reset
        done = cli("search", "digits", "--registry", "u")
    assert done.code == 0, done.err
    assert "tfaot-model-digits@1.0" in done.out
    assert done.err.count("note: ") == 1
    assert "closed the connection; using" in done.err


def test_without_network_an_unsigned_registry_is_searched_in_the_cache(cli: Cli, root: Path) -> None:
    with faulty_server(root) as server:
        add(cli, server)
        never = cli("search", "digits", "--registry", "u", "--offline")
        assert (never.code, "not in the cache" in never.error) == (17, True)
        assert cli("search", "digits", "--registry", "u").code == 0
    done = cli("search", "digits", "--registry", "u", "--offline")
    assert "tfaot-model-digits@1.0" in done.out


def test_no_more_is_asked_for_than_the_reader_can_be_expected_to_take() -> None:
    asked: list[str] = []
    paths = [str(number) for number in range(100)]
    ahead = Ahead(lambda path: asked.append(path) or path, paths, Silent(), "reading")  # type: ignore[func-returns-value]
    for path in paths[:10]:
        found = ahead.take(path)
        assert found is not None and found.result() == path
    assert ahead.take("5") is None, "it was taken already"
    ahead.close()
    assert len(asked) <= 10 + 2 * AT_ONCE + 1
    assert ahead.take("11") is None
